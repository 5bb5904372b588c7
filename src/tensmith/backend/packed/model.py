"""Packing a model file and getting it back, byte for byte."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tensmith import files, gate
from tensmith.backend.packed import container, derived, wire
from tensmith.backend.packed.codec import decode_tensor, encode_tensor
from tensmith.backend.packed.compiled import CompiledDecoder, compiled_encode, compiled_library
from tensmith.backend.packed.elements import PackedSpec
from tensmith.backend.packed.rans import Decoder, encode, lanes_for
from tensmith.backend.packed.streams import EncodedTensor, StreamReader
from tensmith.errors import ModelError, OutputError
from tensmith.frontend.formats import ONNX, format_of

_SMALL_BYTES = 512  # smaller payloads of one type are coded as one vector


@dataclass(frozen=True)
class TensorRow:
    """How one tensor is stored. `bits` per element counts its share of what is shared."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    codec: str
    bits: float


def pack(model: bytes, *, compiled: bool | None = None) -> bytes:
    """A serialized ONNX model (weights inline) as a packed file, verified by unpacking it as `unpack` does.

    compiled: as for `unpack`; the file is the same. ModelError when `model` is not an ONNX file, OutputError
    when it cannot be packed.
    """
    packed = container.write(_encoded(model, compiled))
    if unpack(packed, max(len(model), 1), compiled=compiled) != model:
        raise OutputError(
            "the packed file does not unpack to the model; keep the .onnx file and report this model"
        )
    return packed


def _encoded(model: bytes, compiled: bool | None) -> container.Container:
    spans = wire.spans_of_model(model)
    whole = memoryview(model)
    payloads = [whole[span.start : span.stop] for span in spans]
    specs = [span.spec for span in spans]
    derivations = derived.find(specs, payloads)
    streams = [EncodedTensor(derived.write(derivations))]
    for members in _groups(specs, derivations):
        data = b"".join(payloads[index] for index in members)
        streams.append(encode_tensor(data, _joint(specs, members)))
    batches = [batch for stream in streams for batch in stream.batches]
    lanes = lanes_for(sum(batch.symbols.size for batch in batches))
    library = _library(specs, compiled)
    return container.Container(
        model_size=len(model),
        model_sha256=hashlib.sha256(model).digest(),
        lanes=lanes,
        skeleton=wire.cut(model, spans),
        parameters=b"".join(stream.parameters for stream in streams),
        plain=b"".join(stream.plain for stream in streams),
        symbols=encode(batches, lanes) if library is None else compiled_encode(batches, lanes, library),
    )


def unpack(packed: bytes, max_bytes: int = gate.MODEL_BYTES, *, compiled: bool | None = None) -> bytes:
    """The very model that was packed; ModelError when `packed` is damaged, too new or above `max_bytes`.

    compiled: read by C if at all possible, or by NumPy; None: by what is sooner done.
    """
    return _decode(packed, max_bytes, compiled)[0]


def describe(packed: bytes) -> list[TensorRow]:
    """One row a tensor, in file order: where the bits go."""
    return _decode(packed, gate.MODEL_BYTES)[1]


def pack_file(source: Path, target: Path) -> None:
    """Packs the .onnx file `source` into `target`, atomically."""
    files.write_bytes(target, pack(gate.read_bytes(source, gate.MODEL)))


def unpack_file(source: Path, target: Path) -> None:
    """Unpacks `source` into the .onnx file `target`, atomically."""
    with packed_file(source) as packed:
        model = unpack(packed)
    files.write_bytes(target, model)


@contextlib.contextmanager
def packed_file(path: Path) -> Iterator[bytes]:
    """The bytes of a packed file; a ModelError of theirs in the block names it, and what else it may be."""
    packed = gate.read_bytes(path, gate.PACKED)
    if not packed.startswith(container.MAGIC):
        raise ModelError(f"{path} is {_instead(packed, path)}")
    try:
        yield packed
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from error


def _instead(content: bytes, path: Path) -> str:
    found = format_of(content, str(path))
    if found is ONNX:
        return f"an ONNX file, not a packed model; tensmith explain {path} shows it"
    noun = f"{found.noun}, not a packed model" if found else "not a packed model"
    return f"{noun}; name a .packed file, as tensmith pack and tensmith compress write"


def _groups(specs: list[PackedSpec], derivations: list[derived.Derivation]) -> list[list[int]]:
    """Payloads coded together: large ones alone, small ones of a type as one, derived ones not at all."""
    skipped = {item.target for item in derivations}
    groups: list[list[int]] = []
    small: dict[str, list[int]] = {}
    for index, spec in enumerate(specs):
        if index in skipped:
            continue
        if spec.byte_length >= _SMALL_BYTES:
            groups.append([index])
        else:
            small.setdefault(spec.type.name, []).append(index)
    return groups + list(small.values())


def _joint(specs: list[PackedSpec], members: list[int]) -> PackedSpec:
    """What a group is coded as: a lone tensor as itself, several as one vector of all their elements."""
    first = specs[members[0]]
    if len(members) == 1:
        return first
    length = sum(specs[index].byte_length for index in members)
    return PackedSpec(first.type, (length * 8 // first.type.bits,))


def _library(specs: list[PackedSpec], compiled: bool | None) -> ctypes.CDLL | None:
    """What writes and reads symbols in C; None where NumPy does."""
    if compiled is False:
        return None
    return compiled_library(sys.maxsize if compiled else sum(spec.elements for spec in specs))


def _decoder(box: container.Container, specs: list[PackedSpec], compiled: bool | None) -> Decoder:
    """What reads the symbols of a file."""
    library = _library(specs, compiled)
    if library is None:
        return Decoder(box.symbols, box.lanes)
    return CompiledDecoder(box.symbols, box.lanes, library)


def _decode(packed: bytes, max_bytes: int, compiled: bool | None = None) -> tuple[bytes, list[TensorRow]]:
    box = container.read(packed, max_bytes)
    spans = wire.spans_of_skeleton(box.skeleton, box.model_size)
    specs = [span.spec for span in spans]
    reader = StreamReader(box.parameters, box.plain, _decoder(box, specs, compiled))
    derivations = derived.read(reader.parameters, specs)
    payloads = [b""] * len(specs)
    coding = {item.target: ("derived", 0.0) for item in derivations}
    shares = [stored / max(len(data), 1) for stored, data in zip(box.stored, box.sections)][1:]
    for members in _groups(specs, derivations):
        spec, before = _joint(specs, members), reader.used()
        name, data = decode_tensor(reader, spec)
        spent = sum(8 * share * (now - was) for share, now, was in zip(shares, reader.used(), before))
        coding |= dict.fromkeys(members, (name, spent / spec.elements))
        start = 0
        for index in members:
            payloads[index] = data[start : start + specs[index].byte_length]
            start += specs[index].byte_length
    reader.finish()
    derived.apply(derivations, payloads)
    model = wire.join(box.skeleton, spans, payloads)
    if hashlib.sha256(model).digest() != box.model_sha256:
        raise ModelError(
            "the packed model does not unpack to the model it was made from; the file is damaged"
        )
    rows = [
        TensorRow(span.name, span.spec.type.name, span.spec.shape, *coding[index])
        for index, span in enumerate(spans)
    ]
    return model, rows
