"""Small proofs from ranges, sizes and facts; each with one that must not be found."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tensmith.formula.poly import Poly
from tensmith.lifting.summarize.scope import Scope

i, j, m, n, x = map(Poly.symbol, ("i", "j", "m", "n", "x"))
SIZES = Scope(frozenset({"m", "n"}))


def test_an_index_stays_below_its_extent() -> None:
    inside = SIZES.binding(("i", n))
    assert inside.proves(n - 1 - i) and inside.proves(i)
    assert not inside.proves(n - 2 - i) and not inside.proves(i - 1)


def test_an_inner_range_may_depend_on_an_outer_index() -> None:
    inside = SIZES.binding(("i", n), ("j", n - 1 - i))
    assert inside.proves(n - 1 - (i + j + 1))
    assert not inside.proves(n - 2 - (i + j + 1))
    assert inside.upper(i + 1 + j) == n - 1


def test_a_non_empty_range_says_that_its_extent_is_positive() -> None:
    assert SIZES.binding(("i", x)).proves(x - 1)
    assert not SIZES.proves(x)


def test_a_fact_decides_and_bounds() -> None:
    inside = SIZES.binding(("i", n)).knowing((n - 2 - i,))
    assert inside.upper(i + 1) == n - 1
    assert inside.refutes(i - n + 1)
    assert inside.decides(i - m) is None


def test_a_product_of_sizes_is_never_negative_but_one_of_parameters_may_be() -> None:
    assert SIZES.proves(m * n) and not SIZES.proves(m * x)


def test_fixed_indices_may_stand_in_bounds() -> None:
    inside = SIZES.binding(("i", n)).fixed().binding(("j", i + 1))
    assert inside.upper(j) == i
    assert inside.proves(n - 1 - j)


@given(st.integers(0, 5), st.integers(0, 5), st.data())
def test_bounds_hold_at_every_point(m_value: int, n_value: int, data: st.DataObject) -> None:
    coefficients = [data.draw(st.integers(-3, 3)) for _ in range(4)]
    poly = i * coefficients[0] + j * coefficients[1] + n * coefficients[2] + coefficients[3]
    inside = SIZES.binding(("i", m), ("j", i + n))
    upper, proved = inside.upper(poly), inside.proves(poly)
    for i_value in range(m_value):
        for j_value in range(i_value + n_value):
            here = {"m": m_value, "n": n_value, "i": i_value, "j": j_value}
            assert upper is None or poly.evaluate(here) <= upper.evaluate(here)
            assert not proved or poly.evaluate(here) >= 0
