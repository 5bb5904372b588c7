"""Batch norms, biases, pads and scales folded into convolutions and matrix products; products merged."""

from __future__ import annotations

import numpy as np
import pytest
from golden import after, block, reasons

from tensmith.ir import Program, TensorType, make_node
from tensmith.rewrite.rule import EXACT

CONV = """
    input %x: f32[n, 2, 5, 5]
    const %w: f32[3, 2, 3, 3]
    const %one: f32[3] = [1.0, 1.0, 1.0]
"""


def weights(body: str) -> str:
    """Weights spelled out, as an elided constant does not parse."""
    rows = [[[[0.5, 0.25, 2.0]] * 3] * 2] * 3
    return body.replace("const %w: f32[3, 2, 3, 3]", f"const %w: f32[3, 2, 3, 3] = {rows}")


def test_a_batch_norm_goes_into_the_convolution_before_it() -> None:
    body = (
        weights(CONV)
        + """
    %c: f32[n, 3, 5, 5] = conv(%x, %w) {pads = [1, 1, 1, 1]} @first
    %y: f32[n, 3, 5, 5] = batch_normalization(%c, %one, %one, %one, %one)
    return %y
    """
    )
    text = after(body, "batch_norm_into_conv", "dead_code", "fold_constants")
    assert "%y: f32[n, 3, 5, 5] = conv(%x, %y.1, %y.8) {pads = [1, 1, 1, 1]} @first" in text
    assert "batch_normalization" not in text and "sqrt" not in text


def test_a_batch_norm_before_a_padded_convolution_stays() -> None:
    body = (
        weights(CONV).replace("const %one: f32[3] = [1.0, 1.0, 1.0]", "const %one: f32[2] = [1.0, 1.0]")
        + """
    %b: f32[n, 2, 5, 5] = batch_normalization(%x, %one, %one, %one, %one)
    %y: f32[n, 3, 5, 5] = conv(%b, %w) {pads = [1, 1, 1, 1]}
    return %y
    """
    )
    assert reasons(body, "batch_norm_before_conv") == [
        "the convolution pads with zeros, which a batch norm does not map to zeros"
    ]
    assert "batch_normalization" not in after(
        body.replace("pads = [1, 1, 1, 1]", "")
        .replace("%y: f32[n, 3, 5, 5]", "%y: f32[n, 3, 3, 3]")
        .replace(" {}", ""),
        "batch_norm_before_conv",
        "dead_code",
    )


def test_a_convolution_read_twice_keeps_its_batch_norm_and_says_why() -> None:
    body = (
        weights(CONV)
        + """
    %c: f32[n, 3, 3, 3] = conv(%x, %w)
    %b: f32[n, 3, 3, 3] = batch_normalization(%c, %one, %one, %one, %one)
    %y: f32[n, 3, 3, 3] = add(%b, %c)
    return %y
    """
    )
    assert reasons(body, "batch_norm_into_conv") == ["'c' (conv) is also used elsewhere"]


def test_a_pad_becomes_the_pads_of_the_convolution() -> None:
    body = (
        weights(CONV)
        + """
    const %pads: i64[8] = [0, 0, 1, 0, 0, 0, 0, 2]
    %p: f32[n, 2, 6, 7] = pad(%x, %pads)
    %y: f32[n, 3, 6, 7] = conv(%p, %w) {pads = [1, 1, 1, 1]}
    return %y
    """
    )
    assert "conv(%x, %w) {pads = [2, 1, 1, 3]}" in after(body, "pad_into_conv")


@pytest.mark.parametrize(
    ("pads", "reason"),
    [
        ("[0, 1, 0, 0, 0, 0, 0, 0]", "channels or images are padded"),
        ("[0, 0, -1, 0, 0, 0, 0, 0]", "the padding cuts"),
    ],
)
def test_other_pads_stay(pads: str, reason: str) -> None:
    channels = 3 if pads[4] == "1" else 2
    rows = 4 if "-1" in pads else 5
    kernel = weights(CONV)
    if channels == 3:
        kernel = kernel.replace("f32[n, 2, 5, 5]", "f32[n, 1, 5, 5]")
    body = (
        kernel
        + f"""
    const %pads: i64[8] = {pads}
    %p: f32[n, 2, {rows}, 5] = pad(%x, %pads)
    %y: f32[n, 3, {rows - 2}, 3] = conv(%p, %w)
    return %y
    """
    )
    assert reasons(body, "pad_into_conv") == [reason]


GEMM = """
    input %x: f32[n, 2]
    const %w: f32[2, 2] = [[1.0, 2.0], [3.0, 4.0]]
    const %v: f32[2, 2] = [[0.5, 0.0], [0.0, 0.5]]
    const %b: f32[2] = [1.0, -1.0]
"""


def test_a_product_and_a_bias_are_a_gemm() -> None:
    body = (
        GEMM
        + """
    %m: f32[n, 2] = matmul(%x, %w)
    %y: f32[n, 2] = add(%b, %m)
    return %y
    """
    )
    assert "%y: f32[n, 2] = gemm(%x, %w, %b)" in after(body, "matmul_to_gemm")


def test_products_of_one_value_that_are_added_are_one_product() -> None:
    body = (
        GEMM
        + """
    %m: f32[n, 2] = matmul(%x, %w)
    %k: f32[n, 2] = matmul(%x, %v)
    %y: f32[n, 2] = add(%m, %k)
    return %y
    """
    )
    assert after(body, "factor_weights", "fold_constants", "dead_code") == block("""
        input %x: f32[n, 2]
        const %y.1: f32[2, 2] = [[1.5, 2.0], [3.0, 4.5]]
        %y: f32[n, 2] = matmul(%x, %y.1)
        return %y
    """)


def test_two_products_in_a_row_are_one_where_that_is_less_work() -> None:
    body = (
        GEMM
        + """
    %m: f32[n, 2] = matmul(%x, %w)
    %y: f32[n, 2] = matmul(%m, %v)
    return %y
    """
    )
    assert "%y: f32[n, 2] = matmul(%x, %y.1)" in after(body, "associate_weights")


def test_a_low_rank_pair_stays_a_pair() -> None:
    body = """
        input %x: f32[n, 4]
        const %u: f32[4, 1] = [[1.0], [2.0], [3.0], [4.0]]
        const %v: f32[1, 4] = [[1.0, 2.0, 3.0, 4.0]]
        %m: f32[n, 1] = matmul(%x, %u)
        %y: f32[n, 4] = matmul(%m, %v)
        return %y
    """
    assert reasons(body, "associate_weights") == ["one product takes 16 multiply-adds a row, two take 8"]


def test_products_that_are_concatenated_are_one_product() -> None:
    body = (
        GEMM
        + """
    %m: f32[n, 2] = matmul(%x, %w)
    %r: f32[n, 2] = relu(%m)
    %k: f32[n, 2] = matmul(%x, %v)
    %s: f32[n, 2] = relu(%k)
    %y: f32[n, 4] = concat(%r, %s) {axis = 1}
    return %y
    """
    )
    assert after(body, "merge_concatenated", "fold_constants", "dead_code") == block("""
        input %x: f32[n, 2]
        const %y.2: f32[2, 4] = [[1.0, 2.0, 0.5, 0.0], [3.0, 4.0, 0.0, 0.5]]
        %y.1: f32[n, 4] = matmul(%x, %y.2)
        %y: f32[n, 4] = relu(%y.1)
        return %y
    """)


def test_the_offer_to_merge_products_splits_the_result() -> None:
    body = (
        GEMM
        + """
    %m: f32[n, 2] = matmul(%x, %w)
    %k: f32[n, 2] = matmul(%x, %v)
    %y: f32[n, 2] = mul(%m, %k)
    return %y
    """
    )
    assert after(body, "merge_parallel_matmuls", "fold_constants", "dead_code") == block("""
        input %x: f32[n, 2]
        const %m.2: i64[2] = [2, 2]
        const %m.3: f32[2, 4] = [[1.0, 2.0, 0.5, 0.0], [3.0, 4.0, 0.0, 0.5]]
        %m.1: f32[n, 4] = matmul(%x, %m.3)
        %m: f32[n, 2], %k: f32[n, 2] = split(%m.1, %m.2) {axis = 1}
        %y: f32[n, 2] = mul(%m, %k)
        return %y
    """)


def test_a_strided_shortcut_is_offered_as_a_convolution() -> None:
    body = """
        input %x: f32[n, 1, 4, 4]
        const %zero: i64[2] = [0, 0]
        const %far: i64[2] = [9223372036854775807, 9223372036854775807]
        const %axes: i64[2] = [2, 3]
        const %steps: i64[2] = [2, 2]
        const %pads: i64[8] = [0, 1, 0, 0, 0, 1, 0, 0]
        %s: f32[n, 1, 2, 2] = slice(%x, %zero, %far, %axes, %steps)
        %y: f32[n, 3, 2, 2] = pad(%s, %pads)
        return %y
    """
    text = after(body, "shortcut_into_conv", "dead_code")
    assert "const %y.1: f32[3, 1, 1, 1] = [[[[0.0]]], [[[1.0]]], [[[0.0]]]]" in text
    assert "%y: f32[n, 3, 2, 2] = conv(%x, %y.1)" in text
    assert "strides = [2, 2]" in text


SOUND = """
    input %x: f32[n, 1, 9]
    const %w: f32[1, 1, 4] = [[[1.0, 2.0, 3.0, 4.0]]]
    %y: f32[n, 1, 3] = conv(%x, %w) {strides = [2]}
    return %y
"""


def test_a_strided_convolution_of_one_channel_is_offered_over_blocks() -> None:
    text = after(SOUND, "conv_over_blocks", "dead_code", "fold_constants")
    # Of nine numbers the last one is seen by no filter.
    assert "%y.4: f32[n, 1, 8] = slice(%x, " in text
    assert "%y.3: f32[n, 1, 4, 2] = reshape(%y.4, " in text
    assert "%y.1: f32[n, 2, 4] = reshape(%y.2, " in text
    assert "= [[[1.0, 3.0], [2.0, 4.0]]]" in text
    assert "%y: f32[n, 1, 3] = conv(%y.1, " in text


@pytest.mark.parametrize(
    ("written", "instead", "reason"),
    [
        ("strides = [2]", "strides = [3]", "of many channels, or filters that are no whole blocks"),
        ("strides = [2]", "strides = [2], pads = [1, 0]", "it pads, has groups or dilations, or no stride"),
        ("%x: f32[n, 1, 9]", "%x: f32[n, 1, t]", "a size is not known, or zero"),
    ],
)
def test_what_is_no_whole_blocks_stays(written: str, instead: str, reason: str) -> None:
    sizes = {"strides = [3]": "n, 1, 2", "%x: f32[n, 1, t]": "n, 1, (t + -4)//2 + 1"}
    body = SOUND.replace(written, instead).replace("f32[n, 1, 3]", f"f32[{sizes.get(instead, 'n, 1, 4')}]")
    assert reasons(body, "conv_over_blocks") == [reason]


def test_products_by_stacks_of_matrices_are_not_merged() -> None:
    stack = np.zeros((2, 3, 4), np.float32)
    products = [make_node("matmul", ("x", name), (f"{name}y",)) for name in "wv"]
    nodes = (*products, make_node("add", ("wy", "vy"), ("y",)))
    constants = {"w": stack, "v": stack}
    program = Program("stacks", {"x": TensorType("f32", (2, 5, 3))}, ("y",), nodes, constants)
    assert EXACT["merge_parallel_matmuls"].attempt(program, "wy") is None
