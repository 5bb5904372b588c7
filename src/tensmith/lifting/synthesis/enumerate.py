"""Terms of a grammar, smallest first, one for each behaviour on the examples.

A term is kept with its values at all points of its context; terms of one symbol that agree everywhere are the
same to every larger term (observational equivalence), so only the first is kept.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tensmith.formula.expr import Size
from tensmith.formula.functions import JOINS
from tensmith.formula.poly import Poly
from tensmith.formula.types import I64, MachineType
from tensmith.lifting.summary import Term
from tensmith.lifting.synthesis.examples import FAULTS, OPERATORS, ExampleWorld, cast, meaning
from tensmith.lifting.synthesis.grammar import FOLD, OUTSIDE, Grammar, Production, Symbol

Values = tuple[Any, ...]
_LARGEST = 24  # operators of a term
_PATIENCE = 512  # candidates between two looks at the clock


@dataclass
class Effort:
    """What a search has cost so far, and when it has to end (in processor time)."""

    until: float
    tried: int = 0
    proofs: int = 0

    @staticmethod
    def within(seconds: float) -> Effort:
        """An effort that begins now."""
        return Effort(time.process_time() + seconds)

    @property
    def left(self) -> float:
        """Seconds."""
        return self.until - time.process_time()


@dataclass(frozen=True)
class SamplePoint:
    """Where terms are compared: an example and the index variables."""

    world: ExampleWorld
    bound: Mapping[str, int]


@dataclass
class Points:
    """The points outside of folds; inside a fold each becomes one for every position."""

    outside: Sequence[SamplePoint]
    folds: Mapping[str, Poly]
    inside: dict[str, list[SamplePoint]] = field(default_factory=dict)
    ends: dict[str, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.inside[OUTSIDE] = list(self.outside)
        for var, extent in self.folds.items():
            points: list[SamplePoint] = []
            ends = []
            for point in self.outside:
                count = int(point.world.value(Size(extent, I64), point.bound))
                points += [SamplePoint(point.world, {**point.bound, var: k}) for k in range(count)]
                ends.append(len(points))
            self.inside[var], self.ends[var] = points, ends

    def values(self, term: Term, context: str) -> Values:
        """A term at every point of a context; None where it is undefined."""
        return tuple(_value(term, point) for point in self.inside[context])

    def fold(self, kind: str, var: str, body: Values, start: Values) -> Values:
        """The folds of a body's values."""
        join, first, made = OPERATORS[JOINS[kind]], 0, []
        for end, value in zip(self.ends[var], start):
            try:
                for part in body[first:end]:
                    value = join(value, part)
            except FAULTS:
                value = None
            made.append(value)
            first = end
        return tuple(made)


def _value(term: Term, point: SamplePoint) -> Any:
    try:
        return point.world.value(term, point.bound)
    except FAULTS:
        return None


def enumerate_terms(
    grammar: Grammar,
    points: Points,
    wanted: Callable[[Values], bool],
    effort: Effort,
) -> Iterator[Term]:
    """Terms of the start symbol whose values are wanted, those of few operators first; ends with the time."""
    made = _Enumeration(grammar, points, wanted, effort)
    sizes = itertools.takewhile(lambda _: effort.left > 0, range(_LARGEST + 1))
    return itertools.chain.from_iterable(map(made.of_size, sizes))


@dataclass(frozen=True)
class EnumeratedTerm:
    """A term and its values."""

    term: Term
    values: Values


_Candidate = tuple[Symbol, MachineType, Values, Callable[[], Term]]  # the term is made when it is wanted


class _Enumeration:
    def __init__(
        self, grammar: Grammar, points: Points, wanted: Callable[[Values], bool], effort: Effort
    ) -> None:
        self.grammar, self.points, self.wanted, self.effort = grammar, points, wanted, effort
        self.rules = sorted(grammar.rules, key=lambda rule: rule.operator.startswith(FOLD))  # folds come last
        self.pools: dict[Symbol, list[list[EnumeratedTerm]]] = {
            symbol: [] for symbol in grammar.contexts
        }  # by size
        self.seen: dict[Symbol, set[tuple[MachineType, Values]]] = {
            symbol: set() for symbol in grammar.contexts
        }

    def of_size(self, size: int) -> Iterator[Term]:
        """What is wanted among the terms of so many operators; those that behave like no other are kept."""
        new: dict[Symbol, list[EnumeratedTerm]] = {symbol: [] for symbol in self.pools}
        for symbol, type_, values, term in self._joined(size) if size else self._atoms():
            self.effort.tried += 1
            made = None
            if symbol == self.grammar.start and self.wanted(values):
                yield (made := term())
            if (type_, values) not in self.seen[symbol] and not _void(values):
                self.seen[symbol].add((type_, values))
                new[symbol].append(EnumeratedTerm(made or term(), values))
        for symbol, entries in new.items():
            self.pools[symbol].append(entries)

    def _atoms(self) -> Iterator[_Candidate]:
        for symbol, terms in self.grammar.atoms.items():
            for term in dict.fromkeys(terms):
                values = self.points.values(term, self.grammar.contexts[symbol])
                yield symbol, term.type, values, partial(_same, term)

    def _joined(self, size: int) -> Iterator[_Candidate]:
        for rule in self.rules:
            for sizes in _splits(size - 1, len(rule.parts)):
                pools = [self.pools[part][n] for part, n in zip(rule.parts, sizes)]
                for parts in itertools.product(*pools):
                    if self.effort.tried % _PATIENCE == 0 and self.effort.left <= 0:
                        return
                    yield rule.symbol, rule.type, self._apply(rule, parts), partial(_made, rule, parts)

    def _apply(self, rule: Production, parts: Sequence[EnumeratedTerm]) -> Values:
        name, values = rule.operator, [part.values for part in parts]
        if name.startswith(FOLD):
            return self.points.fold(name.removeprefix(FOLD), rule.var, values[0], values[1])
        if name == "cast":
            return tuple(None if value is None else cast(value, rule.type) for value in values[0])
        function = meaning(name, rule.type)
        if name != "where" and not any(None in part for part in values):
            try:
                return tuple(map(function, *values))
            except FAULTS:
                pass
        return tuple(_guarded(name, function, operands) for operands in zip(*values))


def _same(term: Term) -> Term:
    return term


def _made(rule: Production, parts: Sequence[EnumeratedTerm]) -> Term:
    return rule.term([part.term for part in parts])


def _void(values: Values) -> bool:
    """Whether nothing is defined."""
    return bool(values) and all(value is None for value in values)


def _guarded(name: str, function: Callable[..., Any], operands: Values) -> Any:
    if None in (operands[:1] if name == "where" else operands):
        return None
    try:
        return function(*operands)
    except FAULTS:
        return None


def _splits(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Ways to write `total` as a sum of so many sizes."""
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in _splits(total - first, parts - 1):
            yield (first, *rest)
