"""TensorProto and attributes as NumPy arrays and plain values, with every size checked before it is used."""

from __future__ import annotations

import math
import mmap
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto

from tensmith import gate
from tensmith.errors import ModelError
from tensmith.formula.arith import Array
from tensmith.ir.onnx_schema import ELEMENT_TYPES, tidy_float
from tensmith.ir.types import BITS, DTYPES, bit_fields

# A sparse tensor may have so many times the elements that it holds, and all of a file so many more.
_MAX_SPARSE_RATIO, _MORE_SPARSE = 4096, 1 << 22
_MAX_RANK = 64  # NumPy's own limit
_LARGEST_ELEMENT = 16  # bytes


def read_tensor(tensor: TensorProto, where: str, external: ExternalFiles) -> Array:
    """The array of a TensorProto. External data is mapped, not read. Raises ModelError at `where`."""
    name = ELEMENT_TYPES.get(tensor.data_type)
    if name is None:
        raise ModelError(
            f"{where} has element type {tensor.data_type}, which tensmith does not know; export it anew"
        )
    shape = tuple(tensor.dims)
    if not _is_shape(shape):
        raise ModelError(f"{where} has shape {list(shape)[:8]}, which is none; export the model again")
    count = math.prod(shape)
    if tensor.HasField("segment"):
        raise ModelError(f"{where} is stored in segments, which nothing writes today; export the model again")
    if name == "string":
        return _read_strings(tensor, shape, count, where)
    expected = _stored_bytes(name, count)
    if tensor.data_location == TensorProto.EXTERNAL:
        return _decode(external.read(tensor, expected, where), name, shape, count)
    if tensor.HasField("raw_data"):
        raw = tensor.raw_data
        if len(raw) != expected:
            raise ModelError(
                f"{where} says {list(shape)} {name}, which is {expected} bytes, but holds {len(raw)}; "
                "the file is damaged, export or copy it again"
            )
        return _decode(np.frombuffer(raw, np.uint8), name, shape, count)
    return _read_fields(tensor, name, shape, count, where)


def _is_shape(shape: tuple[int, ...]) -> bool:
    """Whether NumPy has arrays of a shape, whatever their elements: it counts bytes of empty ones too."""
    possible = len(shape) <= _MAX_RANK and all(dim >= 0 for dim in shape)
    return possible and math.prod(max(1, dim) for dim in shape) * _LARGEST_ELEMENT < 2**63


def _stored_bytes(name: str, count: int) -> int:
    """Of so many elements, sub-byte ones packed."""
    return (count * BITS.get(name, DTYPES[name].itemsize * 8) + 7) // 8


def external_bytes(tensor: TensorProto) -> int:
    """What an external tensor should take: by its type and shape, or as it says where its type is unknown."""
    name = ELEMENT_TYPES.get(tensor.data_type)
    if name is not None:
        return _stored_bytes(name, math.prod(tensor.dims))
    said = external_entries(tensor, f"tensor '{tensor.name}'").get("length", "")
    return int(said) if said.isdecimal() else 0


def external_entries(tensor: TensorProto, where: str) -> dict[str, str]:
    """What an external tensor says of its place; ModelError where that is no text, or one thing said twice:
    engines differ in which of two they take."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    texts = all(isinstance(word, str) for entry in entries.items() for word in entry)
    if not texts or len(entries) < len(tensor.external_data):
        raise ModelError(
            f"{where} has external-data entries that are no text, or two of one name; export the model again"
        )
    return entries


def _decode(raw: Array, name: str, shape: tuple[int, ...], count: int) -> Array:
    """Little-endian bytes as elements; sub-byte elements lie packed, lowest bits first."""
    bits, dtype = BITS.get(name), DTYPES[name]
    if bits is None:
        return np.asarray(raw.view(dtype)).reshape(shape)
    codes = bit_fields(raw[None], bits)[0, :count]
    if name[0] == "f":
        return np.asarray(codes.view(dtype)).reshape(shape)
    if name[0] == "i":  # two's complement
        sign = 2 ** (bits - 1)
        return np.asarray((codes.astype(np.int8) ^ sign) - sign).astype(dtype).reshape(shape)
    return codes.astype(dtype).reshape(shape)


def _read_strings(tensor: TensorProto, shape: tuple[int, ...], count: int, where: str) -> Array:
    if len(tensor.string_data) != count:
        raise ModelError(
            f"{where} says {list(shape)} but holds {len(tensor.string_data)} strings; export it again"
        )
    array = np.empty(count, dtype=object)
    array[:] = [text.decode("utf-8", "surrogateescape") for text in tensor.string_data]
    return array.reshape(shape)


def _read_fields(tensor: TensorProto, name: str, shape: tuple[int, ...], count: int, where: str) -> Array:
    """Elements in a typed field: 16 bits and narrower lie in int32_data as codes, sub-byte ones packed."""
    if name in ("f32", "c64"):
        values = np.array(tensor.float_data, np.float32)
    elif name in ("f64", "c128"):
        values = np.array(tensor.double_data, np.float64)
    elif name in ("u32", "u64"):
        values = np.array(tensor.uint64_data, np.uint64)
    elif name == "i64":
        values = np.array(tensor.int64_data, np.int64)
    else:
        values = np.array(tensor.int32_data, np.int32)
    bits = BITS.get(name)
    held = values.size // 2 if name[0] == "c" else values.size
    needed = count if bits is None else (count * bits + 7) // 8
    if held != needed:
        raise ModelError(
            f"{where} says {list(shape)} {name} but holds {held} values; "
            "the file is damaged, export or copy it again"
        )
    dtype = DTYPES[name]
    if bits is not None:
        return _decode(values.astype(np.uint8), name, shape, count)
    if name[0] == "c":
        return values.view(dtype).reshape(shape)
    if name in ("f16", "bf16") or name.startswith("f8"):
        return values.astype(np.dtype(f"u{dtype.itemsize}")).view(dtype).reshape(shape)
    return values.astype(dtype).reshape(shape)


def lies_beside(model: Path, location: str) -> bool:
    """Whether an external file of a model lies in the model's folder, or by a link in that of the file which
    the model itself is a link to, as in the cache of Hugging Face."""
    if not location or "\0" in location:
        return False
    place = (model.parent / location).resolve()
    if model.parent.resolve() in place.parents:
        return True
    plain = not Path(location).is_absolute() and ".." not in Path(location).parts
    return plain and model.resolve().parent in place.parents


class ExternalFiles:
    """The weight files beside a model, each mapped into memory once.

    left: how many elements the model's sparse tensors may still have beyond `_MAX_SPARSE_RATIO`.
    """

    def __init__(self, model: Path | None) -> None:
        self.left = _MORE_SPARSE
        self._model = model
        self._maps: dict[Path, tuple[mmap.mmap | bytes, int]] = {}

    def read(self, tensor: TensorProto, expected: int, where: str) -> Array:
        """The bytes of an external tensor as a view of the mapped file."""
        entries = external_entries(tensor, where)
        location = entries.get("location", "")
        mapped, size = self._open(location, where)
        try:
            offset = int(entries.get("offset", "0"))
            length = int(entries.get("length", str(expected)))
        except ValueError as error:
            raise ModelError(f"{where} has a damaged external-data entry; export the model again") from error
        if length != expected or offset < 0 or offset + length > size:
            raise ModelError(
                f"{where} needs {expected} bytes, but its entry says bytes {offset} to {offset + length} of "
                f"'{location}', which has {size}; copy both files again"
            )
        return np.frombuffer(mapped, np.uint8, count=length, offset=offset if length else 0)

    def take_in(self, tensor: TensorProto, where: str) -> None:
        """Puts the bytes of an external tensor into it: what it is part of may be written elsewhere."""
        if tensor.data_location == TensorProto.EXTERNAL:
            data = self.read(tensor, external_bytes(tensor), where).tobytes()
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
            tensor.raw_data = data

    def _open(self, location: str, where: str) -> tuple[mmap.mmap | bytes, int]:
        if self._model is None:
            raise ModelError(
                f"{where} lies in another file, '{location}'; give the path of the model instead of its bytes"
            )
        path = self._model.parent / location
        if path in self._maps:
            return self._maps[path]
        if not lies_beside(self._model, location):
            raise ModelError(
                f"{where} names the external file '{location}', which is outside the model's folder; refused"
            )
        if not path.exists():
            raise ModelError(f"{where} lies in {path}, which is missing; put the file beside the model")
        mapped = gate.mapped(path, gate.WEIGHTS)
        self._maps[path] = (mapped, len(mapped))
        return self._maps[path]


def read_sparse(sparse: onnx.SparseTensorProto, where: str, external: ExternalFiles) -> Array:
    """A sparse tensor in full; indices are linear ([nnz]) or coordinates ([nnz, rank])."""
    shape = tuple(sparse.dims)
    values = read_tensor(sparse.values, where, external)
    indices = read_tensor(sparse.indices, f"{where} (indices)", external)
    count = math.prod(shape)
    more = max(0, count - _MAX_SPARSE_RATIO * values.size)
    if not _is_shape(shape) or more > external.left:
        raise ModelError(
            f"{where} is sparse with shape {list(shape)[:8]} for {values.size} values; refused as damaged"
        )
    external.left -= more
    if (
        indices.dtype != np.int64
        or values.ndim != 1
        or indices.shape not in ((values.size,), (values.size, len(shape)))
    ):
        raise ModelError(
            f"{where} is sparse, but its indices do not match its values; export the model again"
        )
    if indices.ndim == 2:
        inside = bool(np.all((indices >= 0) & (indices < np.array(shape, np.int64))))
        flat = (
            np.ravel_multi_index(tuple(indices.T), shape)
            if inside and shape and values.size
            else indices[:0, 0]
        )
    else:
        inside, flat = bool(np.all((indices >= 0) & (indices < count))), indices
    if not inside:
        raise ModelError(f"{where} is sparse with indices outside {list(shape)}; export the model again")
    dense = np.zeros(count, values.dtype)
    dense[flat] = values[: len(flat)]
    return dense.reshape(shape)


def read_attribute(attribute: AttributeProto, where: str, external: ExternalFiles) -> Any:
    """An attribute as a plain value; NotImplemented for kinds that only opaque nodes carry."""
    kind = attribute.type
    if kind == AttributeProto.INT:
        return attribute.i
    if kind == AttributeProto.FLOAT:
        return tidy_float(attribute.f)
    if kind == AttributeProto.STRING:
        return _text(attribute.s)
    if kind == AttributeProto.INTS:
        return tuple(attribute.ints)
    if kind == AttributeProto.FLOATS:
        return tuple(map(tidy_float, attribute.floats))
    if kind == AttributeProto.STRINGS:
        return tuple(map(_text, attribute.strings))
    if kind == AttributeProto.TENSOR:
        return read_tensor(attribute.t, where, external)
    return NotImplemented


def _text(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value
