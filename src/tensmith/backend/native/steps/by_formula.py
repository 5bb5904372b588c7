"""The kernel of an op that has none of its own: its formula, as loops."""

from __future__ import annotations

from tensmith.backend.native.steps.graph import StepGraph
from tensmith.backend.native.steps.operands import Reads
from tensmith.errors import EngineError, ProgramError
from tensmith.formula.expr import tensor
from tensmith.formula.poly import Poly
from tensmith.ir import Node
from tensmith.ir.op import Symbolic
from tensmith.kernel.buffer import Buffer
from tensmith.kernel.routines.computed import Computed, tensors_of


def by_formula(graph: StepGraph, reads: Reads, node: Node, output: str) -> Computed | None:
    """`output` of a node by the op's formula at fixed sizes; None where there is none, or no C for it.

    Nor is there one of another shape than the inferred one: that is how much memory the output has.
    """
    given = {f"x{place}": name for place, name in enumerate(node.inputs) if name}
    symbols = [tensor(name, *graph.shapes[value]) for name, value in given.items()]
    named = dict(zip(given, symbols))
    inputs = tuple(named.get(f"x{place}") for place in range(len(node.inputs)))
    values = tuple(graph.constants.get(name) if name else None for name in node.inputs)
    try:
        found = node.definition.formula(Symbolic(node.attrs, inputs, values, len(node.outputs)))
    except ProgramError:
        return None
    formula = found[node.outputs.index(output)]
    if formula.shape != tuple(map(Poly.of, graph.shapes[output])):
        return None
    used = sorted(tensors_of(formula) & given.keys())
    operands = tuple((name, reads.operand(given[name])) for name in used)
    routine = Computed(formula, operands, graph.dtypes[output])
    try:
        routine.code("probe", (), Buffer(1, 1, 1))
    except EngineError:
        return None
    return routine
