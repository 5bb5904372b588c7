"""What an ONNX file takes and gives, read without loading its weights.

Walks the protobuf wire format of the memory-mapped file (onnx.proto; protobuf encoding guide) and skips over
everything that is not asked for, so that it costs no memory, takes microseconds for any file size, and needs
no library: a worker process that measures an engine must hold that engine and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tensmith import gate
from tensmith.errors import EngineError
from tensmith.frontend.formats import BEGINNING, told_instead

# onnx.proto, TensorProto.DataType
_DTYPES = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    8: "str",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    14: "complex64",
    15: "complex128",
    16: "bfloat16",
    17: "float8_e4m3fn",
    18: "float8_e4m3fnuz",
    19: "float8_e5m2",
    20: "float8_e5m2fnuz",
    21: "uint4",
    22: "int4",
    23: "float4_e2m1fn",
}

_LONGEST_VARINT = 10
# A graph of so many nodes is beyond the importer's bound, too.
_MOST_FIELDS = 2_000_000
_NEGATIVE = 1 << 63

# Field numbers of onnx.proto that are followed; every other field is skipped unread.
_MODEL_GRAPH = 7
_GRAPH_NODE, _GRAPH_INITIALIZER, _GRAPH_INPUT, _GRAPH_OUTPUT = 1, 5, 11, 12
_NODE_OPERATOR = 4
_TENSOR_NAME = 8
_VALUE_NAME, _VALUE_TYPE = 1, 2
_TYPE_TENSOR = 1
_TENSOR_TYPE_ELEMENT, _TENSOR_TYPE_SHAPE = 1, 2
_SHAPE_DIMENSION = 1
_DIMENSION_VALUE, _DIMENSION_SYMBOL = 1, 2


@dataclass(frozen=True)
class TensorSpec:
    """Name, NumPy dtype name and shape of an input or output; a `str` in the shape is a symbolic size.

    A symbolic size without a name in the file is called `input.axis`. `shape` is None if the rank is unknown.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...] | None


@dataclass(frozen=True)
class ModelSignature:
    """Inputs and outputs in the file's order, and the operator names of the main graph."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    operators: frozenset[str]


class _Damaged(Exception):
    """The bytes are not a protobuf message of the expected layout."""


class _NoTensor(Exception):
    """An input or output is of another kind."""


def read_signature(path: Path) -> ModelSignature:
    """The signature of the ONNX model at `path`; EngineError if it is missing, truncated, not ONNX, or not of
    tensors alone."""
    beginning = b""
    try:
        with memoryview(gate.mapped(path, gate.ENGINE_MODEL)) as view:
            beginning = bytes(view[:BEGINNING])
            if not view:
                raise _Damaged("it is empty")
            return _signature(view)
    except _NoTensor as error:
        raise EngineError(f"{path}: {error}; export the model with tensors alone") from error
    except (_Damaged, UnicodeDecodeError) as error:
        told = told_instead(beginning, str(path))
        raise EngineError(
            told or f"{path} is not a complete ONNX file: {error}; export or copy it again"
        ) from error


def _signature(model: memoryview) -> ModelSignature:
    graph = _only(model, _MODEL_GRAPH)
    initializers: set[str] = set()
    operators: set[str] = set()
    inputs: list[TensorSpec] = []
    outputs: list[TensorSpec] = []
    for number, value in _fields(graph):
        if number == _GRAPH_INPUT:
            inputs.append(_tensor_spec(_message(value)))
        elif number == _GRAPH_OUTPUT:
            outputs.append(_tensor_spec(_message(value)))
        elif number == _GRAPH_INITIALIZER:
            initializers.add(_text(_message(value), _TENSOR_NAME))
        elif number == _GRAPH_NODE:
            operators.add(_text(_message(value), _NODE_OPERATOR))
    if not outputs:
        raise _Damaged("its graph has no outputs")
    fed = tuple(spec for spec in inputs if spec.name not in initializers)
    return ModelSignature(fed, tuple(outputs), frozenset(operators))


def _tensor_spec(value_info: memoryview) -> TensorSpec:
    name = _text(value_info, _VALUE_NAME)
    tensor_type: memoryview | None = None
    for number, value in _fields(_only(value_info, _VALUE_TYPE)):
        tensor_type = _message(value) if number == _TYPE_TENSOR else None
    if tensor_type is None:
        raise _NoTensor(f"'{name}' is not a tensor (sequences, maps and optionals are not supported)")
    dtype, shape = "", None
    for number, value in _fields(tensor_type):
        if number == _TENSOR_TYPE_ELEMENT:
            dtype = _DTYPES.get(value, "") if isinstance(value, int) else ""
        elif number == _TENSOR_TYPE_SHAPE:
            shape = _shape(name, _message(value))
    if not dtype:
        raise _Damaged(f"'{name}' has no known element type")
    return TensorSpec(name, dtype, shape)


def _shape(name: str, message: memoryview) -> tuple[int | str, ...]:
    shape: list[int | str] = []
    for number, dimension in _fields(message):
        if number != _SHAPE_DIMENSION:
            continue
        size: int | str = f"{name}.{len(shape)}"
        for field, value in _fields(_message(dimension)):
            if field == _DIMENSION_VALUE and isinstance(value, int) and value < _NEGATIVE:
                size = value
            elif field == _DIMENSION_SYMBOL:
                size = bytes(_message(value)).decode() or size
        shape.append(size)
    return tuple(shape)


def _only(message: memoryview, number: int) -> memoryview:
    found = [value for field, value in _fields(message) if field == number]
    if not found:
        raise _Damaged(f"its field {number} is missing")
    return _message(found[-1])


def _text(message: memoryview, number: int) -> str:
    for field, value in _fields(message):
        if field == number:
            return bytes(_message(value)).decode()
    return ""


def _message(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise _Damaged("a number stands where a message belongs")
    return value


def _fields(buffer: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """The (field number, value) pairs of one message; nested messages stay unread views."""
    at = count = 0
    while at < len(buffer):
        key, at = _varint(buffer, at)
        kind, count = key & 7, count + 1
        if not key >> 3 or count > _MOST_FIELDS:
            raise _Damaged("a field has the number 0" if not key >> 3 else f"it has over {count - 1} fields")
        if kind == 0:
            value, at = _varint(buffer, at)
            yield key >> 3, value
            continue
        if kind == 2:
            size, at = _varint(buffer, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise _Damaged(f"wire type {kind} does not exist")
        if size > len(buffer) - at:
            raise _Damaged("it ends in the middle of a field")
        yield key >> 3, buffer[at : at + size]
        at += size


def _varint(buffer: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for position in range(_LONGEST_VARINT):
        if at + position >= len(buffer):
            raise _Damaged("it ends in the middle of a number")
        byte = buffer[at + position]
        value |= (byte & 0x7F) << (7 * position)
        if byte < 0x80:
            return value, at + position + 1
    raise _Damaged("a number is longer than 64 bits")
