"""GGUF files of small random models, and the decoder stories260k as one, written from nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tensmith.backend import gguf
from tensmith.backend.gguf import TensorToWrite, entry, gguf_bytes

WIDTH, HIDDEN, QUERIES, KEYS, LAYERS, VOCABULARY, CONTEXT = 32, 64, 4, 2, 2, 300, 64
Tensors = dict[str, TensorToWrite]

# What stories260k's exporter called what llama.cpp calls otherwise.
_STORIES = {
    "ra": "attn_norm", "rf": "ffn_norm", "q.weight": "attn_q", "k.weight": "attn_k", "v.weight": "attn_v",
    "o.weight": "attn_output", "w1.weight": "ffn_gate", "w2.weight": "ffn_down", "w3.weight": "ffn_up",
}  # fmt: skip


def floats(array: np.ndarray) -> TensorToWrite:
    """A tensor of float32."""
    return TensorToWrite(array.shape, "F32", array.astype(np.float32).tobytes())


def q8_0(array: np.ndarray) -> TensorToWrite:
    """Rounded to the nearest code of a block of 32, whose largest number is 127 of its scale."""
    return TensorToWrite(array.shape, "Q8_0", gguf.q8_0(*_rounded(array, 127)))


def q4_0(array: np.ndarray) -> TensorToWrite:
    """Rounded to the nearest code of a block of 32, whose largest number is -8 of its scale."""
    return TensorToWrite(array.shape, "Q4_0", gguf.q4_0(*_rounded(array, -8)))


def _rounded(array: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    blocks = array.reshape(-1, 32).astype(np.float32)
    largest = np.take_along_axis(blocks, abs(blocks).argmax(1)[:, None], 1)
    scales = (largest / most).astype(np.float16)
    codes = np.rint(blocks / scales.astype(np.float32)).clip(-abs(most), 127 if most > 0 else 7)
    return codes.astype(np.int8), scales


def metadata(architecture: str, **numbers: object) -> dict[str, bytes]:
    """The hyperparameters of a model, by their names without the architecture."""
    found = {"general.architecture": entry(architecture), "general.name": entry("small")}
    return found | {f"{architecture}.{name}": entry(value) for name, value in numbers.items()}


def tokenizer() -> dict[str, bytes]:
    """Pieces with scores: specials, bytes, and words."""
    words = ["\u2581", "a", "b", "ab", "\u2581a", "\u2581ab", "c"]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *words]
    tokens += [f"word{n}" for n in range(VOCABULARY - len(tokens))]
    types = [2, 3, 3, *[6] * 256, *[1] * (VOCABULARY - 259)]
    return {
        "tokenizer.ggml.model": entry("llama"),
        "tokenizer.ggml.tokens": entry(tokens),
        "tokenizer.ggml.scores": entry(np.arange(VOCABULARY, dtype=np.float32) / 10),
        "tokenizer.ggml.token_type": entry(np.array(types, np.int32)),
        "tokenizer.ggml.bos_token_id": entry(1),
    }


def rotary_model(architecture: str = "llama", tied: bool = False, **numbers: object) -> tuple[dict, dict]:
    """(metadata, arrays) of a llama or a qwen2."""
    random = np.random.default_rng(0)
    keyed = {
        "context_length": CONTEXT, "embedding_length": WIDTH, "block_count": LAYERS,
        "feed_forward_length": HIDDEN, "attention.head_count": QUERIES, "attention.head_count_kv": KEYS,
        "attention.layer_norm_rms_epsilon": 1e-5, **numbers,
    }  # fmt: skip

    def weight(*shape: int) -> np.ndarray:
        return (random.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)

    arrays = {"token_embd.weight": 4 * weight(VOCABULARY, WIDTH), "output_norm.weight": 1 + weight(WIDTH)}
    if not tied:
        arrays["output.weight"] = weight(VOCABULARY, WIDTH)
    depth = WIDTH // QUERIES
    for n in range(LAYERS):
        for name, shape in {
            "attn_norm": (WIDTH,), "ffn_norm": (WIDTH,), "attn_q": (QUERIES * depth, WIDTH),
            "attn_k": (KEYS * depth, WIDTH), "attn_v": (KEYS * depth, WIDTH), "attn_output": (WIDTH, WIDTH),
            "ffn_gate": (HIDDEN, WIDTH), "ffn_up": (HIDDEN, WIDTH), "ffn_down": (WIDTH, HIDDEN),
        }.items():  # fmt: skip
            made = weight(*shape) + (1 if len(shape) == 1 else 0)
            arrays[f"blk.{n}.{name}.weight"] = made.astype(np.float32)
            if architecture == "qwen2" and name in ("attn_q", "attn_k", "attn_v"):
                arrays[f"blk.{n}.{name}.bias"] = weight(shape[0])
    return metadata(architecture, **keyed) | tokenizer(), arrays


def gpt2_model() -> tuple[dict, dict]:
    """(metadata, arrays) of a gpt2 whose head is its table."""
    random = np.random.default_rng(0)

    def weight(*shape: int) -> np.ndarray:
        return (random.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)

    arrays = {
        "token_embd.weight": 4 * weight(VOCABULARY, WIDTH),
        "position_embd.weight": weight(CONTEXT, WIDTH),
    }
    norms = ["output_norm", *(f"blk.{n}.{name}" for n in range(LAYERS) for name in ("attn_norm", "ffn_norm"))]
    for name in norms:
        arrays |= {f"{name}.weight": 1 + weight(WIDTH), f"{name}.bias": weight(WIDTH)}
    for n in range(LAYERS):
        for name, shape in {
            "attn_qkv": (3 * WIDTH, WIDTH), "attn_output": (WIDTH, WIDTH), "ffn_up": (4 * WIDTH, WIDTH),
            "ffn_down": (WIDTH, 4 * WIDTH),
        }.items():  # fmt: skip
            arrays[f"blk.{n}.{name}.weight"], arrays[f"blk.{n}.{name}.bias"] = (
                weight(*shape),
                weight(shape[0]),
            )
    keyed = {
        "context_length": CONTEXT, "embedding_length": WIDTH, "block_count": LAYERS,
        "feed_forward_length": 4 * WIDTH, "attention.head_count": QUERIES,
        "attention.layer_norm_epsilon": 1e-5,
    }  # fmt: skip
    return metadata("gpt2", **keyed) | tokenizer(), {
        name: np.float32(array) for name, array in arrays.items()
    }


def written(model: tuple[dict, dict], kind: str = "F32") -> bytes:
    """A file of a model, its matrices stored as `kind` where their rows allow that."""
    coder = {"F32": floats, "Q8_0": q8_0, "Q4_0": q4_0}[kind]
    entries, arrays = model
    coded = {
        name: coder(array) if array.ndim == 2 and array.shape[-1] % 32 == 0 else floats(array)
        for name, array in arrays.items()
    }
    return gguf_bytes(entries, coded)


def stories(data: Path) -> tuple[dict, dict]:
    """stories260k of the evaluation data, with its tokenizer."""
    import onnx
    from onnx import numpy_helper

    from tensmith.data.tokenizers import LlamaTokenizer, read_pieces

    graph = onnx.load(data / "models" / "stories260k.onnx").graph
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    arrays = {"token_embd.weight": weights["emb.weight"], "output_norm.weight": weights["rl"]}
    for n in range(5):
        for theirs, ours in _STORIES.items():
            arrays[f"blk.{n}.{ours}.weight"] = weights[f"layers.{n}.{theirs}"]
    keyed = {
        "context_length": 512, "embedding_length": 64, "block_count": 5, "feed_forward_length": 172,
        "attention.head_count": 8, "attention.head_count_kv": 4, "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.dimension_count": 8,
    }  # fmt: skip
    pieces, scores = read_pieces(data / "lm" / "tok512.bin")
    first = LlamaTokenizer.FIRST_BYTE
    tokens = [
        ("<unk>", "<s>", "</s>")[n] if n < first
        else f"<0x{n - first:02X}>" if n < first + 256
        else piece.decode("utf-8", "surrogateescape").replace(" ", "\u2581")
        for n, piece in enumerate(pieces)
    ]  # fmt: skip
    types = [2, 3, 3, *[6] * 256, *[1] * (len(tokens) - 259)]
    spoken = {
        "tokenizer.ggml.model": entry("llama"),
        "tokenizer.ggml.tokens": entry(tokens),
        "tokenizer.ggml.scores": entry(np.array(scores, np.float32)),
        "tokenizer.ggml.token_type": entry(np.array(types, np.int32)),
        "tokenizer.ggml.bos_token_id": entry(1),
    }
    return metadata("llama", **keyed) | spoken, arrays
