"""The normal form proves what is equal for all sizes, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest

from tensmith.formula.bounds import Ranges
from tensmith.formula.expr import (
    Choose,
    Expr,
    Formula,
    Pow,
    call,
    compute,
    guard,
    reduce,
    tensor,
    total,
)
from tensmith.formula.normal import equal
from tensmith.formula.poly import Poly
from tensmith.formula.smt import prove_equal

K, M, N, P = map(Poly.symbol, "KMNP")


def matmul(a: Formula, b: Formula) -> Formula:
    return compute((a.shape[0], b.shape[1]), lambda i, j: total(a.shape[1], lambda k: a[i, k] * b[k, j]))


def add(a: Formula, b: Formula) -> Formula:
    return compute(a.shape, lambda i, j: a[i, j] + b[i, j])


def transpose(a: Formula) -> Formula:
    return compute((a.shape[1], a.shape[0]), lambda i, j: a[j, i])


def beside(a: Formula, b: Formula) -> Formula:
    width = a.shape[1]
    return compute(
        (a.shape[0], width + b.shape[1]),
        lambda i, j: guard([width - 1 - j], a[i, j]) + guard([j - width], b[i, j - width]),
    )


A, B, C = tensor("a", M, K), tensor("b", K, N), tensor("c", N, P)
D, E = tensor("d", K, N), tensor("e", M, K)


def test_products_associate_distribute_and_transpose() -> None:
    assert equal(matmul(matmul(A, B), C), matmul(A, matmul(B, C)))
    assert equal(matmul(A, add(B, D)), add(matmul(A, B), matmul(A, D)))
    assert equal(transpose(matmul(A, B)), matmul(transpose(B), transpose(A)))
    assert equal(matmul(A, beside(B, D)), beside(matmul(A, B), matmul(A, D)))


def test_what_only_looks_alike_is_not_equal() -> None:
    square, other = tensor("s", N, N), tensor("t", N, N)
    assert not equal(matmul(square, other), matmul(other, square))
    assert not equal(square, transpose(square))
    assert not equal(beside(B, D), beside(D, B))
    assert not equal(matmul(A, B), matmul(A, D))


def test_a_choice_is_one_side_or_the_other() -> None:
    def chosen(then: Formula, otherwise: Formula) -> Formula:
        return compute((M, K), lambda i, j: Choose((i - 1, j - 2), then[i, j], otherwise[i, j]))

    both = compute(
        (M, K),
        lambda i, j: guard([i - 1, j - 2], A[i, j]) + guard([i - 1, 1 - j], E[i, j]) + guard([-i], E[i, j]),
    )
    assert equal(chosen(A, E), both) and prove_equal(chosen(A, E), both)
    assert equal(chosen(A, A), A)
    assert not equal(chosen(A, E), chosen(E, A))


def test_sizes_must_agree_too() -> None:
    assert not equal(tensor("a", M, K), tensor("a", M, N))


def scalar(value: Callable[[], Expr]) -> Formula:
    return compute((), lambda: value())


S, T = tensor("s", N, N), tensor("v", N)


@pytest.mark.parametrize("kind", ["max", "min", "prod"])
def test_a_reduction_does_not_capture_the_sums_inside(kind: str) -> None:
    rows = scalar(lambda: reduce(kind, [N], lambda i: total(N, lambda k: S[i, k])))
    assert equal(rows, scalar(lambda: reduce(kind, [N], lambda q: total(N, lambda r: S[q, r]))))
    assert not equal(rows, scalar(lambda: reduce(kind, [N], lambda i: total(N, lambda k: S[k, k]))))
    assert not equal(rows, scalar(lambda: reduce(kind, [N], lambda i: total(N, lambda k: S[k, i]))))


def test_a_maximum_of_one_thing_keeps_its_sums_apart() -> None:
    b = tensor("w", N)
    mass = total(N, lambda k: T[k])
    left = scalar(lambda: call("maximum", mass, mass) * reduce("max", [N], lambda j: b[j]))
    assert equal(left, scalar(lambda: total(N, lambda k: T[k]) * reduce("max", [N], lambda j: b[j])))
    assert not equal(left, scalar(lambda: total(N, lambda k: T[k] * b[k])))


def test_an_index_inside_a_call_may_be_zero() -> None:
    a, b = tensor("p", 2), tensor("q", N)
    odd = scalar(lambda: call("exp", total(N, lambda k: a[(k - 1) // (k + 1) + 1] * b[k])))
    assert not equal(odd, scalar(lambda: call("exp", total(N, lambda k: a[1] * b[k]))))


def test_a_sum_of_ones_is_its_extent_only_where_that_is_not_negative() -> None:
    one = scalar(lambda: total(N - 3, lambda k: guard([], 1)))
    size = scalar(lambda: guard([], 1) * (N - 3))
    assert not equal(one, size)
    assert equal(one, size, Ranges(lower={"N": 3}))


def test_powers_of_sums_stay_together() -> None:
    def root(extra: Fraction) -> Formula:
        return compute((N,), lambda i: Pow(T[i] + extra, Fraction(-1, 2)))

    assert equal(root(Fraction(1, 8)), root(Fraction(1, 8)))
    assert not equal(root(Fraction(1, 8)), root(Fraction(1, 4)))


SIX = tensor("u", Poly.of(24))


def test_an_axis_in_blocks_is_the_axis() -> None:
    whole = scalar(lambda: total(22, lambda k: SIX[k]))
    blocks = scalar(lambda: total((4, 6), lambda b, c: guard([21 - b * 6 - c], SIX[b * 6 + c])))
    assert equal(whole, blocks)
    assert not equal(whole, scalar(lambda: total((4, 6), lambda b, c: SIX[b * 6 + c])))
    assert not equal(
        whole, scalar(lambda: total((4, 6), lambda b, c: guard([21 - b * 5 - c], SIX[b * 5 + c])))
    )


def test_an_axis_that_is_divided_is_two_axes() -> None:
    grid = tensor("g", Poly.of(4), Poly.of(6))
    flat = scalar(lambda: total(24, lambda k: grid[k // 6, k % 6]))
    assert equal(flat, scalar(lambda: total((4, 6), lambda i, j: grid[i, j])))
    assert not equal(flat, scalar(lambda: total((6, 4), lambda i, j: grid[j, i]) * 2))


def test_a_sum_over_part_of_an_axis_counts_from_its_beginning() -> None:
    part = scalar(lambda: total(24, lambda k: guard([k - 5, 9 - k], SIX[k])))
    assert equal(part, scalar(lambda: total(5, lambda k: SIX[k + 5])))
    assert not equal(part, scalar(lambda: total(4, lambda k: SIX[k + 5])))


def test_the_only_block_that_holds_an_element_is_found() -> None:
    indexed = compute((24,), lambda i: total(4, lambda b: guard([i - b * 6, b * 6 + 5 - i], SIX[b])))
    assert equal(indexed, compute((24,), lambda i: SIX[i // 6]))
    assert not equal(indexed, compute((24,), lambda i: SIX[i // 5]))
