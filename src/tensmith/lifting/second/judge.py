"""A lifted program held against its source, input by input."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from tensmith.formula.types import F64
from tensmith.lifting.assumptions import Excuse, excused
from tensmith.lifting.lifted import Lifted
from tensmith.lifting.loops import element_of
from tensmith.lifting.returned import returned_place
from tensmith.lifting.second.compare import closely, cropped, exactly, identical, narrowest_rounding, spread
from tensmith.lifting.second.inputs import Draw, evaluated
from tensmith.lifting.second.interpreted import Raised
from tensmith.lifting.second.process import ProcessGone
from tensmith.lifting.second.values import (
    Divided,
    Faulty,
    Meaningless,
    SourceFunction,
    dtype,
    folded,
    short,
    shown,
)

# A lifted function that can be called: arguments -> written arrays in parameter order, then the returned
# value. It raises Raised where a requirement is not met.
CallableLift: TypeAlias = Callable[[Mapping[str, Any]], list[Any]]


@dataclass(frozen=True)
class Difference(Exception):
    """An input on which program and source differ, as a sentence."""

    text: str


@dataclass
class LiftJudge:
    """Holds one lifted function against its source. compared: inputs so far on which both gave the same."""

    lifted: Lifted
    source: SourceFunction
    program: CallableLift
    compared: int = 0

    def __post_init__(self) -> None:
        function = self.lifted.function
        self.kinds = dict(function.fields)
        self.written = list(self.lifted.written)
        self.returns = len(function.returned)
        kinds = [*(self.kinds[name] for name in self.written), *function.returned.values()]
        self.types = list(map(element_of, kinds))
        places = map(returned_place, function.returned)
        self.names = [
            *self.written,
            *(f"what it returns, value {place}" if place else "what it returns" for place in places),
        ]
        self.eps = narrowest_rounding(function)
        self.values = {r.text for r in self.lifted.requires if r.poly is None or r.kind == "nonzero"}

    def all(self, draws: Iterable[Draw]) -> int:
        """How many inputs were compared. Raises Difference at the first that shows one."""
        for draw in draws:
            if not draw.plan.unmet and not draw.plan.doubtful and not self.divides(draw):
                try:
                    self.one(self.parted(draw))
                except ProcessGone:
                    break  # what takes too long is not compared
        return self.compared

    def divides(self, draw: Draw) -> bool:
        """Whether a divisor that is required not to be 0 is."""
        known = draw.plan.known
        polys = [r.poly for r in self.lifted.requires if r.kind == "nonzero" and r.poly is not None]
        return any(evaluated(self.lifted, poly, known) == 0 for poly in polys)

    def zeros_stated(self, draw: Draw) -> bool:
        """Whether an array holds a 0 of which it is required that none that is read is 0: outside of what was
        proved, and programs need not look where nobody uses the quotient."""
        arrays = [r.array for r in self.lifted.requires if r.kind == "nonzero" and r.poly is None]
        return any(not np.all(draw.values[name]) for name in arrays)

    def parted(self, draw: Draw) -> Draw:
        """The draw with memory of their own for arrays that must not overlap, by a requirement or by what is
        assumed of all that are written."""
        values = dict(draw.values)
        pairs = [(r.array, r.other) for r in self.lifted.requires if r.kind == "apart"]
        if Excuse.ALIASING in excused(self.lifted.assumes):
            pairs += [(name, other) for name in self.written for other in values if other != name]
        for one, other in pairs:
            if isinstance(values[one], np.ndarray) and values[one] is values[other]:
                values[other] = values[other].copy()
        return replace(draw, values=values, arguments=folded(values))

    def one(self, draw: Draw) -> None:
        """One input that meets the requirements."""
        arguments = draw.arguments
        found: list[Any] | None = None
        refused: Raised | None = None
        try:
            found = self.program(arguments)
        except Raised as raised:
            refused = raised
        except ProcessGone as gone:
            if gone.crashed:
                raise self.difference(draw, "the program crashes") from gone
            raise
        if refused is not None and self.guarded(refused):
            return
        try:
            outcome = self.source(arguments, found[-1] if found and self.returns else None)
        except Divided:
            if refused is None and not self.zeros_stated(draw):
                raise self.difference(draw, "the source divides by zero, the program does not") from None
            return
        except Meaningless:
            return
        except Faulty as fault:
            raise self.difference(draw, f"the source is at fault within the requirements: {fault}") from fault
        wanted = self.outputs(outcome)
        if found is None:
            given = ", ".join(map(short, wanted))
            raise self.difference(draw, f"the source gives {given}, the program raises {refused}")
        try:
            self.unchanged(draw, outcome.arrays)
            self.same(draw, wanted, found)
        except Difference:
            if self.source.ambiguous(arguments, found[-1] if self.returns else None, outcome):
                return
            raise
        self.compared += 1

    def guarded(self, raised: Raised) -> bool:
        """Whether an exception is the guard of a requirement on values: no NaN, no divisor of 0."""
        return raised.kind == "ValueError" and any(text in raised.text for text in self.values)

    def outputs(self, outcome: Any) -> list[Any]:
        found = [outcome.arrays[name] for name in self.written]
        return found + (list(outcome.value) if self.returns > 1 else [outcome.value][: self.returns])

    def unchanged(self, draw: Draw, arrays: Mapping[str, Any]) -> None:
        """Raises Difference where the source changes what is no output, and lies in no output's memory."""
        outputs = [draw.values[name] for name in self.written]
        for name, array in arrays.items():
            if any(draw.values[name] is output for output in outputs):
                continue
            if array.size and not identical(np.asarray(draw.values[name]), array):
                raise self.difference(draw, f"the source changes {name}, the program does not")

    def same(self, draw: Draw, wanted: Sequence[Any], found: Sequence[Any]) -> None:
        """Raises Difference where an output is not what the source gives."""
        if len(found) != len(wanted):
            raise self.difference(draw, f"the source gives {len(wanted)} results, the program {len(found)}")
        bounds = functools.cache(lambda moving: self.bounds(draw, wanted, moving))
        sums = sum(np.size(value) for value in draw.values.values() if isinstance(value, np.ndarray))
        rounding = (4 + sums) * self.eps
        for place, (want, got, kind) in enumerate(zip(wanted, found, self.types)):
            if identical(want, got):
                continue
            if not isinstance(got, np.ndarray | np.generic | int | float):
                same = False
            elif kind.kind != "float":
                same = exactly(want, got) or bool(self.eps and closely(want, got, bounds(False)[place], F64))
            else:
                own = rounding * np.max(
                    np.abs(np.asarray(want, np.float64)), initial=0.0, where=np.isfinite(want)
                )
                same = closely(want, got, own, kind) or closely(want, got, bounds(True)[place] + own, kind)
            if not same or (kind.bits is not None and np.asarray(got).dtype != dtype(kind)):
                name = self.names[place]
                raise self.difference(
                    draw, f"the source gives {short(want)} for {name}, the program {short(got)}"
                )

    def bounds(self, draw: Draw, wanted: Sequence[Any], moving: bool) -> list[Any]:
        """How far each output may lie from the source's, whose inputs move or not; see `compare.spread`."""

        def again(arguments: Mapping[str, Any], like: Sequence[Any], rounding: int = 0) -> list[Any]:
            returned = like[-1] if self.returns else None
            try:
                found = self.outputs(self.source(arguments, returned, rounding))
            except Faulty as fault:
                raise Meaningless from fault
            return [cropped(one, other) for one, other in zip(found, like)]

        return spread(
            again if moving else None, self.lifted.function, draw.arguments, wanted,
            lambda rounding: again(draw.arguments, wanted, rounding),
        )  # fmt: skip

    def difference(self, draw: Draw, what: str) -> Difference:
        given = shown(draw.arguments)
        return Difference(f"{what}, for {given}" if given else what)
