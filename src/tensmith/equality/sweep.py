"""Two programs compared value by value, from the inputs on.

Values are equal by their numbers (see numbering), or where a stretch of few nodes between them and values
that are known to be equal is the same in both, for whatever these are: that is tested over prime fields,
stretch by stretch. Which values may be equal is a guess, by numbers that both programs computed of
the same inputs; a wrong guess costs time alone. So big products, which exporters write alike, need not be
computed over fields, and degrees stay small. The method is that of sweeping in equivalence checking of
circuits (Kuehlmann, Krohm, "Equivalence checking using cuts and heaps", DAC 1997).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from tensmith.equality.apart import distance
from tensmith.equality.numbering import Numbering, numbered, region
from tensmith.equality.programs import compare_programs
from tensmith.errors import ProgramError
from tensmith.ir import Program
from tensmith.ir.text_values import array_digest

Arrays: TypeAlias = Mapping[str, np.ndarray[Any, Any]]

# Values so near, of the largest number, may be equal. A stretch has at most so many nodes, and its test takes
# at most so many seconds.
ALIKE = 3e-5
_MOST_NODES, _STRETCH_SECONDS = 60, 10.0


@dataclass(frozen=True)
class Swept:
    """All outputs are equal; a stretch passed wrongly with at most that chance."""

    error_probability: float


def swept(
    left: Program,
    right: Program,
    ours: Arrays,
    theirs: Arrays,
    *,
    wrong: int = 4,
    seed: int = 0,
    seconds: float = 60.0,
) -> Swept | None:
    """Whether outputs of the same names are equal; None where that was not found out.

    ours, theirs: as many values of the programs as are known, by name, computed of the same inputs. wrong:
    after so many wrong guesses nothing behind them is looked at.
    """
    return _Sweep(left, right, ours, theirs, wrong, seed, time.monotonic() + seconds).run()


@dataclass
class _Sweep:
    left: Program
    right: Program
    ours: Arrays
    theirs: Arrays
    guesses: int
    seed: int
    deadline: float
    wrong: int = 0
    error: float = 0.0

    def run(self) -> Swept | None:
        """See swept."""
        self.numbers = Numbering(self.left, self.right, array_digest)
        for node in self.right.nodes:
            if self.wrong == self.guesses or time.monotonic() > self.deadline:
                return None
            if self.numbers.known(node):
                continue
            for name in filter(None, node.outputs):
                if (found := self._found(name)) is not None:
                    self.numbers.unify(found, name)
        if all(self.numbers.right.get(name) == self.numbers.left[name] for name in self.left.outputs):
            return Swept(min(1.0, self.error))
        return None

    def _found(self, name: str) -> str | None:
        """A value of the left program that a value of the right one is equal to."""
        array = self.theirs.get(name)
        if array is None:
            return None
        return next((guess for guess in self._guesses(name, array) if self._same(guess, name)), None)

    def _guesses(self, name: str, array: np.ndarray[Any, Any]) -> Iterator[str]:
        if name in self.left.outputs and name in self.ours:
            yield name
        for other, mine in self.ours.items():
            if (
                other != name
                and mine.dtype == array.dtype
                and mine.shape == array.shape
                and _near(mine, array)
            ):
                yield other
                return

    def _same(self, guess: str, name: str) -> bool:
        """Whether the stretches before two values are the same for all values that they begin with."""
        try:
            known = set(self.numbers.left.values())
            right = self._stretch(self.right, self.numbers.right, name, known)
            begins = {number for number in known if numbered(number) in right.inputs}
            left = self._stretch(self.left, self.numbers.left, guess, begins)
        except ProgramError:
            return False
        inputs = {**left.inputs, **right.inputs}
        left, right = (replace(program, inputs=inputs) for program in (left, right))
        seconds = min(_STRETCH_SECONDS, max(0.1, self.deadline - time.monotonic()))
        found = compare_programs(left, right, seed=self.seed, seconds=seconds)
        if not found.equal or found.error_probability >= 1:
            self.wrong += 1
            return False
        self.error += found.error_probability
        return True

    def _stretch(self, program: Program, numbers: Mapping[str, int], name: str, begins: set[int]) -> Program:
        """What computes a value of those of such numbers, but of shapes and other constants, which are needed
        for what they are. ProgramError if it is long."""
        border = {v for v, n in numbers.items() if n in begins and v not in program.static_values}
        found = region(program, numbers, border, name, _MOST_NODES)
        len(found.facts)
        return found


def _near(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> bool:
    """Whether the numbers may be the same but for rounding; some of them are looked at before all are."""
    step = max(1, left.size // 64)
    return all(
        distance(left.reshape(-1)[::every], right.reshape(-1)[::every]).share <= ALIKE for every in (step, 1)
    )
