"""ONNX: one model whose inputs are the source's parameters, and whose outputs are what the source writes.

Sizes and views are computed inside the graph. A graph cannot raise an error, so requirements are stated: in
the model's description, and as JSON under the metadata keys `tensmith.requires` and `tensmith.assumes`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from tensmith.backend.onnx import to_onnx
from tensmith.errors import ProgramError
from tensmith.formula.poly import Poly
from tensmith.formula.types import MachineType
from tensmith.ir import Program, TensorType
from tensmith.ir.edits import in_order
from tensmith.ir.part import without_dead
from tensmith.ir.program import Origin
from tensmith.lifting.emit import EmittedFiles, Emitter, emitter
from tensmith.lifting.emit.graph import kernels, views
from tensmith.lifting.emit.graph.build import Graph
from tensmith.lifting.lifted import Input, Lifted, result_name
from tensmith.lifting.loops import Array, dtype_of
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.summary import length_symbol


@emitter
class Onnx(Emitter):
    """An ONNX model."""

    name = "onnx"

    def emit(self, lifted: Lifted) -> EmittedFiles:
        """F.onnx."""
        function = lifted.function
        try:
            model = to_onnx(model_program(lifted))
        except ProgramError as error:
            raise Refusal(
                f"ONNX cannot say this program: {error}", function.position, function.name
            ) from error
        return EmittedFiles({f"{function.name}.onnx": model.SerializeToString(deterministic=True)})


def model_program(lifted: Lifted) -> Program:
    """The program from the source's parameters to what it writes."""
    fields = lifted.function.fields
    names = frozenset(name for name, _ in fields)
    graph = Graph(names | {f"{_PREFIX}{name}" for name in lifted.program.names})
    inputs = {name: _input(graph, name, type_) for name, type_ in fields}
    _bind_sizes(graph, lifted)
    fed = {entry.name: _feed(graph, entry, inputs) for entry in lifted.inputs}
    inner = _between(lifted.program, fed)
    kernels.legalize(graph, inner)
    outputs = _outputs(graph, lifted, fed)
    constants = {**inner.constants, **graph.constants}
    origin = Origin(metadata=_metadata(lifted), doc=_description(lifted))
    nodes = tuple(in_order(graph.nodes, {*inputs, *constants}))
    return without_dead(Program(lifted.function.name, inputs, outputs, nodes, constants, {}, origin))


def _bind_sizes(graph: Graph, lifted: Lifted) -> None:
    """Sizes as values: each is over parameters and earlier sizes, and may have a parameter's name itself.

    One of a path is over a truth value of the program too, whose nodes come later (`in_order`).
    """
    exact, sizes = graph.symbols, dict[str, str]()
    scalars = {entry.name: entry.scalar for entry in lifted.inputs if entry.scalar is not None}
    for size in lifted.sizes:
        graph.symbols = {**sizes, **exact}
        value = graph.op("max", [graph.size(size.poly), graph.const(0)])
        if size.when:
            taken = scalars.get(size.when, f"{_PREFIX}{size.when}")
            value = graph.op("where", [taken, value, graph.const(0)])
        sizes[size.symbol] = value
    graph.symbols = {**exact, **sizes}


# What the program's own values begin with, so that no parameter has their names.
_PREFIX = "program."


def _between(program: Program, fed: Mapping[str, str]) -> Program:
    """The program on the values that feed it, its own values under names that no parameter has."""

    def renamed(name: str) -> str:
        return fed.get(name, f"{_PREFIX}{name}") if name else name

    nodes = tuple(
        replace(node, inputs=tuple(map(renamed, node.inputs)), outputs=tuple(map(renamed, node.outputs)))
        for node in program.nodes
    )
    return Program(
        program.name,
        {renamed(name): type_ for name, type_ in program.inputs.items()},
        tuple(map(renamed, program.outputs)),
        nodes,
        {renamed(name): array for name, array in program.constants.items()},
    )


def _input(graph: Graph, name: str, type_: MachineType | Array) -> TensorType:
    """The type of a parameter; its lengths, or its own value, become symbols."""
    if isinstance(type_, MachineType):
        dtype = dtype_of(type_)
        if type_.kind == "int":
            graph.symbols[name] = name if dtype == "i64" else graph.cast(name, "i64")
        return TensorType(dtype, ())
    axes = type_.axes
    dims = [f"{name}_length" if axes == 1 else f"{name}_length_{axis}" for axis in range(axes)]
    for axis in range(axes):
        size = graph.op("shape", [name], {"start": axis, "end": axis + 1})
        graph.symbols[length_symbol(name, axis)] = graph.op("squeeze", [size, graph.const([0])])
    return TensorType(dtype_of(type_.element), tuple(map(Poly.symbol, dims)))


def _feed(graph: Graph, entry: Input, inputs: Mapping[str, TensorType]) -> str:
    """The value of an input of the program, from the parameters; what is guarded may lie outside of them."""
    if entry.view is not None:
        array = entry.view.array
        if entry.when:
            return views.read_what_is_there(graph, array, entry.view, inputs[array].dtype)
        return views.read(graph, array, entry.view)
    return entry.scalar if entry.scalar is not None else graph.range(entry.positions or 0)


def _outputs(graph: Graph, lifted: Lifted, fed: Mapping[str, str]) -> tuple[str, ...]:
    """Written arrays in parameter order, then what is returned."""
    values = {each.name: fed.get(each.name, f"{_PREFIX}{each.name}") for each in lifted.outputs}
    written: dict[str, str] = {}
    for array, parts in lifted.written.items():
        written[array] = array
        for part in parts:
            assert part.view is not None
            written[array] = views.write(graph, written[array], part.view, values[part.name])
    found = [(f"out_{name}", value) for name, value in written.items()]
    found += [(result_name(name), values[output.name]) for name, output in lifted.returned.items()]
    names = []
    for base, value in found:
        name = graph.fresh(base)
        graph.named("identity", [value], name)
        names.append(name)
    return tuple(names)


def _metadata(lifted: Lifted) -> dict[str, str]:
    return {
        "tensmith.requires": json.dumps([entry.text for entry in lifted.requires]),
        "tensmith.assumes": json.dumps(list(lifted.assumes)),
    }


def _description(lifted: Lifted) -> str:
    function = lifted.function
    lines = [f"{function.name} of {lifted.source}, as a tensor program."]
    if lifted.requires:
        lines += ["", "Required, and not checked by the model:", *(f"- {r.text}" for r in lifted.requires)]
    if lifted.assumes:
        lines += ["", "Assumed:", *(f"- {text}" for text in lifted.assumes)]
    lines += [line for text in lifted.notes for line in ("", f"Note: {text}.")]
    return "\n".join(lines)
