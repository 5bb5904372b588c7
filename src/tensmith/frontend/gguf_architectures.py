"""The architectures of GGUF files: what is computed of their tensors, as llama.cpp does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tensmith.frontend.gguf_blocks import floats
from tensmith.frontend.gguf_decoder import GgufDecoder
from tensmith.ir.onnx_schema import ELEMENT_CODES

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


def _llama(making: GgufDecoder) -> str:
    """Touvron et al. 2023: RMS norms, rotary positions, gated SiLU; grouped queries (Ainslie et al. 2023)."""
    return _rotary_decoder(making, interleaved=True)


def _qwen2(making: GgufDecoder) -> str:
    """As llama; rotary pairs lie half a head apart, and q, k and v have biases."""
    return _rotary_decoder(making, interleaved=False)


def _rotary_decoder(making: GgufDecoder, interleaved: bool) -> str:
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


def _refuse_unread(making: GgufDecoder) -> None:
    """ModelError where the sums are others; a window that no text goes beyond changes none."""
    for name, idle in _UNREAD.items():
        if making.asks(name, idle) and not (name == _WINDOW and making.count(name) >= making.count(_CONTEXT)):
            raise making.file.wrong(
                f"has '{making.key(name)}', and what it asks for is not computed", "use a model without it"
            )


def _rotary(making: GgufDecoder, length: str, depth: int, interleaved: bool) -> Callable[[str, int], str]:
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


def _slowed(making: GgufDecoder) -> float:
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


def _gpt2(making: GgufDecoder) -> str:
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


ARCHITECTURES: dict[str, Callable[[GgufDecoder], str]] = {"llama": _llama, "qwen2": _qwen2, "gpt2": _gpt2}
