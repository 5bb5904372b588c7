"""The files of a model, and the tensors in them, without reading external data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import onnx

from tensmith import gate
from tensmith.data.gguf import is_gguf
from tensmith.errors import ModelError
from tensmith.files import sha256_bytes, sha256_file
from tensmith.frontend.onnx_file import parse_onnx
from tensmith.frontend.onnx_tensor import external_entries, lies_beside


def model_files(path: Path) -> list[Path]:
    """The model file and the external data files it names; ModelError if one lies elsewhere."""
    return [path, *sorted(external_files(path, load_skeleton(path)))]


def model_bytes(path: Path) -> int:
    """Bytes on disk of the model file and of those it names; ModelError if one is missing."""
    return sum(map(size_of, model_files(path)))


def size_of(file: Path) -> int:
    """Bytes of a file of a model; ModelError if it is not there."""
    try:
        return file.stat().st_size
    except OSError as error:
        raise ModelError(f"cannot read {file}: {error.strerror}; it belongs to the model") from error


def file_identity(path: Path) -> str:
    """SHA-256 of a model file, and of the data files it names; ModelError if one lies elsewhere."""
    named = [path] if is_gguf(path) else model_files(path)
    hashes = [sha256_file(file) for file in named if file.exists()]
    return hashes[0] if len(hashes) == 1 else sha256_bytes("".join(hashes).encode())


def load_skeleton(path: Path) -> onnx.ModelProto:
    """The model without its external data; ModelError if it is none."""
    return parse_onnx(gate.read_bytes(path, gate.MODEL), str(path))


def model_tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """The tensors of the graph, and of local functions."""
    yield from tensors(model.graph)
    for function in model.functions:
        for node in function.node:
            yield from node_tensors(node)


def tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Initializers, and the tensors in attributes, of inner graphs too."""
    yield from graph.initializer
    yield from _parts(graph.sparse_initializer)
    for node in graph.node:
        yield from node_tensors(node)


def node_tensors(node: onnx.NodeProto) -> Iterator[onnx.TensorProto]:
    """The tensors in a node's attributes, of inner graphs too."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.TENSOR:
            yield attribute.t
        yield from attribute.tensors
        yield from _parts(attribute.sparse_tensors)
        if attribute.type == onnx.AttributeProto.SPARSE_TENSOR:
            yield from _parts((attribute.sparse_tensor,))
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield from tensors(attribute.g)
        for graph in attribute.graphs:
            yield from tensors(graph)


def _parts(found: Iterable[onnx.SparseTensorProto]) -> Iterator[onnx.TensorProto]:
    for sparse in found:
        yield from (sparse.values, sparse.indices)


def external_files(path: Path, model: onnx.ModelProto) -> set[Path]:
    """The external data files that the model at `path` names; ModelError for a place elsewhere, or two."""
    files = set()
    for tensor in model_tensors(model):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            location = external_entries(tensor, f"{path}: tensor '{tensor.name}'").get("location", "")
            if not lies_beside(path, location):
                raise ModelError(f"{path} keeps '{tensor.name}' outside its folder, in {location}; refused")
            files.add(path.parent / location)
    return files
