"""A written program as something to call, and whether it gives what the original gives."""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tensmith.equality.apart import distance
from tensmith.superoptimize.kernels import callee, compiled
from tensmith.superoptimize.text import ProgramText

# Relative difference, to the largest element, that rounding in another order may make.
TOLERANCE = {"f": {8: 1e-9, 4: 2e-4}}


def load(text: ProgramText) -> Callable[..., Any]:
    """The function of the text, which is our own. EngineError if its kernels cannot be compiled."""
    space: dict[str, Any] = {"np": np, **text.constants}
    if text.kernels:
        library = compiled([source for source, _ in text.kernels.values()])
        space |= {name: callee(library, name, part) for name, (_, part) in text.kernels.items()}
    exec(compile(text.source, "<optimized by tensmith>", "exec"), space)
    function: Callable[..., Any] = space["optimized"]
    return function


def difference(expected: Any, found: Any) -> float | str:
    """The largest difference relative to the largest element; a sentence where a result differs by more than
    rounding in its own type."""
    if isinstance(expected, tuple):
        if not isinstance(found, tuple) or len(expected) != len(found):
            return "it gives another number of results"
        parts = [difference(one, other) for one, other in zip(expected, found)]
        wrong = [part for part in parts if isinstance(part, str)]
        return wrong[0] if wrong else max(map(float, parts), default=0.0)
    one, other = np.asarray(expected), np.asarray(found)
    if type(expected) is not type(found) or one.shape != other.shape or one.dtype != other.dtype:
        return f"it gives {type(found).__name__} {other.dtype} {other.shape} for {one.dtype} {one.shape}"
    if one.dtype.kind != "f":
        return 0.0 if np.array_equal(one, other) else "whole numbers or truth values differ"
    apart = distance(one, other)
    if not math.isfinite(apart.most):
        return "it is undefined, or infinite, in other places"
    rounding = TOLERANCE["f"].get(one.dtype.itemsize, 0.0)
    return (
        apart.share if apart.share <= rounding else f"it differs by {apart.share:.1e} of the largest element"
    )


def answered(original: Callable[..., Any], samples: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The arguments for which the original does not raise: where it does, it is what is called."""
    found = []
    for arguments in samples:
        with np.errstate(all="ignore"), contextlib.suppress(Exception):
            original(*copy.deepcopy(arguments))
            found.append(arguments)
    return found


def agree(
    original: Callable[..., Any], found: Callable[..., Any], samples: Sequence[tuple[Any, ...]]
) -> float | str:
    """The largest difference over some arguments, or why the results differ by more than rounding."""
    worst = 0.0
    for arguments in samples:
        given = copy.deepcopy(arguments)
        with np.errstate(all="ignore"):
            expected = original(*given)
            try:
                got = found(*arguments)
            except Exception as error:
                return f"it raises {type(error).__name__}: {error}"
        if not _shared(got, arguments) <= _shared(expected, given):
            return "a result shares memory with an argument or another result"
        gap = difference(expected, got)
        if isinstance(gap, str):
            return gap
        worst = max(worst, gap)
    return worst


def _shared(result: Any, arguments: tuple[Any, ...]) -> set[tuple[int, int]]:
    """Which results share memory with which arguments or later results, counted together."""
    results = result if isinstance(result, tuple) else (result,)
    parts = [*results, *arguments]
    return {
        (at, other)
        for at in range(len(results))
        for other in range(at + 1, len(parts))
        if all(isinstance(part, np.ndarray) for part in (parts[at], parts[other]))
        and np.may_share_memory(parts[at], parts[other])
    }
