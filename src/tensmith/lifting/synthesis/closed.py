"""Closed forms of scalar recurrences that no rule of the derivation knows, by search.

A candidate for v(t) is held against runs of the recurrence itself; what agrees goes into the summary, which
is proved as any other. What is not proved is blocked, and the next is tried.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tensmith.formula.expr import Call, Choose, Read, Reduce, fresh
from tensmith.formula.poly import Poly, floor_div
from tensmith.formula.types import I64, MachineType
from tensmith.formula.walk import parts, polys, walk
from tensmith.lifting.conditions import obligations
from tensmith.lifting.loops import Function
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.summarize import summarize
from tensmith.lifting.summarize.constants import number
from tensmith.lifting.summarize.substitution import index, substitute, symbols
from tensmith.lifting.summary import Summary, Term
from tensmith.lifting.synthesis.enumerate import Effort, Points, SamplePoint, Values, enumerate_terms
from tensmith.lifting.synthesis.examples import FAULTS, ExampleWorld, Value
from tensmith.lifting.synthesis.grammar import (
    OUTSIDE,
    START,
    Grammar,
    free_grammar,
    kinds_of,
    operators_of,
    well_typed,
)
from tensmith.verify.obligation import Verdict
from tensmith.verify.solve import discharge

_STEPS = 6  # iterations of a run
_RING = frozenset(("add", "sub", "mul"))  # always there: a closed form needs them where the loop had none
_FRESH = re.compile(r"[\w.]+%\d+")


def complete(
    function: Function,
    seconds: float,
    usable: Callable[[Summary], bool] = lambda _: True,
) -> Summary | None:
    """The summary of a function that derivation refuses, its holes filled by search and all of it proved.

    None where the search fails. seconds: of processor time, proofs included; usable: what else must be true
    of it.
    """
    effort = Effort.within(seconds)
    guesses = Guesses(effort)
    while effort.left > 0:
        try:
            summary = summarize(function, guesses)
        except Refusal:
            return None
        if not guesses.asked:
            return None
        failed = unproved(summary, effort)
        if failed is None and usable(summary):
            return summary
        guesses.block(failed)
    return None


def unproved(summary: Summary, effort: Effort) -> Verdict | None:
    """The verdict on the first obligation that is not proved in what time is left."""
    effort.proofs += 1
    for obligation in obligations(summary):
        (verdict,) = discharge([obligation], timeout=max(0.01, min(1.0, effort.left)))
        if verdict.status != "proved":
            return verdict
    return None


@dataclass
class Guesses:
    """The hook of `summarize`: for each hole the first candidate that is not blocked."""

    effort: Effort
    asked: dict[str, str] = field(default_factory=dict)  # variable@loop -> its recurrence
    streams: dict[str, tuple[list[str], Iterator[Term]]] = field(default_factory=dict)
    current: dict[str, Term] = field(default_factory=dict)

    def __call__(self, own: str, after: Term, counter: str, start: Term) -> Term | None:
        """The closed form of `own` at `counter`, where it begins as `start` and becomes `after`.

        Recurrences that differ in fresh names only, as two runs of a derivation make them, are one.
        """
        text = f"{own} {after} {start}"
        names = list(dict.fromkeys([counter, *_FRESH.findall(text)]))
        bound = {part.var for part in (*walk(after), *walk(start)) if isinstance(part, Reduce)}
        text = _FRESH.sub(lambda name: f"%{names.index(name[0])}", text)
        self.asked.pop(own, None)
        self.asked[own] = text
        if text not in self.streams:
            hole = Hole(own, after, counter, start)
            self.streams[text] = (names, candidates(hole, self.effort))
        first, stream = self.streams[text]
        if text not in self.current:
            found = next(stream, None)
            if found is None:
                return None
            self.current[text] = found
        renamed = {old: Poly.symbol(new) for old, new in zip(first, names) if new not in bound}
        return substitute(self.current[text], renamed)

    def block(self, failed: Verdict | None) -> None:
        """Take back the candidate that a failed obligation speaks of, else the last."""
        own = f"{failed.obligation.subject}@{failed.obligation.loop}" if failed is not None else ""
        del self.current[self.asked[own if own in self.asked else next(reversed(self.asked))]]


@dataclass(frozen=True)
class Hole:
    """A recurrence: v(0) = start, v(t + 1) = after, a term over `own` for v(t) and `counter` for t."""

    own: str
    after: Term
    counter: str
    start: Term

    def run(self, world: ExampleWorld) -> list[Value]:
        """v(0), v(1), ... as far as it is defined."""
        found: list[Value] = []
        try:
            found.append(world.value(self.start, {}))
            for t in range(_STEPS):
                world.names[self.own] = found[-1]
                found.append(world.value(self.after, {self.counter: t}))
        except FAULTS:
            pass
        return found


def candidates(hole: Hole, effort: Effort) -> Iterator[Term]:
    """Closed forms that agree with the recurrence on random runs; a run that speaks against one is kept."""
    chance = random.Random(hole.own)
    grammar, folds = _grammar(hole)
    natural = frozenset(
        name for term in (hole.after, hole.start) for name in _counts(term) if name != hole.counter
    )
    worlds = [ExampleWorld({}, {}, chance, natural, _STEPS + 1) for _ in range(3)]
    tested: set[Term] = set()
    while effort.left > 0:
        runs = [(world, hole.run(world)) for world in worlds]
        points = Points(
            [SamplePoint(w, {hole.counter: t}) for w, run in runs for t in range(len(run))], folds
        )
        target = tuple(value for _, run in runs for value in run)
        later = [n for n, point in enumerate(points.outside) if point.bound[hole.counter]]
        for term in enumerate_terms(grammar, points, _agreeing(target, later), effort):
            if term in tested or not well_typed(term):
                continue
            tested.add(term)
            closed = term if points.values(term, OUTSIDE) == target else _from_one(hole, term)
            against = _counterexample(hole, closed, natural, chance)
            if against is not None:
                worlds.append(against)
                break
            yield closed
        else:
            return


def _agreeing(target: Values, at: list[int]) -> Callable[[Values], bool]:
    return lambda values: all(values[n] == target[n] for n in at)


def _from_one(hole: Hole, term: Term) -> Term:
    """The term from the first iteration on, the start before."""
    return Choose((Poly.symbol(hole.counter) - 1,), term, hole.start, hole.start.type)


def _counterexample(
    hole: Hole, term: Term, natural: frozenset[str], chance: random.Random
) -> ExampleWorld | None:
    for _ in range(20):
        world = ExampleWorld({}, {}, chance, natural, _STEPS + 1)
        run = hole.run(world)
        points = Points([SamplePoint(world, {hole.counter: t}) for t in range(len(run))], {})
        if points.values(term, OUTSIDE) != tuple(run):
            return world
    return None


# The grammar of closed forms


def _grammar(hole: Hole) -> tuple[Grammar, dict[str, Poly]]:
    type_, t, var = hole.start.type, Poly.symbol(hole.counter), fresh("k")
    known = [term for term in dict.fromkeys(_visible(hole.after)) if hole.own not in symbols(term)]
    operators = operators_of([hole.after]) | _RING
    known += [number(n, type_) for n in (0, 1)]
    outside = [*_positions(t, type_), *_positions(t - 1, type_)[2:], hole.start]
    for term in known:
        outside.append(substitute(term, {hole.counter: t - 1}))
        if not any(isinstance(part, Read) and part.indices for part in _visible(term)):
            outside.append(term)
    at = {hole.counter: Poly.symbol(var)}
    inside = [substitute(term, at) for term in known] + _positions(Poly.symbol(var), type_)
    starts = [hole.start, number(0, type_), number(1, type_)]
    folds = {var: t}
    atoms = {OUTSIDE: outside, var: inside, START: starts}
    return free_grammar(type_, operators, kinds_of(operators), atoms, folds), folds


def _positions(t: Poly, type_: MachineType) -> list[Term]:
    """t, t mod 2 and (-1)^t as values of the type."""
    odd = t - floor_div(t, Poly.of(2)) * 2
    found = [t, odd, Poly.of(1) - odd * 2]
    if type_.kind == "int":
        return [index(poly, type_) for poly in found]
    return [Call("cast", (index(poly, I64),), type_) for poly in found] if type_.kind == "float" else []


def _visible(term: Term) -> Iterator[Term]:
    """The term and all inside that is not under a fold."""
    yield term
    if not isinstance(term, Reduce):
        for part in parts(term):
            yield from _visible(part)


def _counts(term: Term) -> Iterator[str]:
    """Names that polynomials inside take for numbers of iterations, sizes and positions."""
    for part in walk(term):
        for poly in polys(part):
            yield from poly.symbols()
