"""Finds the tensor payloads inside a serialized ONNX model, and finds them again once they are cut out.

The walker reads the protobuf wire format (https://protobuf.dev/programming-guides/encoding) just deep enough
to meet every TensorProto. What is left after cutting the payloads, the *skeleton*, still holds every length
and shape, so it alone says where the payloads belong and putting them back is concatenation: exact for any
serializer, field order or unknown field.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from tensmith.backend.packed.elements import ELEMENT_TYPES, FLOAT, FLOAT64, PackedSpec
from tensmith.errors import ModelError

_MIN_PAYLOAD = 4  # below this a cut costs more than it saves
_MAX_DEPTH = 64
_MAX_RANK = 64
_MOST_TENSORS = 1 << 17  # later ones stay where they are: each takes memory, and a skeleton may hold millions
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_CHILDREN = {  # message, field number -> message; everything else is skipped over
    ("model", 7): "graph",
    ("model", 25): "function",
    ("function", 7): "node",
    ("graph", 1): "node",
    ("graph", 5): "tensor",
    ("node", 5): "attribute",
    ("attribute", 5): "tensor",
    ("attribute", 6): "graph",
    ("attribute", 10): "tensor",
    ("attribute", 11): "graph",
}
# Bytes without which one of these holds no tensor: the fields above it may lie in, in one byte or more.
_HOLDING = {"node": re.compile(b"[\x2a\xaa]"), "attribute": re.compile(b"[\x2a\x32\x52\x5a\xaa\xb2\xd2\xda]")}
_DIMS, _DATA_TYPE, _FLOAT_DATA, _NAME, _RAW_DATA, _DOUBLE_DATA = 1, 2, 4, 8, 9, 10


@dataclass(frozen=True)
class TensorSpan:
    """A tensor payload: its name, type and shape, and its offset in the whole model."""

    name: str
    spec: PackedSpec
    start: int

    @property
    def stop(self) -> int:
        """Offset just past the payload."""
        return self.start + self.spec.byte_length


def spans_of_model(model: bytes) -> list[TensorSpan]:
    """The payloads of a whole model, in file order; ModelError when it is not a serialized ONNX model."""
    walker = _Walker(model, holes=False)
    walker.message("model", len(model), 0)
    if not walker.found_graph:
        raise ModelError("this is not an ONNX model: it holds no graph; pass a .onnx file")
    return walker.spans


def spans_of_skeleton(skeleton: bytes, size: int) -> list[TensorSpan]:
    """The payloads that were cut out of a model of `size` bytes; ModelError when the two disagree."""
    walker = _Walker(skeleton, holes=True)
    walker.message("model", size, 0)
    if walker.removed + len(skeleton) != size:
        raise ModelError(
            "the packed model's skeleton does not match its size; the file is damaged, fetch it again"
        )
    return walker.spans


def cut(model: bytes, spans: list[TensorSpan]) -> bytes:
    """The model without its payloads."""
    starts = [0, *(span.stop for span in spans)]
    stops = [*(span.start for span in spans), len(model)]
    return b"".join(model[start:stop] for start, stop in zip(starts, stops))


def join(skeleton: bytes, spans: list[TensorSpan], payloads: list[bytes]) -> bytes:
    """Inverse of `cut`: `payloads[i]` is the content of `spans[i]`."""
    pieces: list[bytes] = []
    position = removed = 0
    for span, payload in zip(spans, payloads, strict=True):
        pieces += [skeleton[position : span.start - removed], payload]
        position = span.start - removed
        removed += len(payload)
    return b"".join([*pieces, skeleton[position:]])


class _Walker:
    """Reads at offsets of the whole model; with `holes`, the payloads met so far are missing from `data`."""

    def __init__(self, data: bytes, holes: bool) -> None:
        self._data = data
        self._holes = holes
        self._at = 0
        self.removed = 0
        self.spans: list[TensorSpan] = []
        self.found_graph = False

    def _varint(self, stop: int) -> int:
        value = 0
        for shift in range(0, 70, 7):
            position = self._at - self.removed
            if self._at >= stop or position >= len(self._data):
                raise _damaged(self._at)
            self._at += 1
            value |= (self._data[position] & 0x7F) << shift
            if self._data[position] < 0x80:
                return value
        raise _damaged(self._at)

    def _field(self, stop: int) -> tuple[int, int, int]:
        """Field number, varint value, and the end of the field's content (which starts at the cursor)."""
        at, position = self._at, self._at - self.removed
        if at + 1 < stop and position + 1 < len(self._data):  # mostly both are numbers of one byte
            tag, length = self._data[position], self._data[position + 1]
            if tag & 0x87 == _LENGTH < tag and length < 0x80 and at + 2 + length <= stop:
                self._at = at + 2
                return tag >> 3, 0, at + 2 + length
        tag = self._varint(stop)
        number, kind = tag >> 3, tag & 7
        value = length = 0
        if kind == _LENGTH:
            length = self._varint(stop)
        elif kind == _VARINT:
            value = self._varint(stop)
        elif kind in (_FIXED64, _FIXED32):
            number, length = -1 if number else 0, 8 if kind == _FIXED64 else 4
        else:
            raise _damaged(self._at)
        if number == 0 or self._at + length > stop:
            raise _damaged(self._at)
        return number, value, self._at + length

    def message(self, kind: str, stop: int, depth: int) -> None:
        """Walks one message up to `stop`, descending into those that may hold tensors."""
        if depth > _MAX_DEPTH:
            raise ModelError(
                f"the model nests subgraphs more than {_MAX_DEPTH} messages deep; flatten it first"
            )
        while self._at < stop:
            number, _, end = self._field(stop)
            child = _CHILDREN.get((kind, number))
            self.found_graph |= child == "graph"
            if child == "tensor":
                self._tensor(end)
            elif child is not None and self._may_hold(child, end):
                self.message(child, end, depth + 1)
            self._at = end

    def _may_hold(self, kind: str, stop: int) -> bool:
        """False where a message is whole and certainly holds no tensor: most nodes, nearly all attributes."""
        holding, start = _HOLDING.get(kind), self._at - self.removed
        last = stop - self.removed
        return (
            holding is None or last > len(self._data) or holding.search(self._data, start, last) is not None
        )

    def _tensor(self, stop: int) -> None:
        dims: list[int] = []
        elements, data_type = 1, 0
        name = ""
        found: tuple[PackedSpec, int] | None = None
        cut = len(self.spans) < _MOST_TENSORS
        while self._at < stop:
            number, value, end = self._field(stop)
            if number == _DIMS:
                more = self._packed_varints(end) if end > self._at else [value]
                dims += more
                elements *= math.prod(more)
                if len(dims) > _MAX_RANK:  # each payload below is compared with their product
                    raise ModelError(
                        f"a tensor of the model has more than {_MAX_RANK} dimensions; the file is damaged"
                    )
            elif number == _DATA_TYPE:
                data_type = value
            elif number == _NAME:
                position = self._at - self.removed
                name = self._data[position : position + end - self._at].decode(errors="replace")
            elif cut and found is None and _is_payload(number, data_type):
                size = ELEMENT_TYPES[data_type].payload_bytes(elements)
                if end - self._at == size >= _MIN_PAYLOAD:
                    found = PackedSpec(ELEMENT_TYPES[data_type], tuple(dims)), self._at
                    self.removed += size if self._holes else 0
            self._at = end
        if found is not None:
            self.spans.append(TensorSpan(name, *found))

    def _packed_varints(self, end: int) -> list[int]:
        values: list[int] = []
        while self._at < end and len(values) <= _MAX_RANK:
            values.append(self._varint(end))
        return values


def _is_payload(number: int, data_type: int) -> bool:
    """Whether a field holds all elements of a known type as little-endian bytes."""
    if number == _FLOAT_DATA:
        return data_type == FLOAT
    if number == _DOUBLE_DATA:
        return data_type == FLOAT64
    return number == _RAW_DATA and data_type in ELEMENT_TYPES


def _damaged(offset: int) -> ModelError:
    return ModelError(
        f"the model's bytes are not a valid ONNX protobuf at offset {offset}; the file is damaged"
    )
