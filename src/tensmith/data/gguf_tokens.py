"""The tokenizer inside a GGUF file: pieces with scores (SentencePiece), or byte-level BPE with merges.

Source: the keys tokenizer.ggml.* of the GGUF specification; how texts are cut before merging is what the
tokenizer.json of each family says, named in the file by tokenizer.ggml.pre.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tensmith.data.gguf import GgufFile, open_gguf
from tensmith.data.tokenizers import ScoredPieces, Speller, TokenizerFile, of_package
from tensmith.errors import DataError, needing

_KEYS = "tokenizer.ggml."
# tokenizer.ggml.token_type
_NORMAL, _CONTROL, _OF_USER, _BYTE = 1, 3, 4, 6
_SPACE = "\u2581"
_TODO = "name the model's tokenizer.json by --tokenizer"

_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
    r"\s+(?!\S)|\s+"
)


@dataclass(frozen=True)
class _Family:
    """How texts are cut into words, None for GPT-2's own way; whether they begin with a token, unless the
    file says so itself; whether a word that is a token is taken without merging; whether characters are
    composed first (Unicode's form C)."""

    words: str | None = None
    begins: bool = False
    whole: bool = False
    composed: bool = False


_LLAMA3 = _Family(_WORDS % "{1,3}", begins=True, whole=True)
_FAMILIES = {
    "gpt-2": _Family(), "qwen2": _Family(_WORDS % "", composed=True), "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3, "llama-v3": _LLAMA3,
}  # fmt: skip


def tokenizer_of_gguf(source: Path | GgufFile) -> Speller:
    """The tokenizer in a GGUF file. DataError where it has none, or one that is not known."""
    file = source if isinstance(source, GgufFile) else open_gguf(source)
    kind = file.metadata.get(f"{_KEYS}model")
    if isinstance(kind, str) and kind in ("llama", "gpt2"):
        return _scored(file) if kind == "llama" else _GgufBpe(file)
    told = "no tokenizer" if kind is None else f"a tokenizer of the kind '{str(kind)[:40]}'"
    raise _unusable(file, f"holds {told}")


def _unusable(file: GgufFile, what: str) -> DataError:
    return DataError(f"{file.label} {what}; {_TODO}")


def _texts(file: GgufFile, key: str) -> list[str]:
    found = file.metadata.get(_KEYS + key)
    if not isinstance(found, list) or not found:
        raise _unusable(file, f"lacks the texts '{_KEYS}{key}'")
    return found


def _numbers(file: GgufFile, key: str, count: int, default: float) -> list[float]:
    found = file.metadata.get(_KEYS + key)
    if found is None:
        return [default] * count
    if not isinstance(found, np.ndarray) or found.size != count:
        raise _unusable(file, f"has not one number a token as '{_KEYS}{key}'")
    numbers: list[float] = found.tolist()
    return numbers


def _flag(file: GgufFile, key: str, default: bool) -> bool:
    found = file.metadata.get(_KEYS + key, default)
    if not isinstance(found, bool):
        raise _unusable(file, f"has no yes or no as '{_KEYS}{key}'")
    return found


def _first(file: GgufFile, begins: bool, vocabulary: int) -> list[int]:
    """The token that texts begin with, if there is one."""
    if not _flag(file, "add_bos_token", begins):
        return []
    token = file.metadata.get(f"{_KEYS}bos_token_id", 1)
    if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < vocabulary:
        raise _unusable(file, f"has no token as '{_KEYS}bos_token_id'")
    return [token]


def _ends(file: GgufFile, texts: Sequence[str], types: Sequence[float]) -> frozenset[int]:
    """The tokens that end a text, or a turn of a talk: as the file says, or by what they are called."""
    named = (file.metadata.get(f"{_KEYS}{name}_token_id") for name in ("eos", "eot"))
    found = {number for number in named if type(number) is int and 0 <= number < len(texts)}
    called = enumerate(zip(texts, types))
    found |= {n for n, (text, type_) in called if type_ == _CONTROL and text in TokenizerFile.ENDS}
    return frozenset(found)


def _scored(file: GgufFile) -> ScoredPieces:
    texts = _texts(file, "tokens")
    scores = _numbers(file, "scores", len(texts), 0.0)
    types = _numbers(file, "token_type", len(texts), _NORMAL)
    said = [
        text.replace(_SPACE, " ").encode("utf-8", "surrogateescape") if type_ in (_NORMAL, _OF_USER) else None
        for text, type_ in zip(texts, types)
    ]
    found = {text: n for n, (text, type_) in enumerate(zip(texts, types)) if type_ == _BYTE}
    names = [f"<0x{byte:02X}>" for byte in range(256)]
    if lost := [name for name in names if name not in found]:
        raise _unusable(file, f"has no token for the byte {lost[0]}")
    leading = " " if _flag(file, "add_space_prefix", True) else ""
    first = _first(file, True, len(texts))
    bytes_ = [found[name] for name in names]
    whole = {
        text.replace(_SPACE, " "): n
        for n, (text, type_) in enumerate(zip(texts, types))
        if type_ in (_CONTROL, _OF_USER) and text
    }
    return ScoredPieces(said, scores, bytes_, first, leading, _ends(file, texts, types), whole)


class _GgufBpe:
    """Byte-level BPE (Radford et al. 2019) by the package `tokenizers`."""

    def __init__(self, file: GgufFile) -> None:
        with needing("the tokenizer of a .gguf file", "text"):
            from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
        name = file.text(f"{_KEYS}pre", "")
        family = _FAMILIES.get(name)
        if family is None:
            raise _unusable(file, f"cuts texts into words as '{name[:40]}' does, which is not known")
        texts = _texts(file, "tokens")
        pairs = [merge.partition(" ") for merge in _texts(file, "merges")]
        merges = [(first, second) for first, _, second in pairs]
        types = _numbers(file, "token_type", len(texts), _NORMAL)
        vocabulary = {text: number for number, text in enumerate(texts)}
        with of_package(f"{file.label} holds merges that are none of its tokens", _TODO):
            encoder: Any = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=family.whole))
        if family.composed:
            encoder.normalizer = normalizers.NFC()
        if family.words is None:
            encoder.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        else:
            words = pre_tokenizers.Split(Regex(family.words), "isolated")
            letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
            encoder.pre_tokenizer = pre_tokenizers.Sequence([words, letters])
        encoder.decoder = decoders.ByteLevel()
        with of_package(f"{file.label} holds tokens that are none", _TODO):
            encoder.add_special_tokens([text for text, type_ in zip(texts, types) if type_ == _CONTROL])
            encoder.add_tokens([text for text, type_ in zip(texts, types) if type_ == _OF_USER])
        self._encoder, self._label = encoder, file.label
        self._first = _first(file, family.begins, len(texts))
        self.vocabulary = len(texts)
        self.ends = _ends(file, texts, types)

    def encode(self, text: str) -> list[int]:
        """With the token that begins a text, where it has one."""
        with of_package(f"the tokenizer of {self._label} cannot encode this text"):
            return [*self._first, *self._encoder.encode(text, add_special_tokens=False).ids]

    start = encode

    def decode(self, tokens: Sequence[int]) -> str:
        """Without tokens that are not said."""
        with of_package(f"the tokenizer of {self._label} cannot decode these tokens"):
            return str(self._encoder.decode(list(tokens)))
