"""Where the largest is: v' = m < e ? p : v beside m' = max(m, e), and the same of the smallest.

The first iteration that has the largest e is the first whose e equals what the maximum comes to, where that
is more than its start; of `m <= e` it is the last one, whether more or not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from tensmith.formula.expr import Call, Choose, Read, Reduce, Size, fresh
from tensmith.formula.poly import Poly
from tensmith.formula.types import BOOL
from tensmith.lifting.summarize.constants import number
from tensmith.lifting.summarize.iteration import Iteration
from tensmith.lifting.summarize.logic import both, opposite
from tensmith.lifting.summarize.recurrence import Recurrence, RecurrenceStep
from tensmith.lifting.summarize.substitution import index, substitute
from tensmith.lifting.summary import Term

Conditions = tuple[Term, ...]


class _Extremum(NamedTuple):
    """A variable that keeps the largest or smallest, its step, and whether only larger ones change it."""

    name: str
    step: RecurrenceStep
    strict: bool


@dataclass(frozen=True)
class ExtremumPlaces:
    """Of one loop. scalar: the closed form of a variable; resolve: of a term in an iteration."""

    iteration: Iteration
    scalar: Callable[[str], Term]
    resolve: Callable[[Term], Term]

    def of(self, name: str, start: Term) -> Term | None:
        """What `name` holds at the start of iteration `counter`; None where it is no such place."""
        assigned = self._assigned(name, start, self.iteration.end.scalars[name], ())
        conditions, place = assigned or ((), None)
        for condition in conditions:
            found = self._asked(condition)
            if found is not None and place is not None:
                guards = [self.resolve(each) for each in conditions if each is not condition]
                return self._closed(found, guards, place, start)
        return None

    def _assigned(
        self, name: str, start: Term, term: Term, path: Conditions
    ) -> tuple[Conditions, Size] | None:
        """The position that is assigned, and all that has to hold; None where something else ever is."""
        match term:
            case Call("where", (condition, then, otherwise), _):
                hold, fail = (*path, *_conjuncts(condition)), (*path, opposite(condition))
            case Choose(_, then, otherwise, _):
                hold = fail = path
            case Size(place, _) if place.coefficient(self.iteration.counter) is not None:
                return path, term
            case _:
                return None
        if self._kind(name, start, otherwise) == "":
            return self._assigned(name, start, then, hold)
        if self._kind(name, start, then) == "":
            return self._assigned(name, start, otherwise, fail)
        return None

    def _kind(self, name: str, start: Term, after: Term) -> str | None:
        """Of the step of a variable to `after`, "" where it stays as it was."""
        step = self._step(name, start, after)
        return None if step is None else step.kind

    def _step(self, name: str, start: Term, after: Term) -> RecurrenceStep | None:
        """The step of a variable to `after`."""
        own, run = name + self.iteration.suffix, self.iteration.run
        return Recurrence(own, start, run.algebra, self.iteration.inside).step(after)

    def _asked(self, condition: Term) -> _Extremum | None:
        """The extremum than which a condition asks for something larger or smaller."""
        match condition:
            case Call("less" | "less_equal", (smaller, larger)):
                strict = condition.function == "less"
            case Call("not", (Call("less" | "less_equal" as turned, (larger, smaller)),)):
                strict = turned == "less_equal"
            case _:
                return None
        for kind, side in (("max", smaller), ("min", larger)):
            if isinstance(side, Read) and side.tensor.endswith(self.iteration.suffix):
                name = side.tensor.removesuffix(self.iteration.suffix)
                start, after = self.iteration.entry.scalars.get(name), self.iteration.end.scalars.get(name)
                if start is not None and after is not None:
                    step = self._step(name, start, after)
                    if step is not None and step.kind == kind and step.truth is None and step.once is None:
                        return _Extremum(name, step, strict)
        return None

    def _closed(self, of: _Extremum, guards: list[Term], place: Size, start: Term) -> Term:
        algebra, type_, outer = self.iteration.run.algebra, place.type, self.iteration.outer
        extremum, first = self.scalar(of.name), self.iteration.entry.scalars[of.name]
        assert of.step.term is not None
        var = fresh("k")
        here = {self.iteration.counter: Poly.symbol(var)}
        wanted: Term = Call("equal", (substitute(self.resolve(of.step.term), here), extremum), BOOL)
        for guard in () if of.strict else guards:
            wanted = both(substitute(guard, here), wanted)
        none = index(self.iteration.trips, type_) if of.strict else number(-1, type_)
        body = Call("where", (wanted, Size(Poly.symbol(var), type_), none), type_)
        kind = "min" if of.strict else "max"
        found: Term = Reduce(kind, var, self.iteration.t, body, type_, start=none)
        there: Term = Call("less_equal", (number(0, type_), found), BOOL)
        if of.strict:
            order = (first, extremum) if of.step.kind == "max" else (extremum, first)
            there = Call("less", order, BOOL)
        factor = place.poly.coefficient(self.iteration.counter)
        assert factor is not None
        rest = place.poly.substitute({self.iteration.counter: 0})
        value = algebra.apply("mul", (index(factor, type_), found), type_, outer)
        value = algebra.apply("add", (value, index(rest, type_)), type_, outer)
        return algebra.select(there, value, start, outer)


def _conjuncts(condition: Term) -> Conditions:
    """What has to hold for a condition to."""
    match condition:
        case Call("and", (a, b)):
            return (*_conjuncts(a), *_conjuncts(b))
    return (condition,)
