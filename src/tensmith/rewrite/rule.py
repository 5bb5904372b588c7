"""What a rewrite is: a rule, a site where it applies, and parameters; applied in steps that replay."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from tensmith.errors import ProgramError
from tensmith.formula.bounds import Ranges
from tensmith.formula.expr import Formula
from tensmith.ir import Node, Program
from tensmith.ir.edits import Edit as Edit
from tensmith.ir.edits import edited
from tensmith.ir.types import UnknownType
from tensmith.registry import Registry
from tensmith.rewrite.case import Case
from tensmith.rewrite.term import Term

Kind = Literal["exact", "lossy"]
Phase = Literal["simplify", "fold", "offer", "form", "lower", "patch"]

# A site that is the whole program.
EVERYWHERE = "*"


@dataclass(frozen=True)
class Step:
    """One rewrite: JSON in, JSON out, so that a trail can be stored, shown and replayed."""

    rule: str
    site: str = EVERYWHERE
    params: Mapping[str, Any] = field(default_factory=dict)
    kind: Kind = "exact"

    def to_json(self) -> dict[str, Any]:
        """The step as a JSON object."""
        return {"rule": self.rule, "site": self.site, "params": dict(self.params), "kind": self.kind}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Step:
        """The step of a JSON object."""
        return Step(document["rule"], document["site"], document["params"], document["kind"])


@dataclass(frozen=True)
class FormulaObligation:
    """Two formulas that must be equal for all sizes; with a twin, one that must not be.

    `terms` are what they were written from, so that both sides can be run as programs too.
    """

    name: str
    left: Formula
    right: Formula
    ranges: Ranges = field(default_factory=Ranges)
    terms: tuple[Term, Term, Case] | None = None


class Rule(ABC):
    """An exact rewrite. `site` is the name of a value (the root's first output), or EVERYWHERE."""

    name: str
    kind: ClassVar[Kind] = "exact"
    # "simplify" rules run until none applies; "fold" rules come last, once: they turn what constants compute
    # into constants, which rounds, and so must not stand between the start and an exact comparison. "offer"
    # rules do not make a program simpler by themselves; a search may pick them. "form" rules open another
    # form that pays after further steps, if at all: for searches that take many steps. "lower" rules write
    # ops as others that have fast kernels, before a program is compiled. "patch" rules compute images
    # in patches, where memory is short: whoever plans it says where.
    phase: Phase = "simplify"
    # Rules of a phase are tried in rising order.
    order: int = 50
    # How it was found, where it was not written down by somebody who knew it: "enumeration" (see discovery).
    found: str = ""
    # A rule that changes no formula says here why it is sound; every other rule has obligations.
    structural: ClassVar[str] = ""

    @abstractmethod
    def candidates(self, program: Program) -> Iterable[str]:
        """Sites worth an attempt: all where the rule applies, cheaply found, and maybe others."""

    @abstractmethod
    def attempt(self, program: Program, site: str) -> Program | None:
        """The rewritten program, or None if the rule does not apply at `site`."""

    def sites(self, program: Program) -> Iterator[str]:
        """Every site where the rule applies now."""
        return (site for site in self.candidates(program) if self.applies(program, site))

    def applies(self, program: Program, site: str) -> bool:
        """Whether the rule applies at `site`."""
        return self.attempt(program, site) is not None

    def apply(self, program: Program, site: str) -> Program:
        """The rewritten program; ProgramError if the rule does not apply at `site`."""
        result = self.attempt(program, site)
        if result is None:
            raise ProgramError(
                f"rule '{self.name}' does not apply at '{site}'; was the trail made from this program?"
            )
        return result

    def why_not(self, program: Program, node: Node) -> str | None:
        """Why the rule nearly applies at a node but does not; None if it applies or is nowhere near."""
        return None

    def obligations(self) -> Iterable[FormulaObligation]:
        """What must be proved for the rule to be sound."""
        for lemma in self.lemmas():
            for found in lemma.obligations():
                yield replace(found, name=f"{self.name}/{found.name}")

    def twins(self) -> Iterable[FormulaObligation]:
        """Near misses of the obligations that must be refuted: a proof that proves these proves nothing."""
        for lemma in self.lemmas():
            for found in lemma.twins():
                yield replace(found, name=f"{self.name}/{found.name}")

    def lemmas(self) -> Iterable[Rule]:
        """Lines of algebra (`law.lemma`) that a rule written as a program rests on."""
        return ()


class ProgramRule(Rule):
    """A rule that treats the whole program in one step."""

    def candidates(self, program: Program) -> Iterable[str]:
        """The whole program."""
        return (EVERYWHERE,)

    def attempt(self, program: Program, site: str) -> Program | None:
        """See rewrite."""
        return self.rewrite(program) if site == EVERYWHERE else None

    @abstractmethod
    def rewrite(self, program: Program) -> Program | None:
        """The rewritten program, or None if there is nothing to do."""


class NodeRule(Rule):
    """A rule at one node, named by its first output."""

    # Ops of the nodes it looks at.
    roots: ClassVar[frozenset[str]]

    @abstractmethod
    def rewrite(self, program: Program, node: Node) -> Edit | str:
        """The edit at a node of one of `roots`, or why there is none ("" where the rule is nowhere near)."""

    def candidates(self, program: Program) -> Iterable[str]:
        """Nodes of the right ops."""
        return [node.output for node in program.nodes if self._looks_at(node)]

    def _looks_at(self, node: Node) -> bool:
        return node.op in self.roots

    def applies(self, program: Program, site: str) -> bool:
        """Whether there is an edit."""
        return isinstance(self.edit(program, site), Edit)

    def attempt(self, program: Program, site: str) -> Program | None:
        """The program after the edit."""
        found = self.edit(program, site)
        return edited(program, found) if isinstance(found, Edit) else None

    def why_not(self, program: Program, node: Node) -> str | None:
        """The reason of a near miss at `node`."""
        found = self.edit(program, node.output)
        return found or None if isinstance(found, str) else None

    def edit(self, program: Program, site: str) -> Edit | str:
        """The edit at a site, or why there is none: types that a rule asks for may not be known."""
        node = program.producers.get(site)
        if node is None or not self._looks_at(node):
            return ""
        try:
            return self.rewrite(program, node)
        except UnknownType as error:
            return str(error)


class ExactRules(Registry[Rule]):
    """The exact rules. One that is read for the first time must be proved; see `tensmith.rewrite.proved`."""

    def __init__(self) -> None:
        super().__init__("exact rule", "tensmith.rewrite.exact")
        self.homes: dict[str, Path] = {}
        self._admitted: set[str] = set()

    def add(self, name: str, item: Rule) -> Rule:
        """Registers a rule, and remembers the file that declares it."""
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_globals["__name__"] in _DECLARING:
            frame = frame.f_back
        self.homes[name] = Path(frame.f_globals.get("__file__", ""))
        return super().add(name, item)

    def __getitem__(self, name: str) -> Rule:
        rule = super().__getitem__(name)
        if name not in self._admitted:
            from tensmith.rewrite.proved import demand

            demand(rule, self.homes[name])
            self._admitted.add(name)
        return rule

    def unproved(self) -> dict[str, Rule]:
        """All rules by name, proved or not: for the prover."""
        return {name: super(ExactRules, self).__getitem__(name) for name in self}


_DECLARING = frozenset({__name__, "tensmith.rewrite.law"})

EXACT = ExactRules()

Class = TypeVar("Class", bound=type[Rule])


def exact(name: str, *, order: int = 50, phase: Phase = "simplify") -> Callable[[Class], Class]:
    """Registers an exact rule class."""

    def register(cls: Class) -> Class:
        cls.name, cls.order, cls.phase = name, order, phase
        EXACT.add(name, cls())
        return cls

    return register
