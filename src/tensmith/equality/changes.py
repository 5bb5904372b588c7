"""Does a rewritten program compute what it did before? Only what differs is run, on the sizes at hand.

Of values of equal numbers (see numbering) nothing has to be run. A value that keeps its name and is computed
otherwise is compared as a function of the nearest values that both programs have, and is one of these from
then on. Programs that are equal for whatever these values are, are equal.

A pass keeps names: a value that has a name before and after is the same value, or it gets another name.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from tensmith.equality.numbering import Numbering, region
from tensmith.equality.programs import FieldCheck
from tensmith.equality.regions import compare_regions
from tensmith.errors import ProgramError
from tensmith.ir import Node, Program
from tensmith.ir.part import without_dead

Evidence = Literal["checked", "tested", "not checked"]


@dataclass(frozen=True)
class PassComparison:
    """What is known of a pass. `different` is the first value that is not what it was, and `node` makes it.

    checked: over prime fields, unless nothing had to be run; `error_probability` bounds the chance that a
    wrong pass is called so. tested: equal on random numbers, without a bound. `detail` says what was run.
    """

    evidence: Evidence
    primes: int = 0
    error_probability: float = 0.0
    detail: str = "nothing changed"
    different: str = ""
    node: str = ""


def compare_changes(before: Program, after: Program) -> PassComparison:
    """Whether a pass left every value as it was. Never raises for what the programs are."""
    try:
        len(after.facts)
    except ProgramError as problem:
        return PassComparison(
            "not checked", 0, 1.0, str(problem), after.outputs[0], "a node that is no use of its op"
        )
    try:
        return _Pass(without_dead(before), without_dead(after)).run()
    except ProgramError as problem:
        return PassComparison("not checked", error_probability=1.0, detail=str(problem))


class _Different(Exception):
    def __init__(self, value: str, node: str, reason: str) -> None:
        super().__init__(reason)
        self.value, self.node = value, node


class _Pass:
    """One walk over the program after a pass, in order."""

    def __init__(self, before: Program, after: Program) -> None:
        self.before, self.after = before, after
        self.numbers = Numbering(before, after, constant=id)  # a pass hands on the arrays themselves
        self.found: list[FieldCheck] = []
        # What fields could say nothing of once, they are not asked again.
        self.fieldless: set[tuple[str, ...]] = set()

    def run(self) -> PassComparison:
        """See compare_changes."""
        try:
            for node in self.after.nodes:
                self.numbers.known(node)
                for name in filter(None, node.outputs):
                    if self._may_be_equal(name):
                        self._unify(name, node)
            self._outputs()
        except _Different as wrong:
            return PassComparison("not checked", 0, 1.0, str(wrong), wrong.value, wrong.node)
        return _summary(self.found)

    def _may_be_equal(self, name: str) -> bool:
        """Whether a value of that name is there before, is computed otherwise, and is of the same type."""
        number = self.numbers.right[name]
        if self.numbers.left.get(name, number) == number:
            return False
        return self.before.facts[name].type == self.after.facts[name].type

    def _unify(self, name: str, node: Node) -> None:
        """One number for a value that is equal as a function of what both programs have, or of the inputs."""
        left, right = self.numbers.left, self.numbers.right
        common = set(left.values()) & {n for v, n in right.items() if v != name}
        for border in (common, {left[given] for given in self.before.inputs}):
            before, after = (
                region(program, numbers, {v for v, n in numbers.items() if n in border}, name, math.inf)
                for program, numbers in ((self.before, left), (self.after, right))
            )
            ops = tuple(node.op for node in (*before.nodes, *after.nodes))
            check = compare_regions(before, after, ops not in self.fieldless)
            if check.equal and check.error_probability >= 1:
                self.fieldless.add(ops)
            if check.verdict != "different":
                break
        if check.verdict == "different":
            raise _Different(name, node.label, check.reason)
        self.found.append(check)
        self.numbers.unify(name, name)

    def _outputs(self) -> None:
        for name in self.before.outputs:
            if self.numbers.right.get(name) != self.numbers.left[name]:
                made = self.after.producers.get(name)
                raise _Different(name, made.label if made else name, f"output '{name}' has another type")


def _summary(found: list[FieldCheck]) -> PassComparison:
    """What the checks of all values come to: the least of them, and the sum of their probabilities."""
    if not found:
        return PassComparison("checked")
    bounded = [check for check in found if check.equal and check.error_probability < 1]
    tested = [check for check in found if check.equal and check.error_probability >= 1]
    unknown = [check for check in found if not check.equal]
    evidence: Evidence = "not checked" if unknown else "tested" if tested else "checked"
    counts = {"over prime fields": bounded, "on random numbers": tested, "not at all": unknown}
    parts = [f"{len(group)} {how}" for how, group in counts.items() if group]
    reason = unknown[0].reason if unknown else ""
    chance = math.fsum(check.error_probability for check in found)
    return PassComparison(
        evidence,
        min((len(check.primes) for check in bounded), default=0),
        min(1.0, chance),
        f"values computed otherwise: {', '.join(parts)}" + (f" ({reason})" if reason else ""),
    )
