"""Does a rewritten program compute what it did before? Only what differs is run, on the sizes at hand.

Values are numbered as in common subexpression elimination (Cocke 1970), both programs in one table: the same
op with the same attributes on values of equal numbers gives values of equal numbers, and nothing of them has
to be run. A value that keeps its name and is computed otherwise is compared as a function of the nearest
values that both programs have, and is one of these from then on. Programs that are equal for whatever these
values are, are equal.

A pass keeps names: a value that has a name before and after is the same value, or it gets another name.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from tensmith.equality.programs import FieldCheck
from tensmith.equality.regions import compare_regions
from tensmith.equality.sampling import live
from tensmith.errors import ProgramError
from tensmith.formula.arith import Array
from tensmith.ir import Node, Program
from tensmith.ir.types import TensorType
from tensmith.rewrite.values import freeze

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


def compare_changes(before: Program, after: Program, seed: int = 0) -> PassComparison:
    """Whether a pass left every value as it was. Never raises for what the programs are."""
    try:
        len(after.facts)
    except ProgramError as problem:
        return PassComparison(
            "not checked", 0, 1.0, str(problem), after.outputs[0], "a node that is no use of its op"
        )
    try:
        return _Sweep(live(before), live(after), seed).run()
    except ProgramError as problem:
        return PassComparison("not checked", error_probability=1.0, detail=str(problem))


class _Different(Exception):
    def __init__(self, value: str, node: str, reason: str) -> None:
        super().__init__(reason)
        self.value, self.node = value, node


class _Sweep:
    """One walk over both programs, in order; `left` and `right` number their values."""

    def __init__(self, before: Program, after: Program, seed: int) -> None:
        self.before, self.after, self.seed = before, after, seed
        self.table: dict[Hashable, int] = {}
        self.left = self._ends(before)
        self.right = self._ends(after)
        self.found: list[FieldCheck] = []
        # What fields could say nothing of once, they are not asked again.
        self.fieldless: set[tuple[str, ...]] = set()

    def run(self) -> PassComparison:
        """See compare_changes."""
        for node in self.before.nodes:
            self.left.update(zip(node.outputs, self._numbers(node, self.left)))
        try:
            for node in self.after.nodes:
                for name, number in zip(node.outputs, self._numbers(node, self.right)):
                    self.right[name] = number
                    if name and self._may_be_equal(name):
                        self._unify(name, node)
            self._outputs()
        except _Different as wrong:
            return PassComparison("not checked", 0, 1.0, str(wrong), wrong.value, wrong.node)
        return _summary(self.found)

    def _ends(self, program: Program) -> dict[str, int]:
        """Numbers of inputs and constants; constants are equal where they are the same array."""
        numbers = {name: self._number(("input", name)) for name in program.inputs}
        numbers |= {name: self._number(("constant", id(a))) for name, a in program.constants.items()}
        return {**numbers, "": -1}

    def _number(self, key: Hashable) -> int:
        return self.table.setdefault(key, len(self.table))

    def _numbers(self, node: Node, known: Mapping[str, int]) -> list[int]:
        """The numbers of a node's outputs. An opaque node equals itself alone: it may draw random numbers."""
        own = (node.opaque, node.output) if node.opaque is not None else None
        read = tuple(known[name] for name in node.inputs)
        key = (node.op, freeze(node.attrs), own, read)
        return [self._number((key, place)) if name else -1 for place, name in enumerate(node.outputs)]

    def _may_be_equal(self, name: str) -> bool:
        """Whether a value of that name is there before, is computed otherwise, and is of the same type."""
        if self.left.get(name, self.right[name]) == self.right[name]:
            return False
        return self.before.facts[name].type == self.after.facts[name].type

    def _unify(self, name: str, node: Node) -> None:
        """One number for a value that is equal as a function of what both programs have, or of the inputs."""
        common = set(self.left.values()) & {n for v, n in self.right.items() if v != name}
        inputs = {self.left[given] for given in self.before.inputs}
        for border in (common, inputs):
            before = _region(self.before, self.left, border, name)
            after = _region(self.after, self.right, border, name)
            ops = tuple(node.op for node in (*before.nodes, *after.nodes))
            check = compare_regions(before, after, self.seed, ops not in self.fieldless)
            if check.equal and check.error_probability >= 1:
                self.fieldless.add(ops)
            if check.verdict != "different":
                break
        if check.verdict == "different":
            raise _Different(name, node.label, check.reason)
        self.found.append(check)
        self.right[name] = self.left[name]

    def _outputs(self) -> None:
        for name in self.before.outputs:
            if self.right.get(name) != self.left[name]:
                made = self.after.producers.get(name)
                raise _Different(name, made.label if made else name, f"output '{name}' has another type")


def _region(program: Program, numbers: Mapping[str, int], border: Iterable[int], name: str) -> Program:
    """What computes a value from those of the border, every value named by its number, the last "value"."""
    stop = set(border)
    kept: set[int] = set()
    inputs: dict[str, TensorType] = {}
    constants: dict[str, Array] = {}
    waiting, seen = [name], set()
    while waiting:
        current = waiting.pop()
        if not current or current in seen:
            continue
        seen.add(current)
        array = program.constants.get(current)
        if array is not None:
            constants[_named(numbers, current)] = array
        elif current in program.inputs or (numbers[current] in stop and current != name):
            inputs[_named(numbers, current)] = program.type(current)
        else:
            node = program.producers[current]
            seen.update(node.outputs)
            kept.add(id(node))
            waiting += node.inputs
    names = {**{value: _named(numbers, value) for value in numbers}, name: "value", "": ""}
    nodes: dict[tuple[str, ...], Node] = {}  # what is computed twice has one number, and is computed once
    for node in (node for node in program.nodes if id(node) in kept):
        outputs = tuple(names[value] for value in node.outputs)
        nodes.setdefault(outputs, replace(node, inputs=tuple(names[i] for i in node.inputs), outputs=outputs))
    return Program("region", dict(sorted(inputs.items())), ("value",), tuple(nodes.values()), constants)


def _named(numbers: Mapping[str, int], value: str) -> str:
    return f"v{numbers[value]}"


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
