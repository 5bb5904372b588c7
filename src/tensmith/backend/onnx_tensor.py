"""Arrays as TensorProto: inside the model, or as a region of a data file beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO, TypeAlias

import numpy as np
import onnx

from tensmith.data.mapped import let_go
from tensmith.formula.arith import Array
from tensmith.ir.onnx_schema import ELEMENT_CODES
from tensmith.ir.types import BITS, dtype_name

# Makes the TensorProto of a named array.
WriteTensor: TypeAlias = Callable[[str, Array], onnx.TensorProto]

# Where external tensors may start: the page size that lets runtimes map them.
_ALIGNMENT = 4096


def inline_tensor(name: str, array: Array) -> onnx.TensorProto:
    """A TensorProto that holds its elements; sub-byte types packed as ONNX packs them, lowest bits first."""
    element = dtype_name(array.dtype)
    proto = onnx.TensorProto(name=name, data_type=ELEMENT_CODES[element], dims=array.shape)
    if element == "string":
        proto.string_data.extend(str(item).encode("utf-8", "surrogateescape") for item in array.reshape(-1))
    else:
        proto.raw_data = packed_bytes(array).tobytes()
    return proto


def packed_bytes(array: Array) -> Array:
    """The little-endian bytes of an array as ONNX stores them: a view where nothing needs packing."""
    bits = BITS.get(dtype_name(array.dtype))
    flat = np.ascontiguousarray(array).reshape(-1)
    if bits is None:
        return flat.view(np.uint8)
    codes, mask = flat.view(np.uint8), np.uint8(2**bits - 1)
    packed = codes[:: 8 // bits] & mask
    for place in range(1, 8 // bits):
        part = (codes[place :: 8 // bits] & mask) << np.uint8(place * bits)
        packed[: len(part)] |= part
    return np.asarray(packed)


_SMALLEST = 1024  # bytes that are worth a place outside of the model


class ExternalWriter:
    """Appends tensors to an open data file, one after another; called `name` in the model."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._name = name

    def __call__(self, name: str, array: Array) -> onnx.TensorProto:
        """A TensorProto that points into the file; small ones (they may hold shapes) stay inside."""
        element = dtype_name(array.dtype)
        if element == "string" or array.nbytes < _SMALLEST:
            return inline_tensor(name, array)
        data = packed_bytes(array)
        self._file.write(b"\0" * (-self._file.tell() % _ALIGNMENT))
        offset = self._file.tell()
        self._file.write(data.data)
        let_go(array)
        proto = onnx.TensorProto(name=name, data_type=ELEMENT_CODES[element], dims=array.shape)
        proto.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", self._name), ("offset", offset), ("length", data.nbytes)):
            proto.external_data.add(key=key, value=str(value))
        return proto
