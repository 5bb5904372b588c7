"""Whole kernels from nothing: the term of an output's element found by search alone, as Tenspiler does it.

Of what derivation knows, only positions are used: which elements are written, how often loops run, sizes and
requirements. Every value is forgotten and searched; a candidate gives the loops' invariants by putting their
counters in place of its indices and extents, and counts when all of the function is proved with it.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from benchmarks.lifting.scratch.runs import Example, examples
from benchmarks.lifting.scratch.trees import TreeDefinition, Trees
from tensmith.formula.expr import Call, Num, Read, Reduce, Size, fresh
from tensmith.formula.functions import COMPARISONS
from tensmith.formula.poly import Poly
from tensmith.formula.types import I64
from tensmith.formula.walk import parts, walk
from tensmith.lifting.loops import Function
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.summarize import summarize
from tensmith.lifting.summarize.constants import number
from tensmith.lifting.summarize.substitution import substitute, symbols
from tensmith.lifting.summary import LoopFacts, Result, Summary, Term, Written
from tensmith.lifting.synthesis.closed import unproved
from tensmith.lifting.synthesis.enumerate import Effort, Points, SamplePoint, enumerate_terms
from tensmith.lifting.synthesis.grammar import (
    FOLD,
    OUTSIDE,
    START,
    Grammar,
    Production,
    Symbol,
    free_grammar,
    kinds_of,
    operators_of,
    well_typed,
)

_FIRST, _MORE = 3, 20  # examples to begin with, and those a candidate has to stand
_OPERATORS = (
    "add sub mul minimum maximum div fmod floor_div mod neg abs exp log sqrt tanh and or not where cast"
)
_TABLE = frozenset((*COMPARISONS, *_OPERATORS.split()))


@dataclass(frozen=True)
class SynthesisSettings:
    """How to search.

    types: operators take only what fits, and a counter is replaced only by an index of as many values. trees:
    operators, constants and the shapes of trees come from the source; else all operators and 0, 1, 2 as well.
    growth: terms of few operators are tried before larger ones are made; else all up to the largest size are
    made at once. seconds: of processor time, proofs included.
    """

    types: bool = True
    trees: bool = True
    growth: bool = True
    seconds: float = 10.0


def synthesise(function: Function, search: SynthesisSettings, effort: Effort | None = None) -> Term | None:
    """The proved term of an element of the function's one output; None where none is found in time."""
    effort = effort or Effort.within(search.seconds)
    try:
        skeleton = summarize(function)
    except Refusal:
        return None
    if len(skeleton.results) != 1 or len(skeleton.results[0].written) != 1:
        return None
    return _search(KnownPositions(skeleton, Trees(skeleton)), search, effort)


def _search(kernel: KnownPositions, search: SynthesisSettings, effort: Effort) -> Term | None:
    """Candidates that agree with the examples are held against more runs, then proved. What speaks against
    one, a run or the arguments in the solver's model, becomes an example; without such it is blocked."""
    grammar, chance = grammar_of(kernel, search), random.Random(kernel.skeleton.function.name)
    constants = [int(leaf.value) for leaf in _leaves(kernel.trees) if isinstance(leaf, Num)]
    known = list(itertools.islice(examples(kernel.skeleton, constants, chance), _FIRST))
    tested: set[Term] = set()
    while effort.left > 0 and known:
        points, target = kernel.points(known)
        terms = enumerate_terms(grammar, points, target.__eq__, effort)
        for term in terms if search.growth else _all_at_once(terms, effort):
            if term in tested or not well_typed(term) or term.type != kernel.result.type:
                continue
            tested.add(term)
            against = _counterexample(kernel, term, examples(kernel.skeleton, constants, chance))
            if against is None:
                claim = kernel.filled(term)
                failed = None if claim is None else unproved(claim, effort)
                if claim is not None and failed is None:
                    return term
                given = dict(_model(failed.detail)) if failed is not None else {}
                against = _counterexample(kernel, term, examples(kernel.skeleton, constants, chance, given))
            if against is not None:
                known.append(against)
                break
        else:
            return None
    return None


def _all_at_once(terms: Iterator[Term], effort: Effort) -> list[Term]:
    found = list(terms)
    return found if effort.left > 0 else []


def _counterexample(kernel: KnownPositions, term: Term, source: Iterator[Example]) -> Example | None:
    for example in itertools.islice(source, _MORE):
        points, target = kernel.points([example])
        if points.values(term, OUTSIDE) != target:
            return example
    return None


def _model(text: str) -> Iterator[tuple[str, int]]:
    """The scalar arguments in a solver's model."""
    for name, value in re.findall(r"^in\.(\S+) = (-?\d+)$", text, re.MULTILINE):
        yield name, int(value)


@dataclass(frozen=True)
class KnownPositions:
    """What is known of the positions in a function."""

    skeleton: Summary
    trees: Trees

    @cached_property
    def folds(self) -> Mapping[str, Poly]:
        """The variable of a fold -> its extent, one for each number of iterations that a loop has."""
        trips = dict.fromkeys(facts.trips for facts in self.skeleton.loops)
        outside = {size.symbol for size in self.skeleton.sizes} | set(self.trees.sizes)
        return {fresh("k"): extent for extent in trips if extent.symbols() <= outside}

    @property
    def written(self) -> Written:
        """Where the output's elements are."""
        return self.result.written[0]

    @property
    def result(self) -> Result:
        """The output."""
        return self.skeleton.results[0]

    def points(self, found: Sequence[Example]) -> tuple[Points, tuple[Any, ...]]:
        """All elements of the outputs of examples, and what they hold."""
        points, values = [], []
        strides = [Poly.of(1)] * len(self.written.at)
        grid = self.skeleton.grids.get(self.result.name)
        flat = grid is not None and len(grid.strides) > 1
        for example in found:
            names = example.world.names
            ranges = [range(extent.evaluate(names)) for extent in self.written.extents]
            for place in itertools.product(*ranges):
                bound = dict(zip(self.written.indices, place))
                at = tuple(poly.evaluate({**names, **bound}) for poly in self.written.at)
                if flat and grid is not None:
                    strides = [stride.evaluate(names) for stride in grid.strides]
                    at = (sum(step * index for step, index in zip(strides, at)),)
                points.append(SamplePoint(example.world, bound))
                values.append(example.output.get(at))
        return Points(points, self.folds), tuple(values)

    # From a term to a summary

    def filled(self, term: Term) -> Summary | None:
        """The skeleton with values; None where the term does not say what a variable holds."""
        found = [self._facts(facts, term) for facts in self.skeleton.loops]
        loops = tuple(facts for facts in found if facts is not None)
        if len(loops) < len(found):
            return None
        results = (replace(self.result, written=(replace(self.written, value=term),)),)
        return replace(self.skeleton, loops=loops, results=results)

    def _facts(self, facts: LoopFacts, term: Term) -> LoopFacts | None:
        counters = [*facts.outer, facts.counter]
        at = [poly.symbols() & set(self.written.indices) for poly in self.written.at]
        here = {name: Poly.symbol(counter) for names, counter in zip(at, counters) for name in names}
        scalars = {}
        for name, held in facts.scalars.items():
            scalars[name] = held
            if any(isinstance(part, (Read, Reduce)) for part in walk(held)):
                folds = (p for p in walk(term) if isinstance(p, Reduce) and p.extent == facts.trips)
                fold = next(folds, None)
                if fold is None or fold.type != held.type:
                    return None
                scalars[name] = substitute(replace(fold, extent=Poly.symbol(facts.counter)), here)
        arrays = {
            name: tuple(replace(box, value=self._moved(box, term, counters)) for box in boxes)
            for name, boxes in facts.arrays.items()
        }
        return replace(facts, scalars=scalars, arrays=arrays)

    def _moved(self, box: Written, term: Term, counters: Sequence[str]) -> Term:
        """The term at an element of a box: the last axes are the box's, those before the counters."""
        missing = len(self.written.at) - len(box.at)
        places = (*map(Poly.symbol, counters[:missing]), *box.at)
        values = {}
        for axis, place in zip(self.written.at, places):
            for name in axis.symbols() & set(self.written.indices):
                values[name] = place - axis.substitute({name: 0})
        return substitute(term, values)


# Grammars


def grammar_of(kernel: KnownPositions, search: SynthesisSettings) -> Grammar:
    """The grammar of the output's element."""
    atoms = {context: _atoms(kernel, context, search) for context in (OUTSIDE, *kernel.folds)}
    if search.trees:
        return _Guided(kernel, atoms, search).grammar
    assert search.types, "without trees, operators take what fits"
    type_ = kernel.result.type
    plain = [*(number(n, type_) for n in (0, 1, 2))]
    for terms in atoms.values():
        terms += plain
    steady = [term for term in atoms[OUTSIDE] if symbols(term).isdisjoint(kernel.written.indices)]
    return free_grammar(type_, _TABLE, kinds_of(_TABLE), {**atoms, START: steady}, kernel.folds)


def _leaves(trees: Trees) -> Iterator[Term]:
    """Reads, arguments, positions and constants of the source, over the counters of its loops."""
    for found in trees.definitions.values():
        for definition in found:
            for part in walk(definition.term):
                if isinstance(part, (Num, Read, Size)) and not _is_local(part):
                    yield part
                if isinstance(part, Read):
                    yield from (Size(poly, I64) for poly in part.indices)


def _is_local(term: Term) -> bool:
    """Whether it is the name of a local variable, any of its first definitions."""
    return isinstance(term, Read) and "#" in term.tensor


def _atoms(kernel: KnownPositions, context: str, search: SynthesisSettings) -> list[Term]:
    """The leaves with every counter replaced by an index variable; by types, by one of as many values."""
    ranges = dict(zip(kernel.written.indices, kernel.written.extents))
    if context != OUTSIDE:
        ranges[context] = kernel.folds[context]
    trips = {facts.counter: facts.trips for facts in kernel.skeleton.loops}
    found: dict[Term, None] = {}
    for leaf in dict.fromkeys(_leaves(kernel.trees)):
        counters = [name for name in trips if name in symbols(leaf)]
        for names in itertools.permutations(ranges, len(counters)):
            if search.types and any(ranges[n] != trips[c] for n, c in zip(names, counters)):
                continue
            found[substitute(leaf, dict(zip(counters, map(Poly.symbol, names))))] = None
    return list(found)


class _Guided:
    """The source's own trees, with any fitting leaf in the place of a leaf."""

    def __init__(
        self, kernel: KnownPositions, atoms: Mapping[str, Sequence[Term]], search: SynthesisSettings
    ) -> None:
        self.kernel, self.trees, self.atoms, self.search = kernel, kernel.trees, atoms, search
        self.grammar = Grammar("output")
        self.grammar.contexts["output"] = OUTSIDE
        name = self.trees.result
        self._variable("output", name, len(self.trees.definitions.get(name, ())), OUTSIDE)

    def _symbol(self, term: Term, context: str) -> Symbol:
        """The symbol of what may stand in the place of a subtree."""
        symbol = (term, context)
        if symbol not in self.grammar.contexts:
            self.grammar.contexts[symbol] = context
            self._add(symbol, term, context)
        return symbol

    def _add(self, symbol: Symbol, term: Term, context: str) -> None:
        if isinstance(term, Read) and _is_local(term):
            name, count = term.tensor.split("#")
            self._variable(symbol, name, int(count), context)
        elif isinstance(term, Call):
            operands = tuple(self._symbol(part, context) for part in term.args)
            self.grammar.rules.append(Production(symbol, term.function, operands, term.type))
        else:
            fitting = [atom for atom in self.atoms[context] if not self.search.types or _alike(atom, term)]
            self.grammar.atoms.setdefault(symbol, []).extend(fitting)

    def _variable(self, symbol: Symbol, name: str, count: int, context: str) -> None:
        """Any of the first definitions of a variable; where a loop adds to one, a fold."""
        definitions = self.trees.definitions.get(name, [])[:count]
        for definition in definitions:
            before = next((own for own in symbols(definition.term) if own.startswith(f"{name}#")), None)
            inside = len(definition.labels) > len(definitions[0].labels)
            if before is not None and inside:
                self._fold(symbol, before, definition, context)
            else:
                self._add(symbol, definition.term, context)

    def _fold(self, symbol: Symbol, before: str, definition: TreeDefinition, context: str) -> None:
        if context != OUTSIDE:
            return
        trips = self.trees.loops[definition.labels[-1]].trips
        start = self._symbol(Read(before, (), definition.term.type), OUTSIDE)
        for var, extent in self.kernel.folds.items():
            if self.search.types and extent != trips:
                continue
            for part in dict.fromkeys(_without(definition.term, before)):
                if not self.search.types or part.type == definition.term.type:
                    pair = (self._symbol(part, var), start)
                    for kind in kinds_of(operators_of([definition.term])):
                        rule = Production(symbol, f"{FOLD}{kind}", pair, definition.term.type, var, extent)
                        self.grammar.rules.append(rule)


def _alike(atom: Term, leaf: Term) -> bool:
    """Whether an atom may stand for a leaf: constants for constants, values for values."""
    return atom.type == leaf.type and isinstance(atom, Num) == isinstance(leaf, Num)


def _without(term: Term, name: str) -> Iterator[Term]:
    """The largest parts that do not mention a name."""
    if name not in symbols(term):
        yield term
        return
    for part in parts(term):
        yield from _without(part, name)
