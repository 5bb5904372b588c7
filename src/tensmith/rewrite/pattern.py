"""Exact rules given as a left and a right pattern. One declaration matches, rewrites and is proved."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator

from tensmith.formula.bounds import Ranges
from tensmith.ir import Node, Program
from tensmith.rewrite.rule import Obligation, Rule, no_match
from tensmith.rewrite.term import Case, Match, Term, Use, Var, build, formula, match


class PatternRule(Rule):
    """left -> right(match), where check(match) finds nothing against it.

    `right` gets a Match when rewriting and a Case when proving, and may use only what both offer: has,
    shape, value and attrs.
    """

    @abstractmethod
    def left(self) -> Use:
        """The pattern to find."""

    @abstractmethod
    def right(self, m: Match | Case) -> Term:
        """What replaces it."""

    def wrong(self, m: Match | Case) -> Term:
        """A plausible mistake in `right`: the wrong twin, which must be refuted."""
        raise NotImplementedError(f"rule '{self.name}' has no wrong twin")

    def check(self, m: Match) -> str | None:
        """None if the rule applies to a structural match, else the reason it does not."""
        return None

    @abstractmethod
    def cases(self) -> Iterable[Case]:
        """The symbolic instances that cover what `check` lets through."""

    def sites(self, program: Program) -> Iterator[str]:
        """Outputs of the nodes where the pattern matches and the check passes."""
        op = self.left().op
        for node in program.nodes:
            if node.op == op and isinstance(self._find(program, node.output), Match):
                yield node.output

    def applies(self, program: Program, site: str) -> bool:
        """Whether the pattern matches at `site`."""
        return isinstance(self._find(program, site), Match)

    def apply(self, program: Program, site: str) -> Program:
        """The program with the matched nodes replaced; values they defined that are read elsewhere stay."""
        found = self._find(program, site)
        if isinstance(found, str):
            raise no_match(self, site)
        replacement = self.right(found)
        (root, *_) = found.nodes
        if isinstance(replacement, Var):
            return program.edit(remove=[root], alias={site: found.values[replacement.name]})
        nodes, constants, _ = build(replacement, found, root.outputs)
        return program.edit(remove=found.nodes, add=nodes, constants=constants)

    def why_not(self, program: Program, node: Node) -> str | None:
        """The reason of a near miss at `node`."""
        if node.op != self.left().op:
            return None
        found = self._find(program, node.output)
        return found or None if isinstance(found, str) else None

    def obligations(self) -> Iterable[Obligation]:
        """left = right in every case."""
        for case in self.cases():
            yield self._obligation(case, self.right(case))

    def twins(self) -> Iterable[Obligation]:
        """left = wrong in every case: to be refuted."""
        for case in self.cases():
            yield self._obligation(case, self.wrong(case))

    def _find(self, program: Program, value: str) -> Match | str:
        found = match(self.left(), program, value)
        if isinstance(found, str):
            return found
        return self.check(found) or found

    def _obligation(self, case: Case, right: Term) -> Obligation:
        ranges = Ranges(lower=case.lower)
        return Obligation(
            f"{self.name}/{case.name}", formula(self.left(), case), formula(right, case), ranges
        )
