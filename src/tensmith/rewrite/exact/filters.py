"""Filters that grow by others beside them (RepVGG), and filters whose rim is zero."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tensmith.formula.expr import Expr, Read, guard
from tensmith.formula.poly import Poly
from tensmith.rewrite.exact.products import B, W, X, conv
from tensmith.rewrite.given import Instance
from tensmith.rewrite.law import law
from tensmith.rewrite.match import Match
from tensmith.rewrite.term import Bindings, ConstantTable, Term, Use, Var, later, ops

V = Var("v", static=True)


@later("pad({0.name})")
def _grown(m: Bindings, weights: Var) -> Term:
    """Filters of size 1 in the middle of zeros, as large as others."""
    n = len(m.shape(W)) - 2
    return ops.pad(weights, np.array([0, 0, *(1,) * n] * 2))


def _threes(m: Match) -> bool:
    """Whether filters of size 3 see x and what is one place around it."""
    n, attrs = len(m.shape(W)) - 2, m.attrs["conv"]
    return m.shape(W)[2:] == (3,) * n and attrs["pads"] == (1,) * (2 * n) and attrs["group"] == 1


def _by_one(m: Match) -> str | None:
    n, attrs, unit = len(m.shape(W)) - 2, m.attrs["conv"], m.attrs["unit"]
    same = (attrs["strides"] or (1,) * n) == (unit["strides"] or (1,) * n)
    plain = not any(unit["pads"] or ()) and all(d == 1 for d in attrs["dilations"] or ())
    one = m.shape(V)[2:] == (1,) * n and attrs["auto_pad"] == unit["auto_pad"] == "NOTSET"
    fits = same and _threes(m) and plain and one and unit["group"] == 1
    return None if fits else "not of sizes 3 and 1, alike"


@later("conv(x, w + pad(v), b)")
def _with_unit(m: Bindings, sign: Callable[[Term, Term], Use]) -> Term:
    return ops.conv(X, sign(W, _grown(V)), B, attrs=m.attrs["conv"])


_THREES = [
    Instance(
        f"{n}d",
        {"x": "N C *H+1", "w": f"K C{' 3' * n}", "v": f"K C{' 1' * n}", "b": "K"},
        n,
        sample={
            "conv": {"strides": (2,) * n, "pads": (1,) * (2 * n), "dilations": (1,) * n, "group": 1},
            "unit": {"strides": (2,) * n, "group": 1},
        },
        example=True,
    )
    for n in (1, 2)
]
law(
    "pointwise_beside_conv",
    conv(X, W, B) + ops.conv(X, V, attrs="unit"),
    _with_unit(ops.add),
    _with_unit(ops.sub),
    given=_THREES,
    when=_by_one,
    order=33,
    says="conv(x, w, b) + conv(x, v) = conv(x, w + pad(v), b), w of size 3 padded by 1, v of size 1 (Ding "
    "et al. 2021, RepVGG).",
)


def _identity(m: Bindings, number: float) -> Term:
    shape = m.shape(W)
    middle = [1] * (len(shape) - 2)

    def element(k: Poly, c: Poly, *r: Poly) -> Expr:
        return guard((k - c, c - k, *(p for a, b in zip(r, middle) for p in (a - b, b - a))), number)

    return ConstantTable(tuple(shape), element, like=W)


def _skips(m: Match) -> str | None:
    attrs, (outputs, inputs, *_) = m.attrs["conv"], m.shape(W)
    plain = all(s == 1 for s in (*(attrs["strides"] or ()), *(attrs["dilations"] or ())))
    fits = plain and _threes(m) and outputs == inputs and isinstance(outputs, int)
    return None if fits and attrs["auto_pad"] == "NOTSET" else "not of size 3 that keeps the shape"


@later("conv(x, w + identity, b)")
def _with_skip(m: Bindings, number: float) -> Term:
    return ops.conv(X, W + _identity(m, number), B, attrs=m.attrs["conv"])


law(
    "identity_beside_conv",
    conv(X, W, B) + X,
    _with_skip(1),
    _with_skip(2),
    given=[
        replace(
            i,
            shapes={**i.shapes, "x": "N C *H+1", "w": f"C C{' 3' * i.dims}", "b": "C"},
            sample={"conv": {**i.sample["conv"], "strides": (1,) * i.dims}},
        )
        for i in _THREES
    ],
    when=_skips,
    order=33,
    says="conv(x, w, b) + x = conv(x, w + e, b), e[k, c] = 1 in the middle where k = c, else "
    "0 (Ding et al. 2021, RepVGG).",
    phase="form",
)


def _rim(m: Match) -> str | None:
    """Filters of size 3 or more whose outermost ring is zero, and padding for it."""
    value, attrs = m.value(W), m.attrs["conv"]
    if (
        value is None
        or value.ndim < 3
        or min(value.shape[2:]) < 3
        or value.dtype.kind != "f"
        or not value.size
    ):
        return ""
    inner = value[(slice(None), slice(None), *(slice(1, -1),) * (value.ndim - 2))]
    wide = all(
        p >= d for p, d in zip(attrs["pads"] or (0,), 2 * (attrs["dilations"] or (1,) * (value.ndim - 2)))
    )
    if np.count_nonzero(inner) != np.count_nonzero(value) or attrs["auto_pad"] != "NOTSET":
        return "the rim of the filters is not zero"
    return None if wide and attrs["pads"] else "the padding is narrower than the rim"


@later("conv(x, w[1:-1], b)")
def _without_rim(m: Bindings, off: int) -> Term:
    n, attrs = len(m.shape(W)) - 2, m.attrs["conv"]
    ends, axes = np.full(n, -1), np.arange(2, 2 + n)
    pads = tuple(p - d + off for p, d in zip(attrs["pads"], 2 * (attrs["dilations"] or (1,) * n)))
    given = {**attrs, "pads": pads, "kernel_shape": None}
    return ops.conv(X, ops.slice(W, np.full(n, 1), ends, axes), B, attrs=given)


def _core(k: Poly, c: Poly, *r: Poly) -> Expr:
    inside = [p for axis, a in enumerate(r) for p in (a - 1, Poly.symbol(f"R{axis}") - a)]
    return guard(inside, Read("core", (k, c, *r)))


law(
    "zero_rim",
    conv(X, W, B),
    _without_rim(0),
    _without_rim(1),
    given=[
        Instance(
            f"{n}d",
            {"x": "N C *H+9", "w": "K C *R+2", "b": "K"},
            n,
            elements={"w": _core},
            lower={f"R{axis}": 1 for axis in range(n)},
            example=True,
            sample={"conv": {"strides": (2,) * n, "pads": (1,) * (2 * n), "dilations": (1,) * n, "group": 1}},
        )
        for n in (1, 2)
    ],
    when=_rim,
    order=29,
    says="conv(x, w, b, pads) = conv(x, w[1:-1], b, pads - dilation), the rim of w zero.",
)
