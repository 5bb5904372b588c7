"""Parts of channel shuffles are slices; pointwise convolutions come before what enlarges images."""

from __future__ import annotations

import numpy as np
import pytest
from golden import after, program, reasons

from nets import Net
from tensmith.ir import Program, interpret
from tensmith.rewrite.rule import EXACT
from tensmith.rewrite.trail import Traced, exhaust, simplify

SHUFFLE = """
    input %x: f32[2, 12, 4, 5]
    const %pairs: i64[3] = [{merged}, {parts}, 20]
    const %parts: i64[5] = [{parts}, -1, {channels}, 4, 5]
    const %index: i64[] = {index}
    %a: f32[{merged}, {parts}, 20] = reshape(%x, %pairs)
    %b: f32[{parts}, {merged}, 20] = transpose(%a) {{perm = [1, 0, 2]}}
    %c: f32[{parts}, 2, {channels}, 4, 5] = reshape(%b, %parts)
    %y: f32[2, {channels}, 4, 5] = gather(%c, %index)
    return %y
"""


@pytest.mark.parametrize(("parts", "index", "start"), [(2, 0, 0), (2, -1, 1), (3, 1, 1)])
def test_a_part_of_a_shuffle_is_a_slice(parts: int, index: int, start: int) -> None:
    body = SHUFFLE.format(merged=24 // parts, parts=parts, channels=12 // parts, index=index)
    before, text = program(body), after(body, "part_of_shuffle", "dead_code")
    assert f"y.1: i64[1] = [{start}]" in text
    assert f"y.4: i64[1] = [{parts}]" in text
    assert "reshape" not in text and "gather" not in text
    x = np.random.default_rng(0).standard_normal((2, 12, 4, 5)).astype(np.float32)
    changed = exhaust(Traced(before), [EXACT["part_of_shuffle"]]).program
    assert np.array_equal(interpret(before, {"x": x})["y"], interpret(changed, {"x": x})["y"])


def test_views_that_split_more_than_channels_are_no_shuffle() -> None:
    body = """
        input %x: f32[2, 12, 4, 5]
        const %pairs: i64[3] = [48, 2, 5]
        const %parts: i64[5] = [2, 2, 24, 5, 1]
        const %index: i64[] = 0
        %a: f32[48, 2, 5] = reshape(%x, %pairs)
        %b: f32[2, 48, 5] = transpose(%a) {perm = [1, 0, 2]}
        %c: f32[2, 2, 24, 5, 1] = reshape(%b, %parts)
        %y: f32[2, 24, 5, 1] = gather(%c, %index)
        return %y
    """
    assert reasons(body, "part_of_shuffle") == ["the views are not those of a shuffle of channels"]


def test_both_parts_leave_nothing_of_the_shuffle() -> None:
    net = Net(1, 8, 3, 3)
    pairs, parts = (net.constant(values=np.array(s)) for s in ([4, 2, 9], [2, 1, 4, 3, 3]))
    turned = net.add("transpose", net.add("reshape", "x", pairs), perm=(1, 0, 2))
    both = net.add("reshape", turned, parts)
    halves = (net.add("gather", both, net.constant(values=np.array(i)), axis=0) for i in (0, 1))
    assert [node.op for node in simplify(net.program(*halves)).program.nodes] == ["slice", "slice"]


def pyramid(filters: int, parts: int, size: int = 1) -> Program:
    """A convolution of images of 6 channels beside one of 8 that is enlarged, in this place among them."""
    net = Net(2, 8, 3, 4)
    large = net.add("resize", "x", "", net.constant(values=np.array([1, 1, 2, 3], np.float32)),
                    coordinate_transformation_mode="asymmetric", nearest_mode="floor")  # fmt: skip
    scales = net.constant(values=np.array([1, 1, 2, 3], np.float32))
    beside = [net.add("resize", net.conv("x", 8, 6, 1), "", scales, mode="linear") for _ in range(parts)]
    whole = net.add("concat", *beside[:1], large, *beside[1:], axis=1) if parts else large
    return net.program(net.conv(whole, 8 + 6 * parts, filters, size))


@pytest.mark.parametrize("parts", [0, 1, 2])
def test_what_is_enlarged_is_multiplied_before(parts: int) -> None:
    before = pyramid(5, parts)
    changed = simplify(before).program
    sizes = {changed.type(n.output).dims for n in changed.nodes if n.op == "conv" and n.output}
    assert (2, 5, 3, 4) in sizes, "the filters see the small image"
    assert ("concat" in {n.op for n in changed.nodes}) == (parts > 1)
    assert all(n.op != "slice" for n in changed.nodes), "the weights' parts are constants"
    x = np.random.default_rng(0).standard_normal((2, 8, 3, 4)).astype(np.float32)
    ((first,), (second,)) = (interpret(p, {"x": x}).values() for p in (before, changed))
    # Sums of at most 20 terms near 1.
    np.testing.assert_allclose(second, first, rtol=0, atol=2e-5)


@pytest.mark.parametrize(("filters", "size"), [(9, 1), (5, 3)])
def test_more_filters_than_channels_or_larger_ones_stay_behind(filters: int, size: int) -> None:
    rule = EXACT["enlarged_behind_conv"]
    assert not any(True for _ in rule.sites(pyramid(filters, 1, size)))
    assert any(True for _ in rule.sites(pyramid(5, 1)))


@pytest.mark.parametrize("copies", [False, True])
def test_shares_of_one_constant_are_folded_and_copies_are_not(copies: bool) -> None:
    """Two halves take no more room than the whole; two turned copies take twice as much."""
    net = Net(1, 96, 5)
    weights = net.constant(96, 96)
    if copies:
        parts = [net.add("pad", weights, net.constant(values=np.array([0, i, 0, 1 - i]))) for i in (0, 1)]
    else:
        bounds = [[net.constant(values=np.array([n])) for n in (48 * i, 48 * i + 48, 0)] for i in (0, 1)]
        parts = [net.add("slice", weights, *three) for three in bounds]
    before = net.program(*(net.add("matmul", part, "x" if not copies else net.add("pad", "x", net.constant(
        values=np.array([0, 0, 0, 0, 1, 0])))) for part in parts))  # fmt: skip
    changed = exhaust(Traced(before), [EXACT["fold_constants"]]).program
    assert ("pad" in {n.op for n in changed.nodes}) == copies
    assert "slice" not in {n.op for n in changed.nodes}
