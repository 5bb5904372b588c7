"""Tokenizers: the llama2.c encoding against its own plain algorithm, and damaged files."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gguf_models import VOCABULARY, rotary_model, written
from tensmith.data import ByteTokenizer, CharTokenizer, LlamaTokenizer
from tensmith.data.tokenizers import find_tokenizer
from tensmith.errors import DataError, UsageError

MERGED = [" a", "ab", "aa", "bc", "abc", " ab", "aab", "é", "bb", "bbb"]
PIECES = [b"<unk>", b"\n<s>\n", b"\n</s>\n", *(b"<0x%02X>" % byte for byte in range(256))]
SCORED = [
    *((0.0, piece) for piece in PIECES),
    *((-float(rank // 2), text.encode()) for rank, text in enumerate(MERGED)),  # pairs of equal score
    *((-50.0 - rank, char.encode()) for rank, char in enumerate(" abc")),
]


def tokenizer_file(scored: list[tuple[float, bytes]] = SCORED) -> bytes:
    longest = max(len(piece) for _, piece in scored)
    return struct.pack("<i", longest) + b"".join(struct.pack("<fi", s, len(p)) + p for s, p in scored)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> LlamaTokenizer:
    path = tmp_path_factory.mktemp("tokenizer") / "tok.bin"
    path.write_bytes(tokenizer_file())
    return LlamaTokenizer(path)


def plain_encode(text: str) -> list[int]:
    """The algorithm as llama2.c has it: look at all neighbours, merge the best, start over."""
    pieces = [piece for _, piece in SCORED]
    tokens: list[int] = []
    for character in (" " + text) if text else "":
        data = character.encode()
        tokens += [pieces.index(data)] if data in pieces else [byte + 3 for byte in data]
    while True:
        best, place, merged = -1e10, -1, -1
        for i in range(len(tokens) - 1):
            joined = pieces[tokens[i]] + pieces[tokens[i + 1]]
            if joined in pieces and SCORED[pieces.index(joined)][0] > best:
                merged = pieces.index(joined)
                best, place = SCORED[merged][0], i
        if place < 0:
            return [1, *tokens]
        tokens[place : place + 2] = [merged]


@given(text=st.text(alphabet="aabbc é\n☃"))
def test_the_heap_merges_as_llama2_c_does(tokenizer: LlamaTokenizer, text: str) -> None:
    assert tokenizer.encode(text) == plain_encode(text)


def test_unknown_characters_become_bytes(tokenizer: LlamaTokenizer) -> None:
    assert tokenizer.encode("☃")[-3:] == [byte + 3 for byte in "☃".encode()]


def test_characters_are_numbered_in_order() -> None:
    tokenizer = CharTokenizer(["ba", "ca"])
    assert (tokenizer.vocabulary, tokenizer.encode("abc")) == (3, [0, 1, 2])
    with pytest.raises(DataError, match="'d' is not in the vocabulary"):
        tokenizer.encode("d")


def test_auto_takes_the_tokenizer_beside_the_text(tmp_path: Path) -> None:
    assert isinstance(find_tokenizer("auto", tmp_path, []), ByteTokenizer)
    (tmp_path / "tok1.bin").write_bytes(tokenizer_file())
    assert isinstance(find_tokenizer("auto", tmp_path, []), LlamaTokenizer)
    assert isinstance(find_tokenizer("byte", tmp_path, []), ByteTokenizer)
    (tmp_path / "tok2.bin").write_bytes(tokenizer_file())
    with pytest.raises(UsageError, match=r"tok1\.bin, tok2\.bin"):
        find_tokenizer("auto", tmp_path, [])
    assert isinstance(find_tokenizer(str(tmp_path / "tok2.bin"), tmp_path, []), LlamaTokenizer)
    (tmp_path / "sha256-of-a-model").write_bytes(written(rotary_model()))
    assert find_tokenizer(str(tmp_path / "sha256-of-a-model"), tmp_path, []).vocabulary == VOCABULARY


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no llama2.c tokenizer"),
        (tokenizer_file()[:-1], "piece"),
        (tokenizer_file() + b"\0", "ends inside piece"),
        (tokenizer_file(SCORED[:100]), "too few for the 256 bytes"),
        (b"\x01\0\0\0" + tokenizer_file()[4:], "is 5 bytes long"),
        (struct.pack("<ifi", -1, 0.0, -1), "is -1 bytes long"),
    ],
)
def test_damaged_tokenizers_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "tok.bin").write_bytes(content)
    with pytest.raises(DataError, match=message):
        LlamaTokenizer(tmp_path / "tok.bin")
