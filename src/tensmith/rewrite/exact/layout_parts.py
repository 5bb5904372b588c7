"""Tensors put together of parts, and cut into parts: fewer of them, and of smaller tensors.

Measure: elements that are computed or moved, then operations on values that vary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tensmith.formula.poly import Dim, Poly, simplify_dim
from tensmith.ir.ops.shared import normal_axis
from tensmith.rewrite.case import Case
from tensmith.rewrite.exact.shortcut import cuts, slice_operands
from tensmith.rewrite.given import Instance
from tensmith.rewrite.law import family, law
from tensmith.rewrite.match import Match
from tensmith.rewrite.term import Bindings, Later, Term, Use, Var, later, ops

X, Y, Z = Var("x"), Var("y"), Var("z")
C = Poly.symbol("C")
_CUT = slice_operands("cut")


def _axis(m: Bindings, *captures: str) -> list[int]:
    return [normal_axis(m.attrs[name]["axis"], len(m.shape(X))) for name in captures]


_THREE = [
    Instance("parts", {"x": "N C", "y": "N D", "z": "N E"}, sample={"in": {"axis": 1}, "out": {"axis": 1}})
]


def _joined(x: Term, y: Term, name: str) -> Use:
    return ops.concat(x, y, attrs=name)


family(
    "concat_of_concat",
    [
        (
            _joined(_joined(X, Y, "in"), Z, "out"),
            ops.concat(X, Y, Z, attrs="out"),
            ops.concat(X, Z, Y, attrs="out"),
        ),
        (
            _joined(X, _joined(Y, Z, "in"), "out"),
            ops.concat(X, Y, Z, attrs="out"),
            ops.concat(X, Z, Y, attrs="out"),
        ),
    ],
    given=_THREE,
    when=lambda m: None if len(set(_axis(m, "in", "out"))) == 1 else "along other axes",
    order=12,
)
_TWO = [
    Instance(
        "squares",
        {"x": "N C H", "y": "N D H"},
        sample={"x": {"perm": (2, 1, 0)}, "y": {"perm": (2, 1, 0)}, "join": {"axis": 1}},
    )
]
law(
    "concat_of_transposed",
    ops.concat(ops.transpose(X, attrs="x"), ops.transpose(Y, attrs="y"), attrs="join"),
    Later(lambda m: _turned(m, False), "transpose(concat(x, y))"),
    Later(lambda m: _turned(m, True), "transpose(concat(y, x))"),
    given=_TWO,
    order=16,
    when=lambda m: None if m.attrs["x"]["perm"] == m.attrs["y"]["perm"] else "turned otherwise",
)


def _turned(m: Bindings, swapped: bool) -> Term:
    rank = len(m.shape(X))
    perm = m.attrs["x"]["perm"] or tuple(reversed(range(rank)))
    axis = perm[normal_axis(m.attrs["join"]["axis"], rank)]
    parts = (Y, X) if swapped else (X, Y)
    return ops.transpose(ops.concat(*parts, attrs={"axis": axis}), attrs={"perm": perm})


def _bounds(m: Bindings, operands: Sequence[Var], axis: int) -> tuple[Any, Any] | None:
    """The first and the last but one position that a slice takes along an axis, in steps of 1."""
    rank = len(m.shape(X))
    if isinstance(m, Case):
        start, end = (np.asarray(m.value(var)).reshape(-1)[0] for var in operands[:2])
        return start, end
    found = cuts(m, operands, rank)
    if found is None or set(found) != {axis} or found[axis][2] != 1 or found[axis][0] < 0:
        return None
    return found[axis][0], found[axis][1]


def _left(m: Match) -> str | None:
    found, size = _bounds(m, _CUT, _axis(m, "join")[0]), m.shape(X)[_axis(m, "join")[0]]
    within = found is not None and isinstance(size, int) and 0 <= found[1] <= size
    return None if within else "the slice is not of the first part alone"


def _right(m: Match) -> str | None:
    axis = _axis(m, "join")[0]
    found, size, whole = _bounds(m, _CUT, axis), m.shape(X)[axis], m.shape(Y)[axis]
    behind = found is not None and isinstance(size, int) and isinstance(whole, int) and found[0] >= size
    return (
        None
        if behind and found is not None and found[1] >= 0
        else "the slice is not of the second part alone"
    )


@later("{0.name}[cut]")
def _part(m: Bindings, which: Var, off: int = 0) -> Term:
    axis = _axis(m, "join")[0]
    found = _bounds(m, _CUT, axis)
    assert found is not None
    before = m.shape(X)[axis] if which is Y else 0
    last = found[1] if isinstance(m, Case) else min(found[1], m.shape(X)[axis] + m.shape(Y)[axis])
    sizes = [[simplify_dim(Poly.of(bound) - before + off)] for bound in (found[0], last)]
    starts, ends = (np.array(s, dtype=object if isinstance(s[0], Poly) else np.int64) for s in sizes)
    return ops.slice(which, starts, ends, np.array([axis]), np.array([1]))


_A, _B = Poly.symbol("a"), Poly.symbol("b")


def _cut(start: Dim, end: Dim) -> dict[str, np.ndarray]:
    kind = [object if isinstance(v, Poly) else np.int64 for v in (start, end)]
    return {
        "cut_starts": np.array([start], dtype=kind[0]),
        "cut_ends": np.array([end], dtype=kind[1]),
        "cut_axes": np.array([1]),
        "cut_steps": np.array([1]),
    }


_JOINED = {"join": {"axis": 1}}
for _name, _kept, _when, _shapes, _start, _says in (
    ("slice_of_first_part", X, _left, {"x": "N a+b+2", "y": "N D"}, _A, "x, where it ends before y"),
    ("slice_of_second_part", Y, _right, {"x": "N C", "y": "N a+b+2"}, C + _A, "y, where it begins behind x"),
):
    law(
        _name,
        ops.slice(ops.concat(X, Y, attrs="join"), *_CUT),
        _part(_kept),
        _part(_kept, 1),
        order=13,
        when=_when,
        given=[
            Instance(
                "matrix",
                _shapes,
                values=_cut(_start, _start + _B + 1),
                sample=_JOINED,
                example=True,
                lower={"C": 1},
            )
        ],
        says=f"A slice of x and y side by side is one of {_says}.",
    )

# Slices that touch

_FIRST, _SECOND = slice_operands("first"), slice_operands("second")


def _touching(m: Match) -> tuple[int, int, int] | None:
    axis = _axis(m, "join")[0]
    one, two = _bounds(m, _FIRST, axis), _bounds(m, _SECOND, axis)
    size = m.shape(X)[axis]
    if one is None or two is None or one[1] != two[0] or not isinstance(size, int):
        return None
    (start, middle), (_, end) = one, two
    inside = 0 <= start <= middle <= min(end, size)
    return (axis, int(start), min(int(end), size)) if inside else None


@later("x[a:c]")
def _whole(m: Bindings, off: int) -> Term:
    if not isinstance(m, Match):
        starts, ends = np.array([_A]), np.array([_A + _B + C - off])
        return ops.slice(X, starts, ends, np.array([1]), np.array([1]))
    found = _touching(m)
    assert found is not None
    axis, start, end = found
    return ops.slice(X, np.array([start]), np.array([end]), np.array([axis]), np.array([1]))


def _named(prefix: str, start: Poly, end: Poly) -> dict[str, np.ndarray]:
    return {key.replace("cut", prefix): value for key, value in _cut(start, end).items()}


law(
    "concat_of_slices",
    ops.concat(ops.slice(X, *_FIRST), ops.slice(X, *_SECOND), attrs="join"),
    _whole(0),
    _whole(1),
    given=[
        Instance(
            "matrix",
            {"x": "N a+b+C+H"},
            example=True,
            sample=_JOINED,
            values={**_named("first", _A, _A + _B), **_named("second", _A + _B, _A + _B + C)},
            lower=dict.fromkeys("abCH", 1),
        )
    ],
    when=lambda m: None if _touching(m) is not None else "the slices do not touch",
    order=12,
    says="concat(x[a:b], x[b:c]) = x[a:c].",
)
