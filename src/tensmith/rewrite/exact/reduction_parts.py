"""Reductions of what is joined, padded or repeated, and running sums."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tensmith.formula.poly import Poly
from tensmith.ir.ops.shared import normal_axis
from tensmith.rewrite.exact.reductions import KEPT, LINEAR, NOT_KEPT, axes_of, dropped, reduce
from tensmith.rewrite.given import Instance
from tensmith.rewrite.law import family, floating, law
from tensmith.rewrite.match import Match
from tensmith.rewrite.term import Bindings, Term, Use, Var, later, ops

X, Y = Var("x"), Var("y")

# Of what is joined, padded or repeated


@later("{0} of each")
def _joined(m: Bindings, kind: str, meet: Callable[..., Use]) -> Term:
    return meet(reduce(kind, X), reduce(kind, Y))


def _along(m: Match) -> bool | None:
    """Whether the joined axis is the one that is reduced; None if not known."""
    rank = m.type(X).rank
    axes = axes_of(m, rank)
    if axes is None or rank is None:
        return None
    return normal_axis(m.attrs["join"]["axis"], rank) in axes


_JOIN = ops.concat(X, Y, attrs="join")


def _parts(*axes: tuple[int, ...]) -> list[Instance]:
    return [
        Instance(
            f"over {a}",
            {"x": "N C H", "y": "N D H"},
            values={"axes": np.array(a)},
            example=True,
            sample={"reduce": {"keepdims": 1}, "join": {"axis": 1}},
            lower=dict.fromkeys("NCDH", 1),
        )
        for a in axes
    ]


law(
    "sum_of_joined",
    reduce("reduce_sum", _JOIN),
    _joined("reduce_sum", ops.add),
    _joined("reduce_sum", ops.sub),
    given=_parts((1,), (0, 1)),
    when=lambda m: None if _along(m) else "joined along another axis",
    phase="form",
    says="sum(concat(x, y)) = sum(x) + sum(y), along the axis that is joined.",
)


@later("concat of {0}")
def _joined_results(m: Bindings, kind: str, swapped: bool) -> Term:
    parts = (reduce(kind, X), reduce(kind, Y))
    return ops.concat(*(parts[::-1] if swapped else parts), attrs="join")


family(
    "reduction_of_parts",
    [(reduce(k, _JOIN), _joined_results(k, False), _joined_results(k, True)) for k in LINEAR],
    given=_parts((2,)),
    phase="form",
    when=lambda m: (
        None if _along(m) is False and m.attrs["reduce"]["keepdims"] else "joined along a reduced axis"
    ),
    says="sum(concat(x, y)) = concat(sum(x), sum(y)), along another axis.",
)

PADS = Var("pads")


def _only_reduced(m: Match) -> str | None:
    rank, pads = m.type(X).rank, m.value(PADS)
    axes = axes_of(m, rank)
    if axes is None or rank is None or pads is None or pads.dtype == object or len(pads) != 2 * rank:
        return "the axes or the padding are not known"
    padded = {axis % rank for axis in np.nonzero(pads)[0]}
    fits = m.attrs["pad"]["mode"] == "constant" and bool(np.all(pads >= 0)) and padded <= set(axes)
    return None if fits else "other axes are padded, or not with zeros"


_B, _E = Poly.symbol("b"), Poly.symbol("e")
law(
    "sum_of_padded",
    reduce("reduce_sum", ops.pad(X, PADS, attrs="pad")),
    reduce("reduce_sum", X),
    reduce("reduce_sum", X) * 2,
    given=[
        Instance(
            "matrix",
            {"x": "N C"},
            example=True,
            sample={"pad": {"mode": "constant"}, "reduce": NOT_KEPT},
            values={"axes": np.array([1]), "pads": np.array([0, _B, 0, _E])},
            lower={"b": 0, "e": 0},
        )
    ],
    when=_only_reduced,
    order=15,
    says="sum(pad(x)) = sum(x), where zeros are put along the axes that are summed.",
)

_TARGET = Var("target")


def _new_axes(m: Match) -> str | None:
    shape, out = m.type(X).shape, m.program.type(m.nodes[1].output).shape
    axes = axes_of(m, m.type(X).rank)
    if shape is None or out is None or axes is None or len(out) != len(shape) or floating(m) is not None:
        return "the shapes are not known"
    grown = {axis for axis, (a, b) in enumerate(zip(shape, out)) if a != b}
    return None if grown and set(axes) <= grown else "other axes are reduced too"


law(
    "mean_of_expanded",
    reduce("reduce_mean", ops.expand(X, _TARGET)),
    dropped(),
    -dropped(),
    order=15,
    given=[
        Instance(
            f"keepdims={k}",
            {"x": "N 1"},
            values={"axes": np.array([1]), "target": np.array([1, 7])},
            sample={"reduce": {"keepdims": k}},
            example=True,
        )
        for k in (0, 1)
    ],
    when=lambda m: (
        _new_axes(m)
        or (
            None
            if len(_grown(m)) == len(axes_of(m, len(m.shape(X))) or ())
            else "other axes are expanded too"
        )
    ),
    says="The mean over axes along which x is repeated is x.",
)


def _grown(m: Match) -> list[int]:
    out = m.program.type(m.nodes[1].output).dims
    return [axis for axis, (a, b) in enumerate(zip(m.shape(X), out)) if a != b]


# Running sums

_AXIS = Var("axis")


def _end(m: Match) -> str | None:
    value, rank = m.value(_AXIS), m.type(X).rank
    attrs = m.attrs["run"]
    if value is None or rank is None or attrs["exclusive"] or attrs["reverse"]:
        return "a running sum of another kind"
    axes, starts, ends = (m.value(Var(n)) for n in ("at", "starts", "ends"))
    if (
        axes is None
        or starts is None
        or ends is None
        or len(axes) != 1
        or (shape := m.type(X).static) is None
        or 0 in shape
    ):
        return "more than one axis is cut"
    axis = normal_axis(int(axes[0]), rank)
    size = shape[axis]
    last = int(starts[0]) in (-1, size - 1) and int(ends[0]) >= size
    return None if last and normal_axis(int(value.reshape(-1)[0]), rank) == axis else "not the last element"


@later("sum(x)")
def _total(m: Bindings, scale: float) -> Term:
    y = ops.reduce_sum(X, np.asarray(m.value(_AXIS)).reshape(-1), attrs=KEPT)
    return y if scale == 1 else y * scale


law(
    "last_of_running_sum",
    ops.slice(ops.cum_sum(X, _AXIS, attrs="run"), Var("starts"), Var("ends"), Var("at")),
    _total(1),
    _total(2),
    order=30,
    given=[
        Instance(
            "rows",
            {"x": "N C"},
            example=True,
            sample={"run": {"exclusive": 0, "reverse": 0}},
            lower={"C": 1},
            values={
                "axis": np.array([1]),
                "starts": np.array([-1]),
                "ends": np.array([2**63 - 1]),
                "at": np.array([1]),
            },
        )
    ],
    when=_end,
    says="The last element of a running sum is the sum.",
)
