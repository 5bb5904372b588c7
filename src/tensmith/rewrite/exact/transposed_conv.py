"""Transposed convolutions as convolutions that compute all phases of each position, then interleaved.

y[s q + f - pad] = sum(t; x[q - t] w[f + s t]): phase f of every position q is a convolution of x by every
s-th tap. All phases are the filters of one convolution by ceil(taps / s) taps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tensmith.formula.poly import Dim, Poly, product, simplify_dim
from tensmith.ir.op import OPS
from tensmith.ir.ops.conv_transpose import transposed_window
from tensmith.ir.ops.sizes import as_ints, quotient
from tensmith.rewrite.given import Instance
from tensmith.rewrite.law import law
from tensmith.rewrite.match import Match
from tensmith.rewrite.right_sides import at_once, literal, shaped
from tensmith.rewrite.term import Bindings, Later, Term, Use, Var, ops

X, W, B = Var("x"), Var("w", static=True), Var("b", static=True, optional=True)
Sizes = Sequence[Dim]


def _window(m: Bindings) -> tuple[Sizes, Sizes, Sizes, Sizes]:
    """Strides, dilations, pads in front, output sizes."""
    attrs = {**OPS["conv_transpose"].attributes, **m.attrs["up"]}
    return transposed_window(attrs, m.shape(X)[2:], m.shape(W)[2:])


def _begins(m: Bindings) -> list[Dim]:
    """The convolution's pads in front. At stride 1 it begins behind the pad; phases are cut afterwards."""
    strides, dilations, pads, _ = _window(m)
    taps = _taps(m, strides)
    parts = zip(strides, dilations, pads, taps)
    return [simplify_dim(d * (Poly.of(t) - 1) - (p if s == 1 else 0)) for s, d, p, t in parts]


def _taps(m: Bindings, strides: Sizes) -> list[Dim]:
    return [simplify_dim((Poly.of(k) + s - 1) // s) for k, s in zip(m.shape(W)[2:], strides)]


def _as_convolution(m: Bindings, turned: bool) -> Use:
    """Without the taps `turned` around it is the twin."""
    (batch, _, *spatial), filters, groups = m.shape(X), m.shape(W)[1], m.attrs["up"]["group"]
    strides, dilations, pads, out = _window(m)
    begins, phases, n = _begins(m), math.prod(as_ints(strides)), len(out)
    reach = [d * (Poly.of(t) - 1) for d, t in zip(dilations, _taps(m, strides))]
    cuts = [0 if s == 1 else p for s, p in zip(strides, pads)]
    needed = [(Poly.of(cut) + size + s - 1) // s for cut, size, s in zip(cuts, out, strides)]
    ends = [_not_negative(q - h - b + r) for q, h, b, r in zip(needed, spatial, begins, reach)]
    weights = at_once(_phases(m, strides, groups, turned), m)
    bias = at_once(_repeated(m, phases), m) if m.has(B) else None
    attrs = {"pads": (*begins, *ends), "dilations": tuple(dilations), "strides": (1,) * n, "group": groups}
    whole: Use = ops.conv(X, weights, bias, attrs=attrs)
    channels = simplify_dim(Poly.of(filters) * groups)
    if phases > 1:
        counts = [simplify_dim(Poly.of(h) + b + e - r) for h, b, e, r in zip(spatial, begins, ends, reach)]
        order = (0, 1, *(axis for d in range(n) for axis in (2 + n + d, 2 + d)))
        apart = ops.transpose(shaped(whole, (batch, channels, *strides, *counts)), attrs={"perm": order})
        whole = shaped(
            apart, (batch, channels, *(simplify_dim(Poly.of(q) * s) for q, s in zip(counts, strides)))
        )
    stops = [simplify_dim(Poly.of(cut) + size) for cut, size in zip(cuts, out)]
    return ops.slice(whole, literal(cuts), literal(stops), np.arange(2, 2 + n))


def _not_negative(size: Poly) -> Dim:
    return size if size.constant is None else max(0, size.constant)


def _phases(m: Bindings, strides: Sizes, groups: Dim, turned: bool) -> Use:
    """Filters [C, K/groups, taps...] as [K * phases, C/groups, ceil(taps / s)...], each turned around."""
    channels, filters, *kernel = m.shape(W)
    taps, n = _taps(m, strides), len(strides)
    more = [simplify_dim(Poly.of(t) * s - k) for t, s, k in zip(taps, strides, kernel)]
    wide = ops.pad(W, literal([*(0,) * (4 + n), *more]))
    each = quotient([channels], [groups])
    parts = [size for pair in zip(taps, strides) for size in pair]
    tap_axes, phase_axes = [3 + 2 * d for d in range(n)], [4 + 2 * d for d in range(n)]
    split: Term = shaped(wide, (groups, each, filters, *parts))
    if turned:
        back, all_of_it = np.full(n, -1), np.full(n, np.iinfo(np.int32).min)
        split = ops.slice(split, back, all_of_it, np.array(tap_axes), back)
    order = (0, 2, *phase_axes, 1, *tap_axes)
    rows = simplify_dim(Poly.of(filters) * groups * product(strides))
    return shaped(ops.transpose(split, attrs={"perm": order}), (rows, each, *taps))


def _repeated(m: Bindings, times: int) -> Use:
    """A channel's bias for each of its phases."""
    (channels,) = m.shape(B)
    columns = ops.expand(shaped(B, (channels, 1)), literal((channels, times)))
    return shaped(columns, (simplify_dim(Poly.of(channels) * times),))


def _known(m: Match) -> str | None:
    """weights and bias are constants, and no pad is wider than its kernel"""
    shape = m.type(X).static
    if shape is None or 0 in shape:
        return "a size is not known, or zero"
    if any(m.has(v) and m.values[v.name] not in m.program.constants for v in (W, B)):
        return "the weights or the bias are no constants"
    strides, dilations, _, _ = _window(m)
    if any(s != 1 != d for s, d in zip(strides, dilations)):
        return "it strides, and its filters are dilated"
    return "a pad is wider than its kernel" if any(isinstance(b, int) and b < 0 for b in _begins(m)) else None


def _instances() -> list[Instance]:
    """Strides 1 to 3, kernels that are multiples of them and others, groups, in one to three dimensions."""
    cases: list[tuple[str, dict[str, Any]]] = [
        ("T+2", {"strides": (1,), "pads": (1, 2)}),
        ("T+2", {"strides": (1,), "pads": (2, 0), "dilations": (2,)}),
        ("2*T", {"strides": (2,), "pads": (1, 1)}),
        ("2*T+1", {"strides": (2,), "pads": (1, 0), "output_padding": (1,)}),
        ("3*T+2", {"strides": (3,), "pads": (0, 2)}),
        ("2*T 3*U+1", {"strides": (2, 3), "pads": (1, 0, 0, 1)}),
        ("T 2*U 3*V", {"strides": (1, 2, 3)}),
    ]
    return [
        Instance(
            f"{kernel}, strides {attrs['strides']}{', bias' * biased}",
            {"x": "N G*C *H", "w": f"G*C K {kernel}", **({"b": "G*K"} if biased else {})},
            len(attrs["strides"]),
            sample={"up": {**attrs, "group": Poly.symbol("G")}},
            lower={**dict.fromkeys(("N", "C", "K", "G", "T", "U", "V"), 1), **{f"H{d}": 2 for d in range(3)}},
            example=True,
        )
        for kernel, attrs in cases
        for biased in (False, True)
    ]


law(
    "transposed_convolution_by_phases",
    ops.conv_transpose(X, W, B, attrs="up"),
    Later(lambda m: _as_convolution(m, True), "interleaved conv(x, phases of w)"),
    Later(lambda m: _as_convolution(m, False), "interleaved conv(x, phases of w)"),
    given=_instances(),
    when=_known,
    phase="lower",
    order=15,
    says="A transposed convolution is a convolution of all phases of its filters, and an interleaving.",
)
