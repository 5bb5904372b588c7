"""Programs as ONNX models that pass the checker in full, at the opset they came from where it suffices."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import EncodeError  # type: ignore[import-untyped]

from tensmith.backend.onnx_tensor import ExternalWriter, WriteTensor, inline_tensor
from tensmith.errors import OutputError, ProgramError
from tensmith.files import atomic_path, write_bytes
from tensmith.formula.poly import Dim, Poly
from tensmith.ir.onnx_schema import (
    ELEMENT_CODES,
    NEWEST_OPSET,
    UNKNOWN,
    attribute_kind,
    find_schema,
    misfit,
    schema_default,
    standard_domain,
)
from tensmith.ir.op import REQUIRED, Node, trimmed
from tensmith.ir.opaque import all_nodes, bind, parse
from tensmith.ir.program import PRODUCER, PRODUCER_KEY, Origin, Program, array_bytes
from tensmith.ir.types import TensorType

_PROTOBUF_LIMIT = 2**31 - 1
# The first opset at which a Split without sizes says into how many parts.
_COUNTED_PARTS = 18


def to_onnx(program: Program) -> onnx.ModelProto:
    """The ONNX model of a program, weights inside. Raises ProgramError where ONNX cannot say it."""
    return _build(program, inline_tensor)


def write_onnx(program: Program, path: str | Path, *, external_threshold: int = 1 << 30) -> None:
    """Writes `path` atomically; weights over `external_threshold` bytes go to `path`.data beside it.

    The data file is written first, tensor by tensor, so no second copy of the weights is made.
    """
    path = Path(path)
    if sum(map(array_bytes, program.constants.values())) <= external_threshold:
        write_bytes(path, serialized(to_onnx(program), path))
        return
    data = path.with_name(path.name + ".data")
    with atomic_path(path) as last, atomic_path(data) as temporary:
        with temporary.open("wb") as file:
            model = _build(program, ExternalWriter(file, data.name))
        last.write_bytes(serialized(model, path))


def serialized(model: onnx.ModelProto, path: Path, todo: str = "lower external_threshold") -> bytes:
    """The bytes of a file with all weights inside; OutputError where they are too many."""
    with contextlib.suppress(EncodeError):  # so protobuf says it
        data = bytes(model.SerializeToString(deterministic=True))
        if len(data) <= _PROTOBUF_LIMIT:
            return data
    raise OutputError(f"{path} would be over 2 GB, which ONNX cannot hold in one file; {todo}")


def _build(program: Program, write_tensor: WriteTensor) -> onnx.ModelProto:
    origin = program.origin
    opset = _required_opset(program)
    protos = [_node(program, node, opset) for node in program.nodes]
    graph = onnx.GraphProto(name=program.name, node=protos)
    folded = _folded(program, opset)
    for name, array in program.constants.items():
        if name not in folded:
            graph.initializer.append(write_tensor(name, array))
    for name, type_ in program.inputs.items():
        graph.input.append(_value(name, type_))
    for name in program.outputs:
        graph.output.append(_value(name, program.type(name)))
    for name, type_ in program.hints.items():
        if name in program.producers and name not in program.outputs:
            graph.value_info.append(_value(name, type_))
    imports = [onnx.helper.make_opsetid(*entry) for entry in _opsets(program, opset).items()]
    model = onnx.ModelProto(graph=graph, opset_import=imports, producer_name=PRODUCER, doc_string=origin.doc)
    needed = onnx.helper.find_min_ir_version_for(imports, ignore_unknown=True)
    model.ir_version = max(origin.ir_version, needed)
    metadata = {PRODUCER_KEY: origin.producer} if origin.producer else {}
    for key, text in {**origin.metadata, **metadata}.items():
        model.metadata_props.add(key=key, value=text)
    return model


def _opsets(program: Program, opset: int) -> dict[str, int]:
    """The opsets of the program's file, and version 1 of domains that only rewrites brought in."""
    used = {
        parse(node.opaque).domain if node.opaque is not None else node.definition.domain
        for node in program.nodes
    }
    domains = {standard_domain(domain) for domain in used}
    added = dict.fromkeys(sorted(domains - program.origin.opsets.keys()), 1)
    found = {**program.origin.opsets, **added}
    return {**found, "": opset} if "" in found else found


# Types


def _value(name: str, type_: TensorType) -> onnx.ValueInfoProto:
    code = ELEMENT_CODES[type_.dtype]
    shape = None if type_.shape is None else list(map(_dim, type_.shape))
    return onnx.helper.make_tensor_value_info(name, code, shape)


def _dim(dim: Dim) -> int | str | None:
    """A number, the name of a variable, or nothing where the size is a formula of variables."""
    if isinstance(dim, int):
        return dim
    symbols = dim.symbols()
    name = next(iter(symbols)) if len(symbols) == 1 else None
    return name if name is not None and dim == Poly.symbol(name) else None


# Opsets


def _required_opset(program: Program) -> int:
    """The program's own opset, or the first newer one in which every node can be said."""
    own = program.origin.opsets.get("", Origin().opsets[""])
    for version in range(own, NEWEST_OPSET + 1):
        reasons = (_misfit(program, node, version) for node in program.nodes if node.opaque is None)
        reason = next((reason for reason in reasons if reason is not None), None)
        if reason is None:
            _refuse_changed(program, own, version)
            return version
    raise ProgramError(f"no opset from {own} to {NEWEST_OPSET} can say this program: {reason}")


def _refuse_changed(program: Program, own: int, version: int) -> None:
    """The standard's operators in opaque nodes, and in graphs of these, must mean the same at both opsets."""
    for node in program.nodes:
        if node.opaque is None or own == version:
            continue
        outer = parse(node.opaque)
        for proto in all_nodes([outer]):
            if standard_domain(proto.domain):
                continue
            before, after = (find_schema("", proto.op_type, opset) for opset in (own, version))
            if before is not None and (after is None or before.since_version != after.since_version):
                where = node.label if proto is outer else f"{proto.op_type} in {node.label}"
                raise ProgramError(
                    f"the program needs opset {version}, but {where} means "
                    f"something else there than at its own opset {own}; export the model at opset {version}"
                )


def _misfit(program: Program, node: Node, version: int) -> str | None:
    """Why a node cannot be said at an opset of the default domain."""
    op = node.definition
    if not op.onnx:
        return f"ONNX has no operator '{op.name}'"
    if op.domain:
        return None
    fixed = {position for _, position in _attribute_inputs(program, node, version)}
    moved = {position for position, change in op.moved.values() if version < change}
    inputs = [
        "" if not name or position in fixed else _dtype(program, name)
        for position, name in enumerate(node.inputs)
    ]
    if any(inputs[position] for position in moved if position < len(inputs)):
        return f"node '{node.name or node.output}' computes what opset {version} has as an attribute"
    names = [*_attributes(node, version), *(name for name, _ in _attribute_inputs(program, node, version))]
    return misfit("", op.onnx, version, dict.fromkeys(names), trimmed(inputs), len(node.outputs))


def _dtype(program: Program, name: str) -> str:
    type_ = program.facts[name].type
    return UNKNOWN if type_ is None else type_.dtype


# Nodes


def _attributes(node: Node, version: int) -> dict[str, Any]:
    """Attributes that must be written: not None, and not the default of that opset. Of a domain without
    schemas all are, as versions of its engine may differ in what they take for granted."""
    op = node.definition
    schema = find_schema(op.domain, op.onnx, version)
    written = {}
    given = dict(node.attrs)
    if node.traits.divides and version >= _COUNTED_PARTS and not any(node.inputs[1:]):
        given["num_outputs"] = len(node.outputs)
    for name, value in given.items():
        default = op.attributes.get(name, REQUIRED)
        if value is not None and (
            default is REQUIRED
            or schema is None
            or value != schema_default(op.domain, op.onnx, version, name, default)
        ):
            written[name] = value
    return written


def _attribute_inputs(program: Program, node: Node, version: int) -> Iterator[tuple[str, int]]:
    """Constant inputs that are attributes at this opset: (attribute, input position)."""
    for name, (position, change) in node.definition.moved.items():
        if version < change and node.operand(position) in program.constants:
            yield name, position


def _folded(program: Program, opset: int) -> frozenset[str]:
    """Constants that become attributes and are read by nothing else."""
    folded: set[str] = set()
    kept: set[str] = set(program.outputs)
    for node in program.nodes:
        positions = set() if node.opaque else {p for _, p in _attribute_inputs(program, node, opset)}
        for position, name in enumerate(node.inputs):
            (folded if position in positions else kept).add(name)
    return frozenset(folded - kept)


def _node(program: Program, node: Node, opset: int) -> onnx.NodeProto:
    if node.opaque is not None:
        proto = bind(node.opaque, node.inputs, node.outputs, program.names)
        if node.name:
            proto.name = node.name
        return proto
    op = node.definition
    schema = find_schema(op.domain, op.onnx, opset)
    values = _attributes(node, opset)
    inputs = list(node.inputs)
    for name, position in _attribute_inputs(program, node, opset):
        values[name] = program.constants[inputs[position]].tolist()
        inputs[position] = ""
    proto = onnx.NodeProto(
        op_type=op.onnx, domain=op.domain, name=node.name, input=trimmed(inputs), output=node.outputs
    )
    for name, value in values.items():
        kind = attribute_kind(schema, name) if schema is not None and name in schema.attributes else None
        value = inline_tensor("", value) if isinstance(value, np.ndarray) else value
        proto.attribute.append(onnx.helper.make_attribute(name, value, attr_type=kind))
    return proto
