"""Exact rules given as a left and a right pattern. One declaration matches, rewrites and is proved."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from functools import cached_property

from tensmith.formula.bounds import Ranges
from tensmith.ir import Node, Program
from tensmith.ir.op import OPS
from tensmith.ir.ops.elementwise import Elementwise
from tensmith.rewrite.case import Case, formula
from tensmith.rewrite.match import Match, build, match
from tensmith.rewrite.rule import Edit, FormulaObligation, NodeRule
from tensmith.rewrite.term import AnyElementwise, Bindings, Term, Use, Var

ELEMENTWISE = frozenset(name for name, op in OPS.items() if isinstance(op, Elementwise))


class PatternRule(NodeRule):
    """left -> right(match), where check(match) finds nothing against it.

    `right` gets a Match when rewriting and a Case when proving, and may use only what both offer: has,
    shape, value and attrs.
    """

    @abstractmethod
    def left(self) -> Term:
        """The pattern to find."""

    @abstractmethod
    def right(self, m: Bindings) -> Term:
        """What replaces it."""

    def wrong(self, m: Bindings) -> Term:
        """A plausible mistake in `right`: the wrong twin, which must be refuted."""
        raise NotImplementedError(f"rule '{self.name}' has no wrong twin")

    def check(self, m: Match) -> str | None:
        """None if the rule applies to a structural match, else the reason it does not."""
        return None

    @abstractmethod
    def cases(self) -> Iterable[Case]:
        """The symbolic instances that cover what `check` lets through."""

    @cached_property
    def pattern(self) -> Term:
        """The left side, made once."""
        return self.left()

    @cached_property
    def roots(self) -> frozenset[str]:  # type: ignore[override]
        """The op at the root of the left side, or all that it may be."""
        if isinstance(self.pattern, AnyElementwise):
            return ELEMENTWISE
        return frozenset({self.pattern.op}) if isinstance(self.pattern, Use) else frozenset()

    def rewrite(self, program: Program, node: Node) -> Edit | str:
        """The matched nodes replaced."""
        found = match(self.pattern, program, node.output)
        if isinstance(found, str):
            return found
        reason = self.check(found)
        if reason is not None:
            return reason
        replacement = self.right(found)
        if isinstance(replacement, Var):
            return Edit(remove=(node,), alias={node.output: found.values[replacement.name]})
        nodes, constants, _ = build(replacement, found, node.outputs)
        return Edit(remove=tuple(found.nodes), add=tuple(nodes), constants=constants)

    def obligations(self) -> Iterable[FormulaObligation]:
        """left = right in every case."""
        for case in self.cases():
            yield claim(f"{self.name}/{case.name}", self.pattern, self.right(case), case)

    def twins(self) -> Iterable[FormulaObligation]:
        """left = wrong in every case: to be refuted."""
        for case in self.cases():
            yield claim(f"{self.name}/{case.name}", self.pattern, self.wrong(case), case)


def claim(name: str, left: Term, right: Term, case: Case) -> FormulaObligation:
    """The obligation that two terms are equal in a symbolic instance."""
    sides = (left, right, case)
    return FormulaObligation(name, formula(left, case), formula(right, case), Ranges(lower=case.lower), sides)
