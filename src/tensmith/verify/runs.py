"""The exact beginning of a trail, rebuilt and checked run by run.

A run is a stretch of steps of one sort: exact rewrites, which must leave every value as it was, or constant
folding, which rounds. Each is checked between the program before it and the program after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import numpy as np

from tensmith.equality.programs import FieldCheck, compare_programs
from tensmith.formula.arith import Array
from tensmith.ir import Program, interpret
from tensmith.ir.part import alive
from tensmith.rewrite.exact.fold import values_of_constants
from tensmith.rewrite.rule import EXACT, Step
from tensmith.rewrite.trail import replay_exact

Sort = Literal["exact", "fold"]


@dataclass(frozen=True, eq=False)
class Stretch:
    """Steps start .. stop-1 of a trail, and the programs around them."""

    sort: Sort
    start: int
    stop: int
    before: Program
    after: Program


@dataclass(frozen=True)
class FoldError:
    """How far folded constants are from what they replace, in units in the last place of their own type.

    The reference is the unfolded expression in float64, rounded only where the expression itself rounds or
    casts. `constant` is the worst of `count`.
    """

    count: int
    ulps: float
    constant: str


def exact_prefix(trail: Sequence[Step]) -> int:
    """How many steps come before the first lossy one."""
    return next((position for position, step in enumerate(trail) if step.kind != "exact"), len(trail))


def stretches(start: Program, trail: Sequence[Step]) -> Iterator[Stretch]:
    """The runs of the exact beginning of a trail. TensmithError where a step does not apply."""
    position, program = 0, start
    steps = trail[: exact_prefix(trail)]
    for sort, group in groupby(steps, key=_sort):
        run = list(group)
        after = replay_exact(program, run)
        yield Stretch(sort, position, position + len(run), program, after)
        position, program = position + len(run), after


def _sort(step: Step) -> Sort:
    return "fold" if EXACT[step.rule].phase == "fold" else "exact"


class Checker:
    """Checks the exact beginnings of trails that start at one program; a run that they share, only once.

    seconds: for each field check.
    """

    def __init__(self, start: Program, *, seed: int = 0, seconds: float = 60.0) -> None:
        self.start = start
        self._seed, self._seconds = seed, seconds
        self._known: dict[tuple[str, str], FieldCheck | FoldError] = {}

    def check(self, trail: Sequence[Step]) -> list[tuple[Stretch, FieldCheck | FoldError]]:
        """Every run of the exact beginning of a trail, with its check."""
        return [(stretch, self._checked(stretch)) for stretch in stretches(self.start, trail)]

    def _checked(self, stretch: Stretch) -> FieldCheck | FoldError:
        before, after = stretch.before, stretch.after
        key = before.digest, after.digest
        if key not in self._known:
            self._known[key] = (
                fold_error(before, after)
                if stretch.sort == "fold"
                else compare_programs(before, after, seed=self._seed, seconds=self._seconds)
            )
        return self._known[key]


def fold_error(before: Program, after: Program) -> FoldError:
    """The error of the constants that `after` has and `before` computes: of floats beside real numbers, of
    others beside what the interpreter computes in their own types. What rules made constant of data, as the
    sum of a softmax, is theirs to prove."""
    folded = [
        name for name in after.constants if name not in before.constants and name in before.static_values
    ]  # fmt: skip
    whole = [name for name in folded if not before.type(name).floating]
    nodes = tuple(alive(before.nodes, whole))
    right = interpret(Program("folded", {}, tuple(whole), nodes, before.constants), {}) if whole else {}
    distances = {
        name: _ulps(after.constants[name], right.get(name, value))
        for name, value in values_of_constants(before, alive(before.nodes, folded), folded)
    }
    worst = max(folded, key=distances.__getitem__, default="")
    return FoldError(len(folded), distances.get(worst, 0.0), worst)


def _ulps(constant: Array, reference: Array) -> float:
    """The largest distance in units in the last place of the constant's type; infinite if not comparable."""
    if constant.shape != reference.shape:
        return float("inf")
    if constant.dtype.kind in "iubcOSU":
        return 0.0 if np.array_equal(constant, reference) else float("inf")
    if constant.size == 0:
        return 0.0
    rounded = reference.astype(constant.dtype)
    wide = constant.astype(np.float64)
    same = np.logical_or(wide == reference, np.logical_and(np.isnan(wide), np.isnan(reference)))
    with np.errstate(all="ignore"):
        unit = np.spacing(np.abs(rounded)).astype(np.float64)
        distance = np.where(same, 0.0, np.abs(wide - reference) / unit)
    return float(np.nan_to_num(np.max(distance), nan=np.inf))
