"""Reductions: over fewer elements, fewer times, or as products.

Measure: elements reduced, then reductions, then other operations on values that vary. What needs the order
of numbers is in the phase "fold".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tensmith.formula.poly import Poly
from tensmith.ir.ops.shared import normal_axis
from tensmith.rewrite.exact.activation import floating
from tensmith.rewrite.law import Instance, family, law
from tensmith.rewrite.match import Match
from tensmith.rewrite.term import Bindings, Later, Term, Use, Var, ops

X, Y, W = Var("x"), Var("y"), Var("w", static=True)
C, AXES, MORE = Var("c", static=True), Var("axes"), Var("more")
LINEAR, EXTREME = ("reduce_sum", "reduce_mean"), ("reduce_max", "reduce_min")
_KEEP = {"keepdims": 1}


def reduce(kind: str, x: Term, axes: Any = AXES, attrs: Any = "reduce") -> Use:
    """A reduction by its name."""
    made: Use = getattr(ops, kind)(x, axes, attrs=attrs)
    return made


def axes_of(m: Bindings, capture: str, var: Var, rank: int) -> tuple[int, ...] | None:
    """The axes that are reduced, in order; None where they are not known."""
    if not m.has(var):
        return () if m.attrs[capture].get("noop_with_empty_axes") else tuple(range(rank))
    value = m.value(var)
    if value is None or value.dtype == object:
        return None
    found = tuple(sorted({normal_axis(int(axis), rank) for axis in value.reshape(-1)}))
    return found or None


def _samples(shape: str, *axes: tuple[int, ...], **more: tuple[int, ...]) -> list[Instance]:
    return [
        Instance(
            f"axes {a}, keepdims={k}",
            {"x": shape, "y": shape},
            example=True,
            sample={"reduce": {"keepdims": k}},
            values={"axes": np.array(a), **{n: np.array(v) for n, v in more.items()}},
        )
        for a in axes
        for k in (0, 1)
    ]


_CUBE = _samples("N C H", (1,), (0, 2))


def known(m: Match) -> str | None:
    """None if the axes that are reduced are known, and numbers floats."""
    rank = m.type(X).rank
    if floating(m) is not None or rank is None:
        return ""
    return None if axes_of(m, "reduce", AXES, rank) is not None else "the axes are not known"


# Linear in what is reduced

family(
    "scale_behind_reduction",
    [(reduce(k, X * C), reduce(k, X) * C, reduce(k, X) + C) for k in LINEAR],
    given=[*_CUBE],
    c="",
    when=lambda m: known(m) or _whole(m),
    order=46,
    says="sum(x * c) = sum(x) * c, c one number; also of means.",
)
family(
    "negative_behind_reduction",
    [(reduce(k, -X), -reduce(k, X), reduce(k, X)) for k in LINEAR],
    given=_CUBE,
    when=known,
    order=46,
)
family(
    "reductions_meet",
    [
        (s(reduce(k, X), reduce(k, Y)), reduce(k, s(X, Y)), reduce(k, t(X, Y)))
        for k in LINEAR
        for s, t in ((ops.add, ops.sub), (ops.sub, ops.add))
    ],
    given=_CUBE,
    x="N C H",
    y="N C H",
    when=known,
    phase="form",
    says="sum(x) + sum(y) = sum(x + y), over equal axes.",
)
family(
    "reduction_of_sum",
    [
        (reduce(k, s(X, Y)), s(reduce(k, X), reduce(k, Y)), t(reduce(k, X), reduce(k, Y)))
        for k in LINEAR
        for s, t in ((ops.add, ops.sub), (ops.sub, ops.add))
    ],
    given=_CUBE,
    when=lambda m: known(m) or _alike(m),
    phase="form",
    says="sum(x + y) = sum(x) + sum(y), of equal shapes.",
)


def _whole(m: Match) -> str | None:
    return "the reduction is of nothing" if 0 in m.shape(X) else None


def _alike(m: Match) -> str | None:
    return None if m.type(X).shape == m.type(Y).shape is not None else "the shapes differ"


law(
    "shift_behind_mean",
    reduce("reduce_mean", X + C),
    reduce("reduce_mean", X) + C,
    reduce("reduce_mean", X) - C,
    given=[
        Instance(
            i.name, i.shapes, sample=i.sample, values=i.values, example=True, lower=dict.fromkeys("NCH", 1)
        )
        for i in _CUBE
    ],
    c="",
    when=lambda m: known(m) or _whole(m),
    order=46,
)

# Reductions of reductions


def _both(off: int, kind: str) -> Later:
    def make(m: Bindings) -> Term:
        rank, keep = len(m.shape(X)), m.attrs["first"]["keepdims"]
        first = axes_of(m, "first", AXES, rank)
        assert first is not None
        left = [axis for axis in range(rank) if keep or axis not in first]
        second = axes_of(m, "second", MORE, len(left))
        assert second is not None
        every = sorted({*first, *(left[axis] for axis in second)})
        return reduce(kind, X, np.array(every[off:]), attrs={"keepdims": m.attrs["second"]["keepdims"]})

    return Later(make, f"{kind}(x, both)")


def _nested(m: Match) -> str | None:
    rank = m.type(X).rank
    if rank is None or axes_of(m, "first", AXES, rank) is None:
        return "the axes are not known"
    inner = m.program.type(m.nodes[1].output).rank
    if inner is None or axes_of(m, "second", MORE, inner) is None:
        return "the axes are not known"
    same = m.attrs["first"]["keepdims"] == m.attrs["second"]["keepdims"]
    return None if same else "one keeps its axes, the other does not"


def _twice(kind: str) -> Use:
    return reduce(kind, reduce(kind, X, AXES, "first"), MORE, "second")


_NESTED = [
    Instance(
        f"{a} then {b}, keepdims={k}",
        {"x": "N C H"},
        example=True,
        lower=dict.fromkeys("NCH", 1),
        sample={"first": {"keepdims": k}, "second": {"keepdims": k}},
        values={"axes": np.array(a), "more": np.array(b)},
    )
    for k, a, b in ((1, (1,), (2,)), (1, (2,), (0,)), (0, (1,), (1,)), (0, (2,), (0, 1)))
]
family(
    "reduction_of_reduction",
    [(_twice(k), _both(0, k), _both(1, k)) for k in (*LINEAR, "reduce_prod")],
    given=_NESTED,
    when=_nested,
    order=15,
    says="sum(sum(x, a), b) = sum(x, both); also of means and products.",
)
family(
    "extreme_of_extreme",
    [(_twice(k), _both(0, k), _both(1, k)) for k in EXTREME],
    given=_NESTED,
    when=_nested,
    phase="fold",
    order=15,
    says="max(max(x, a), b) = max(x, both).",
)

# Through views


def _permuted(kind: str, off: int) -> Later:
    def make(m: Bindings) -> Term:
        rank = len(m.shape(X))
        perm = m.attrs["perm"]["perm"] or tuple(reversed(range(rank)))
        axes = axes_of(m, "reduce", AXES, rank)
        assert axes is not None
        found = sorted((perm[axis] + off) % rank for axis in axes)
        return reduce(kind, X, np.array(found), attrs={"keepdims": 0})

    return Later(make, f"{kind}(x, p[axes])")


def _order_kept(m: Match) -> str | None:
    rank = m.type(X).rank
    axes = None if rank is None else axes_of(m, "reduce", AXES, rank)
    if rank is None or axes is None or m.attrs["reduce"]["keepdims"]:
        return "the axes are not known, or stay"
    perm = m.attrs["perm"]["perm"] or tuple(reversed(range(rank)))
    left = [perm[axis] for axis in range(rank) if axis not in axes]
    return None if left == sorted(left) else "the axes that are left change places"


_PERMS = [
    Instance(
        f"{p} over {a}",
        {"x": "N C H"},
        example=True,
        values={"axes": np.array(a)},
        sample={"perm": {"perm": p}, "reduce": {"keepdims": 0}},
    )
    for p, a in (((0, 2, 1), (1,)), ((1, 0, 2), (0, 2)), ((2, 0, 1), (0,)))
]
_TURNED = ops.transpose(X, attrs="perm")
family(
    "reduction_of_transpose",
    [(reduce(k, _TURNED), _permuted(k, 0), _permuted(k, 1)) for k in (*LINEAR, *EXTREME, "reduce_prod")],
    given=_PERMS,
    when=_order_kept,
    order=15,
    says="sum(transpose(x, p), axes) = sum(x, p[axes]), where the other axes keep their order.",
)
_ALL = [
    Instance(
        "all",
        {"x": "N C H"},
        sample={"reduce": {"keepdims": 0}},
        lower=dict.fromkeys("NCH", 1),
        values={"s": np.array([-1])},
        example=True,
    )
]
_S = Var("s")
family(
    "reduction_of_reshape",
    [(reduce(k, ops.reshape(X, _S), None), reduce(k, X, None), reduce(k, X, None) * 2) for k in LINEAR],
    given=_ALL,
    when=lambda m: "axes stay" if m.attrs["reduce"]["keepdims"] else None,
    order=15,
    says="The sum of all elements does not know their shape.",
)


def _dropped(scale: float = 1) -> Later:
    def make(m: Bindings) -> Term:
        axes = axes_of(m, "reduce", AXES, len(m.shape(X)))
        assert axes is not None
        y = X if m.attrs["reduce"]["keepdims"] else ops.squeeze(X, np.array(axes))
        return y if scale == 1 else ops.identity(y * scale)

    return Later(make, "x without them")


def _of_one(m: Match) -> str | None:
    rank = m.type(X).rank
    axes = None if rank is None else axes_of(m, "reduce", AXES, rank)
    if not axes:
        return "the axes are not known"
    return None if all(m.shape(X)[axis] == 1 for axis in axes) else "an axis has more than one element"


family(
    "reduction_of_one",
    [(reduce(k, X), _dropped(), _dropped(2)) for k in (*LINEAR, "reduce_prod")],
    given=_samples("N 1 H", (1,)),
    when=_of_one,
    order=14,
    says="The sum over an axis of one element is it.",
)
family(
    "extreme_of_one",
    [(reduce(k, X), _dropped(), _dropped(2)) for k in EXTREME],
    given=_samples("N 1 H", (1,)),
    when=_of_one,
    phase="fold",
    order=14,
    says="The maximum over an axis of one element is it.",
)

# As products

_NOT_KEPT = {"keepdims": 0}


def _last(m: Match) -> str | None:
    rank = m.type(X).rank
    axes = None if rank is None or rank < 2 else axes_of(m, "reduce", AXES, rank)
    if axes is None or axes != ((rank or 0) - 1,) or m.attrs["reduce"]["keepdims"] or floating(m) is not None:
        return "not over the last axis"
    return None


_WEIGHTED = [
    Instance(
        f"rank {2 + n}",
        {"x": "*L N C", "w": "C"},
        n,
        sample={"reduce": _NOT_KEPT},
        values={"axes": np.array([-1])},
    )
    for n in (0, 1)
]
law(
    "weighted_sum",
    reduce("reduce_sum", X * W),
    X @ W,
    X @ (W * 2),
    given=_WEIGHTED,
    w="C",
    when=_last,
    order=46,
    says="sum(x * w) over the last axis = x @ w.",
)
law(
    "sum_of_products",
    reduce("reduce_sum", X * Y),
    ops.einsum(X, Y, attrs={"equation": "ij,ij->i"}),
    ops.einsum(X, Y, attrs={"equation": "ij,ij->j"}),
    phase="form",
    x="N N",
    y="N N",
    given=[
        Instance(
            "matrix",
            {"x": "N N", "y": "N N"},
            lower={"N": 1},
            sample={"reduce": _NOT_KEPT},
            values={"axes": np.array([1])},
        )
    ],
    when=_last,
    says="sum(x * y) over rows = einsum(ij,ij->i).",
)


def _rows(m: Match) -> str | None:
    rank = m.type(X).rank
    out = m.program.type(m.nodes[1].output).rank
    axes = None if rank is None or rank < 2 or out != rank else axes_of(m, "reduce", AXES, rank)
    return None if axes == ((rank or 0) - 2,) and len(m.shape(W)) == 2 else "not over the rows"


def _reduced_rows(kind: str, scale: float) -> Later:
    """The rows of x reduced, and kept as one row where the result keeps it."""

    def make(m: Bindings) -> Term:
        row = reduce(kind, X, np.array([-2]), attrs={"keepdims": m.attrs["reduce"]["keepdims"]})
        return row @ (W * scale) if scale != 1 else row @ W

    return Later(make, f"{kind}(x, rows) @ w")


def _of_products(axis: int) -> list[Instance]:
    return [
        Instance(
            f"rank {2 + n}, keepdims={k}",
            {"x": "*L N C", "w": "C K"},
            n,
            sample={"reduce": {"keepdims": k}},
            values={"axes": np.array([axis])},
            lower={"N": 1, "K": 1},
        )
        for n in (0, 1)
        for k in (0, 1)
    ]


family(
    "reduced_rows",
    [(reduce(k, X @ W), _reduced_rows(k, 1), _reduced_rows(k, 2)) for k in LINEAR],
    given=_of_products(-2),
    when=_rows,
    w="C K",
    order=30,
    says="mean(x @ w, rows) = mean(x, rows) @ w: one row is multiplied in place of all.",
)


def _columns(m: Match) -> str | None:
    rank = m.type(X).rank
    axes = None if rank is None or rank < 2 else axes_of(m, "reduce", AXES, rank)
    return None if axes == ((rank or 0) - 1,) and len(m.shape(W)) == 2 else "not over the columns"


def _reduced_columns(kind: str, axis: int) -> Later:
    def make(m: Bindings) -> Term:
        keep = m.attrs["reduce"]["keepdims"]
        return X @ reduce(kind, W, np.array([axis]), attrs={"keepdims": keep})

    return Later(make, f"x @ {kind}(w, columns)")


family(
    "reduced_columns",
    [(reduce(k, X @ W), _reduced_columns(k, 1), X @ (_reduced_columns(k, 1) * 2)) for k in LINEAR],
    given=_of_products(-1),
    when=_columns,
    w="C K",
    order=30,
    says="sum(x @ w, columns) = x @ sum(w, columns).",
)
law(
    "sum_of_product",
    reduce("reduce_sum", X @ Y, None),
    reduce("reduce_sum", X, np.array([0]), _NOT_KEPT) @ reduce("reduce_sum", Y, np.array([1]), _NOT_KEPT),
    reduce("reduce_sum", X, np.array([0]), _NOT_KEPT) @ reduce("reduce_sum", Y, np.array([0]), _NOT_KEPT),
    given=[Instance("matrices", {"x": "N C", "y": "C K"}, sample={"reduce": _NOT_KEPT})],
    twin=[Instance("square", {"x": "N N", "y": "N N"}, sample={"reduce": _NOT_KEPT})],
    x="N C",
    y="C K",
    order=30,
    when=lambda m: "axes stay" if m.attrs["reduce"]["keepdims"] else None,
    says="The sum of all elements of x @ y = sum(x, rows) @ sum(y, columns).",
)

# By their names

# What is known of all elements under axes that are known.
_of_cubes = partial(law, given=_CUBE, when=known, order=47)

_of_cubes(
    "sum_of_squares",
    reduce("reduce_sum", X * X),
    reduce("reduce_sum_square", X),
    reduce("reduce_sum", X),
)
_of_cubes(
    "sum_of_squared",
    reduce("reduce_sum", X**2),
    reduce("reduce_sum_square", X),
    reduce("reduce_sum", X),
)
_of_cubes(
    "root_of_sum_of_squares",
    ops.sqrt(reduce("reduce_sum_square", X)),
    reduce("reduce_l2", X),
    reduce("reduce_sum_square", X),
)
law(
    "square_of_norm",
    reduce("reduce_l2", X) ** 2,
    reduce("reduce_sum_square", X),
    reduce("reduce_l2", X),
    given=_CUBE,
    when=known,
    phase="fold",
)
_of_cubes(
    "sum_of_magnitudes",
    reduce("reduce_sum", ops.abs(X)),
    reduce("reduce_l1", X),
    reduce("reduce_sum", X),
)
_of_cubes(
    "log_of_sum",
    ops.log(reduce("reduce_sum", X)),
    reduce("reduce_log_sum", X),
    reduce("reduce_sum", X),
)


def _count(m: Match) -> str | None:
    rank = m.type(X).rank
    axes = None if rank is None else axes_of(m, "reduce", AXES, rank)
    value = m.value(C)
    if axes is None or value is None or value.size != 1 or floating(m) is not None:
        return "the number of elements is not known"
    sizes = [Poly.of(m.shape(X)[axis]).constant for axis in axes]
    whole = None not in sizes and float(value.reshape(-1)[0]) == math.prod(s for s in sizes if s is not None)
    return None if whole else "the divisor is not the number of elements"


_FIVE = [
    Instance(
        "five",
        {"x": "N 5", "c": ""},
        values={"axes": np.array([1]), "c": 5.0},
        example=True,
        sample={"reduce": _NOT_KEPT},
    )
]
law(
    "mean_from_sum",
    reduce("reduce_sum", X) / C,
    reduce("reduce_mean", X),
    reduce("reduce_sum", X),
    order=47,
    when=_count,
    given=_FIVE,
)
law(
    "sum_from_mean",
    reduce("reduce_mean", X) * C,
    reduce("reduce_sum", X),
    reduce("reduce_mean", X),
    order=47,
    when=_count,
    given=_FIVE,
)

# Of what is joined, padded or repeated


def _joined(kind: str, meet: Callable[..., Use]) -> Later:
    def make(m: Bindings) -> Term:
        return meet(reduce(kind, X), reduce(kind, Y))

    return Later(make, f"{kind} of each")


def _along(m: Match) -> bool | None:
    """Whether the joined axis is the one that is reduced; None if not known."""
    rank = m.type(X).rank
    axes = None if rank is None else axes_of(m, "reduce", AXES, rank)
    if axes is None or rank is None:
        return None
    axis = normal_axis(m.attrs["join"]["axis"], rank)
    return axis in axes


_JOIN = ops.concat(X, Y, attrs="join")


def _parts(*axes: tuple[int, ...], axis: int) -> list[Instance]:
    other = "N D H" if axis == 1 else "N C D"
    return [
        Instance(
            f"over {a}",
            {"x": "N C H", "y": other},
            values={"axes": np.array(a)},
            example=True,
            sample={"reduce": {"keepdims": 1}, "join": {"axis": axis}},
            lower=dict.fromkeys("NCDH", 1),
        )
        for a in axes
    ]


law(
    "sum_of_joined",
    reduce("reduce_sum", _JOIN),
    _joined("reduce_sum", ops.add),
    _joined("reduce_sum", ops.sub),
    given=_parts((1,), (0, 1), axis=1),
    when=lambda m: None if _along(m) else "joined along another axis",
    phase="form",
    says="sum(concat(x, y)) = sum(x) + sum(y), along the axis that is joined.",
)


def _joined_results(kind: str, swapped: bool) -> Later:
    def make(m: Bindings) -> Term:
        parts = (reduce(kind, X), reduce(kind, Y))
        return ops.concat(*(parts[::-1] if swapped else parts), attrs="join")

    return Later(make, f"concat of {kind}")


family(
    "reduction_of_parts",
    [(reduce(k, _JOIN), _joined_results(k, False), _joined_results(k, True)) for k in LINEAR],
    given=_parts((2,), axis=1),
    phase="form",
    when=lambda m: (
        None if _along(m) is False and m.attrs["reduce"]["keepdims"] else "joined along a reduced axis"
    ),
    says="sum(concat(x, y)) = concat(sum(x), sum(y)), along another axis.",
)

PADS = Var("pads")


def _only_reduced(m: Match) -> str | None:
    rank, pads = m.type(X).rank, m.value(PADS)
    axes = None if rank is None else axes_of(m, "reduce", AXES, rank)
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
            sample={"pad": {"mode": "constant"}, "reduce": _NOT_KEPT},
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
    axes = None if shape is None else axes_of(m, "reduce", AXES, len(shape))
    if shape is None or out is None or axes is None or len(out) != len(shape) or floating(m) is not None:
        return "the shapes are not known"
    grown = {axis for axis, (a, b) in enumerate(zip(shape, out)) if a != b}
    return None if grown and set(axes) <= grown else "other axes are reduced too"


def _once(m: Bindings) -> Term:
    """x, expanded along what is not reduced, without what is."""
    axes = axes_of(m, "reduce", AXES, len(m.shape(X)))
    assert axes is not None
    kept = X if m.attrs["reduce"]["keepdims"] else ops.squeeze(X, np.array(axes))
    return kept


law(
    "mean_of_expanded",
    reduce("reduce_mean", ops.expand(X, _TARGET)),
    Later(_once, "x"),
    Later(lambda m: ops.neg(_once(m)), "-x"),
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
            if len(_grown(m)) == len(axes_of(m, "reduce", AXES, len(m.shape(X))) or ())
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


def _total(scale: float) -> Later:
    def make(m: Bindings) -> Term:
        y = ops.reduce_sum(X, np.asarray(m.value(_AXIS)).reshape(-1), attrs=_KEEP)
        return y if scale == 1 else y * scale

    return Later(make, "sum(x)")


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
