"""A decoder while it is made of a GGUF file's tensors: what all architectures share."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from tensmith.data.gguf import GgufFile
from tensmith.data.mapped import let_go
from tensmith.formula.arith import Array
from tensmith.formula.poly import Poly
from tensmith.frontend.gguf_blocks import Coded, coded, floats
from tensmith.ir import Node, Program, TensorType, make_node
from tensmith.ir.onnx_schema import ELEMENT_CODES, tidy_float
from tensmith.ir.program import Origin

TOKENS, LOGITS = "tokens", "logits"
# Of every such program.
INPUTS = {TOKENS: TensorType("i64", (Poly.symbol("batch"), Poly.symbol("length")))}
TABLE, HEAD = "token_embd.weight", "output.weight"
# Of a program's metadata, which are kept wherever it goes: tokens of the longest text that it was made for.
_LONGEST, _DIGITS = "tensmith.longest_text", 20
# Of the metadata, what says whose model it is.
_PROVENANCE = ("name", "author", "license", "url", "source.url", "version")
_LONGEST_PROVENANCE = 500


def longest_text(program: Program) -> int | None:
    """Tokens of the longest text that a program was made for, where its GGUF file said so."""
    said = program.origin.metadata.get(_LONGEST, "")
    return int(said) if said.isdecimal() and len(said) < _DIGITS else None


@dataclass
class GgufDecoder:
    """A program while it is made of a file's tensors."""

    file: GgufFile
    codes: bool
    put: Callable[[Array], Array]
    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    longest: int | None = None

    def program(self) -> Program:
        """What was made; ModelError where the file holds a tensor that nothing read."""
        if unread := self.file.tensors.keys() - self.used:
            raise self.file.wrong(
                f"has the tensor '{min(unread)}', which no {self.file.architecture} has that tensmith knows",
                "use a model without it",
            )
        known = {key: self.file.metadata.get(f"general.{key}") for key in _PROVENANCE}
        metadata = {
            f"general.{key}": text.encode("utf-8", "replace").decode()
            for key, text in known.items()
            if isinstance(text, str) and len(text) <= _LONGEST_PROVENANCE
        }
        if self.longest is not None:
            metadata[_LONGEST] = str(self.longest)
        program = Program(
            self.file.architecture, INPUTS, (LOGITS,), tuple(self.nodes), self.constants,
            origin=Origin(metadata=metadata),
        )  # fmt: skip
        _ = program.facts  # every shape, checked
        return program

    # Numbers of the metadata

    def key(self, name: str) -> str:
        """A key of this architecture."""
        return f"{self.file.architecture}.{name}"

    def count(self, name: str, default: int | None = None) -> int:
        """A whole number; of numbers one a layer, all must be the same."""
        found = self.file.metadata.get(self.key(name))
        if isinstance(found, np.ndarray) and found.size and (found == found[0]).all() and found[0] >= 1:
            return int(found[0])
        return self.file.count(self.key(name), default)

    def asks(self, name: str, idle: int) -> bool:
        """Whether anything but `idle` is there, which asks for nothing."""
        found = self.file.metadata.get(self.key(name), idle)
        return isinstance(found, np.ndarray) or found != idle

    def real(self, name: str, default: float | None = None) -> float:
        """A finite positive number."""
        return tidy_float(self.file.real(self.key(name), default))

    # Tensors

    def has(self, name: str) -> bool:
        """Whether the file holds a tensor."""
        return name in self.file.tensors

    def shape(self, name: str, *sizes: int | None) -> tuple[int, ...]:
        """The shape of a tensor, which must be `sizes` where they are given."""
        tensor = self.file.tensors.get(name)
        if tensor is None:
            raise self.file.wrong(f"lacks the tensor '{name}'")
        wanted = tuple(a if a is not None else b for a, b in zip(sizes, tensor.shape))
        if len(sizes) != len(tensor.shape) or wanted != tensor.shape:
            told = ["any" if size is None else size for size in sizes]
            raise self.file.wrong(f"has '{name}' of shape {list(tensor.shape)}, where {told} belongs")
        return tensor.shape

    def learned(self, name: str, *sizes: int | None) -> str:
        """A tensor of this shape, in float32."""
        self.shape(name, *sizes)
        return self._floats(name)

    def _floats(self, name: str) -> str:
        if name not in self.constants:
            self.used.add(name)
            tensor = self.file.tensors[name]
            self.constants[name] = self.put(floats(tensor))
            if tensor.kind.name != "F32":
                let_go(tensor.data)
        return name

    def _coded(self, name: str) -> Coded | None:
        """A tensor's codes, where they alone say what it holds."""
        tensor = self.file.tensors[name]
        if not self.codes or tensor.kind.elements == 1:
            return None
        found = coded(tensor)
        let_go(tensor.data)
        return found if found.minima is None else None

    # Values

    def constant(self, name: str, value: Any) -> str:
        """A constant, once."""
        self.constants.setdefault(name, np.asarray(value))
        return name

    def ints(self, *numbers: int) -> str:
        """A constant of whole numbers, [n]."""
        return self.constant(f"ints {' '.join(map(str, numbers))}", np.array(numbers, np.int64))

    def real_constant(self, number: float) -> str:
        """A constant float32, []."""
        return self.constant(f"f32 {number!r}", np.array(number, np.float32))

    def add(self, op: str, inputs: tuple[str, ...], output: str, **attrs: Any) -> str:
        """A node's output."""
        self.nodes.append(make_node(op, inputs, (output,), attrs))
        return output

    def reshape(self, value: str, output: str, *sizes: int) -> str:
        """A view; 0 keeps a size."""
        return self.add("reshape", (value, self.ints(*sizes)), output)

    def cut(self, value: str, output: str, axis: int, start: int, stop: int, step: int = 1) -> str:
        """value[start:stop:step] along an axis."""
        bounds = (self.ints(number) for number in (start, stop, axis, step))
        return self.add("slice", (value, *bounds), output)

    def linear(self, x: str, name: str, out: int, width: int) -> str:
        """x W^T, plus a bias where the file has one; W [out, width] is the tensor `name`.weight."""
        weight, bias = f"{name}.weight", f"{name}.bias"
        self.shape(weight, out, width)
        found = self._coded(weight)
        biased = self.has(bias)
        product = f"{name}.product" if biased else name
        if found is None:
            turned = self.add("transpose", (self._floats(weight),), f"{weight}.turned", perm=(1, 0))
        else:
            self.used.add(weight)
            codes, scales = np.ascontiguousarray(found.codes.T), np.ascontiguousarray(found.scales.T)
            if found.bits == 4:
                codes = codes.astype(ml_dtypes.int4)
            names = self.constant(f"{weight}.codes", codes), self.constant(f"{weight}.scales", scales)
            turned = self.add("dequantize_linear", names, f"{weight}.turned", axis=0, block_size=found.block)
        self.add("matmul", (x, turned), product)
        return self.add("add", (product, self.learned(bias, out)), name) if biased else name

    def embedding(self, width: int) -> tuple[str, Callable[[str], str]]:
        """(rows of the table of tokens [batch, length, width], a head that gives logits of rows)."""
        vocabulary, _ = self.shape(TABLE, None, width)
        found = self._coded(TABLE)
        if found is None:
            rows = self.add("gather", (self._floats(TABLE), TOKENS), "token_embd", axis=0)
        else:
            self.used.add(TABLE)
            rows = self._rows_of_codes(found, width)

        def head(x: str) -> str:
            if self.has(HEAD):
                return self.linear(x, "output", vocabulary, width)
            table = TABLE
            if found is not None:
                names = f"{TABLE}.codes", f"{TABLE}.scales"
                table = self.add(
                    "dequantize_linear", names, f"{TABLE}.opened", axis=1, block_size=found.block
                )
            turned = self.add("transpose", (table,), f"{TABLE}.turned", perm=(1, 0))
            return self.add("matmul", (x, turned), "output")

        return rows, head

    def _rows_of_codes(self, found: Coded, width: int) -> str:
        """Rows that are looked up as codes, so that no engine opens the whole table for a few of them."""
        codes = self.constant(f"{TABLE}.codes", found.codes)
        scales = self.constant(f"{TABLE}.scales", found.scales)
        rows = self.add("gather", (codes, TOKENS), "token_embd.codes", axis=0)
        wide = self.add("cast", (rows,), "token_embd.wide", to=ELEMENT_CODES["f32"])
        parts = self.reshape(wide, "token_embd.blocks", 0, 0, width // found.block, found.block)
        own = self.add("gather", (scales, TOKENS), "token_embd.scales", axis=0)
        column = self.add("unsqueeze", (own, self.ints(-1)), "token_embd.column")
        scaled = self.add("mul", (parts, column), "token_embd.scaled")
        return self.reshape(scaled, "token_embd", 0, 0, width)

    def length(self) -> str:
        """The number of tokens, [1]."""
        return self.add("shape", (TOKENS,), "length", start=1, end=2)

    def later(self, length: str) -> str:
        """-inf [length, length] for what is not to be seen, 0 elsewhere."""
        square = self.add("concat", (length, length), "square", axis=0)
        never = self.constant("never", np.array(-np.inf, np.float32))
        full = self.add("expand", (never, square), "unseen")
        return self.add("trilu", (full, self.constant("one", np.array(1))), "later")

    def attention(
        self, heads: tuple[str, str, str], later: str, counts: tuple[int, int], depth: int, name: str
    ) -> str:
        """softmax(q k^T / sqrt(depth) + later) v, [batch, length, queries * depth].

        heads: q, k, v [batch, length, heads, depth]; counts: heads of q, and of k and v, each of which serves
        several of q.
        """
        queries, keys = counts
        q, k, v = (
            self.add("transpose", (part,), f"{part}.heads", perm=(0, 2, 1, 3)) for part in heads
        )  # fmt: skip
        if queries != keys:
            k, v = (self._repeated(part, queries, keys, depth) for part in (k, v))
        turned = self.add("transpose", (k,), f"{name}.keys", perm=(0, 1, 3, 2))
        scores = self.add("matmul", (q, turned), f"{name}.products")
        scaled = self.add("div", (scores, self.real_constant(math.sqrt(depth))), f"{name}.scaled")
        masked = self.add("add", (scaled, later), f"{name}.masked")
        weights = self.add("softmax", (masked,), f"{name}.weights")
        mixed = self.add("matmul", (weights, v), f"{name}.mixed")
        joined = self.add("transpose", (mixed,), f"{name}.joined", perm=(0, 2, 1, 3))
        return self.reshape(joined, name, 0, 0, queries * depth)

    def _repeated(self, value: str, queries: int, keys: int, depth: int) -> str:
        """[batch, keys, length, depth] with each head as often as heads of q share it."""
        alone = self.add("unsqueeze", (value, self.ints(2)), f"{value}.alone")
        many = self.add("expand", (alone, self.ints(1, 1, queries // keys, 1, 1)), f"{value}.many")
        return self.reshape(many, f"{value}.repeated", 0, queries, -1, depth)
