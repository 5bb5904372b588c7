"""Ops written as others that have fast kernels, before a program is planned: equal over the reals.

attention, rotary   see attention.py
recurrent layers    the input's product of all steps as one, before the others; see recurrence.py
hardmax             a one-hot of the position of the largest element

These round, or have no formula; the others are exact rules (rewrite.exact, phase "lower").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tensmith.backend.native.prepare.attention import attention, rotary
from tensmith.backend.native.prepare.recurrence import input_product
from tensmith.ir import Node, Program
from tensmith.ir.builder import ProgramBuilder
from tensmith.ir.handlers import Handlers
from tensmith.ir.ops.recurrence import Recurrent

# (builder, node, shape of its first input) -> whether the builder now makes what the node does.
_rules = Handlers[Callable[[ProgramBuilder, Node, "tuple[int, ...]"], bool]]()
_rules("attention")(attention)
_rules("rotary_embedding")(rotary)
_rules(Recurrent)(input_product)


def decomposed(program: Program) -> Program:
    """The program with what has a better form in that form."""
    builder = ProgramBuilder(program)
    for node in program.nodes:
        rule = _rules.find(node)
        shape = program.type(node.inputs[0]).static if rule else None
        builder.making = node.outputs
        if rule is None or shape is None or not rule(builder, node, shape):
            builder.nodes.append(node)
    constants = {**program.constants, **builder.constants}
    return replace(program, nodes=tuple(builder.nodes), constants=constants)


@_rules("hardmax")
def _hardmax(builder: ProgramBuilder, node: Node, shape: tuple[int, ...]) -> bool:
    name, axis = node.output, node.attrs["axis"] % len(shape)
    place = builder.add("arg_max", node.inputs[:1], f"{name} place", axis=axis, keepdims=0)
    depth = builder.constant(f"{name} depth", np.array(shape[axis], np.int64))
    values = builder.constant(f"{name} values", np.array([0, 1], np.float32))
    builder.add("one_hot", (place, depth, values), name, axis=axis)
    return True
