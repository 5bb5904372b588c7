"""The reference meaning of a program: each node run in order, in floats or in a prime field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import onnx
import onnx.reference

from tensmith.errors import ProgramError
from tensmith.formula.arith import Arith, Array, Floats
from tensmith.ir.op import Node, Run
from tensmith.ir.opaque import all_nodes, bind
from tensmith.ir.program import Program
from tensmith.ir.types import TensorType

_FLOATS = Floats()
# Recurrent layers, with the functions that ONNX's reference computes whatever they are given.
_RECURRENT = {"LSTM": ["sigmoid", "tanh", "tanh"], "GRU": ["sigmoid", "tanh"], "RNN": ["tanh"]}


def interpret(program: Program, inputs: Mapping[str, Array], arith: Arith | None = None) -> dict[str, Array]:
    """Runs `program` on arrays and gives its outputs by name.

    In an exact arithmetic, floating inputs must be given as residues; floating constants are converted.
    Integer and boolean values are computed as themselves in every arithmetic.
    """
    missing = [name for name in program.inputs if name not in inputs]
    if missing:
        raise ProgramError(f"input '{missing[0]}' is missing; the program takes {', '.join(program.inputs)}")
    arith = arith or _FLOATS
    values: dict[str, Array] = dict(inputs)
    for name, array in program.constants.items():
        values[name] = arith.const(array) if arith.exact and program.type(name).floating else array
    last = _last_reads(program)
    for position, node in enumerate(program.nodes):
        for name, array in zip(node.outputs, run_node(program, node, values, arith)):
            if name:
                values[name] = array
        for name in last.get(position, ()):
            values.pop(name, None)
    return {name: values[name] for name in program.outputs}


def interpret_in_float64(program: Program, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """As `interpret`, with every float of 64 bits."""
    types = {n: t.with_dtype("f64") if t.floating else t for n, t in program.inputs.items()}
    floating = {name for name in program.constants if program.type(name).floating}
    constants = {n: a.astype(np.float64) if n in floating else a for n, a in program.constants.items()}
    given = {name: np.asarray(array, types[name].numpy) for name, array in inputs.items()}
    return interpret(replace(program, inputs=types, constants=constants), given)


def run_node(program: Program, node: Node, values: Mapping[str, Array], arith: Arith) -> tuple[Array, ...]:
    """The output arrays of one node."""
    inputs = tuple(values[name] if name else None for name in node.inputs)
    if node.opaque is not None:
        return _run_opaque(program, node, inputs, arith)
    types = tuple(program.facts[name].type if name else None for name in node.inputs)
    out_types = tuple(program.facts[name].type if name else None for name in node.outputs)
    plain = not any(t is None or t.floating for t in (*types, *out_types) if t is not None)
    call = Run(node.attrs, inputs, types, out_types)
    try:
        with np.errstate(all="ignore"):
            arrays = node.definition.run(call, _FLOATS if plain else arith)
    except (ValueError, IndexError, TypeError, ZeroDivisionError) as error:
        raise ProgramError(f"{node.label} cannot run: {error}") from error
    if arith.exact and not plain:  # whole numbers are what their type holds in every arithmetic
        return arrays
    return tuple(_cast(array, type_) for array, type_ in zip(arrays, out_types))


def _cast(array: Array, type_: TensorType | None) -> Array:
    return array if type_ is None or array.dtype == type_.numpy else array.astype(type_.numpy)


def _run_opaque(
    program: Program, node: Node, inputs: tuple[Array | None, ...], arith: Arith
) -> tuple[Array, ...]:
    """An ONNX operator TensIR does not know, by ONNX's own reference; it has no meaning in a field."""
    label = f"opaque {node.label}"
    if arith.exact:
        raise ProgramError(f"{label} has no exact meaning")
    proto = bind(node.opaque or b"", node.inputs, node.outputs, {*node.inputs, *node.outputs})
    if reason := next(filter(None, map(_ignored, all_nodes([proto]))), ""):
        raise ProgramError(f"{label} cannot run: ONNX's reference ignores {reason}")
    given = {name: array for name, array in zip(node.inputs, inputs) if array is not None}
    outputs = [name for name in node.outputs if name]
    untyped = onnx.TypeProto()
    graph = onnx.helper.make_graph(
        [proto],
        "opaque",
        [onnx.helper.make_value_info(name, untyped) for name in given],
        [onnx.helper.make_value_info(name, untyped) for name in outputs],
    )
    opsets = [onnx.helper.make_opsetid(d, v) for d, v in {proto.domain: 1, **program.origin.opsets}.items()]
    try:
        evaluator = onnx.reference.ReferenceEvaluator(onnx.helper.make_model(graph, opset_imports=opsets))
        found = dict(zip(outputs, evaluator.run(None, given)))
    except Exception as error:  # the reference raises whatever the operator's own code raises
        raise ProgramError(f"{label} cannot run: {error}") from error
    # A sequence stays a list: only opaque nodes read it.
    return tuple(found[name] if name else np.zeros(0) for name in node.outputs)


def _ignored(proto: onnx.NodeProto) -> str:
    """What of a recurrent layer ONNX's reference takes no notice of; "" for nothing."""
    usual = _RECURRENT.get(proto.op_type)
    if usual is None or proto.domain not in ("", "ai.onnx"):
        return ""
    if proto.input[4:5] not in ([], [""]):
        return "sequence_lens"
    given = {each.name: onnx.helper.get_attribute_value(each) for each in proto.attribute}
    both = given.get("direction") == b"bidirectional"
    functions = [name.decode().lower() for name in given.get("activations", ())]
    ignored = {
        "activations": functions not in ([], usual * (2 if both else 1)),
        "input_forget": given.get("input_forget", 0) != 0,
        **{name: name in given for name in ("clip", "activation_alpha", "activation_beta")},
    }
    return next((name for name, found in ignored.items() if found), "")


def _last_reads(program: Program) -> dict[int, list[str]]:
    """Node position -> values nobody reads after it."""
    last: dict[str, int] = {}
    for position, node in enumerate(program.nodes):
        for name in node.inputs:
            if name:
                last[name] = position
    table: dict[int, list[str]] = {}
    for name, position in last.items():
        if name not in program.outputs:
            table.setdefault(position, []).append(name)
    return table
