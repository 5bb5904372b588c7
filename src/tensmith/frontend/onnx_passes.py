"""ONNX's own passes: opset conversion, inlining of local functions, shape inference.

They are C++ that copies the whole model and trusts it. So they get a model without its large weights, and
only one that ONNX's checker has passed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import onnx
import onnx.inliner
import onnx.version_converter

from tensmith.errors import ModelError
from tensmith.ir.onnx_schema import OLDEST_OPSET
from tensmith.ir.opaque import subgraphs

_MAX_INLINED_NODES = 1_000_000
# Tensors up to this size stay in graphs handed to the passes: they may hold shapes.
_SMALL_BYTES = 1024


def converted(model: onnx.ModelProto, version: int, label: str) -> onnx.ModelProto:
    """A model of an older opset at the oldest that tensmith imports. Raises ModelError."""
    if version < 9 and any(node.op_type == "Scan" for node in _all_nodes(model.graph)):
        raise ModelError(
            f"{label} has a Scan of opset {version}, over a batch, which nothing converts; "
            "export it again at opset 9 or newer"
        )
    try:
        return _run(lambda light: onnx.version_converter.convert_version(light, OLDEST_OPSET), model)
    except Exception as error:  # the converter raises whatever its C++ adapters throw
        raise ModelError(
            f"{label} is at opset {version} and cannot be converted to {OLDEST_OPSET}: "
            f"{_first_line(error)}; export it again at opset {OLDEST_OPSET} or newer"
        ) from error


def _all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Its nodes and those of graphs in them."""
    for node in graph.node:
        yield node
        for inner in subgraphs(node):
            yield from _all_nodes(inner)


def inlined(model: onnx.ModelProto, label: str) -> onnx.ModelProto:
    """A model without local functions. Raises ModelError."""
    bound_expansion(model, label)
    try:
        found = _run(lambda light: onnx.inliner.inline_local_functions(light, convert_version=True), model)
    except Exception as error:  # the inliner raises whatever its C++ throws
        raise ModelError(
            f"{label} has local functions that cannot be inlined: {_first_line(error)}; export it without"
        ) from error
    del found.functions[:]
    return found


def with_shapes(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """The model, without its large weights, with the types ONNX infers; None where it cannot."""
    try:
        light = _weightless(model)
        _check(light)
        return onnx.shape_inference.infer_shapes(light, data_prop=True)
    except Exception:  # inference is a help; without it the types stay unknown
        return None


def _run(change: Callable[[onnx.ModelProto], onnx.ModelProto], model: onnx.ModelProto) -> onnx.ModelProto:
    light = _weightless(model)
    _check(light)
    return _with_weights(change(light), model)


def _check(light: onnx.ModelProto) -> None:
    """Raises what the checker raises, except for outputs that leave their shape open."""
    copy = onnx.ModelProto()
    copy.CopyFrom(light)
    for value in copy.graph.output:
        if value.type.HasField("tensor_type") and not value.type.tensor_type.HasField("shape"):
            value.type.tensor_type.shape.SetInParent()
    onnx.checker.check_model(copy)


def _weightless(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy whose large and sparse initializers are inputs of the same type."""
    light = onnx.ModelProto(
        ir_version=model.ir_version,
        opset_import=model.opset_import,
        functions=model.functions,
        metadata_props=model.metadata_props,
        producer_name=model.producer_name,
        producer_version=model.producer_version,
        doc_string=model.doc_string,
        graph=onnx.GraphProto(
            name=model.graph.name,
            node=model.graph.node,
            input=model.graph.input,
            output=model.graph.output,
            value_info=model.graph.value_info,
        ),
    )
    inputs = {value.name for value in model.graph.input}
    for name, tensor, dims in _large(model):
        if name not in inputs:
            light.graph.input.append(onnx.helper.make_tensor_value_info(name, tensor.data_type, dims))
    large = {name for name, _, _ in _large(model)}
    light.graph.initializer.extend(t for t in model.graph.initializer if t.name not in large)
    return light


def _large(model: onnx.ModelProto) -> list[tuple[str, onnx.TensorProto, list[int]]]:
    """Initializers that the passes do without: name, elements, shape."""
    dense = [(t.name, t, list(t.dims)) for t in model.graph.initializer if t.ByteSize() > _SMALL_BYTES]
    return dense + [(s.values.name, s.values, list(s.dims)) for s in model.graph.sparse_initializer]


def _with_weights(light: onnx.ModelProto, original: onnx.ModelProto) -> onnx.ModelProto:
    """`light` with the original's large initializers in place of the inputs that stood for them."""
    large = {name for name, _, _ in _large(original)}
    added = large - {value.name for value in original.graph.input}
    inputs = [value for value in light.graph.input if value.name not in added]
    del light.graph.input[:]
    light.graph.input.extend(inputs)
    light.graph.initializer.extend(t for t in original.graph.initializer if t.name in large)
    light.graph.sparse_initializer.extend(original.graph.sparse_initializer)
    return light


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".;")


def bound_expansion(model: onnx.ModelProto, label: str) -> None:
    """Refuses functions that call themselves, or whose inlining would not end in reasonable size."""
    functions = {(f.domain, f.name, f.overload): f for f in model.functions}
    sizes: dict[tuple[str, str, str], int] = {}
    active: list[tuple[str, str, str]] = []

    def size_of(nodes: Sequence[onnx.NodeProto]) -> int:
        total = 0
        for node in nodes:
            key = (node.domain, node.op_type, node.overload)
            total += function_size(key) if key in functions else 1
            total += sum(size_of(graph.node) for graph in subgraphs(node))
        return total

    def function_size(key: tuple[str, str, str]) -> int:
        if key in sizes:
            return sizes[key]
        if key in active or len(active) > 100:
            raise ModelError(
                f"{label}: function '{key[1]}' calls itself or nests too deeply; export it without"
            )
        active.append(key)
        sizes[key] = size_of(functions[key].node)
        active.pop()
        return sizes[key]

    if size_of(model.graph.node) > _MAX_INLINED_NODES:
        raise ModelError(
            f"{label}: inlining its functions gives over {_MAX_INLINED_NODES} nodes; export it without"
        )
