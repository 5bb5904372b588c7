"""Nodes of an ONNX graph in an order of definition, which files should hold but do not always."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

import onnx

from tensmith.errors import ModelError
from tensmith.ir.opaque import captures


def in_order(protos: Sequence[onnx.NodeProto], defined: set[str], label: str) -> Iterator[onnx.NodeProto]:
    """Each node after those it reads from, else as in the file.

    Raises ModelError where a value is defined by nothing, or by itself.
    """
    reads = [{name for name in (*proto.input, *captures(proto)) if name} for proto in protos]
    readers: dict[str, list[int]] = {}
    for position, names in enumerate(reads):
        for name in names:
            readers.setdefault(name, []).append(position)
    for name in readers.keys() - defined - {name for proto in protos for name in proto.output}:
        node = protos[readers[name][0]]
        raise ModelError(
            f"{label}: node '{node.name or node.op_type}' reads '{name}', which nothing defines; "
            "export it again"
        )
    missing = [len(names - defined) for names in reads]
    heap = [position for position, count in enumerate(missing) if not count]  # ascending, so a heap
    ready = {"", *defined}
    emitted = 0
    while heap:
        proto = protos[heapq.heappop(heap)]
        emitted += 1
        yield proto
        for name in proto.output:
            if name in ready:
                continue
            ready.add(name)
            for reader in readers.get(name, ()):
                missing[reader] -= 1
                if not missing[reader]:
                    heapq.heappush(heap, reader)
    if emitted < len(protos):
        stuck = next(proto for proto, count in zip(protos, missing) if count)
        raise ModelError(
            f"{label}: node '{stuck.name or stuck.op_type}' depends on its own output; export it again"
        )
