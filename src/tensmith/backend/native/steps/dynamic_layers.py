"""Products of rows that are quantized as they come: DynamicQuantizeLinear, MatMulInteger, Cast and Mul.

    cast(matmul_integer(q, w, zero_point, w_zero)) * (scale * w_scales) [+ bias, residual, a function of that]

with w constant and w - w_zero within int8, as ONNX Runtime and tensmith write it. The rows' scale and zero
point are known at run time, so the numbers of the kernel's epilogue are made then.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tensmith.backend.native.invented import invented
from tensmith.backend.native.steps.graph import StepGraph
from tensmith.backend.native.steps.integers import IntegerOperands
from tensmith.backend.native.steps.operands import Free
from tensmith.backend.native.steps.patterns import matched
from tensmith.backend.native.steps.requantization import Behind, requantized
from tensmith.backend.native.steps.step import Dense, Heavy, Step
from tensmith.formula.arith import Array
from tensmith.ir import Node
from tensmith.kernel.isa import Isa
from tensmith.kernel.problem import product
from tensmith.kernel.quantized import FIELDS, HEADER, QuantizationParameters, constants
from tensmith.kernel.routines.dynamic import DynamicRequantization, DynamicScale, dynamic_quantize
from tensmith.rewrite.term import Var, ops

_Q, _ZERO, _SCALE = Var("q"), Var("zero"), Var("scale")
_W, _W_ZERO = Var("w", static=True), Var("w_zero", static=True, optional=True)
_SUMS = ops.cast(ops.matmul_integer(_Q, _W, _ZERO, _W_ZERO), attrs="cast")
_PRODUCT = _SUMS * (_SCALE * Var("scales", static=True))

# What is multiplied by the rows' scale at run time.
_UNIT = QuantizationParameters(1.0, 0)


def dynamic_layer(graph: StepGraph, node: Node, free: Free) -> tuple[list[Step], list[Node], Node] | None:
    """The steps of a product of that form that ends in `node`, the nodes they stand for, and what quantizes
    its rows; None if it is no such."""
    found = _operands(graph, node)
    if found is None:
        return None
    encoder, weights, scales, nodes = found
    if not free >= {*nodes}:
        return None
    name, source, isa = nodes[-1].output, encoder.outputs[0], graph.isa
    inner, columns = weights.shape
    problem = product(math.prod(graph.shapes[source][:-1]), inner, columns)
    step = Heavy(problem, source, weights.T[:, :, None, None], name)
    behind = Behind(graph, name, free, rows=True, requantized=False)
    made = requantized(step, IntegerOperands(node, _UNIT, scales, None, None), nodes, behind)
    if made is None:
        return None
    step, nodes = made
    range_, table = _range(graph, encoder), invented(node.output, "numbers")
    graph.tables[table] = HEADER + FIELDS * isa.round_up(columns)
    return (
        [
            Dense(
                DynamicRequantization(-(-columns // isa.lanes), isa.lanes),
                (range_,),
                table,
                _template(step, isa),
            ),
            replace(step, table=table),
        ],
        nodes,
        encoder,
    )


def encoded(graph: StepGraph, node: Node) -> list[Step]:
    """The steps of a dynamic_quantize_linear whose readers are such products: its range, then its bytes."""
    size, lanes = math.prod(graph.shapes[node.inputs[0]]), graph.isa.lanes
    source, range_ = graph.names[node.inputs[0]], _range(graph, node)
    return [
        Dense(DynamicScale(size, lanes), (source,), range_),
        Dense(dynamic_quantize(size, lanes), (source, range_), graph.names[node.outputs[0]]),
    ]


def _range(graph: StepGraph, encoder: Node) -> str:
    name = invented(encoder.outputs[0], "range")
    graph.tables[name] = 2
    return name


def _template(step: Heavy, isa: Isa) -> Array:
    """What `DynamicRequantization` reads."""
    assert step.requantization is not None
    numbers = constants(step.problem, isa, step.weights, step.requantization, step.activation is not None)
    sums = np.zeros(isa.round_up(step.problem.filters), np.int32)
    sums[: step.problem.filters] = step.weights.reshape(step.problem.filters, -1).sum(1, dtype=np.int32)
    return np.concatenate([numbers, sums.view(np.float32)])


def _operands(graph: StepGraph, node: Node) -> tuple[Node, Array, Array, list[Node]] | None:
    """(what quantizes the rows, int8 weights [inner, columns], their scales, the nodes of the product)."""
    program = graph.program
    found = matched(graph, _PRODUCT, node.output)
    if found is None or graph.dtypes[found.nodes[1].output] != "f32":
        return None
    given = found.values
    encoder = program.producers.get(given["q"])
    ours = encoder is not None and encoder.outputs == (given["q"], given["scale"], given["zero"])
    if encoder is None or not ours or not encoder.traits.rounds:
        return None
    weights, scales = graph.constants.get(given["w"]), graph.constants.get(given["scales"])
    zero = graph.constants.get(given["w_zero"]) if given["w_zero"] else None
    if weights is None or weights.ndim != 2 or not weights.size:
        return None
    integers = weights.astype(np.int16) - (0 if zero is None else zero.astype(np.int16))
    if integers.min() < -128 or integers.max() > 127:
        return None
    if scales is None or scales.ndim > 1 or scales.size not in (1, integers.shape[1]):
        return None
    nodes = sorted(found.nodes, key=program.nodes.index)
    return encoder, integers.astype(np.int8), scales.reshape(-1), nodes
