"""Boxes of written elements: reading through them; normal boxes say exactly what was written."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensmith.formula.expr import NOWHERE, Choose, Read, Size
from tensmith.formula.poly import Poly
from tensmith.formula.types import I32
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.summarize.constants import number
from tensmith.lifting.summarize.memory import Contents, StoredBox, apart, covers, meet
from tensmith.lifting.summarize.normal import normal
from tensmith.lifting.summarize.scope import Scope
from tensmith.lifting.summarize.substitution import index

a, b, i, j, n, m = map(Poly.symbol, ("a", "b", "i", "j", "n", "m"))
SIZES = Scope(frozenset({"m", "n"}))
EMPTY = Contents("x", I32, 1, "x")


def box(
    *at: Poly, indices: tuple[str, ...] = (), extents: tuple[Poly, ...] = (), where: tuple[Poly, ...] = ()
) -> StoredBox:
    return StoredBox(indices, extents, at, index(at[0], I32), where)


def test_an_element_is_found_in_the_box_that_wrote_it() -> None:
    state = EMPTY.written(box(i + 2, indices=("i",), extents=(n,)), SIZES)
    assert state.read((j + 2,), SIZES.binding(("j", n)), NOWHERE) == index(j + 2, I32)
    below = state.read((Poly.of(1),), SIZES, NOWHERE)
    assert isinstance(below, Read) and below.tensor == "x"


def test_where_it_is_not_known_the_position_decides() -> None:
    state = EMPTY.written(box(i, indices=("i",), extents=(n,)), SIZES)
    found = state.read((j,), SIZES.binding(("j", m)), NOWHERE)
    assert isinstance(found, Choose) and found.conditions == (n - 1 - j,)
    assert isinstance(found.otherwise, Read)


def test_a_box_hides_those_that_it_covers_and_no_others() -> None:
    old, new = box(i, indices=("i",), extents=(n - 1,)), box(i + 0, indices=("i",), extents=(n,))
    assert covers(new, old, SIZES) and not covers(old, new, SIZES)
    assert len(EMPTY.written(old, SIZES).written(new, SIZES).boxes) == 1
    assert len(EMPTY.written(new, SIZES).written(old, SIZES).boxes) == 2


def test_steps_leave_gaps() -> None:
    even = box(i * 2, indices=("i",), extents=(n,))
    assert apart(even, (j * 2 + 1,), SIZES.binding(("j", n)))
    assert meet(even, (j * 2,), SIZES.binding(("j", n))) == ({"i": j}, ())
    with pytest.raises(Refusal, match="remainder"):
        meet(even, (j,), SIZES)


def test_a_local_array_without_values_is_not_read() -> None:
    with pytest.raises(Refusal, match="no value"):
        Contents("t", I32, 1, "").read((Poly.of(0),), SIZES, NOWHERE)


SHAPES = {
    "rows": ((a, b), ("a", "b"), (n, m), ()),
    "triangle": ((a, b), ("a", "b"), (n, a + 1), ()),
    "skewed": ((a, a + 1 + b), ("a", "b"), (n, n - 1 - a), ()),
    "mirrored": ((a + 1 + b, a), ("a", "b"), (n, n - 1 - a), ()),
    "backwards": ((n - 1 - a, b + 3), ("a", "b"), (n, m), ()),
    "diagonal": ((a, a), ("a",), (n,), ()),
    "masked": ((a, b), ("a", "b"), (n, m), (a - b,)),
}


@given(st.sampled_from(sorted(SHAPES)), st.integers(0, 4), st.integers(0, 4))
def test_a_normal_box_holds_the_same_elements(name: str, n_value: int, m_value: int) -> None:
    at, indices, extents, where = SHAPES[name]
    written = StoredBox(indices, extents, at, number(0, I32), where)
    found = normal(written, SIZES)
    values = {"n": n_value, "m": m_value}
    assert _elements(found.box, values) == _elements(written, values)
    assert all(len(axis.symbols() & set(found.box.indices)) <= 1 for axis in found.box.at)
    for place in _points(found.box, values):
        old = {name: found.values.get(name, Poly.symbol(name)).evaluate(place) for name in indices}
        assert [p.evaluate({**values, **old}) for p in at] == [p.evaluate(place) for p in found.box.at]


def test_an_element_with_two_counters_is_refused() -> None:
    with pytest.raises(Refusal, match="same element"):
        normal(StoredBox(("a", "b"), (n, m), (a + b,), number(0, I32)), SIZES)


def _points(box: StoredBox, values: dict[str, int]) -> list[dict[str, int]]:
    points = [dict(values)]
    for name, extent in box.ranges:
        points = [{**p, name: k} for p in points for k in range(extent.evaluate(p))]
    return [p for p in points if all(w.evaluate(p) >= 0 for w in box.where)]


def _elements(box: StoredBox, values: dict[str, int]) -> list[tuple[int, ...]]:
    return sorted(tuple(axis.evaluate(p) for axis in box.at) for p in _points(box, values))


def test_values_move_with_their_indices() -> None:
    at, indices, extents, where = SHAPES["skewed"]
    found = normal(StoredBox(indices, extents, at, number(0, I32), where), SIZES)
    moved = found.put(index(a * 10 + b, I32))
    assert isinstance(moved, Size)
    for place in _points(found.box, {"n": 4, "m": 0}):
        row, column = (axis.evaluate(place) for axis in found.box.at)
        assert moved.poly.evaluate(place) == row * 10 + (column - row - 1)


def test_the_shapes_are_not_all_alike() -> None:
    values = {"n": 3, "m": 3}
    sets = [_elements(StoredBox(i, e, at, number(0, I32), w), values) for at, i, e, w in SHAPES.values()]
    assert sum(x == y for x, y in itertools.combinations(sets, 2)) == 1  # the mask makes the triangle
