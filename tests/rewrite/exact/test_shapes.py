"""Shape arithmetic, dead code, common values and nodes that do nothing."""

from __future__ import annotations

from golden import after, block, program, reasons

from tensmith.rewrite.rule import EXACT

EXPORTED_VIEW = """
    input %x: f32[batch, 4, 6]
    const %zero: i64[1] = [0]
    const %rest: i64[1] = [24]
    %shape: i64[3] = shape(%x)
    %n: i64[1] = gather(%shape, %zero)
    %target: i64[2] = concat(%n, %rest) {axis = 0}
    %y: f32[batch, 24] = reshape(%x, %target) {allowzero = 1}
    return %y
"""


def test_a_target_computed_from_the_batch_becomes_a_literal() -> None:
    assert after(EXPORTED_VIEW, "reshape_to_literal", "dead_code") == block("""
        input %x: f32[batch, 4, 6]
        const %y.1: i64[2] = [-1, 24]
        %y: f32[batch, 24] = reshape(%x, %y.1)
        return %y
    """)


def test_sizes_that_stay_in_place_are_zeros() -> None:
    body = """
        input %x: f32[batch, length, 24]
        const %heads: i64[2] = [4, 6]
        %sizes: i64[2] = shape(%x) {end = 2}
        %target: i64[4] = concat(%sizes, %heads) {axis = 0}
        %y: f32[batch, length, 4, 6] = reshape(%x, %target)
        return %y
    """
    assert "= [0, 0, 4, 6]" in after(body, "reshape_to_literal", "dead_code")


def test_a_target_with_two_new_unknown_sizes_stays_and_says_why() -> None:
    body = """
        input %x: f32[a, b, 6]
        const %one: i64[1] = [1]
        const %zero: i64[1] = [0]
        const %six: i64[1] = [6]
        %shape: i64[3] = shape(%x)
        %b: i64[1] = gather(%shape, %one)
        %a: i64[1] = gather(%shape, %zero)
        %target: i64[3] = concat(%b, %six, %a) {axis = 0}
        %y: f32[b, 6, a] = reshape(%x, %target)
        return %y
    """
    assert reasons(body, "reshape_to_literal") == ["target [b 6 a] has too many unknown sizes"]


def test_known_sizes_become_constants() -> None:
    body = """
        input %x: f32[n, 16, 8, 8]
        input %z: f32[16]
        %sizes: i64[1] = shape(%x) {start = 1, end = 2}
        %y: f32[16] = expand(%z, %sizes)
        return %y
    """
    assert after(body, "known_values", "no_operation", "dead_code") == block("""
        input %x: f32[n, 16, 8, 8]
        input %z: f32[16]
        %y: f32[16] = identity(%z)
        return %y
    """)


def test_an_expand_to_the_batch_it_has_needs_no_target() -> None:
    body = """
        input %x: f32[n, 1]
        const %four: i64[1] = [4]
        %n: i64[1] = shape(%x) {end = 1}
        %target: i64[2] = concat(%n, %four) {axis = 0}
        %y: f32[n, 4] = expand(%x, %target)
        return %y
    """
    assert "= [1, 4]" in after(body, "expand_to_literal", "dead_code")


def test_what_nobody_reads_goes() -> None:
    body = """
        input %x: f32[3]
        const %c: f32[3] = [1.0, 2.0, 3.0]
        %a: f32[3] = add(%x, %c)
        %b: f32[3] = relu(%a)
        %y: f32[3] = neg(%x)
        return %y
    """
    assert after(body, "dead_code") == block("""
        input %x: f32[3]
        %y: f32[3] = neg(%x)
        return %y
    """)


def test_equal_nodes_and_equal_constants_become_one() -> None:
    body = """
        input %x: f32[3]
        const %c: f32[3] = [1.0, 2.0, 3.0]
        const %d: f32[3] = [1.0, 2.0, 3.0]
        %a: f32[3] = add(%x, %c)
        %b: f32[3] = add(%d, %x)
        %y: f32[3] = mul(%a, %b)
        return %y
    """
    assert after(body, "common_subexpressions") == block("""
        input %x: f32[3]
        const %c: f32[3] = [1.0, 2.0, 3.0]
        %a: f32[3] = add(%x, %c)
        %y: f32[3] = mul(%a, %a)
        return %y
    """)


def test_negative_zero_is_another_constant() -> None:
    body = """
        input %x: f32[1]
        const %c: f32[1] = [0.0]
        const %d: f32[1] = [-0.0]
        %a: f32[1] = div(%x, %c)
        %b: f32[1] = div(%x, %d)
        return %a, %b
    """
    assert "%d" in after(body, "common_subexpressions")


def test_negative_zero_is_another_attribute() -> None:
    """1 / a and 1 / b are infinities of both signs, where x is negative."""
    body = """
        input %x: f32[1]
        %a: f32[1] = leaky_relu(%x) {alpha = 0.0}
        %b: f32[1] = leaky_relu(%x) {alpha = -0.0}
        %c: f32[1] = reciprocal(%a)
        %d: f32[1] = reciprocal(%b)
        return %c, %d
    """
    assert after(body, "common_subexpressions") == block(body)


def test_outputs_keep_their_names_when_what_makes_them_is_cut_out() -> None:
    body = """
        input %x: f32[n, 3]
        %a: f32[n, 3] = relu(%x)
        %b: f32[n, 3] = identity(%a)
        %y: f32[n, 3] = identity(%b)
        %z: f32[n, 3] = neg(%a)
        return %y, %z
    """
    assert after(body, "no_operation") == block("""
        input %x: f32[n, 3]
        %y: f32[n, 3] = relu(%x)
        %z: f32[n, 3] = neg(%y)
        return %y, %z
    """)


def test_two_outputs_of_one_value_keep_an_identity() -> None:
    body = """
        input %x: f32[n]
        %a: f32[n] = relu(%x)
        %y: f32[n] = identity(%a)
        %z: f32[n] = identity(%a)
        return %y, %z
    """
    assert after(body, "no_operation") == block("""
        input %x: f32[n]
        %y: f32[n] = relu(%x)
        %z: f32[n] = identity(%y)
        return %y, %z
    """)


def test_adding_zeros_that_broadcast_is_something() -> None:
    body = """
        input %x: f32[3]
        const %c: f32[2, 3] = [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
        %y: f32[2, 3] = add(%x, %c)
        %z: f32[2, 3] = relu(%y)
        return %z
    """
    assert EXACT["no_operation"].attempt(program(body), "*") is None


def test_slicing_backwards_is_something() -> None:
    body = """
        input %x: f32[4]
        const %from: i64[1] = [-1]
        const %to: i64[1] = [-9]
        const %axis: i64[1] = [0]
        const %step: i64[1] = [-1]
        %y: f32[4] = slice(%x, %from, %to, %axis, %step)
        %z: f32[4] = relu(%y)
        return %z
    """
    assert EXACT["no_operation"].attempt(program(body), "*") is None
