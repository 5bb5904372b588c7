"""A rule that reads an optional input finds programs without it: it applies as it should, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from rule_instances import applied, difference, instances

from tensmith.errors import ProgramError
from tensmith.ir import Program
from tensmith.ir.onnx_schema import misfit
from tensmith.rewrite.rule import EXACT

OPSET = 20


def without_one_input(program: Program) -> Iterator[Program]:
    """The program with one input of one node left out, wherever its operator has that."""
    for place, node in enumerate(program.nodes):
        for at in range(1, len(node.inputs)):
            inputs = [name if n != at else "" for n, name in enumerate(node.inputs)]
            while not inputs[-1]:
                inputs.pop()
            types = [program.type(name).dtype if name else "" for name in inputs]
            op = node.definition
            if misfit(op.domain, op.onnx, OPSET, {}, types, len(node.outputs)) is None:
                nodes = list(program.nodes)
                nodes[place] = replace(node, inputs=tuple(inputs))
                made = replace(program, nodes=tuple(nodes), _known={})
                if typed(made):
                    yield made


def typed(program: Program) -> bool:
    """Whether its ops take what is left: an equation or a join may need all that it had."""
    try:
        return all(program.type(name) is not None for node in program.nodes for name in node.outputs if name)
    except ProgramError:
        return False


@pytest.mark.parametrize("name", list(EXACT))
def test_a_rule_meets_nodes_without_optional_inputs(name: str) -> None:
    rule = EXACT[name]
    for instance in instances(rule, 1):
        for program in without_one_input(instance.program):
            for site in list(rule.sites(program)):
                rule.attempt(program, site)
            after = applied(rule, replace(instance, program=program))
            if after is not None:
                assert not difference(program, after, instance.inputs), instance.origin
