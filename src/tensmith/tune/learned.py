"""What estimates of kernels are off by on a machine, learned from the kernels that were timed there.

Gradient-boosted trees (Friedman 2001; scikit-learn's histogram form) of the logarithm of measured over
estimated seconds, by what the problem and the kernel are. Their error is that on problems left out. They say
which kernel is tried next, and never what one takes.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensmith.formula.arith import Array
from tensmith.kernel.algorithm import Kernel

# With fewer timings, or timings of fewer problems, nothing is learned.
FEWEST, _FEWEST_PROBLEMS = 48, 3
_MOST_FOLDS = 5


@dataclass(frozen=True)
class Error:
    """By what factor estimates are off, the median of timings of problems that were left out: as they are,
    and corrected by what the other problems teach."""

    estimated: float
    corrected: float
    timings: int
    problems: int

    def __str__(self) -> str:
        return (
            f"estimates are off by a factor of {self.estimated:.2f}, corrected by what was timed here "
            f"{self.corrected:.2f} (median of {self.timings} timings of {self.problems} problems, each "
            "timing's problem left out of what taught)"
        )


@dataclass(frozen=True)
class Correction:
    """Trees that were fitted to timings."""

    trees: Any
    columns: tuple[str, ...]

    def seconds(self, kernels: Sequence[Kernel]) -> dict[Kernel, float]:
        """What kernels are likely to take."""
        if not kernels:
            return {}
        rows = [_features(kernel) for kernel in kernels]
        factors = np.exp(self.trees.predict(_table(rows, self.columns)))
        return {kernel: kernel.cost().seconds() * float(f) for kernel, f in zip(kernels, factors)}


def learned(timed: Mapping[Kernel, float]) -> Correction | None:
    """What finite timings teach; None where they are few, or scikit-learn is not installed."""
    timed = _finite(timed)
    if len(timed) < FEWEST or not _can_learn():
        return None
    rows = [_features(kernel) for kernel in timed]
    columns = tuple(sorted({name for row in rows for name in row}))
    trees = _trees()
    trees.fit(_table(rows, columns), _off(timed))
    return Correction(trees, columns)


def error(timed: Mapping[Kernel, float]) -> Error | None:
    """How far off estimates are, and corrected ones, problem by problem left out; None as in `learned`."""
    timed = _finite(timed)
    kernels = list(timed)
    problems = {kernel.problem: None for kernel in kernels}
    if len(timed) < FEWEST or len(problems) < _FEWEST_PROBLEMS or not _can_learn():
        return None
    off = _off(timed)
    fold_of = {problem: number % _MOST_FOLDS for number, problem in enumerate(problems)}
    folds = np.array([fold_of[kernel.problem] for kernel in kernels])
    rest = np.zeros(len(off))
    for fold in np.unique(folds):
        out = folds == fold
        taught = learned({k: timed[k] for k, left in zip(kernels, out) if not left})
        shown = [kernel for kernel, left in zip(kernels, out) if left]
        rest[out] = off[out]
        if taught is not None:
            likely = taught.seconds(shown)
            rest[out] = [math.log(timed[kernel] / likely[kernel]) for kernel in shown]
    estimated, corrected = (float(np.exp(np.median(np.abs(each)))) for each in (off, rest))
    return Error(estimated, corrected, len(timed), len(problems))


def _finite(timed: Mapping[Kernel, float]) -> dict[Kernel, float]:
    return {kernel: seconds for kernel, seconds in timed.items() if 0 < seconds < math.inf}


def _can_learn() -> bool:
    return importlib.util.find_spec("sklearn") is not None


def _trees() -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(
        loss="absolute_error", max_iter=100, min_samples_leaf=5, early_stopping=False, random_state=0
    )


def _off(timed: Mapping[Kernel, float]) -> Array:
    """log(measured / estimated)."""
    return np.array([math.log(seconds / kernel.cost().seconds()) for kernel, seconds in timed.items()])


def _features(kernel: Kernel) -> dict[str, float]:
    """Numbers of a problem and a kernel; sizes as logarithms."""
    problem, cost = kernel.problem, kernel.cost()
    height, width = problem.output
    sizes = {
        "channels": problem.channels,
        "filters": problem.filters,
        "groups": problem.groups,
        "positions": height * width,
        "row": width,
        "depth": problem.depth,
        "cycles": cost.cycles,
        "bytes": cost.bytes,
        "weights": kernel.weight_bytes,
        "scratch": kernel.scratch_bytes,
    }
    return {
        **{name: math.log2(1 + size) for name, size in sizes.items()},
        **{f"parameter {name}": float(value) for name, value in kernel.parameters.items()},
        "stride": float(problem.strides[0]),
        "taps": float(problem.window[0] * problem.window[1]),
        "density": problem.density,
        f"type {problem.dtype}": 1.0,
        f"algorithm {kernel.name}": 1.0,
    }


def _table(rows: Sequence[Mapping[str, float]], columns: Sequence[str]) -> Array:
    """[rows, columns] of features; NaN for what a kernel has not."""
    return np.array([[row.get(name, math.nan) for name in columns] for row in rows])
