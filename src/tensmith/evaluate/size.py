"""Two of the three sizes: of the file as an engine loads it, and of the weights in memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from tensmith.errors import ModelError
from tensmith.evaluate.metric import Metric, exact


def file_bytes(path: Path) -> Metric:
    """Bytes on disk of the model and of the external data files it names; ModelError if one is missing."""
    return exact(sum(_size(file) for file in model_files(path)), "bytes")


def model_files(path: Path) -> list[Path]:
    """The model file and the external data files it names; ModelError if one lies elsewhere."""
    return [path, *sorted(_external_files(path, _load(path)))]


def weight_bytes(path: Path) -> Metric:
    """Bytes of all initializers and Constant nodes, as their dtypes lie in memory, external or not.

    Four-bit types are counted packed, two a byte.
    """
    return exact(sum(_tensor_bytes(tensor) for tensor in _tensors(_load(path).graph)), "bytes")


def _load(path: Path) -> onnx.ModelProto:
    try:
        return onnx.load(str(path), load_external_data=False)
    except (OSError, DecodeError) as error:
        raise ModelError(f"cannot read {path} as an ONNX model: {error}; export or copy it again") from error


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                yield attribute.t
            elif attribute.type == onnx.AttributeProto.GRAPH:
                yield from _tensors(attribute.g)


def _tensor_bytes(tensor: onnx.TensorProto) -> int:
    elements = math.prod(int(size) for size in tensor.dims)
    if tensor.data_type in _FOUR_BIT:
        return (elements + 1) // 2
    if tensor.data_type == onnx.TensorProto.STRING:
        return sum(map(len, tensor.string_data))
    return elements * int(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)


_FOUR_BIT = {onnx.TensorProto.UINT4, onnx.TensorProto.INT4, onnx.TensorProto.FLOAT4E2M1}


def _external_files(path: Path, model: onnx.ModelProto) -> set[Path]:
    files = set()
    for tensor in _tensors(model.graph):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            location = next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
            file = path.parent / location
            if not location or not file.resolve().is_relative_to(path.parent.resolve()):
                raise ModelError(f"{path} keeps '{tensor.name}' outside its folder, in {location}; refused")
            files.add(file)
    return files


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError as error:
        raise ModelError(f"cannot read {file}: {error.strerror}; it belongs to the model") from error
