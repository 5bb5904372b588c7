"""ONNX's own passes: opset conversion, inlining of local functions, shape inference.

They are C++ that copies the whole model and trusts it. So they get a model without its large weights, and
only one that ONNX's checker has passed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import onnx
import onnx.inliner
import onnx.version_converter

from tensmith.errors import ModelError, first_line
from tensmith.formula.arith import Array
from tensmith.frontend.onnx_tensor import ExternalFiles, read_tensor
from tensmith.ir.onnx_schema import NEWEST_OPSET, OLDEST_OPSET, standard_domain
from tensmith.ir.opaque import all_nodes, subgraphs

_MAX_INLINED_NODES = 1_000_000
# Tensors up to this size stay in graphs handed to the passes: they may hold shapes.
_SMALL_BYTES = 1024
# Operators that ONNX's converter takes for what they became: since which opset they are that, what they were.
_BECAME = {"Scan": (9, "over a batch"), "Hardmax": (13, "over a matrix")}
# Likewise; after the conversion of a whole model this is set right.
_RESIZES = dict.fromkeys(("Resize", "Upsample"), (11, "whose positions count from a corner"))
# Before opset 7 the second operand might stand along an axis by number. ONNX's converter does not look at it.
_ALONG_AXES = frozenset({"Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Greater", "Less", "Equal"})
# What was an attribute, a float, and became inputs of the type of the first one: their places.
_NUMBERS = {"Clip": (1, 2), "Pad": (2,)}


def converted(model: onnx.ModelProto, version: int, label: str) -> onnx.ModelProto:
    """A model of an older opset at the oldest that tensmith imports. Raises ModelError."""
    _refuse(_BECAME, model.graph.node, version, OLDEST_OPSET, label)
    types = _types(model) if version < 11 else {}
    _refuse_axes(model.graph.node, types, version, label)
    try:
        found = _run(lambda light: onnx.version_converter.convert_version(light, OLDEST_OPSET), model)
    except Exception as error:  # the converter raises whatever its C++ adapters throw
        raise ModelError(
            f"{label} is at opset {version} and cannot be converted to {OLDEST_OPSET}: "
            f"{first_line(error).rstrip('.;')}; export it again at opset {OLDEST_OPSET} or newer"
        ) from error
    if version < 11:
        _set_right(found.graph, {}, types, version, label)
    return found


class _Known(NamedTuple):
    """What is known of a value: ONNX's number of its element type, and its sizes (0: open ones) or None."""

    kind: int
    sizes: list[int] | None


def _types(model: onnx.ModelProto) -> dict[str, _Known]:
    """What is known of a model's values."""
    graph = (with_shapes(model) or model).graph
    found = {tensor.name: _Known(tensor.data_type, list(tensor.dims)) for tensor in model.graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        type_ = value.type.tensor_type
        sizes = [each.dim_value for each in type_.shape.dim] if type_.HasField("shape") else None
        found.setdefault(value.name, _Known(type_.elem_type, sizes))
    return found


def _refuse_axes(
    nodes: Iterable[onnx.NodeProto], types: Mapping[str, _Known], version: int, label: str
) -> None:
    """ModelError at the first operand before opset 7 that may stand along other axes than the last ones."""
    for node in all_nodes(nodes) if version < 7 else ():
        if standard_domain(node.domain) != "" or len(node.input) != 2:
            continue
        axis = next((each.i for each in node.attribute if each.name == "axis"), None)
        one, other = (types[name].sizes if name in types else None for name in node.input)
        moved = channels = False
        if node.op_type in _ALONG_AXES and axis is not None:
            moved = not one or other is None or axis % len(one) != len(one) - len(other)
        elif node.op_type == "PRelu":
            channels = (one is None or len(one) != 2) and other != [1]
        if moved or channels:
            raise ModelError(
                f"{label}: node '{node.name or node.output[0]}' ({node.op_type} of opset {version}) has an "
                "operand along an axis that nothing converts; export it again at opset 7 or newer"
            )


def _refuse(
    became: Mapping[str, tuple[int, str]], nodes: Iterable[onnx.NodeProto], old: int, new: int, label: str
) -> None:
    """ModelError at the first operator that has become another one between two opsets."""
    for node in all_nodes(nodes):
        since, was = became.get(node.op_type, (old, ""))
        if old < since <= new and standard_domain(node.domain) == "":
            raise ModelError(
                f"{label} has a {node.op_type} of opset {old}, {was}, which nothing converts; "
                f"export it again at opset {since} or newer"
            )


def _set_right(
    graph: onnx.GraphProto,
    outside: Mapping[str, onnx.TensorProto],
    types: Mapping[str, _Known],
    version: int,
    label: str,
) -> None:
    """What ONNX's converter leaves undone in a graph of before opset 11. outside: constants around it."""
    constants = {**outside, **_constants(graph)}
    for node in graph.node:
        if standard_domain(node.domain) == "":
            if node.op_type == "Resize":
                _state_positions(node, constants, version, label)
            if node.op_type == "Pad":  # of a mode that takes no number
                stated = [attribute for attribute in node.attribute if attribute.name != "value"]
                del node.attribute[:]
                node.attribute.extend(stated)
            _type_numbers(node, constants, types)
        for inner in subgraphs(node):
            _set_right(inner, constants, types, version, label)


def _state_positions(
    node: onnx.NodeProto, constants: Mapping[str, onnx.TensorProto], version: int, label: str
) -> None:
    """Says of a Resize what went without saying."""
    where = f"{label}: node '{node.name or node.output[0]}' (Resize)"
    stated = {"coordinate_transformation_mode": "asymmetric"}
    if all(attribute.s != b"linear" for attribute in node.attribute):
        stated["nearest_mode"] = _nearest(_scales(node, constants, where), version, where)
    node.attribute.extend(onnx.helper.make_attribute(*item) for item in stated.items())


def _type_numbers(
    node: onnx.NodeProto, constants: Mapping[str, onnx.TensorProto], types: Mapping[str, _Known]
) -> None:
    """Gives numbers that were attributes the type of what they meet."""
    kind = types[node.input[0]].kind if node.input and node.input[0] in types else 0
    for name in [node.input[place] for place in _NUMBERS.get(node.op_type, ()) if place < len(node.input)]:
        tensor = constants.get(name)
        if kind and tensor is not None and tensor.data_type == onnx.TensorProto.FLOAT != kind:
            number = onnx.numpy_helper.to_array(tensor).astype(onnx.helper.tensor_dtype_to_np_dtype(kind))
            tensor.CopyFrom(onnx.numpy_helper.from_array(number, tensor.name))


def _constants(graph: onnx.GraphProto) -> dict[str, onnx.TensorProto]:
    found = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and standard_domain(node.domain) == "":
            for each in node.attribute:
                if each.HasField("t"):
                    found[node.output[0]] = each.t
    return found


def _scales(node: onnx.NodeProto, constants: Mapping[str, onnx.TensorProto], where: str) -> Array | None:
    """The scales of a Resize, if they are a constant of the file."""
    tensor = constants.get(node.input[2]) if len(node.input) > 2 else None
    kind = onnx.TensorProto
    if tensor is None or tensor.data_type != kind.FLOAT or tensor.data_location == kind.EXTERNAL:
        return None
    return read_tensor(tensor, where, ExternalFiles(None))


def _nearest(scales: Array | None, version: int, where: str) -> str:
    """How positions were rounded: as ONNX Runtime does it, up where an axis shrinks and else down.

    The standard leaves it open. Upsample, which there was before opset 10, only enlarges.
    """
    if (scales is None and version < 10) or (scales is not None and (scales >= 1).all()):
        return "floor"
    if scales is not None and version == 10 and (scales <= 1).all():
        return "ceil"
    raise ModelError(
        f"{where} is of opset {version} and takes the nearest element, by scales that are no constants or "
        "both enlarge and shrink; export it again at opset 11 or newer"
    )


def inlined(model: onnx.ModelProto, label: str) -> onnx.ModelProto:
    """A model without local functions. Raises ModelError."""
    bound_expansion(model, label)
    own = opset(model.opset_import)
    for function in model.functions:  # one of another opset is converted
        where = f"{label}: function '{function.name}'"
        version = opset(function.opset_import)
        _refuse(_BECAME | _RESIZES, function.node, version, own, where)
        _refuse_axes(function.node, {}, version, where)
    try:
        found = _run(lambda light: onnx.inliner.inline_local_functions(light, convert_version=True), model)
    except Exception as error:  # the inliner raises whatever its C++ throws
        reason = first_line(error).rstrip(".;")
        raise ModelError(
            f"{label} has local functions that cannot be inlined: {reason}; export it without"
        ) from error
    imports = _brought(model, found.graph.node, label)
    found.opset_import.extend(onnx.helper.make_opsetid(*each) for each in imports.items())
    del found.functions[:]
    return found


def _brought(model: onnx.ModelProto, nodes: Iterable[onnx.NodeProto], label: str) -> dict[str, int]:
    """Domains of inlined nodes, with their versions, that functions import and the model does not.

    ModelError where two of them differ, or a function is still called: one that imports another version of a
    domain than the model does, which nothing converts.
    """
    called = {(node.domain, node.op_type, node.overload) for node in all_nodes(nodes)}
    used = {standard_domain(domain) for domain, _, _ in called}
    own, found = versions(model.opset_import), dict[str, int]()
    for function in model.functions:
        where, imports = f"{label}: function '{function.name}'", versions(function.opset_import)
        if (function.domain, function.name, function.overload) in called:
            differ = [name for name in imports if name and imports[name] != own.get(name, imports[name])]
            told = ", ".join(f"'{name}' {imports[name]}, and the model {own[name]}" for name in differ)
            raise ModelError(f"{where} cannot be inlined: it imports {told or 'too much'}; export it without")
        for name in sorted(imports.keys() & used - own.keys()):
            if found.setdefault(name, imports[name]) != imports[name]:
                raise ModelError(
                    f"{where} imports '{name or 'ai.onnx'}' {imports[name]}, and another one {found[name]}; "
                    "export it without"
                )
    return found


def versions(imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    """Domain -> version, the default domain as ""."""
    return {standard_domain(each.domain): each.version for each in imports}


def opset(imports: Iterable[onnx.OperatorSetIdProto]) -> int:
    """The version of the default domain; the newest where none is said."""
    return versions(imports).get("", NEWEST_OPSET)


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
    """Initializers that the passes do without: name, elements, shape. They know no folder of other files."""
    external = onnx.TensorProto.EXTERNAL
    dense = [
        (t.name, t, list(t.dims))
        for t in model.graph.initializer
        if t.ByteSize() > _SMALL_BYTES or t.data_location == external
    ]
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
