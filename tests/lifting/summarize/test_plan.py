"""Size symbols, strides and how both are shown."""

from __future__ import annotations

import pytest

from tensmith.formula.poly import Poly, long_division
from tensmith.formula.types import I32
from tensmith.lifting.loops import Array
from tensmith.lifting.summarize.grids import choose, split
from tensmith.lifting.summarize.plan import DerivationPlan, at_least_text, display, plan_sizes
from tensmith.lifting.summarize.scope import Scope

h, i, j, k, lda, m, n, w = map(Poly.symbol, ("h", "i", "j", "k", "lda", "m", "n", "w"))
length = Poly.symbol("len(a, 0)")
NONE: frozenset[str] = frozenset()


def test_an_extent_alone_is_a_size_and_requires_nothing() -> None:
    plan = plan_sizes([n, n, m - 2], NONE, frozenset({"n", "m"}))
    assert {size.symbol: size.poly for size in plan.sizes} == {"n": n, "m_1": m - 2}
    assert plan.symbols["m"] == Poly.symbol("m_1") + 2
    assert plan.requires == () and plan.alone == {"n", "m_1"}


def test_extents_that_differ_by_a_constant_share_the_smallest() -> None:
    plan = plan_sizes([n - 1, n, n - 2], NONE, frozenset({"n"}))
    assert [(size.symbol, size.poly) for size in plan.sizes] == [("n_1", n - 2)]
    assert [r.text for r in plan.requires] == ["n >= 2"]


def test_lengths_are_never_negative() -> None:
    plan = plan_sizes([length, length - 0], frozenset({"len(a, 0)"}), frozenset({"a"}))
    assert [size.symbol for size in plan.sizes] == ["len_a"] and plan.alone == NONE
    shorter = plan_sizes([length - 1], frozenset({"len(a, 0)"}), frozenset({"a"}))
    assert shorter.sizes[0].poly == length - 1 and shorter.alone == {shorter.sizes[0].symbol}


def test_a_difference_of_parameters_is_solved_for_one_that_is_no_size() -> None:
    plan = plan_sizes([n - k + 1, k], NONE, frozenset({"n", "k"}))
    symbol = plan.symbols["n"]
    assert symbol.substitute(plan.raw).substitute({"n": n}) == n and "k" in symbol.symbols()


def test_a_product_of_sizes_needs_no_symbol_but_one_of_parameters_does() -> None:
    assert len(plan_sizes([m, n, m * n], NONE, frozenset({"m", "n"})).sizes) == 2
    alone = plan_sizes([m * n], NONE, frozenset({"m", "n"}))
    assert alone.opaque[m * n] == Poly.symbol(alone.sizes[0].symbol)


@pytest.mark.parametrize(
    ("poly", "text"), [(n - 1, "n >= 1"), (lda - n, "lda >= n"), (lda - n - 2, "lda >= n + 2"), (n, "n >= 0")]
)
def test_requirements_read_as_people_write_them(poly: Poly, text: str) -> None:
    assert at_least_text(poly) == text


def test_lengths_read_as_people_write_them() -> None:
    assert display(Poly.symbol("len(a, 1)") - 1) == "len(a[0]) - 1"


def strides(*accesses: tuple[Poly, Scope]) -> tuple[Poly, ...]:
    seen = [("x", (poly,), scope) for poly, scope in accesses]
    found = choose({"x": Array(I32)}, {}, seen, DerivationPlan(), frozenset(), {"x"})
    return found["x"].strides


SIZES = Scope(frozenset({"m", "n", "k", "h", "w"}))
MATRIX = SIZES.binding(("i", m), ("j", n))


def test_factors_of_counters_are_strides() -> None:
    assert strides((i * n + j, MATRIX)) == (n, Poly.of(1))
    assert strides((i * lda + j, MATRIX)) == (lda, Poly.of(1))
    assert strides((i + j, MATRIX)) == ()


def test_a_window_is_no_matrix() -> None:
    assert strides((i * 2 + j, MATRIX)) == ()


def test_windows_of_rows_keep_the_row() -> None:
    inside = SIZES.binding(("i", h), ("j", w), ("p", Poly.of(3)), ("q", Poly.of(3)))
    p, q = Poly.symbol("p"), Poly.symbol("q")
    assert strides(((i + p) * (w + 2) + j + q, inside)) == (w + 2, Poly.of(1))


def test_pixels_of_three_bytes_have_three_axes() -> None:
    inside = SIZES.binding(("i", h), ("j", w), ("p", Poly.of(3)))
    assert strides(((i * w + j) * 3 + Poly.symbol("p"), inside)) == (w * 3, Poly.of(3), Poly.of(1))


def test_an_upper_half_has_the_strides_of_its_matrix() -> None:
    upper = SIZES.binding(("i", n), ("j", n - i))
    assert strides((i * n + i + j, upper)) == (n, Poly.of(1))
    below = SIZES.binding(("i", n), ("j", n - i - 1))
    assert strides((i * n + i + j + 1, below)) == (n, Poly.of(1))
    padded = SIZES.binding(("i", n), ("j", n))
    assert strides((i * (n + 1) + j, padded)) == (n + 1, Poly.of(1))
    assert strides((i * (n + 1), SIZES.binding(("i", n)))) == (n + 1, Poly.of(1))


def test_where_every_other_row_is_touched_a_row_is_a_stride() -> None:
    assert strides((i * n * 2 + j, MATRIX)) == (n, Poly.of(1))
    assert strides((i * n * 4 + j * 2 + 1, MATRIX)) == (n * 2, Poly.of(2), Poly.of(1))


def test_split_and_divide_invert_the_strides() -> None:
    assert split((i + 1) * n + j, (n, Poly.of(1)), MATRIX) == (i + 1, j)
    assert split(n * n - 1, (n, Poly.of(1)), SIZES.knowing((n - 1,))) == (n - 1, n - 1)
    quotient, rest = long_division(i * (w + k - 1) + j, w + k - 1)
    assert (quotient, rest) == (i, j)


def test_a_sweep_over_whole_rows_is_divided() -> None:
    swept = split(i, (n, Poly.of(1)), SIZES.binding(("i", m * n)))
    assert [axis.evaluate({"i": 7, "n": 3}) for axis in swept] == [2, 1]
    assert split(i, (n, Poly.of(1)), SIZES.binding(("i", n))) == (Poly.of(0), i)
