"""Nodes of an ONNX graph in an order of definition, which files should hold but do not always."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx

from tensmith.errors import ModelError, ProgramError
from tensmith.ir import Node, edits
from tensmith.ir.opaque import captures


def in_order(protos: Sequence[onnx.NodeProto], defined: set[str], label: str) -> Iterator[onnx.NodeProto]:
    """Each node after those it reads from, else as in the file.

    Raises ModelError where a value is defined by nothing, or by itself.
    """
    left = {
        Node(proto.op_type, (*proto.input, *captures(proto)), tuple(proto.output)): proto for proto in protos
    }
    known = {"", *defined, *(name for node in left for name in node.outputs)}
    for node, proto in left.items():
        for name in node.inputs:
            if name not in known:
                raise ModelError(
                    f"{label}: node '{proto.name or proto.op_type}' reads '{name}', which nothing defines; "
                    "export it again"
                )
    try:
        for node in edits.in_order(tuple(left), defined):
            yield left.pop(node)
    except ProgramError as error:
        stuck = next(iter(left.values()))
        raise ModelError(
            f"{label}: node '{stuck.name or stuck.op_type}' depends on its own output; export it again"
        ) from error
