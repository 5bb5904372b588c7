"""Whether two results are the same: integers exactly, floats up to what rounding can explain.

Any order of additions gives the exact result of inputs that are each off by at most a few roundings (a sum of
n products: n + 1). So results may differ by what the source's own result moves when every input moves by one
rounding, times the number of roundings. That is measured: the source runs on inputs moved at random. It also
runs with all its roundings upwards and downwards, which adds up those of its own steps, and with results
below the smallest normal float as 0, as TensorFlow and XLA compute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from tensmith.formula.types import MachineType
from tensmith.lifting.loops import Array, Function, element_of, nodes
from tensmith.lifting.second.values import Meaningless, dtype, flat, folded

SAMPLES = 16  # two inputs whose errors cancel must move apart in one of them
FUNCTIONS = 8  # roundings of exp and the like beside correctly rounded operations

DIRECTED = 4  # an order of additions against another, each of them against one that rounds upwards

Values = np.ndarray[Any, Any]


def identical(expected: Any, found: Any) -> bool:
    """The same bits in the same shape and type: what nearly all results are."""
    a, b = np.asarray(expected), np.asarray(found)
    return bool(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())


def exactly(expected: Any, found: Any) -> bool:
    """Equal elements, NaN equal to NaN; what has no elements has no shape."""
    expected, found = np.asarray(expected), np.asarray(found)
    if expected.size == 0 or found.size == 0:
        return bool(expected.size == found.size)
    if expected.shape != found.shape:
        return False
    return bool(np.array_equal(expected, found, equal_nan=expected.dtype.kind == "f"))


def closely(expected: Any, found: Any, bound: Values | float, scalar: MachineType) -> bool:
    """Within the bound where finite; anything where the bound is not finite. Where one is infinite so is the
    other, or NaN, which hangs on the order of steps."""
    expected, found = np.asarray(expected), np.asarray(found)
    if expected.size == 0 or found.size == 0:
        return bool(expected.size == found.size)
    if expected.shape != found.shape:
        return False
    limits = np.finfo(dtype(scalar))
    a, b = expected.astype(np.float64), found.astype(np.float64)
    with np.errstate(all="ignore"):
        room = bound + FUNCTIONS * float(limits.eps) * np.abs(a) + float(limits.tiny)
        near = np.isfinite(a) & np.isfinite(b) & (np.abs(a - b) <= room)
        lost = ~np.isfinite(a) & ~np.isfinite(b) & ((a == b) | np.isnan(a) | np.isnan(b))
    return bool(np.all(near | lost | ~np.isfinite(bound)))


def narrowest_rounding(function: Function) -> float:
    """The epsilon of the narrowest float that a function computes in, as which its sums are rounded whatever
    they become; 0 where it computes in none."""
    scalars = {part for part in nodes(function) if isinstance(part, MachineType)}
    found = [scalar for scalar in scalars if scalar.kind == "float"]
    return max((float(np.finfo(dtype(scalar)).eps) for scalar in found), default=0.0)


def moved(
    arguments: Mapping[str, Any], function: Function, rng: np.random.Generator, eps: float
) -> dict[str, Any]:
    """The arguments with every number multiplied by 1 plus or minus one rounding: of its own type, or eps, of
    the narrowest float that the function computes in, where that is coarser."""
    values = flat(function, arguments)
    for name, kind in function.fields:
        scalar = element_of(kind)
        if scalar.kind == "bool":
            continue
        value, type_ = np.asarray(values[name], dtype(scalar)), dtype(scalar)
        up = rng.random(value.shape) < 0.5
        if scalar.kind == "float":
            rounding = max(eps, float(np.finfo(type_).eps))
            found = np.asarray(value * (1 + rounding * np.where(up, 1, -1)), type_)
        else:
            limits, step = np.iinfo(type_), (np.abs(value.astype(np.float64)) * eps).astype(type_)
            higher, lower = np.minimum(value, limits.max - step), np.maximum(value, limits.min + step)
            found = np.where(up, higher + step, lower - step)
        values[name] = found if isinstance(kind, Array) else found.item()
    return folded(values)


def spread(
    run: Callable[[Mapping[str, Any], Sequence[Any]], Sequence[Any]] | None,
    function: Function,
    arguments: Mapping[str, Any],
    results: Sequence[Any],
    directed: Callable[[int], Sequence[Any]] | None = None,
) -> list[Values]:
    """For each result, how far each element may be from it; NaN or infinite where it may be anything.

    run: runs the source on other inputs; None: only its own roundings count, as for whole numbers that it
    makes of floats. directed: runs it with its roundings upwards (1) or downwards (-1).
    """
    rng, eps = np.random.default_rng(0), narrowest_rounding(function)
    base = [np.asarray(result, np.float64) for result in results]
    longest = max([1, *(np.size(a) for a in arguments.values() if isinstance(a, np.ndarray))])

    def widest(runs: Iterator[Sequence[Any]]) -> list[Values]:
        found = [np.zeros(result.shape) for result in base]
        for others in runs:
            for i, other in enumerate(others):
                far = np.abs(np.asarray(other, np.float64) - base[i])
                far = np.where(np.isinf(base[i]) & (base[i] == other), 0, far)
                both = np.isnan(base[i]) & np.isnan(np.asarray(other, np.float64))
                found[i] = np.maximum(found[i], np.where(both, 0, far))
        return found

    def inputs() -> Iterator[Sequence[Any]]:
        for _ in range(SAMPLES if run is not None else 0):
            with suppress(Meaningless):
                yield base if run is None else run(moved(arguments, function, rng, eps), results)

    def steps() -> Iterator[Sequence[Any]]:
        for direction in (1, -1):
            with suppress(Meaningless):
                yield directed(direction) if directed is not None else base

    with np.errstate(all="ignore"):
        moves, roundings = widest(inputs()), widest(steps())
        return [(4 + longest) * a + DIRECTED * b for a, b in zip(moves, roundings)]


def cropped(array: Any, like: Any) -> Any:
    """The front of an array, of another's extents: what is made where an output is passed as None."""
    array, like = np.asarray(array), np.asarray(like)
    if array.ndim == 1 and like.size <= array.size:
        return array[: like.size].reshape(like.shape)
    return array[tuple(slice(extent) for extent in like.shape)] if array.ndim == like.ndim else array
