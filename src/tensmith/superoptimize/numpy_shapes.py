"""NumPy's functions that arrange elements anew, in TensIR: axes, parts, copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tensmith.superoptimize.numpy_table import dtype_of
from tensmith.superoptimize.trace import METHODS, NotTraceable, Trace, TracedArray, means, unwrapped


def named(t: Trace, x: Any) -> str:
    """The value that an argument is, in its own element type."""
    return t.operand(x, dtype_of(unwrapped(x)))


def _reshaped(t: Trace, x: Any, shape: Sequence[int]) -> str:
    return t.node("reshape", named(t, x), t.ints(*shape))


def _permuted(t: Trace, x: Any, perm: Sequence[int]) -> str:
    return t.node("transpose", named(t, x), perm=tuple(int(axis) for axis in perm))


_METHODS = ("reshape", "ravel", "flatten", "squeeze")


@means(np.reshape, np.ravel, np.expand_dims, np.squeeze, np.atleast_1d, np.atleast_2d, *_METHODS, view=True)
def _same_order(t: Trace, out: Any, x: Any, *args: Any, order: str = "C", **named: Any) -> str:
    if order != "C":
        raise NotTraceable("it reads arrays in Fortran's order")
    return _reshaped(t, x, np.shape(out))


METHODS.update({name: name for name in _METHODS})


@means(np.transpose, view=True)
def _transpose(t: Trace, out: Any, x: Any, axes: Sequence[int] | None = None) -> str:
    rank = np.ndim(out)
    return _permuted(t, x, [a % rank for a in axes] if axes is not None else range(rank)[::-1])


@means("transpose", method="transpose", view=True)
def _method_transpose(t: Trace, out: Any, x: Any, *axes: Any) -> str:
    given = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
    return _transpose(t, out, x, given or None)


@means(np.swapaxes, method="swapaxes", view=True)
def _swapaxes(t: Trace, out: Any, x: Any, first: int, second: int) -> str:
    return _permuted(t, x, np.swapaxes(_numbered(x), first, second).strides)


@means(np.moveaxis, view=True)
def _moveaxis(t: Trace, out: Any, x: Any, source: Any, destination: Any) -> str:
    return _permuted(t, x, np.moveaxis(_numbered(x), source, destination).strides)


def _numbered(x: Any) -> Any:
    """An array whose strides are the numbers of its axes."""
    rank = np.ndim(unwrapped(x))
    return np.lib.stride_tricks.as_strided(np.zeros(1, np.int8), (1,) * rank, range(rank))


@means(np.broadcast_to, view=True)
def _broadcast_to(t: Trace, out: Any, x: Any, shape: Any) -> str:
    return t.node("expand", named(t, x), t.ints(*np.shape(out)))


@means(np.tile)
def _tile(t: Trace, out: Any, x: Any, reps: Any) -> str:
    counts = (reps,) if isinstance(reps, int) else tuple(reps)
    shape = np.shape(unwrapped(x))
    rank = max(len(shape), len(counts))
    counts, shape = (1,) * (rank - len(counts)) + counts, (1,) * (rank - len(shape)) + shape
    if any(count != 1 and size != 1 for count, size in zip(counts, shape)):
        raise NotTraceable("it tiles along an axis that has more than one element")
    return t.node("expand", _reshaped(t, x, shape), t.ints(*np.shape(out)))


# Parts of arrays


@means("getitem", view=True)
def _getitem(t: Trace, out: Any, x: Any, key: Any) -> str:
    """Slices, whole numbers, new axes, an ellipsis; and one array of whole numbers, of other axes all."""
    shape, keys = np.shape(unwrapped(x)), key if isinstance(key, tuple) else (key,)
    if any(isinstance(part, TracedArray) for part in keys):
        raise NotTraceable("it picks elements by computed positions or truth values; use np.where")
    if any(isinstance(part, list | np.ndarray) for part in keys):
        return _gathered(t, x, keys)
    taken = sum(part is not None and part is not Ellipsis for part in keys)
    spread = [
        each
        for part in (keys if Ellipsis in keys else (*keys, Ellipsis))
        for each in ([slice(None)] * (len(shape) - taken) if part is Ellipsis else [part])
    ]
    cuts: list[tuple[int, int, int, int]] = []
    axis = 0
    for part in spread:
        if part is None:
            continue
        if isinstance(part, slice):
            start, stop, step = part.indices(shape[axis])
            if step < 0:
                stop = stop if stop >= 0 else -shape[axis] - 1
            if (start, stop, step) != (0, shape[axis], 1):
                cuts.append((start, stop, axis, step))
        else:
            place = int(part) % shape[axis]
            cuts.append((place, place + 1, axis, 1))
        axis += 1
    name = named(t, x)
    if cuts:
        starts, stops, axes, steps = zip(*cuts)
        name = t.node("slice", name, t.ints(*starts), t.ints(*stops), t.ints(*axes), t.ints(*steps))
    return t.node("reshape", name, t.ints(*np.shape(out)))


def _gathered(t: Trace, x: Any, keys: tuple[Any, ...]) -> str:
    *before, picked = keys
    while before and _is_all(picked):
        *before, picked = before
    if not all(map(_is_all, before)) or np.asarray(picked).dtype.kind not in "iu":
        raise NotTraceable("it picks elements by an array and more; use one array of whole numbers, and ':'")
    return t.node("gather", named(t, x), t.constant(picked, "i64"), axis=len(before))


def _is_all(part: Any) -> bool:
    return isinstance(part, slice) and part == slice(None)


@means(np.take, method="take")
def _take(t: Trace, out: Any, x: Any, indices: Any, axis: int | None = None) -> str:
    if isinstance(indices, TracedArray) or axis is None:
        raise NotTraceable("it takes elements by computed positions, or of no axis")
    return t.node("gather", named(t, x), t.constant(indices, "i64"), axis=axis)


@means(np.flip, view=True)
def _flip(t: Trace, out: Any, x: Any, axis: int | None = None) -> str:
    rank = np.ndim(unwrapped(x))
    axes = range(rank) if axis is None else (axis % rank,)
    return _getitem(t, out, x, tuple(slice(None, None, -1 if a in axes else None) for a in range(rank)))


@means(np.diff)
def _diff(t: Trace, out: Any, x: Any, n: int = 1, axis: int = -1) -> str:
    if n != 1:
        raise NotTraceable("it takes differences of differences; write np.diff twice")
    size, place = np.shape(unwrapped(x))[axis], t.ints(axis % np.ndim(unwrapped(x)))
    after, before = (
        t.node("slice", named(t, x), t.ints(start), t.ints(stop), place, t.ints(1))
        for start, stop in ((1, size), (0, size - 1))
    )
    return t.node("sub", after, before)


# Arrays side by side


@means(np.concatenate)
def _concatenate(t: Trace, out: Any, parts: Sequence[Any], axis: int = 0) -> str:
    dtype = dtype_of(out)
    return t.node("concat", *(t.operand(part, dtype) for part in parts), axis=axis)


@means(np.stack)
def _stack(t: Trace, out: Any, parts: Sequence[Any], axis: int = 0) -> str:
    shape, axis = list(np.shape(out)), axis % np.ndim(out)
    shape[axis] = 1
    dtype = dtype_of(out)
    names = [t.node("reshape", t.operand(part, dtype), t.ints(*shape)) for part in parts]
    return t.node("concat", *names, axis=axis)


def _stacked(axis: Callable[[int], int], rank: int, t: Trace, out: Any, parts: Sequence[Any]) -> str:
    dtype, names = dtype_of(out), []
    for part in parts:
        shape = np.shape(unwrapped(part))
        wide = (1,) * (rank - len(shape)) + shape
        if axis(np.ndim(out)) == 1 and len(shape) == 1 and rank == 2:
            wide = (*shape, 1)
        names.append(t.node("reshape", t.operand(part, dtype), t.ints(*wide)))
    return t.node("concat", *names, axis=axis(np.ndim(out)))


means(np.hstack)(partial(_stacked, lambda rank: min(1, rank - 1), 1))
means(np.vstack)(partial(_stacked, lambda rank: 0, 2))
means(np.column_stack)(partial(_stacked, lambda rank: 1, 2))


@means(np.roll)
def _roll(t: Trace, out: Any, x: Any, shift: int, axis: int | None = None) -> str:
    rank = np.ndim(out)
    if not isinstance(shift, int) or (axis is None and rank != 1):
        raise NotTraceable("it rolls along several axes; name one by axis=")
    place, size = (axis or 0) % rank, np.shape(out)[axis or 0]
    cut = size - shift % size if size else 0
    if cut in (0, size):
        return t.node("identity", named(t, x))
    at = t.ints(place)
    parts = [
        t.node("slice", named(t, x), t.ints(start), t.ints(stop), at, t.ints(1))
        for start, stop in ((cut, size), (0, cut))
    ]
    return t.node("concat", *parts, axis=place)


@means(np.tril, np.triu)
def _triangle(t: Trace, out: Any, x: Any, k: int = 0) -> str:
    raise NotTraceable("it takes triangles; multiply by a constant np.tri")
