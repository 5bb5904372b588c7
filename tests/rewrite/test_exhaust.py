"""Rules are applied until none applies, and none is asked in vain."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nets import Net
from tensmith.ir import Node, Program
from tensmith.ir.edits import Edit
from tensmith.rewrite.rule import NodeRule, ProgramRule, Rule
from tensmith.rewrite.trail import Traced, exhaust, in_phase


@dataclass(eq=False)
class Renaming(ProgramRule):
    """Applies so many times."""

    name: str
    times: int
    asked: int = 0

    def rewrite(self, program: Program) -> Program | None:
        self.asked += 1
        if not self.times:
            return None
        self.times -= 1
        return replace(program, name=program.name + self.name)


class OfPools(NodeRule):
    """Looks at no node of the network below."""

    name, roots = "of pools", frozenset({"max_pool"})
    asked = 0

    def _looks_at(self, node: Node) -> bool:
        self.asked += 1
        return super()._looks_at(node)

    def rewrite(self, program: Program, node: Node) -> Edit | str:
        raise AssertionError("there is no pool")


def network() -> Program:
    net = Net(1, 4, 6, 6)
    return replace(net.program(net.add("relu", net.conv("x", 4, 4))), name="")


def test_rules_are_asked_in_order_until_all_found_nothing_in_one_program() -> None:
    rules = [Renaming("a", 1), Renaming("b", 2), Renaming("c", 0)]
    assert exhaust(Traced(network()), rules).program.name == "abb"
    assert [rule.asked for rule in rules] == [3, 3, 2]


def test_no_rule_does_nothing() -> None:
    assert exhaust(Traced(network()), []).trail == ()


def test_steps_are_bounded() -> None:
    rules: list[Rule] = [Renaming("a", 99), Renaming("b", 99)]
    assert len(exhaust(Traced(network()), rules, limit=7).trail) == 7


def test_a_rule_of_ops_that_are_not_there_looks_at_no_node() -> None:
    rule = OfPools()
    assert exhaust(Traced(network()), [rule]).trail == () and rule.asked == 0


def test_a_rule_that_names_no_ops_looks_at_every_node() -> None:
    rule = OfPools()
    rule.roots = frozenset()  # type: ignore[misc]
    exhaust(Traced(network()), [rule])
    assert rule.asked == len(network().nodes)


def test_rules_of_a_phase_are_nobody_s_to_change() -> None:
    in_phase("simplify").clear()
    assert in_phase("simplify")
