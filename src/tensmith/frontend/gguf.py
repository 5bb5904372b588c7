"""GGUF models as TensIR programs: decoders of the architectures llama, qwen2 and gpt2.

tokens int64 [batch, length] -> logits float32 [batch, length, vocabulary], without caches, as exporters write
decoders; `rewrite.tokens.caching` gives them caches. What the metadata mean is the GGUF specification's, the
names of tensors and what is computed of them llama.cpp's. Matrices are [outputs, inputs].

Weights in blocks of codes with one scale stay that: a DequantizeLinear with blocks before the product, and
for a table that rows are looked up in, rows of codes times their scales. All other types become float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tensmith.data.gguf import GgufFile, open_gguf
from tensmith.data.mapped import let_go
from tensmith.errors import ProgramError
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

_PARTS = "split.count"
# Of the metadata, what says whose model it is.
_PROVENANCE = ("name", "author", "license", "url", "source.url", "version")
_LONGEST_PROVENANCE = 500
_CONTEXT, _WINDOW = "context_length", "attention.sliding_window"
# What would change the sums, and is not computed here, by the value that asks for nothing.
_UNREAD = {
    "attention.causal": True, "expert_count": 0, "attention.scale": 0, "logit_scale": 0, "residual_scale": 0,
    "embedding_scale": 0, "attention.clamp_kqv": 0, "attention.max_alibi_bias": 0,
    "attn_logit_softcapping": 0, "final_logit_softcapping": 0, "attention.temperature_scale": 0,
    "attention.temperature_length": 0, "pooling_type": 0, _WINDOW: 0,
}  # fmt: skip
# Keys that older files have in place of rope.scaling.
_OLD_SCALE = "rope.scale_linear"


def read_gguf(
    source: Path | bytes | GgufFile, codes: bool = True, put: Callable[[Array], Array] = np.asarray
) -> Program:
    """The program of a GGUF file: a path, a file's bytes, or a file that was opened.

    codes: whether exact codes stay codes; else all weights become float32, for methods that choose codes of
    their own, and `put` keeps each. ModelError for whatever is wrong with the file, or is not known of its
    architecture.
    """
    file = source if isinstance(source, GgufFile) else open_gguf(source)
    parts = file.metadata.get(_PARTS)
    if isinstance(parts, int) and parts > 1:  # 0 where they were joined
        raise file.wrong(f"is one of the {parts} files of a model", "join them by llama-gguf-split --merge")
    build = _ARCHITECTURES.get(file.architecture)
    if build is None:
        raise file.wrong(
            f"is of the architecture '{file.architecture[:80]}', which tensmith does not know",
            f"those it knows are {', '.join(_ARCHITECTURES)}",
        )
    making = _Making(file, codes, put)
    try:
        logits = build(making)
        making.add("identity", (logits,), LOGITS)
        return making.program()
    except ProgramError as error:
        raise file.wrong(f"does not fit together: {error}") from error


def longest_text(program: Program) -> int | None:
    """Tokens of the longest text that a program was made for, where its GGUF file said so."""
    said = program.origin.metadata.get(_LONGEST, "")
    return int(said) if said.isdecimal() and len(said) < _DIGITS else None


@dataclass
class _Making:
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


# Architectures


def _llama(making: _Making) -> str:
    """Touvron et al. 2023: RMS norms, rotary positions, gated SiLU; grouped queries (Ainslie et al. 2023)."""
    return _rotary_decoder(making, interleaved=True)


def _qwen2(making: _Making) -> str:
    """As llama; rotary pairs lie half a head apart, and q, k and v have biases."""
    return _rotary_decoder(making, interleaved=False)


def _rotary_decoder(making: _Making, interleaved: bool) -> str:
    _refuse_unread(making)
    width, layers = making.count("embedding_length"), making.count("block_count")
    queries = making.count("attention.head_count")
    keys = making.count("attention.head_count_kv", queries)
    if queries % keys or (making.key("attention.key_length") not in making.file.metadata and width % queries):
        raise making.file.wrong(f"has {queries} heads over {keys}, of {width} features, which do not divide")
    depth = making.count("attention.key_length", width // queries)
    making.shape("blk.0.attn_q.weight", queries * depth, width)
    if making.count("attention.value_length", depth) != depth:
        raise making.file.wrong("has values of another size than keys", "use a model where they are alike")
    hidden = making.count("feed_forward_length")
    epsilon = making.real("attention.layer_norm_rms_epsilon")

    def norm(x: str, name: str) -> str:
        """x / sqrt(mean(x^2) + epsilon) * weight (Zhang and Sennrich 2019)."""
        square = making.add("pow", (x, making.real_constant(2.0)), f"{name}.square")
        mean = making.add("reduce_mean", (square, making.ints(-1)), f"{name}.mean")
        above = making.add("add", (mean, making.real_constant(epsilon)), f"{name}.above")
        scale = making.add("sqrt", (above,), f"{name}.scale")
        scaled = making.add("div", (x, scale), f"{name}.scaled")
        return making.add("mul", (scaled, making.learned(f"{name}.weight", width)), name)

    if making.key(_CONTEXT) in making.file.metadata:
        making.longest = making.count(_CONTEXT)
    x, head = making.embedding(width)
    length = making.length()
    later, rotary = making.later(length), _rotary(making, length, depth, interleaved)
    for number in range(layers):
        block = f"blk.{number}"
        seen = norm(x, f"{block}.attn_norm")
        parts = []
        for letter, heads in (("q", queries), ("k", keys), ("v", keys)):
            value = making.linear(seen, f"{block}.attn_{letter}", heads * depth, width)
            value = making.reshape(value, f"{value}.split", 0, 0, heads, depth)
            parts.append(value if letter == "v" else rotary(value, heads))
        q, k, v = parts
        mixed = making.attention((q, k, v), later, (queries, keys), depth, f"{block}.attn")
        told = making.linear(mixed, f"{block}.attn_output", width, queries * depth)
        x = making.add("add", (x, told), f"{block}.seen")
        read = norm(x, f"{block}.ffn_norm")
        gate = making.linear(read, f"{block}.ffn_gate", hidden, width)
        share = making.add("sigmoid", (gate,), f"{block}.ffn_share")
        open_ = making.add("mul", (gate, share), f"{block}.ffn_open")
        up = making.linear(read, f"{block}.ffn_up", hidden, width)
        kept = making.add("mul", (open_, up), f"{block}.ffn_kept")
        down = making.linear(kept, f"{block}.ffn_down", width, hidden)
        x = making.add("add", (x, down), f"{block}.out")
    return head(norm(x, "output_norm"))


def _refuse_unread(making: _Making) -> None:
    """ModelError where the sums are others; a window that no text goes beyond changes none."""
    for name, idle in _UNREAD.items():
        if making.asks(name, idle) and not (name == _WINDOW and making.count(name) >= making.count(_CONTEXT)):
            raise making.file.wrong(
                f"has '{making.key(name)}', and what it asks for is not computed", "use a model without it"
            )


def _rotary(making: _Making, length: str, depth: int, interleaved: bool) -> Callable[[str, int], str]:
    """What turns pairs of features by their position (Su et al. 2021): [batch, length, heads, depth].

    Pair i turns by position * base^(-2i / depth) / factor i. Pairs are neighbours (interleaved), or lie half
    a head apart.
    """
    if depth % 2 or making.count("rope.dimension_count", depth) != depth:
        raise making.file.wrong(
            f"does not turn all {depth} features of a head by position, as no {making.file.architecture} does"
        )
    half = depth // 2
    speeds = making.real("rope.freq_base", 10000.0) ** -(np.arange(half) * 2.0 / depth) / _slowed(making)
    for name in ("rope_freqs.weight", "blk.0.rope_freqs.weight"):
        if making.has(name):
            making.shape(name, half)
            making.used.add(name)
            with np.errstate(all="ignore"):  # factors that are no numbers are found with the weights
                speeds = speeds / floats(making.file.tensors[name])
    count = making.add("squeeze", (length, making.ints(0)), "count")
    zero, one = making.constant("zero", np.array(0)), making.constant("one", np.array(1))
    places = making.add("range", (zero, count, one), "places")
    real = making.add("cast", (places,), "places.real", to=ELEMENT_CODES["f32"])
    column = making.add("unsqueeze", (real, making.ints(1)), "places.column")
    angles = making.add(
        "mul", (column, making.constant("rope.speeds", speeds.astype(np.float32)[None])), "rope.angles"
    )
    cos, sin = (
        making.add("unsqueeze", (making.add(word, (angles,), f"rope.{word}"), making.ints(0, 2)),
                   f"rope.{word}.rows")
        for word in ("cos", "sin")
    )  # fmt: skip

    def turned(x: str, heads: int) -> str:
        spans = ((0, depth, 2), (1, depth, 2)) if interleaved else ((0, half, 1), (half, depth, 1))
        a, b = (making.cut(x, f"{x}.{word}", 3, *span) for word, span in zip("ab", spans))

        def product(part: str, table: str, word: str) -> str:
            return making.add("mul", (part, table), f"{part}.{word}")

        first = making.add("sub", (product(a, cos, "cos"), product(b, sin, "sin")), f"{x}.first")
        second = making.add("add", (product(a, sin, "sin"), product(b, cos, "cos")), f"{x}.second")
        if interleaved:
            first, second = (
                making.add("unsqueeze", (part, making.ints(-1)), f"{part}.column") for part in (first, second)
            )
        pairs = making.add("concat", (first, second), f"{x}.pairs", axis=-1)
        return making.reshape(pairs, f"{x}.turned", 0, 0, heads, depth) if interleaved else pairs

    return turned


def _slowed(making: _Making) -> float:
    """By how much positions are drawn together, so that longer texts fit."""
    kind = making.file.text(making.key("rope.scaling.type"), "linear")
    if kind not in ("none", "linear"):
        raise making.file.wrong(
            f"scales positions by '{kind[:40]}', which is not known",
            "use a model whose positions are scaled linearly",
        )
    if making.real("rope.scaling.attn_factor", 1.0) != 1:
        raise making.file.wrong("scales what it turns", "use a model whose positions are scaled linearly")
    if kind == "none":
        return 1.0
    name = "rope.scaling.factor" if making.key("rope.scaling.factor") in making.file.metadata else _OLD_SCALE
    return making.real(name) if making.asks(name, 0) else 1.0


def _gpt2(making: _Making) -> str:
    """Radford et al. 2019: layer norms, learned positions, GELU by tanh."""
    _refuse_unread(making)
    width, layers = making.count("embedding_length"), making.count("block_count")
    heads = making.count("attention.head_count")
    if width % heads:
        raise making.file.wrong(f"has {heads} heads for {width} features, which do not divide")
    if making.count("attention.head_count_kv", heads) != heads:
        raise making.file.wrong("shares keys among queries, as no gpt2 does")
    hidden, depth = making.count("feed_forward_length", 4 * width), width // heads
    epsilon = making.real("attention.layer_norm_epsilon")

    def norm(x: str, name: str) -> str:
        weights = (making.learned(f"{name}.{part}", width) for part in ("weight", "bias"))
        return making.add("layer_normalization", (x, *weights), name, axis=-1, epsilon=epsilon)

    x, head = making.embedding(width)
    length = making.length()
    later = making.later(length)
    places = making.learned("position_embd.weight", None, width)
    making.longest = len(making.constants[places])
    bounds = (making.ints(0), length, making.ints(0), making.ints(1))
    x = making.add("add", (x, making.add("slice", (places, *bounds), "position_embd")), "embedded")
    for number in range(layers):
        block = f"blk.{number}"
        seen = norm(x, f"{block}.attn_norm")
        whole = making.linear(seen, f"{block}.attn_qkv", 3 * width, width)
        parts = []
        for place, letter in enumerate("qkv"):
            part = making.cut(whole, f"{block}.attn_{letter}", 2, place * width, (place + 1) * width)
            parts.append(making.reshape(part, f"{part}.split", 0, 0, heads, depth))
        q, k, v = parts
        mixed = making.attention((q, k, v), later, (heads, heads), depth, f"{block}.attn")
        told = making.linear(mixed, f"{block}.attn_output", width, width)
        x = making.add("add", (x, told), f"{block}.seen")
        up = making.linear(norm(x, f"{block}.ffn_norm"), f"{block}.ffn_up", hidden, width)
        bent = making.add("gelu", (up,), f"{block}.ffn_bent", approximate="tanh")
        x = making.add("add", (x, making.linear(bent, f"{block}.ffn_down", width, hidden)), f"{block}.out")
    return head(norm(x, "output_norm"))


_ARCHITECTURES: dict[str, Callable[[_Making], str]] = {"llama": _llama, "qwen2": _qwen2, "gpt2": _gpt2}
