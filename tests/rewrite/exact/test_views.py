"""Transposes, reshapes, slices, activations and constants."""

from __future__ import annotations

from golden import after, block, reasons

from tensmith.formula.poly import Poly
from tensmith.rewrite.exact.reshape import literal_shape

VIEWS = """
    input %x: f32[n, 3, 4]
"""


def test_open_sizes_that_stay_are_kept_and_none_is_what_is_left() -> None:
    """Beside a size of 0 engines know of no -1."""
    n, k = Poly.symbol("n"), Poly.symbol("k")
    for source, target, numbers in (
        ((n, k, 4), (n, k, 2, 2), [0, 0, 2, 2]),
        ((n, k, 4), (n, 2, 2, k), [0, 2, 2, -1]),
        ((n, 4), (n, 2, 2), [-1, 2, 2]),
    ):
        literal = literal_shape(source, target)
        assert literal is not None and literal.tolist() == numbers
    assert literal_shape((n, k, 4), (k, n, 4)) is None


def test_transposes_cancel_through_functions_of_one_element() -> None:
    body = (
        VIEWS
        + """
    %a: f32[n, 4, 3] = transpose(%x) {perm = [0, 2, 1]}
    %b: f32[n, 4, 3] = relu(%a)
    %c: f32[n, 3, 4] = transpose(%b) {perm = [0, 2, 1]}
    %y: f32[n, 3, 4] = neg(%c)
    return %y
    """
    )
    assert after(body, "transposes_through_elementwise", "no_operation") == block("""
        input %x: f32[n, 3, 4]
        %c.1: f32[n, 3, 4] = relu(%x)
        %y: f32[n, 3, 4] = neg(%c.1)
        return %y
    """)


def test_a_transpose_with_another_reader_stays_and_says_why() -> None:
    body = (
        VIEWS
        + """
    %a: f32[n, 4, 3] = transpose(%x) {perm = [0, 2, 1]}
    %b: f32[n, 4, 3] = relu(%a)
    %c: f32[n, 3, 4] = transpose(%b) {perm = [0, 2, 1]}
    return %c, %a
    """
    )
    assert reasons(body, "transposes_through_elementwise") == ["'a' (transpose) is also used elsewhere"]


def test_transposes_compose() -> None:
    body = (
        VIEWS
        + """
    %a: f32[3, 4, n] = transpose(%x) {perm = [1, 2, 0]}
    %y: f32[3, n, 4] = transpose(%a) {perm = [0, 2, 1]}
    return %y
    """
    )
    assert "%y: f32[3, n, 4] = transpose(%x) {perm = [1, 0, 2]}" in after(body, "merge_transposes")


def test_operands_transposed_alike_are_transposed_once() -> None:
    body = (
        VIEWS
        + """
    input %z: f32[n, 3, 4]
    %a: f32[n, 4, 3] = transpose(%x) {perm = [0, 2, 1]}
    %b: f32[n, 4, 3] = transpose(%z) {perm = [0, 2, 1]}
    %y: f32[n, 4, 3] = sub(%a, %b)
    return %y
    """
    )
    assert after(body, "transposes_joined") == block("""
        input %x: f32[n, 3, 4]
        input %z: f32[n, 3, 4]
        %y.1: f32[n, 3, 4] = sub(%x, %z)
        %y: f32[n, 4, 3] = transpose(%y.1) {perm = [0, 2, 1]}
        return %y
    """)


def test_a_value_times_itself_is_no_pair() -> None:
    """A node that reads one value twice must not lose it."""
    body = (
        VIEWS
        + """
    %r: f32[n, 3, 4] = reciprocal(%x)
    %y: f32[n, 3, 4] = mul(%r, %r)
    return %y
    """
    )
    assert reasons(body, "product_with_reciprocal") == ["'r' is read twice"]


def test_reshapes_merge() -> None:
    body = (
        VIEWS
        + """
    const %axis: i64[1] = [1]
    const %back: i64[3] = [0, 4, 3]
    %a: f32[n, 1, 3, 4] = unsqueeze(%x, %axis)
    %b: f32[n, 12] = flatten(%a)
    %y: f32[n, 4, 3] = reshape(%b, %back)
    return %y
    """
    )
    assert after(body, "merge_reshapes", "dead_code") == block("""
        input %x: f32[n, 3, 4]
        const %y.1: i64[3] = [-1, 4, 3]
        %y: f32[n, 4, 3] = reshape(%x, %y.1)
        return %y
    """)


def test_a_mean_drops_the_axes_a_reshape_would_drop() -> None:
    body = """
        input %x: f32[n, 8, 6, 6]
        const %axes: i64[2] = [2, 3]
        const %flat: i64[2] = [-1, 8]
        %m: f32[n, 8, 1, 1] = reduce_mean(%x, %axes)
        %y: f32[n, 8] = reshape(%m, %flat)
        return %y
    """
    assert "%y: f32[n, 8] = reduce_mean(%x, %axes) {keepdims = 0}" in after(body, "reduction_drops_axes")


def test_a_mean_over_whole_images_is_offered_as_a_pool() -> None:
    body = """
        input %x: f32[n, 8, 6, 6]
        const %axes: i64[2] = [-1, 2]
        %y: f32[n, 8] = reduce_mean(%x, %axes) {keepdims = 0}
        return %y
    """
    pooled = after(body, "mean_to_pool", "dead_code")
    assert pooled == block("""
        input %x: f32[n, 8, 6, 6]
        %y.1: f32[n, 8, 1, 1] = global_average_pool(%x)
        %y: f32[n, 8] = flatten(%y.1)
        return %y
    """)
    assert "reduce_mean" in after(pooled, "pool_to_mean")


def test_slices_of_slices_are_one_slice() -> None:
    body = """
        input %x: f32[n, 8, 10]
        const %one: i64[1] = [1]
        const %two: i64[1] = [2]
        const %nine: i64[1] = [9]
        const %far: i64[1] = [9223372036854775807]
        %a: f32[n, 4, 10] = slice(%x, %one, %far, %one, %two)
        %b: f32[n, 4, 7] = slice(%a, %two, %nine, %two)
        %y: f32[n, 3, 7] = slice(%b, %one, %far, %one)
        return %y
    """
    text = after(body, "merge_slices", "dead_code")
    assert text == block("""
        input %x: f32[n, 8, 10]
        const %y.1: i64[2] = [3, 2]
        const %y.2: i64[2] = [8, 9]
        const %y.3: i64[2] = [1, 2]
        const %y.4: i64[2] = [2, 1]
        %y: f32[n, 3, 7] = slice(%x, %y.1, %y.2, %y.3, %y.4)
        return %y
    """)


def test_bounds_inside_bounds_are_one_clip() -> None:
    body = """
        input %x: f32[n]
        const %zero: f32[] = 0.0
        const %six: f32[] = 6.0
        %a: f32[n] = relu(%x)
        %y: f32[n] = clip(%a, _, %six)
        %z: f32[n] = clip(%x, %zero)
        return %y, %z
    """
    assert after(body, "clip_of_relu", "clip_to_relu", "dead_code") == block("""
        input %x: f32[n]
        const %y.1: f32[] = 0.0
        const %y.2: f32[] = 6.0
        %y: f32[n] = clip(%x, %y.1, %y.2)
        %z: f32[n] = relu(%x)
        return %y, %z
    """)


def test_a_square_before_a_mean_stays_a_power() -> None:
    body = """
        input %x: f32[n, 4]
        const %two: f32[] = 2.0
        const %axis: i64[1] = [1]
        %p: f32[n, 4] = pow(%x, %two)
        %y: f32[n, 1] = reduce_mean(%p, %axis)
        %q: f32[n, 4] = neg(%x)
        %z: f32[n, 4] = pow(%q, %two)
        return %y, %z
    """
    assert reasons(body, "square") == ["it is part of a normalization"]
    assert "%z: f32[n, 4] = mul(%q, %q)" in after(body, "square")


def test_constants_are_folded_once_and_rounded_once() -> None:
    body = """
        input %x: f32[1]
        const %big: f32[1] = [16777216.0]
        const %one: f32[1] = [1.0]
        %a: f32[1] = add(%big, %one)
        %b: f32[1] = sub(%a, %big)
        %y: f32[1] = mul(%x, %b)
        return %y
    """
    # In 32-bit floats 2**24 + 1 is 2**24, and the sum would come out as 0.
    assert "const %b: f32[1] = [1.0]" in after(body, "fold_constants", "dead_code")


def test_what_a_constant_shares_or_repeats_is_not_written_out() -> None:
    body = """
        input %x: f32[n, 200, 200]
        input %i: i64[n]
        const %number: f32[] = 1.5
        const %shape: i64[2] = [200, 200]
        %wide: f32[200, 200] = expand(%number, %shape)
        %y: f32[n, 200, 200] = pow(%x, %wide)
        return %y
    """
    assert "expand(%number, %shape)" in after(body, "fold_constants", "dead_code")


def test_dequantized_weights_stay_quantized() -> None:
    body = """
        input %x: f32[n, 2]
        const %q: i8[2, 2] = [[1, 2], [3, 4]]
        const %s: f32[] = 0.5
        %w: f32[2, 2] = dequantize_linear(%q, %s)
        %y: f32[n, 2] = matmul(%x, %w)
        return %y
    """
    assert "dequantize_linear(%q, %s)" in after(body, "fold_constants", "dead_code")
