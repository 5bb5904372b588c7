"""Which candidates are rules: proved, and not what the rules there are already say together."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tensmith.discovery.enumeration import Enumeration, Pair
from tensmith.discovery.vocabulary import Vocabulary
from tensmith.egraph.explore import searched_rules
from tensmith.egraph.programs import ArrayHashes, Cost, signature
from tensmith.errors import ProgramError
from tensmith.ir import Program
from tensmith.rewrite.case import Case
from tensmith.rewrite.instance import numbers
from tensmith.rewrite.judge import judge
from tensmith.rewrite.law import Law, claim, lemma
from tensmith.rewrite.rule import Rule
from tensmith.rewrite.term import Term, Use, Var, show
from tensmith.rewrite.trail import Traced, applied, exhaust, in_phase

# Programs that each side may become before the two are taken for different, and steps of simplification.
_PROGRAMS, _STEPS = 12, 60


@dataclass(frozen=True)
class Discovery:
    """A law that was found, proved and not implied: what it saves of its left side, and of models.

    how: by which method it was proved. sites: how often it was found in models; saves: the sum of the shares
    of their time that it saves there, by estimate.
    """

    vocabulary: Vocabulary
    left: Term
    right: Term
    wrong: Term
    how: str
    saved: float
    sites: int = 0
    saves: float = 0.0

    @property
    def law(self) -> Law:
        """The rule."""
        return lemma(
            self.statement, self.left, self.right, self.wrong, given=(self.vocabulary.instance,),
            **self.vocabulary.conditions(self.left),
        )  # fmt: skip

    @property
    def statement(self) -> str:
        """The law as a line."""
        return f"{show(self.left)} = {show(self.right)}"


@dataclass
class Sieve:
    """Keeps the laws of a vocabulary that neither the exact rules nor those kept before imply."""

    vocabulary: Vocabulary
    implied: int = 0
    unproved: int = 0
    ended: str = ""
    _kept: list[Rule] = field(default_factory=list)
    _hashes: ArrayHashes = field(default_factory=ArrayHashes)

    def __post_init__(self) -> None:
        self._shrinking, self._forms = in_phase("simplify", "fold"), searched_rules()

    def run(self, candidates: Iterable[Pair], deadline: float) -> Iterator[Discovery]:
        """The laws that are kept, one after the other, until `deadline` (of time.monotonic)."""
        for candidate in candidates:
            if time.monotonic() > deadline:
                self.ended = "time"
                return
            left, right = candidate.left.term, candidate.right.term
            case = self.vocabulary.case
            if self._implied(left, right, case):
                self.implied += 1
                continue
            found = judge(claim(show(left), left, right, case))
            wrong = _twin(left, right, case) if found.verdict == "proved" else None
            if wrong is None:
                self.unproved += 1
                continue
            saved = 1 - candidate.right.cost / candidate.left.cost
            new = Discovery(self.vocabulary, left, right, wrong, found.how, saved)
            self._kept.append(new.law)
            yield new

    def _implied(self, left: Term, right: Term, case: Case) -> bool:
        """Whether rules lead from both sides to one program, within a few steps."""
        try:
            made = numbers(left, case, self.vocabulary.sizes, np.random.default_rng(0))
            made = replace(made, given=frozenset(made.arrays))
            sides = [self._reached(made.program(side)) for side in (left, right)]
        except ProgramError:
            return True  # it is no program outside of the enumeration's 64 bits
        seen: tuple[set[str], set[str]] = (set(), set())
        for _ in range(_PROGRAMS):
            for mine, side in zip(seen, sides):
                name = next(side, None)
                if name is not None:
                    mine.add(name)
            if seen[0] & seen[1]:
                return True
        return False

    def _reached(self, program: Program) -> Iterator[str]:
        """What a program becomes by simplification, then by one form after the other, each simplified."""
        waiting, known = [self._simpler(program)], set[str]()
        while waiting:
            program = waiting.pop(0)
            name = signature(program, self._hashes)
            if name in known:
                continue
            known.add(name)
            yield name
            waiting += [self._simpler(after) for _, after in applied(program, self._forms)]

    def _simpler(self, program: Program) -> Program:
        return exhaust(Traced(program), [*self._kept, *self._shrinking], limit=_STEPS).program


def ranked(found: Sequence[Discovery], models: Sequence[Program], cost: Cost) -> list[Discovery]:
    """Those first that save the largest share of the models' time, then where they are found most often."""
    before = [math.fsum(cost(program).values()) for program in models]

    def counted(each: Discovery) -> Discovery:
        law, sites, saves = each.law, 0, 0.0
        for program, seconds in zip(models, before):
            for site in law.sites(program):
                after = math.fsum(cost(law.apply(program, site)).values())
                sites, saves = sites + 1, saves + (max(0.0, 1 - after / seconds) if seconds else 0.0)
        return replace(each, sites=sites, saves=saves)

    return sorted(map(counted, found), key=lambda row: (-row.saves, -row.sites, -row.saved))


def _twin(left: Term, right: Term, case: Case) -> Term | None:
    """A slip of the pen in the right side that the prover refutes."""
    for wrong in _slips(right):
        with contextlib.suppress(ProgramError):  # it is no program
            if judge(claim(f"{show(left)} is not", left, wrong, case)).verdict == "refuted":
                return wrong
    return None


def _slips(term: Term) -> Iterator[Term]:
    """Operands swapped, a part alone, the opposite."""
    if isinstance(term, Use):
        if len(term.args) > 1:
            yield Use(term.op, (*term.args[:-2], term.args[-1], term.args[-2]), term.attrs)
        yield term.args[0]
        for place, arg in enumerate(term.args):
            for slip in _slips(arg):
                yield Use(term.op, (*term.args[:place], slip, *term.args[place + 1 :]), term.attrs)
    elif isinstance(term, Var):
        yield Use("neg", (term,))
        yield Use("not", (term,))


@dataclass(frozen=True)
class Searched:
    """What came of a vocabulary: terms made, candidates among them, and what became of these."""

    vocabulary: str
    terms: int
    candidates: int
    implied: int
    unproved: int
    kept: list[Discovery]
    ended: str

    @property
    def sentence(self) -> str:
        """The counts."""
        ended = f"; ended by its {self.ended}" if self.ended else ""
        return (
            f"{self.vocabulary}: {self.terms} terms, {self.candidates} equalities that save something, "
            f"{self.implied} implied, {self.unproved} not proved, {len(self.kept)} new{ended}"
        )


def discover(vocabulary: Vocabulary, size: int, seconds: float) -> Searched:
    """The laws of a vocabulary about terms of up to `size` ops, as far as the time reaches."""
    enumeration, selection = Enumeration(vocabulary, size, seconds / 3), Sieve(vocabulary)
    deadline = time.monotonic() + seconds
    candidates = enumeration.candidates()
    kept = list(selection.run(candidates, deadline))
    return Searched(
        vocabulary.name, enumeration.seen, len(candidates), selection.implied, selection.unproved, kept,
        selection.ended or enumeration.ended,
    )  # fmt: skip


def discover_each(vocabularies: Sequence[Vocabulary], size: int, seconds: float) -> Iterator[Searched]:
    """The same of several vocabularies, each with its part of the time that is left."""
    deadline = time.monotonic() + seconds
    for number, vocabulary in enumerate(vocabularies):
        left = max(0.0, deadline - time.monotonic())
        yield discover(vocabulary, size, left / (len(vocabularies) - number))
