"""A program as a GGUF file like the one it came from: the same decoder, with the weights it has now.

What a file of the format computes is known from its metadata alone, so a program can be one only if it is the
decoder of a file at hand in all but its weights. Both are simplified and walked together from the logits
back: where the file's decoder reads a tensor, the program has that tensor's new value, a constant or what
constants compute. Every other difference is refused by name. The written file is read again, and each of its
tensors is compared with the program's, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import ml_dtypes
import numpy as np

from tensmith.backend.gguf import TensorToWrite, entry, gguf_bytes, q4_0, q8_0
from tensmith.data.gguf import GgufFile, open_gguf
from tensmith.errors import ModelError
from tensmith.formula.arith import Array
from tensmith.frontend.gguf import read_gguf
from tensmith.frontend.gguf_blocks import floats
from tensmith.frontend.gguf_decoder import LOGITS, TABLE, TOKENS
from tensmith.ir import Node, Program
from tensmith.ir.interpreter import interpret
from tensmith.ir.ops.quantization import decodes
from tensmith.rewrite.trail import simplify

_TURNED = ".turned"
_BLOCK = 32
# Of the metadata, what the tensors say: llama.cpp's numbers of files that are mostly of a type.
_FILE_TYPE, _QUANTIZATION = "general.file_type", "general.quantization_version"
_FILE_TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q8_0": 7, "BF16": 32}
# Largest codes of blocks whose scale is not known: of Q8_0, Q4_0 and Q5_0 as llama.cpp rounds them.
_LARGEST = (127, -8, -16)


def as_gguf(program: Program, like: Path) -> tuple[bytes, Mapping[str, str]]:
    """(the bytes of a GGUF file like the one at `like` with the program's weights, the type of each tensor).

    What did not change stays as it is stored. Of the rest, codes that Q8_0 or Q4_0 holds exactly are stored
    so, matrices that F16 or BF16 holds exactly as that, others as F32: no number changes. ModelError where
    the program is another decoder than `like`.
    """
    file = open_gguf(like)
    written = {**_kept(file), **_Matching(file, program).tensors()}
    written = {name: written[name] for name in file.tensors}
    kinds = {name: tensor.kind for name, tensor in written.items()}
    sizes = {kind: sum(len(t.data) for t in written.values() if t.kind == kind) for kind in kinds.values()}
    most = max(sizes, key=lambda kind: sizes[kind])
    entries = {key: value for key, value in file.entries.items() if key != _FILE_TYPE}
    if most in _FILE_TYPES:  # else the file says nothing of it
        entries[_FILE_TYPE] = entry(_FILE_TYPES[most])
    if any(kind not in ("F32", "F16", "BF16") for kind in kinds.values()):
        entries[_QUANTIZATION] = entry(2)
    return gguf_bytes(entries, written), kinds


def _kept(file: GgufFile) -> dict[str, TensorToWrite]:
    """The file's own tensors, for those that are the same in the program."""
    return {
        name: TensorToWrite(tensor.shape, tensor.kind.name, tensor.data.tobytes())
        for name, tensor in file.tensors.items()
    }


@dataclass
class _Matching:
    """A walk over two programs at once. Values that are `turned` are matrices [inputs, outputs], the other
    way around than a file has them."""

    file: GgufFile
    given: Program
    found: dict[str, list[str]] = field(default_factory=dict)
    turned: set[str] = field(default_factory=set)

    @cached_property
    def pattern(self) -> Program:
        """The decoder of the file."""
        return simplify(read_gguf(self.file, codes=False)).program

    @cached_property
    def program(self) -> Program:
        """The given one, simplified alike."""
        return simplify(self.given).program

    def tensors(self) -> dict[str, TensorToWrite]:
        """The tensors that the program has otherwise than the file, by their names in it."""
        self._walk()
        made = {}
        for name, values in self.found.items():
            shape = self.file.tensors[name].shape
            read = [self._weights(name, value) for value in values]
            if any(array.shape != shape or not np.array_equal(array, read[0]) for array in read):
                raise self._other(f"has another shape of '{name}', or two tensors in its place")
            if np.array_equal(floats(self.file.tensors[name]), read[0]):
                continue  # stays as it is
            coded = (self._codes(value, name) for value in values)
            written = next(filter(None, coded), None) or _smallest(read[0])
            if not np.array_equal(_read_back(written), read[0]):
                raise self._other(f"has numbers as '{name}' that are not those which would be written")
            made[name] = written
        return made

    def _other(self, what: str) -> ModelError:
        return ModelError(
            f"the model is not {self.file.label} with other weights: it {what}; only what was made of a "
            ".gguf file by new weights can be written as one"
        )

    # The walk

    def _walk(self) -> None:
        """Pairs every value that logits need with its counterpart."""
        if tuple(self.program.outputs) != (LOGITS,) or tuple(self.program.inputs) != (TOKENS,):
            raise self._other(f"does not take {TOKENS} and give {LOGITS} alone")
        pairs, waiting = set(), [(LOGITS, LOGITS)]
        while waiting:
            pair = waiting.pop()
            if pair not in pairs:
                pairs.add(pair)
                waiting += self._before(*pair)

    def _before(self, wanted: str, value: str) -> Iterator[tuple[str, str]]:
        """The pairs that two values rest on; ModelError where they are not the same."""
        tensor = wanted.removesuffix(_TURNED)
        if tensor in self.file.tensors and wanted in self.pattern.constants:
            if value not in self.program.constants and value not in self.program.static_values:
                raise self._other(f"computes '{value}' where '{tensor}' belongs")
            self._note(wanted, value)
            return
        ours = self.program.constants.get(value)
        if wanted in self.pattern.constants:
            if ours is None or not np.array_equal(ours, self.pattern.constants[wanted]):
                raise self._other(f"has '{value}' in place of the constant '{wanted}'")
            return
        if wanted in self.pattern.inputs:
            if value != wanted:
                raise self._other(f"reads '{value}' in place of {wanted}")
            return
        node, other = self.pattern.producers[wanted], self.program.producers.get(value)
        if other is not None and _alike(node, other):
            yield from zip(node.inputs, other.inputs)
        elif node.inputs == (TABLE, TOKENS):  # rows that are looked up
            self._note(TABLE, value)
        else:
            raise self._other(f"computes '{value}' otherwise than '{wanted}' is computed")

    def _note(self, wanted: str, value: str) -> None:
        values = self.found.setdefault(wanted.removesuffix(_TURNED), [])
        if value not in values:
            values.append(value)
        if wanted.endswith(_TURNED):
            self.turned.add(value)

    # What was found

    def _weights(self, name: str, value: str) -> Array:
        """The float32 that a value holds, as the file has its tensor."""
        inputs: dict[str, Array] = {}
        needed = self._needed(value)
        if any(TOKENS in node.inputs for node in needed):  # rows that are looked up: of every token
            inputs[TOKENS] = np.arange(self.file.tensors[name].shape[0])[None]
        part = Program(
            "weights", {name: self.program.inputs[name] for name in inputs}, (value,), tuple(needed),
            {n: self.program.constants[n] for n in self._constants(value, needed)},
        )  # fmt: skip
        array = np.asarray(interpret(part, inputs)[value], np.float32)
        if inputs:
            other = interpret(part, {TOKENS: inputs[TOKENS][:, ::-1]})[value]
            if not np.array_equal(other[:, ::-1], array):
                raise self._other(f"computes rows of '{value}' that are not each token's own")
            array = array[0]
        return np.ascontiguousarray(array.T) if value in self.turned else array

    def _needed(self, value: str) -> list[Node]:
        """The nodes behind a value, in order."""
        names, found = {value}, []
        for node in reversed(self.program.nodes):
            if names.intersection(node.outputs):
                found.append(node)
                names.update(node.inputs)
        return found[::-1]

    def _constants(self, value: str, nodes: list[Node]) -> list[str]:
        read = dict.fromkeys((value, *(name for node in nodes for name in node.inputs)))
        return [name for name in read if name in self.program.constants]

    def _codes(self, value: str, name: str) -> TensorToWrite | None:
        """A dequantization as blocks of codes; None where no type of block holds it exactly."""
        node = self.program.producers.get(value)
        if node is None or not decodes(node) or node.attrs["block_size"] != _BLOCK:
            return None
        parts = [self.program.constants.get(each) for each in node.inputs]
        turned = value in self.turned
        if any(part is None for part in parts) or node.attrs["axis"] % 2 != (0 if turned else 1):
            return None
        codes, scales, *zeros = (part.T if turned else part for part in parts if part is not None)
        if any(zero.any() for zero in zeros) or not _halves(scales) or codes.shape[-1] % _BLOCK:
            return None
        if codes.max(initial=0) > np.iinfo(np.int8).max:
            return None
        return _blocks(self.file.tensors[name].shape, codes.astype(np.int8), scales)


def _alike(node: Node, other: Node) -> bool:
    """Whether two nodes compute the same of the same inputs."""
    same = (
        other.opaque is None and node.definition is other.definition and len(node.inputs) == len(other.inputs)
    )
    return same and node.attrs == other.attrs and len(node.outputs) == len(other.outputs) == 1


def _halves(array: Array) -> bool:
    """Whether every number is a half."""
    with np.errstate(over="ignore"):
        return bool(np.array_equal(array.astype(np.float16).astype(np.float32), array))


def _blocks(shape: tuple[int, ...], codes: Array, scales: Array) -> TensorToWrite:
    if codes.min() >= -8 and codes.max() <= 7:
        return TensorToWrite(shape, "Q4_0", q4_0(codes, scales))
    return TensorToWrite(shape, "Q8_0", q8_0(codes, scales))


def _smallest(array: Array) -> TensorToWrite:
    """A tensor in the smallest type that holds its numbers exactly; vectors are few, and stay F32."""
    if array.ndim == 2:
        if array.shape[1] % _BLOCK == 0 and (found := _as_blocks(array)) is not None:
            return found
        if _halves(array):
            return TensorToWrite(array.shape, "F16", array.astype(np.float16).tobytes())
        if not (array.view(np.uint32) & 0xFFFF).any():
            return TensorToWrite(array.shape, "BF16", array.astype(ml_dtypes.bfloat16).tobytes())
    return TensorToWrite(array.shape, "F32", array.astype(np.float32).tobytes())


def _as_blocks(array: Array) -> TensorToWrite | None:
    """Numbers that are codes times a half in every block, by the largest code that a block may have."""
    blocks = array.reshape(-1, _BLOCK)
    largest = np.take_along_axis(blocks, abs(blocks).argmax(1)[:, None], 1)
    codes, scales = np.zeros(blocks.shape, np.int8), np.zeros(largest.shape, np.float32)
    open_ = blocks.any(1)
    for most in _LARGEST:
        with np.errstate(all="ignore"):
            scale = (largest / most).astype(np.float16).astype(np.float32)
            code = np.nan_to_num(np.rint(blocks / scale)).clip(-128, 127).astype(np.int8)
            fits = open_ & np.isfinite(scale[:, 0]) & (code * scale == blocks).all(1)
        codes[fits], scales[fits] = code[fits], scale[fits]
        open_ = open_ & ~fits
    if open_.any():
        return None
    return _blocks(array.shape, codes.reshape(array.shape), scales.reshape(len(array), -1))


def _read_back(written: TensorToWrite) -> Array:
    """The numbers that a reader of the file will have."""
    tensor = open_gguf(gguf_bytes({}, {"t": written})).tensors["t"]
    return floats(tensor)
