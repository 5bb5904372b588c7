"""Opaque nodes: an ONNX NodeProto kept as it was, whose names follow the program's.

A node's inputs in TensIR are the proto's own inputs, then the values its subgraphs capture from outside, in
the order of their first reading. So dead-code removal and renaming see captures as ordinary inputs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from tensmith.errors import ProgramError


def subgraphs(proto: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs among a node's attributes."""
    for attribute in proto.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Nodes, and those of the graphs in them."""
    for node in nodes:
        yield node
        for inner in subgraphs(node):
            yield from all_nodes(inner.node)


def captures(proto: onnx.NodeProto) -> tuple[str, ...]:
    """Values that the subgraphs of a node read from outside, each once, in order of first reading."""
    return tuple(dict.fromkeys(name for graph in subgraphs(proto) for name in _free(graph)))


def definitions(graph: onnx.GraphProto) -> Iterator[str]:
    """Names a graph defines itself."""
    yield from (value.name for value in graph.input)
    yield from (tensor.name for tensor in graph.initializer)
    yield from (sparse.values.name for sparse in graph.sparse_initializer)
    for node in graph.node:
        yield from (name for name in node.output if name)


def _free(graph: onnx.GraphProto) -> Iterator[str]:
    own = set(definitions(graph))
    for node in graph.node:
        yield from (name for name in (*node.input, *captures(node)) if name and name not in own)
    yield from (value.name for value in graph.output if value.name not in own)


def parse(opaque: bytes) -> onnx.NodeProto:
    """The NodeProto of an opaque node."""
    proto = onnx.NodeProto()
    try:
        proto.ParseFromString(opaque)
    except DecodeError as error:
        raise ProgramError(f"an opaque node holds bytes that are no ONNX NodeProto: {error}") from error
    return proto


def bind(
    opaque: bytes, inputs: Sequence[str], outputs: Iterable[str], taken: Collection[str] = ()
) -> onnx.NodeProto:
    """The NodeProto with the program's names for what it reads and writes.

    Names its subgraphs define are changed where they are in `taken`, as ONNX forbids shadowing.
    """
    proto = parse(opaque)
    captured = captures(proto)
    if len(inputs) != len(proto.input) + len(captured):
        raise ProgramError(f"an opaque {proto.op_type} takes {len(proto.input)} inputs and {captured}")
    names = dict(zip(captured, inputs[len(proto.input) :]))
    reserved = {*taken, *names.values()}
    for graph in subgraphs(proto):
        _rename(graph, names, reserved)
    proto.input[:] = inputs[: len(proto.input)]
    proto.output[:] = outputs
    return proto


def renamed(node: onnx.NodeProto, names: Mapping[str, str]) -> onnx.NodeProto:
    """A copy of a node with other names for what it reads, its subgraphs too, and writes."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    _rename_node(copy, names, set(names.values()))
    return copy


def _rename_node(node: onnx.NodeProto, names: Mapping[str, str], reserved: Collection[str]) -> None:
    node.input[:] = [names.get(name, name) for name in node.input]
    node.output[:] = [names.get(name, name) for name in node.output]
    for inner in subgraphs(node):
        _rename(inner, names, reserved)


def _rename(graph: onnx.GraphProto, outer: Mapping[str, str], reserved: Collection[str]) -> None:
    names = dict(outer)
    own = list(definitions(graph))
    for name in own:
        fresh = name
        while fresh in reserved or (fresh != name and fresh in own):
            fresh += ".inner"
        names[name] = fresh
    if all(old == new for old, new in names.items()):
        return
    for node in graph.node:
        _rename_node(node, names, reserved)
    for value in (*graph.input, *graph.output, *graph.value_info):
        value.name = names.get(value.name, value.name)
    for tensor in (*graph.initializer, *(sparse.values for sparse in graph.sparse_initializer)):
        tensor.name = names.get(tensor.name, tensor.name)
