"""Sizes: of the file as an engine loads it, of the weights in memory, and of what was compiled."""

from __future__ import annotations

import math
from pathlib import Path

import onnx

from tensmith.engine.compiled import compiling
from tensmith.frontend.model_files import load_skeleton, model_bytes, size_of, tensors
from tensmith.ir.onnx_schema import ELEMENT_TYPES
from tensmith.ir.types import BITS
from tensmith.report.metric import Metric, exact


def file_bytes(path: Path) -> Metric:
    """Bytes on disk of the model and of the external data files it names; ModelError if one is missing."""
    return exact(model_bytes(path), "bytes")


def weight_bytes(path: Path) -> Metric:
    """Bytes of all initializers and Constant nodes, as their dtypes lie in memory, external or not.

    Types of less than a byte are counted packed.
    """
    return exact(sum(_tensor_bytes(tensor) for tensor in tensors(load_skeleton(path).graph)), "bytes")


def native_bytes(engine: str, folder: Path) -> Metric:
    """What a device needs to run what an engine compiled, a model with the files it names; ModelError if a
    file is missing."""
    files = [folder / name for name in compiling(engine).needs]
    return exact(sum((model_bytes if file.suffix == ".onnx" else size_of)(file) for file in files), "bytes")


def _tensor_bytes(tensor: onnx.TensorProto) -> int:
    elements = math.prod(int(size) for size in tensor.dims)
    if tensor.data_type == onnx.TensorProto.STRING:
        return sum(map(len, tensor.string_data))
    bits = BITS.get(ELEMENT_TYPES.get(tensor.data_type, ""))
    if bits is not None:
        return (elements * bits + 7) // 8
    return elements * int(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)
