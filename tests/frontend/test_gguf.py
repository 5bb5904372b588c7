"""GGUF files: what they hold is what comes in, by two other readings of the format; damage is refused."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from gguf_models import CONTEXT, VOCABULARY, floats, gpt2_model, q4_0, q8_0, rotary_model, stories, written
from tensmith.backend.gguf import TensorToWrite, entry, gguf_bytes
from tensmith.backend.onnx import to_onnx
from tensmith.data.gguf import BLOCK_TYPES, GgufTensor, open_gguf
from tensmith.data.gguf_tokens import tokenizer_of_gguf
from tensmith.data.tokenizers import LlamaTokenizer
from tensmith.deploy.caching import cached
from tensmith.deploy.generation import Sampling, TokenDecoder
from tensmith.engine.base import ENGINES
from tensmith.errors import DataError, ModelError
from tensmith.frontend import gguf_blocks
from tensmith.frontend.checked import working
from tensmith.frontend.gguf import read_gguf
from tensmith.ir import Program
from tensmith.ir.interpreter import interpret
from tensmith.ir.types import TensorType

TOKENS = np.random.default_rng(3).integers(3, VOCABULARY, (2, 9))


def logits(program: Program, tokens: np.ndarray = TOKENS) -> np.ndarray:
    return interpret(program, {"tokens": tokens})["logits"]


# Blocks, by the pieces of ggml's structs that one element is made of


def _half(block: bytes, at: int) -> float:
    return float(np.frombuffer(block, np.float16, 1, at)[0])


def _six(parts: bytes, group: int) -> tuple[int, int]:
    """get_scale_min_k4 of ggml-quants.c."""
    if group < 4:
        return parts[group] & 63, parts[group + 4] & 63
    low, high = parts[group + 4] & 15, parts[group + 4] >> 4
    return low | parts[group - 4] >> 6 << 4, high | parts[group] >> 6 << 4


def _nibble(block: bytes, start: int, e: int) -> int:
    """Of a block of 32 whose lower halves come first."""
    return block[start + e % 16] >> 4 * (e // 16) & 15


def _deep(block: bytes, start: int, e: int) -> int:
    """Of a block of 256 in 4 bits: 64 elements in 32 bytes, the lower halves first."""
    return block[start + e // 64 * 32 + e % 32] >> 4 * (e % 64 // 32) & 15


def _two(block: bytes, start: int, e: int) -> int:
    return block[start + e // 128 * 32 + e % 32] >> 2 * (e % 128 // 32) & 3


def _q3_scale(b: bytes, group: int) -> int:
    low = b[96 + group % 8] >> 4 * (group // 8) & 15
    return (low | (b[104 + group % 4] >> 2 * (group // 4) & 3) << 4) - 32


def _q6(b: bytes, e: int) -> int:
    low = b[e // 128 * 64 + e % 64] >> 4 * (e % 128 // 64) & 15
    return (low | (b[128 + e // 128 * 32 + e % 32] >> 2 * (e % 128 // 32) & 3) << 4) - 32


ELEMENT: dict[str, Callable[[bytes, int], float]] = {
    "Q8_0": lambda b, e: _half(b, 0) * np.int8(b[2 + e] - 256 * (b[2 + e] > 127)),
    "Q4_0": lambda b, e: _half(b, 0) * (_nibble(b, 2, e) - 8),
    "Q4_1": lambda b, e: _half(b, 0) * _nibble(b, 4, e) + _half(b, 2),
    "Q5_0": lambda b, e: _half(b, 0) * ((_nibble(b, 6, e) | (b[2 + e // 8] >> e % 8 & 1) << 4) - 16),
    "Q5_1": lambda b, e: _half(b, 0) * (_nibble(b, 8, e) | (b[4 + e // 8] >> e % 8 & 1) << 4) + _half(b, 2),
    "Q2_K": lambda b, e: _half(b, 80) * (b[e // 16] & 15) * _two(b, 16, e) - _half(b, 82) * (b[e // 16] >> 4),
    "Q3_K": lambda b, e: (
        _half(b, 108) * _q3_scale(b, e // 16) * (_two(b, 32, e) - 4 * (not b[e % 32] >> e // 32 & 1))
    ),
    "Q4_K": lambda b, e: (
        _half(b, 0) * _six(b[4:16], e // 32)[0] * _deep(b, 16, e) - _half(b, 2) * _six(b[4:16], e // 32)[1]
    ),
    "Q5_K": lambda b, e: (
        _half(b, 0) * _six(b[4:16], e // 32)[0] * (_deep(b, 48, e) | (b[16 + e % 32] >> e // 32 & 1) << 4)
        - _half(b, 2) * _six(b[4:16], e // 32)[1]
    ),
    "Q6_K": lambda b, e: _half(b, 208) * np.frombuffer(b, np.int8, 16, 192)[e // 16].item() * _q6(b, e),
}


def random_tensor(name: str, rows: int = 3, blocks: int = 2) -> GgufTensor:
    """Random bytes whose halves are numbers: none has an exponent of all ones."""
    kind = BLOCK_TYPES[name]
    raw = np.random.default_rng(0).integers(0, 256, (rows * blocks, kind.bytes)).astype(np.uint8)
    for at in {"Q2_K": (80, 82), "Q3_K": (108,), "Q6_K": (208,)}.get(name, (0, 2)):
        raw[:, (at + 1) % kind.bytes] &= 0xBB
    return GgufTensor("t", (rows, blocks * kind.elements), kind, raw.reshape(-1))


@pytest.mark.parametrize("name", ELEMENT)
def test_blocks_are_what_their_structs_say(name: str) -> None:
    tensor = random_tensor(name)
    kind, blocks = tensor.kind, tensor.data.reshape(-1, tensor.kind.bytes)
    expected = [ELEMENT[name](bytes(block), e) for block in blocks for e in range(kind.elements)]
    found = gguf_blocks.floats(tensor)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found.reshape(-1), expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("name", BLOCK_TYPES)
def test_blocks_are_read_as_the_package_gguf_reads_them(name: str) -> None:
    gguf = pytest.importorskip("gguf")
    tensor = random_tensor(name)
    raw = tensor.data.reshape(tensor.shape[0], -1)
    with np.errstate(all="ignore"):
        expected = gguf.dequantize(raw, gguf.GGMLQuantizationType[name])
    np.testing.assert_array_equal(gguf_blocks.floats(tensor), np.asarray(expected).reshape(tensor.shape))


@pytest.mark.parametrize("name", ("Q8_0", "Q4_0", "Q5_0", "Q3_K", "Q6_K"))
def test_codes_and_scales_are_the_numbers(name: str) -> None:
    tensor = random_tensor(name)
    found = gguf_blocks.coded(tensor)
    assert found.minima is None
    assert found.bits == (4 if name in ("Q4_0", "Q3_K") else 8)
    spread = np.repeat(found.scales, found.block, -1)
    np.testing.assert_array_equal(found.codes * spread, gguf_blocks.floats(tensor))


# Decoders


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def by_hand(
    arrays: dict[str, np.ndarray], tokens: np.ndarray, *, halves: bool, base: float = 1e4
) -> np.ndarray:
    """A llama or a qwen2 of rotary_model, token by token and head by head, in float64."""
    w = {name: array.astype(np.float64) for name, array in arrays.items()}
    depth, queries, keys = 8, 4, 2
    x = w["token_embd.weight"][tokens]

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w[f"{name}.weight"]

    def product(x: np.ndarray, name: str) -> np.ndarray:
        return x @ w[f"{name}.weight"].T + w.get(f"{name}.bias", 0)

    def turned(head: np.ndarray, position: int) -> np.ndarray:
        out = head.copy()
        for pair in range(depth // 2):
            a, b = (pair, pair + depth // 2) if halves else (2 * pair, 2 * pair + 1)
            angle = position * base ** (-2 * pair / depth)
            out[a] = head[a] * np.cos(angle) - head[b] * np.sin(angle)
            out[b] = head[a] * np.sin(angle) + head[b] * np.cos(angle)
        return out

    for block in ("blk.0", "blk.1"):
        seen = norm(x, f"{block}.attn_norm")
        q, k, v = (product(seen, f"{block}.attn_{letter}").reshape(len(x), -1, depth) for letter in "qkv")
        q, k = (np.array([[turned(h, p) for h in row] for p, row in enumerate(part)]) for part in (q, k))
        mixed = np.zeros((len(x), queries, depth))
        for head in range(queries):
            shared = head // (queries // keys)
            for position in range(len(x)):
                scores = k[: position + 1, shared] @ q[position, head] / np.sqrt(depth)
                mixed[position, head] = _softmax(scores) @ v[: position + 1, shared]
        x = x + product(mixed.reshape(len(x), -1), f"{block}.attn_output")
        read = norm(x, f"{block}.ffn_norm")
        gate = product(read, f"{block}.ffn_gate")
        x = x + product(gate / (1 + np.exp(-gate)) * product(read, f"{block}.ffn_up"), f"{block}.ffn_down")
    return norm(x, "output_norm") @ w.get("output.weight", w["token_embd.weight"]).T


@pytest.mark.parametrize("architecture", ("llama", "qwen2"))
@pytest.mark.parametrize("tied", (False, True))
def test_rotary_decoders_compute_what_their_papers_say(architecture: str, tied: bool) -> None:
    numbers = {"rope.freq_base": 500.0} if tied else {}
    model = rotary_model(architecture, tied, **numbers)
    found = logits(read_gguf(written(model)))
    base = numbers.get("rope.freq_base", 1e4)
    for row, tokens in zip(found, TOKENS):
        expected = by_hand(model[1], tokens, halves=architecture == "qwen2", base=base)
        np.testing.assert_allclose(row, expected, atol=2e-5)
        other = by_hand(model[1], tokens, halves=architecture != "qwen2", base=base)
        assert abs(row - other).max() > 1e-2  # the other order of pairs would be seen


def test_positions_are_slowed_by_a_scale_and_by_factors() -> None:
    entries, arrays = rotary_model()
    plain = logits(read_gguf(written((entries, arrays))))
    linear = entries | {"llama.rope.scaling.type": entry("linear"), "llama.rope.scaling.factor": entry(4.0)}
    factors = arrays | {"rope_freqs.weight": np.full(4, 4.0, np.float32)}
    slowed, divided = (
        logits(read_gguf(written((linear, arrays)))),
        logits(read_gguf(written((entries, factors)))),
    )
    np.testing.assert_allclose(slowed, divided, atol=1e-5)
    assert abs(slowed - plain).max() > 1e-2
    scaled = {"llama.rope.scaling.factor": entry(4.0)}
    older = {"llama.rope.scale_linear": entry(4.0)}
    for more, same in (
        (scaled, slowed),
        (older, slowed),
        (older | {"llama.rope.scaling.type": entry("linear")}, slowed),
        (older | scaled | {"llama.rope.scaling.type": entry("none")}, plain),
        ({"llama.rope.scaling.factor": entry(0.0)}, plain),
        ({"llama.rope.scale_linear": entry(0.0)}, plain),
        ({"llama.rope.scale_linear": entry(-1.0)} | scaled, slowed),
    ):
        np.testing.assert_array_equal(logits(read_gguf(written((entries | more, arrays)))), same)


def test_gpt2_computes_what_transformers_does() -> None:
    torch = pytest.importorskip("torch")
    entries, arrays = gpt2_model()
    w = {name: torch.tensor(array, dtype=torch.float64) for name, array in arrays.items()}
    f = torch.nn.functional

    def norm(x: object, name: str) -> object:
        return f.layer_norm(x, (32,), w[f"{name}.weight"], w[f"{name}.bias"], 1e-5)

    def product(x: object, name: str) -> object:
        return f.linear(x, w[f"{name}.weight"], w[f"{name}.bias"])

    tokens = torch.tensor(TOKENS)
    x = w["token_embd.weight"][tokens] + w["position_embd.weight"][: tokens.shape[1]]
    for block in ("blk.0", "blk.1"):
        parts = product(norm(x, f"{block}.attn_norm"), f"{block}.attn_qkv").split(32, -1)
        q, k, v = (part.unflatten(-1, (4, 8)).transpose(1, 2) for part in parts)
        mixed = f.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + product(mixed, f"{block}.attn_output")
        up = f.gelu(product(norm(x, f"{block}.ffn_norm"), f"{block}.ffn_up"), approximate="tanh")
        x = x + product(up, f"{block}.ffn_down")
    expected = norm(x, "output_norm") @ w["token_embd.weight"].T
    np.testing.assert_allclose(logits(read_gguf(written((entries, arrays)))), expected, atol=1e-4)


@pytest.mark.parametrize("kind", ("Q8_0", "Q4_0"))
@pytest.mark.parametrize("tied", (False, True))
def test_codes_stay_codes_and_mean_the_same(kind: str, tied: bool) -> None:
    data = written(rotary_model(tied=tied), kind)
    coded, opened = read_gguf(data), read_gguf(data, codes=False)
    np.testing.assert_allclose(logits(coded), logits(opened), atol=1e-5)
    held = {name: array for name, array in coded.constants.items() if name.endswith(".codes")}
    assert len(held) == 15 if tied else 16
    wide = "token_embd.weight.codes"  # rows are looked up in bytes
    types = {TensorType.of(array).dtype for name, array in held.items() if name != wide}
    assert types == {"i8" if kind == "Q8_0" else "i4"}
    assert held[wide].dtype == np.int8
    assert not any("codes" in name for name in opened.constants)
    assert sum(a.nbytes for a in coded.constants.values()) < 0.5 * sum(
        a.nbytes for a in opened.constants.values()
    )


@pytest.mark.parametrize(
    "model", (rotary_model(), rotary_model("qwen2"), gpt2_model()), ids=("llama", "qwen2", "gpt2")
)
def test_decoders_get_caches_and_go_on_alike(model: tuple[dict, dict], tmp_path: Path) -> None:
    program = read_gguf(written(model))
    paths = tmp_path / "whole.onnx", tmp_path / "cached.onnx"
    for path, each in zip(paths, (program, cached(program))):
        onnx.save(to_onnx(each), path)
    whole, fed = (TokenDecoder(ENGINES["onnxruntime"].prepare(path, 1)) for path in paths)
    assert len(fed.caches) == 4 and not whole.caches
    assert list(whole.steps([5, 7], 12, Sampling())) == list(fed.steps([5, 7], 12, Sampling()))


@pytest.mark.data
def test_stories_as_gguf_is_the_decoder_that_it_was(data_dir: Path) -> None:
    program = read_gguf(written(stories(data_dir)))
    tokens = np.random.default_rng(0).integers(3, 512, (2, 60))
    sessions = []
    for model in (to_onnx(program).SerializeToString(), str(data_dir / "models" / "stories260k.onnx")):
        import onnxruntime

        session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        sessions.append(session.run(None, {session.get_inputs()[0].name: tokens})[0])
    np.testing.assert_allclose(*sessions, atol=1e-4)


@pytest.mark.data
def test_the_tokenizer_of_stories_is_that_of_llama2_c(data_dir: Path) -> None:
    inside = tokenizer_of_gguf(open_gguf(written(stories(data_dir))))
    beside = LlamaTokenizer(data_dir / "lm" / "tok512.bin")
    for text in ("", "Once upon a time", "  two  spaces\n\u00e9\U0001f600 x", "<b> is a text"):
        tokens = beside.encode(text)
        assert inside.start(text) == tokens
        assert inside.decode(tokens) == beside.decode(tokens)
    assert inside.start("<s>") == [1, 1]  # llama2.c has no names for special tokens


# Tokenizers


def test_pieces_are_merged_by_their_scores() -> None:
    words = tokenizer_of_gguf(open_gguf(written(rotary_model())))
    assert words.vocabulary == VOCABULARY
    assert words.start("ab c") == [1, 264, 259, 265]
    assert words.start("z") == [1, 259, 3 + ord("z")]
    assert words.decode([1, 264, 259, 265, 3 + ord("z"), 2, VOCABULARY]) == "ab cz"
    entries, arrays = rotary_model()
    plain = entries | {
        "tokenizer.ggml.add_bos_token": entry(False),
        "tokenizer.ggml.add_space_prefix": entry(False),
    }
    assert tokenizer_of_gguf(open_gguf(written((plain, arrays)))).start("ab") == [262]


def test_special_tokens_are_taken_whole() -> None:
    entries, arrays = rotary_model()
    types = np.array([2, 3, 3, *[6] * 256, *[1] * (VOCABULARY - 259)], np.int32)
    types[VOCABULARY - 1] = 4
    marked = written((entries | {"tokenizer.ggml.token_type": entry(types)}, arrays))
    words = tokenizer_of_gguf(open_gguf(marked))
    last = f"word{VOCABULARY - 267}"
    assert words.start(f"ab</s>ab{last}") == [1, 264, 2, 264, VOCABULARY - 1]
    assert words.start("</s>") == [1, 2] and words.start("") == [1] and words.ends == {2}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("tokenizer.ggml.model", np.ones(2, np.int32)),
        ("tokenizer.ggml.add_bos_token", np.ones(2, np.int32)),
        ("tokenizer.ggml.add_space_prefix", 7),
    ],
)
def test_one_value_belongs_where_one_is_meant(key: str, value: object) -> None:
    entries, arrays = rotary_model()
    with pytest.raises(DataError, match="--tokenizer"):
        tokenizer_of_gguf(open_gguf(written((entries | {key: entry(value)}, arrays))))


def test_merges_are_those_of_byte_level_bpe() -> None:
    tokenizers = pytest.importorskip("tokenizers")
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokens = [*letters, "he", "ll", "hell", "hello", "\u0120w", "<|end|>"]
    merges = ["h e", "l l", "he ll", "hell o", "\u0120 w"]
    entries = {
        "tokenizer.ggml.model": entry("gpt2"),
        "tokenizer.ggml.pre": entry("gpt-2"),
        "tokenizer.ggml.tokens": entry(tokens),
        "tokenizer.ggml.merges": entry(merges),
        "tokenizer.ggml.token_type": entry(np.array([*[1] * (len(tokens) - 1), 3], np.int32)),
    }
    words = tokenizer_of_gguf(open_gguf(gguf_bytes(entries, {})))
    found = words.start("hello wo<|end|>")
    assert found == [*(tokens.index(token) for token in ("hello", "\u0120w", "o", "<|end|>"))]
    assert words.decode(found) == "hello wo"
    ended = {"tokenizer.ggml.eos_token_id": entry(261), "tokenizer.ggml.eot_token_id": entry(len(tokens))}
    assert tokenizer_of_gguf(open_gguf(gguf_bytes(entries | ended, {}))).ends == {261}
    assert words.ends == frozenset()
    began = entries | {"tokenizer.ggml.add_bos_token": entry(True), "tokenizer.ggml.bos_token_id": entry(261)}
    assert tokenizer_of_gguf(open_gguf(gguf_bytes(began, {}))).start("hello") == [261, tokens.index("hello")]
    composed = tokenizer_of_gguf(open_gguf(gguf_bytes(entries | {"tokenizer.ggml.pre": entry("qwen2")}, {})))
    assert words.encode("e\u0301") != words.encode("\u00e9") == composed.encode("e\u0301")
    for wrong, said in (
        ({"tokenizer.ggml.pre": entry("other")}, "as 'other' does"),
        ({"tokenizer.ggml.merges": entry(["h zz"])}, "none of its tokens"),
        ({"tokenizer.ggml.merges": entry(["h"])}, "none of its tokens"),
        ({"tokenizer.ggml.model": entry("t5")}, "of the kind 't5'"),
        (
            {"tokenizer.ggml.bos_token_id": entry(999), "tokenizer.ggml.add_bos_token": entry(True)},
            "no token as",
        ),
    ):
        with pytest.raises(DataError, match=f"{said}.*--tokenizer"):
            tokenizer_of_gguf(open_gguf(gguf_bytes(entries | wrong, {})))


# What is wrong is said


def _without(*names: str) -> tuple[dict, dict]:
    entries, arrays = rotary_model()
    return (
        {name: value for name, value in entries.items() if name not in names},
        {name: array for name, array in arrays.items() if name not in names},
    )


def _with(name: str, value: object) -> tuple[dict, dict]:
    entries, arrays = rotary_model()
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return entries, arrays | {name: value.astype(np.float32)}
    return entries | {name: entry(value)}, arrays


WRONG = {
    "lacks the tensor 'blk.1.ffn_up.weight'": _without("blk.1.ffn_up.weight"),
    "lacks the number 'llama.block_count'": _without("llama.block_count"),
    "has the tensor 'blk.0.gates.weight', which no llama has": _with("blk.0.gates.weight", np.zeros((3, 3))),
    "of shape [32, 31], where [32, 32] belongs": _with("blk.0.attn_q.weight", np.zeros((32, 31))),
    "is of the architecture 'mamba', which tensmith does not know": _with("general.architecture", "mamba"),
    "has 'llama.expert_count'": _with("llama.expert_count", 8),
    "scales positions by 'yarn'": _with("llama.rope.scaling.type", "yarn"),
    "has 4 heads over 3": _with("llama.attention.head_count_kv", 3),
    "lacks the tensor 'blk.2.attn_norm.weight'": _with("llama.block_count", 1 << 31),
    "has -1.0 as 'llama.rope.freq_base', which must be above 0": _with("llama.rope.freq_base", -1.0),
    "does not turn all 8 features": _with("llama.rope.dimension_count", 4),
    "has no count as 'llama.embedding_length'": _with("llama.embedding_length", "many"),
    "of shape [32, 32], where [8589934592, 32] belongs": _with("llama.attention.key_length", 1 << 31),
    "has no count as 'llama.attention.head_count'": _with(
        "llama.attention.head_count", np.zeros(2, np.int32)
    ),
    "has 'llama.attention.scale'": _with("llama.attention.scale", np.ones(2, np.int32)),
    "has 'llama.attention.causal'": _with("llama.attention.causal", False),
    "has 'llama.attention.sliding_window'": _with("llama.attention.sliding_window", CONTEXT - 1),
    "has 'llama.final_logit_softcapping'": _with("llama.final_logit_softcapping", 30.0),
    "has 'llama.attention.temperature_scale'": _with("llama.attention.temperature_scale", 0.1),
    "has 'llama.pooling_type'": _with("llama.pooling_type", 1),
    "is one of the 3 files of a model; join them": _with("split.count", 3),
    "scales what it turns": _with("llama.rope.scaling.attn_factor", 1.5),
}


@pytest.mark.parametrize("said", WRONG)
def test_what_is_wrong_is_said_by_name(said: str) -> None:
    with pytest.raises(ModelError) as raised:
        read_gguf(written(WRONG[said]))
    assert said in str(raised.value)


def test_what_asks_for_nothing_is_left_out() -> None:
    plain = logits(read_gguf(written(rotary_model())))
    for name, value in (
        ("attention.causal", True), ("attention.sliding_window", CONTEXT), ("attention.sliding_window", 0),
        ("pooling_type", 0),
    ):  # fmt: skip
        np.testing.assert_array_equal(logits(read_gguf(written(_with(f"llama.{name}", value)))), plain)
    np.testing.assert_array_equal(logits(read_gguf(written(_with("split.count", 0)))), plain)


def test_weights_that_are_no_numbers_are_refused() -> None:
    for array in (np.full((64, 32), np.nan), np.full((64, 32), np.inf)):
        program = read_gguf(written(_with("blk.0.ffn_up.weight", array)))
        with pytest.raises(ModelError, match=r"blk\.0\.ffn_up\.weight' holds NaN or infinity"):
            working(program, "m.gguf")


def _header(tensors: int = 0, entries: int = 0, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, entries)


def _named(name: bytes) -> bytes:
    return struct.pack("<Q", len(name)) + name


HOSTILE = {
    "ends in its first bytes": b"GG",
    "is no GGUF file": b"GGML" + bytes(20),
    "is of version 1": _header(version=1),
    "is written for big-endian machines": b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
    "says that it has 18446744073709551615 tensors": _header(tensors=2**64 - 1),
    "says that it has 4294967296 entries": _header(entries=2**32),
    "says that a key of the metadata has": _header(entries=1) + struct.pack("<Q", 2**40),
    "ends in a key": _header(entries=1) + struct.pack("<Q", 999) + b"k",
    "has a value of type 77": _header(entries=1) + _named(b"k") + struct.pack("<I", 77),
    "has a value of type 9": _header(entries=1) + _named(b"k") + struct.pack("<IIQ", 9, 9, 1),
    "more than it can hold": _header(entries=1) + _named(b"k") + struct.pack("<IIQ", 9, 8, 2**40) + bytes(64),
    "ends in 'k'": _header(entries=1) + _named(b"k") + struct.pack("<IIQ", 9, 12, 2**61) + bytes(64),
    "neither 0 nor 1": _header(entries=1) + _named(b"k") + struct.pack("<IB", 7, 3),
    "has the key 'k' twice": _header(entries=2) + 2 * (_named(b"k") + struct.pack("<IB", 0, 1)),
    "which is a power of two": _header(entries=1) + _named(b"general.alignment") + struct.pack("<II", 4, 33),
    "of 9 axes": _header(tensors=1) + _named(b"t") + struct.pack("<I", 9) + bytes(99),
    "as IQ2_XXS, which tensmith does not read": (
        _header(tensors=1) + _named(b"t") + struct.pack("<IQIQ", 1, 256, 16, 0) + bytes(999)
    ),
    "as type 4000000000": _header(tensors=1) + _named(b"t") + struct.pack("<IQIQ", 1, 256, 4000000000, 0),
    "which is none of Q8_0": _header(tensors=1) + _named(b"t") + struct.pack("<IQIQ", 1, 33, 8, 0),
    "of shape [0]": _header(tensors=1) + _named(b"t") + struct.pack("<IQIQ", 1, 0, 0, 0) + bytes(99),
    "where 0 are in all": (
        _header(tensors=1) + _named(b"t") + struct.pack("<IQQIQ", 2, 2**62, 2**62, 0, 0)
    ),
    "no multiple of 32": _header(tensors=1) + _named(b"t") + struct.pack("<IQIQ", 1, 4, 0, 8) + bytes(99),
    "in the same place": (
        _header(tensors=2)
        + _named(b"t") + struct.pack("<IQIQ", 1, 16, 0, 0)
        + _named(b"u") + struct.pack("<IQIQ", 1, 16, 0, 32)
        + bytes(256)
    ),
    "has the tensor 't' twice": (
        _header(tensors=2)
        + 2 * (_named(b"t") + struct.pack("<IQIQ", 1, 4, 0, 0))
        + bytes(256)
    ),
}  # fmt: skip


@pytest.mark.parametrize("said", HOSTILE)
def test_hostile_headers_are_refused(said: str) -> None:
    with pytest.raises(ModelError) as raised:
        open_gguf(HOSTILE[said])
    assert said in str(raised.value)


def test_every_mutant_is_refused_or_read() -> None:
    """Cut anywhere, bytes and numbers changed in the header: a program comes out, or one sentence."""
    whole = written(rotary_model(), "Q8_0")
    entries, arrays = rotary_model()
    entries = {name: value for name, value in entries.items() if not name.startswith("tokenizer")}
    small = gguf_bytes(entries, {n: floats(a) if a.ndim == 1 else q8_0(a) for n, a in arrays.items()})
    random = np.random.default_rng(0)
    head = small.index(b"token_embd.weight") + 2500
    refused = 0
    for number in range(3000):
        mutant = bytearray(small)
        kind = number % 4
        if kind == 0:
            mutant = mutant[: random.integers(0, len(mutant) - 64)]
        elif kind == 1:
            mutant[random.integers(0, head)] ^= 1 << random.integers(0, 8)
        elif kind == 2:
            at = random.integers(0, head)
            value = (0, 1, 2**16, 2**31, 2**32 - 1, 2**63, 2**64 - 1)[number // 4 % 7]
            mutant[at : at + 8] = struct.pack("<Q", value)
        else:
            start, length = random.integers(0, head), random.integers(1, 40)
            del mutant[start : start + length]
        try:
            read_gguf(bytes(mutant))
        except ModelError:
            refused += 1
        else:
            assert kind, "what is cut has lost a tensor"
    assert refused > 2000
    for cut in range(0, len(whole) - 64, 997):
        with pytest.raises(ModelError):
            open_gguf(whole[:cut])


def test_small_files_make_nothing_large() -> None:
    """Counts that no byte stands for cost nothing: a table of 2^40 rows, a vocabulary of 2^40 texts."""
    import tracemalloc

    tracemalloc.start()
    try:
        for data in HOSTILE.values():
            with pytest.raises(ModelError):
                open_gguf(data)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_tensors_of_other_types_are_read_as_they_are() -> None:
    entries, arrays = rotary_model()
    plain = logits(read_gguf(written((entries, arrays))))
    halves = {
        name: TensorToWrite(a.shape, "F16", a.astype(np.float16).tobytes()) if a.ndim == 2 else floats(a)
        for name, a in arrays.items()
    }
    found = logits(read_gguf(gguf_bytes(entries, halves)))
    assert 0 < abs(found - plain).max() < 0.05
    fours = {name: q4_0(a) if a.ndim == 2 else floats(a) for name, a in arrays.items()}
    assert abs(logits(read_gguf(gguf_bytes(entries, fours))) - plain).max() > 0.05
