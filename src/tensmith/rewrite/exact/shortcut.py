"""Strided slices and channel pads: the shortcuts of residual networks (He et al. 2015, option A)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tensmith.formula.arith import Array
from tensmith.formula.expr import Expr, guard
from tensmith.formula.poly import Dim, Poly, simplify_dim
from tensmith.ir.ops.shared import normal_axis
from tensmith.ir.ops.sizes import as_dims, as_ints
from tensmith.ir.ops.slicing import full_pads, resolve_slice
from tensmith.rewrite.exact.pad import AXES, FILL, PADS, zero_pads
from tensmith.rewrite.given import Instance
from tensmith.rewrite.law import law
from tensmith.rewrite.match import Match
from tensmith.rewrite.term import Bindings, ConstantTable, Later, Use, Var, later, ops

# Axis -> (start, end, step), as ONNX Slice takes them.
Cuts = Mapping[int, tuple[int, int, int]]

X = Var("x")
_PARTS = ("starts", "ends", "axes", "steps")
# An end behind that of every axis.
FAR = 2**63 - 1


def slice_operands(prefix: str) -> tuple[Var, ...]:
    """Variables of starts, ends, axes and steps."""
    return tuple(Var(f"{prefix}_{part}", optional=part in ("axes", "steps")) for part in _PARTS)


def cuts(m: Bindings, operands: Sequence[Var], rank: int) -> Cuts | None:
    """What a slice does to each axis it names; None where that is not known in numbers."""
    values = [m.value(var) if m.has(var) else None for var in operands]
    if any(m.has(var) and (v is None or v.dtype == object) for var, v in zip(operands, values)):
        return None
    starts, ends = (as_ints(as_dims(np.asarray(v))) for v in values[:2])
    axes = range(len(starts)) if values[2] is None else as_ints(as_dims(values[2]))
    steps = (1,) * len(starts) if values[3] is None else as_ints(as_dims(values[3]))
    named = zip(axes, zip(starts, ends, steps))
    return {normal_axis(axis, rank): cut for axis, cut in named}


def _then(
    size: Dim, first: tuple[int, int, int], second: tuple[int, int, int]
) -> tuple[int, int, int] | None:
    """Two cuts of one axis as one; None where a size or a direction keeps that from being said."""
    if not isinstance(size, int) or first[2] < 0 or second[2] < 0:
        return None
    start, count = (int(v) for v in resolve_slice(size, *first))  # type: ignore[arg-type]
    inner, left = (int(v) for v in resolve_slice(count, *second))  # type: ignore[arg-type]
    begin, step = start + inner * first[2], first[2] * second[2]
    return begin, begin + step * (left - 1) + 1, step


def _merged(shape: Sequence[Dim], first: Cuts, second: Cuts) -> Cuts | None:
    result = dict(first)
    for axis, cut in second.items():
        both = _then(shape[axis], first[axis], cut) if axis in first else cut
        if both is None:
            return None
        result[axis] = both
    return result


def _operands(found: Cuts) -> list[Array]:
    order = sorted(found)
    columns = [[found[axis][i] for axis in order] for i in range(3)]
    return [np.array(c, dtype=np.int64) for c in (columns[0], columns[1], order, columns[2])]


_OUTER, _INNER = slice_operands("outer"), slice_operands("inner")


def _both(m: Bindings) -> Cuts | None:
    rank = len(m.shape(X))
    first, second = cuts(m, _INNER, rank), cuts(m, _OUTER, rank)
    shape = tuple(map(simplify_dim, m.shape(X)))
    return None if first is None or second is None else _merged(shape, first, second)


def _outer(m: Bindings) -> Cuts | None:
    return cuts(m, _OUTER, len(m.shape(X)))


def _once(which: Callable[[Bindings], Cuts | None], text: str) -> Later:
    def make(m: Bindings) -> Use:
        found = which(m)
        assert found is not None
        return ops.slice(X, *_operands(found))

    return Later(make, text)


def _sliced(name: str, shape: str, **found: Cuts) -> Instance:
    values = {
        f"{prefix}_{part}": v for prefix, cut in found.items() for part, v in zip(_PARTS, _operands(cut))
    }
    return Instance(name, {"x": shape}, values=values, example=True)


law("merge_slices", ops.slice(ops.slice(X, *_INNER), *_OUTER),
    _once(_both, "slice(x)"), _once(_outer, "the first slice forgotten"),
    given=[
        _sliced("two axes", "N H W", inner={1: (0, FAR, 2)}, outer={2: (0, FAR, 2)}),
        _sliced("one axis", "N 40", inner={1: (3, 30, 2)}, outer={1: (1, 9, 3)}),
        _sliced("one axis more", "N 40 H", inner={1: (3, 30, 2)}, outer={1: (0, -1, 1), 2: (1, FAR, 1)}),
    ],
    when=lambda m: None if _both(m) is not None else "the bounds or sizes are not known in numbers",
    order=16, says="A slice of a slice is one slice: starts add up, steps multiply.")  # fmt: skip


_CUT = slice_operands("cut")


def _strided_shortcut(m: Match) -> str | None:
    """Images sliced by steps from their first row and column on, channels padded with zeros."""
    shape = m.type(X).shape
    if shape is None or len(shape) < 3 or not isinstance(shape[1], int) or not m.type(X).floating:
        return "the value is not a batch of images with a known number of channels"
    if 0 in shape:
        return "the images are empty"
    found, widths = cuts(m, _CUT, len(shape)), zero_pads(m, len(shape))
    if isinstance(widths, str):
        return widths
    if found is None or not all(
        axis > 1 and start == 0 and step > 0 and _reaches(shape[axis], end)
        for axis, (start, end, step) in found.items()
    ):
        return "the slice does more than stride over whole images"
    begins, ends = widths
    return "images are padded, not channels" if any((begins[0], ends[0], *begins[2:], *ends[2:])) else None


@later("conv(x, e, stride s)")
def _conv(m: Bindings, shift: int) -> Use:
    """A strided convolution of size 1; the channels land `shift` too far."""
    shape = m.shape(X)
    spatial, channels = len(shape) - 2, shape[1]
    found = cuts(m, _CUT, len(shape)) or {}
    begins, ends = full_pads(len(shape), m.value(PADS), m.value(AXES) if m.has(AXES) else None)
    offset = Poly.of(begins[1]) + shift

    def element(k: Poly, c: Poly, *_: Poly) -> Expr:
        return guard((k - c - offset, c + offset - k), 1)

    filters = simplify_dim(Poly.of(channels) + begins[1] + ends[1])
    weights = ConstantTable((filters, channels, *(1,) * spatial), element, like=X)
    strides = tuple(found.get(axis, (0, 0, 1))[2] for axis in range(2, len(shape)))
    sides = {"kernel_shape": (1,) * spatial, "dilations": (1,) * spatial, "pads": (0,) * (2 * spatial)}
    return ops.conv(X, weights, attrs={**sides, "strides": strides})


_BEFORE, _AFTER = Poly.symbol("before"), Poly.symbol("after")
# Channels of any number padded by any number on both sides, images of any size but 0.
_STRIDE_2 = _sliced("stride 2", "N C H W", cut={2: (0, FAR, 2), 3: (0, FAR, 2)})
_CHANNELS = {"pads": np.array([0, _BEFORE, 0, 0, 0, _AFTER, 0, 0], dtype=object)}

law("shortcut_into_conv", ops.pad(ops.slice(X, *_CUT), PADS, FILL, AXES, attrs="pad"), _conv(0), _conv(1),
    given=[replace(_STRIDE_2, values={**_STRIDE_2.values, **_CHANNELS}, sample={"pad": {"mode": "constant"}},
                   lower={"before": 0, "after": 1, "H": 1, "W": 1})],
    when=_strided_shortcut, phase="offer",
    says="pad(x[:, :, ::s, ::s], channels) = conv(x, e, stride s), e[k, c] = 1 where k = before + c, else 0. "
         "An offer: engines run such a convolution in int8 beside its neighbours, and fuse the addition "
         "after it.")  # fmt: skip


def _reaches(size: Dim, end: int) -> bool:
    return end >= FAR >> 32 or (isinstance(size, int) and end >= size)
