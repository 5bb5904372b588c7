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
# Of rules that apply to nodes without an input, some of each kind.
APPLY = (
    "add_into_conv batch_norm_into_gemm clip_of_relu codes_again concat_of_slices div_into_conv "
    "enlarged_behind_conv layer_norm_of_shifted merge_slices pad_into_conv plain_gemm slice_into_conv "
    "transpose_into_gemm_left transposed_convolution_by_phases"
)


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
    rule, used = EXACT[name], 0
    for instance in instances(rule, 1):
        for program in without_one_input(instance.program):
            for site in list(rule.sites(program)):
                rule.attempt(program, site)
            after = applied(rule, replace(instance, program=program))
            if after is not None:
                used += 1
                assert not difference(program, after, instance.inputs), instance.origin
    assert used or name not in APPLY.split()
