"""Recurrent layers whose input's product is taken: a routine that folds their step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensmith.backend.native.invented import invented
from tensmith.backend.native.quantization import symmetric_codes
from tensmith.backend.native.steps.graph import StepGraph
from tensmith.backend.native.steps.operands import Reads
from tensmith.backend.native.steps.step import Dense, Step
from tensmith.ctext.typed import Typing
from tensmith.errors import EngineError
from tensmith.formula.arith import Array
from tensmith.formula.expr import Expr, Read, tensor
from tensmith.formula.scalars import EXPRESSIONS
from tensmith.formula.types import F32, UNTYPED
from tensmith.ir import Node
from tensmith.ir.op import Attrs
from tensmith.ir.ops.recurrence import Recurrent, directions
from tensmith.kernel.routines.recurrence import GateStage, RecurrentFold
from tensmith.kernel.routines.recurrent_panels import packed, tables
from tensmith.kernel.routines.strided import Strided, StridedOperand, StridedStatement
from tensmith.kernel.vectors import vector_text
from tensmith.kernel.view import StridedView


def recurrence(graph: StepGraph, node: Node) -> list[Step] | None:
    """The fold of a recurrent layer and its outputs; None if it is none, or its weights are computed."""
    layer = node.kind(Recurrent)
    x, w, r, b, lengths, *rest = node.operands(8)
    if layer is None or w or node not in graph.tensors or not graph.constants.keys() >= {r, b} - {""}:
        return None
    looks = rest[layer.peepholes - 5] if layer.peepholes is not None else ""
    if (looks and looks not in graph.constants) or graph.dtypes[x] != "f32":
        return None
    if lengths and graph.dtypes[lengths] != "i32":
        return None
    steps, batch, _ = graph.shapes[x]
    ways, _, hidden = graph.shapes[r]
    weights, worth = _weights(graph, r)
    weights, worth = (part.reshape(ways, layer.gates, hidden, -1) for part in (weights, worth))
    bias, holes = np.zeros((ways, layer.gates, hidden)), np.zeros((ways, 3, hidden))
    if b:
        bias = graph.constants[b][:, layer.gates * hidden :].reshape(bias.shape)
    if looks:
        holes = graph.constants[looks].reshape(holes.shape)
    stages = gate_stages(layer, node.attrs, bool(looks))
    reads = Reads(graph)
    given = reads.dense(x)
    starts = tuple(reads.dense(name) if (name := rest[place - 5]) else None for place in layer.first)
    used = [bool(name) and (graph.program.uses(name) > 0) for name in node.outputs]
    alone = used[0] and not any(used[1:])
    routine = RecurrentFold(
        steps, batch, hidden, layer.gates, directions(node.attrs), stages, given, starts,
        reads.table(packed([stage.gates for stage in stages], batch, weights, graph.isa)).offset,
        reads.table(tables(bias, holes, worth[..., 0], weights, graph.isa)).offset,
        weights.dtype == np.int8, graph.isa, alone, reads.dense(lengths) if lengths else None,
    )  # fmt: skip
    whole = graph.names[node.outputs[0]] if alone else _table(graph, node, routine)
    fold = Dense(routine, tuple(reads.sources), whole, reads.constants)
    return [fold] if alone else [fold, *_outputs(graph, node, whole)]


def _weights(graph: StepGraph, r: str) -> tuple[Array, Array]:
    """Weights [D, G*H, H], or the codes behind them, and what a code of each row [D, G*H, 1] is worth."""
    floats = np.asarray(graph.constants[r], np.float32)
    node = graph.program.producers.get(r)
    while node is not None and node.traits.renames:
        node = graph.program.producers.get(node.inputs[0])
    plain = floats, np.ones((*floats.shape[:2], 1), np.float32)
    found = symmetric_codes(graph.constants, node)
    if node is None or found is None or found[0].dtype != np.int8:
        return plain
    codes, scales = found
    axis = node.attrs["axis"] % codes.ndim
    if scales.size != 1 and axis == codes.ndim - 1:
        return plain
    spread = scales.reshape([-1 if a == axis else 1 for a in range(codes.ndim)])
    worth = np.broadcast_to(spread, codes.shape).reshape(floats.shape)[..., :1]
    return codes.reshape(floats.shape), worth


def gate_stages(layer: Recurrent, attrs: Attrs, peepholes: bool) -> tuple[GateStage, ...]:
    """The step of a layer in C: what it multiplies with the weights, one value after the other."""
    products: list[tuple[int, Expr]] = []

    def value(name: str) -> Expr:
        return tensor(name)[()]

    def product(gate: int, operand: Expr) -> Expr:
        products.append((gate, operand))
        return value(f"r{gate}")

    state = tuple(value(f"s{place}") for place in range(len(layer.first)))
    sums = [value(f"x{gate}") for gate in range(layer.gates)]
    holes = [value(f"p{place}") for place in range(3)] if peepholes else []
    after = layer.step(EXPRESSIONS, sums, product, state, holes, attrs)
    operands = list(dict.fromkeys(operand for _, operand in products))
    results = [*((operand,) for operand in operands[1:]), after]
    gates = [tuple(gate for gate, operand in products if operand == each) for each in operands]
    return tuple(_stage(own, values) for own, values in zip(gates, results))


def _stage(gates: tuple[int, ...], values: Sequence[Expr]) -> GateStage:
    names: dict[str, None] = {}

    def named(name: str) -> str:
        names[name] = None
        return name

    typing = Typing(lambda name, at: Read(name, (), F32), EngineError, whole=UNTYPED)
    texts = tuple(vector_text(typing.typed(value, F32), named) for value in values)
    return GateStage(gates, texts, tuple(names))


def _table(graph: StepGraph, node: Node, routine: RecurrentFold) -> str:
    """What holds all that the fold makes."""
    name = invented(node.output, "states")
    graph.tables[name] = routine.size
    return name


def _outputs(graph: StepGraph, node: Node, whole: str) -> list[Step]:
    """The outputs, which lie one after the other in `whole`; y comes first even if nobody reads it."""
    made: list[Step] = []
    x, r = graph.shapes[node.inputs[0]], graph.shapes[node.inputs[2]]
    state = r[0] * x[1] * r[2]
    for place, value in enumerate(node.outputs):
        if value:
            shape = graph.shapes[value]
            offset = 0 if place == 0 else (x[0] + place - 1) * state
            view = StridedView(shape, StridedView.dense(shape).strides, offset)
            part = StridedStatement("{0}", (StridedOperand(0, view),), StridedView.dense(shape))
            made.append(Dense(Strided((part,), graph.isa.lanes), (whole,), graph.names[value]))
    return made
