"""Text to token numbers: bytes, characters, or the BPE vocabulary of a llama2.c tokenizer file."""

from __future__ import annotations

import heapq
import struct
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

import numpy as np

from tensmith.data.dataset import Array
from tensmith.data.storage import open_random
from tensmith.errors import DataError, UsageError


class Tokenizer(Protocol):
    """Anything that turns text into token numbers in 0..vocabulary-1."""

    @property
    def vocabulary(self) -> int: ...

    def encode(self, text: str) -> list[int]: ...


class ByteTokenizer:
    """Every UTF-8 byte is a token."""

    vocabulary = 256

    def encode(self, text: str) -> list[int]:
        return list(text.encode())


class CharTokenizer:
    """Every character is a token, numbered in code point order (the convention of char-rnn and nanoGPT)."""

    def __init__(self, texts: Iterable[str]) -> None:
        """`texts` are read once, for the characters in them."""
        characters: set[str] = set()
        for text in texts:
            characters.update(text)
        self._numbers = {character: number for number, character in enumerate(sorted(characters))}
        self.vocabulary = len(self._numbers)

    def encode(self, text: str) -> list[int]:
        try:
            return [self._numbers[character] for character in text]
        except KeyError as error:
            raise DataError(
                f"character {error} is not in the vocabulary; build it from all the texts used"
            ) from error


class LlamaTokenizer:
    """SentencePiece-style BPE in the file format of llama2.c (tokenizer.bin, tok512.bin).

    The file: int32 longest piece; then for each piece float32 score, int32 length, the bytes; little-endian.
    Encoding follows llama2.c: BOS (1), a leading space, one piece a character (bytes of unknown ones are
    tokens byte + 3), then the neighbours whose joined piece scores best are merged until none can be.
    """

    BOS = 1
    FIRST_BYTE = 3
    _MAX_PIECES, _MAX_BYTES = 1 << 20, 64 << 20

    def __init__(self, path: Path) -> None:
        self._pieces, self._scores = _read_pieces(path, self._MAX_PIECES, self._MAX_BYTES)
        self._numbers: dict[bytes, int] = {}
        for number, piece in enumerate(self._pieces):
            self._numbers.setdefault(piece, number)
        self.vocabulary = len(self._pieces)
        if self.vocabulary < self.FIRST_BYTE + 256:
            raise DataError(
                f"{path} has {self.vocabulary} pieces, too few for the 256 bytes; is it a llama2.c tokenizer?"
            )

    def encode(self, text: str) -> list[int]:
        tokens = (
            [number for character in " " + text for number in self._characters(character)] if text else []
        )
        return [self.BOS, *self._merged(tokens)]

    def _characters(self, character: str) -> list[int]:
        data = character.encode()
        known = self._numbers.get(data)
        return [byte + self.FIRST_BYTE for byte in data] if known is None else [known]

    def _merged(self, tokens: list[int]) -> list[int]:
        """Merges best score first, leftmost among equals: O(n log n), with neighbours in a linked list.

        An entry of the heap is stale once either of its tokens has changed; positions never move, so
        comparing the two tokens it was made from finds that out.
        """
        after = [*range(1, len(tokens)), -1]
        before = list(range(-1, len(tokens) - 1))
        alive = [True] * len(tokens)
        heap: list[tuple[float, int, int, int, int]] = []

        def offer(left: int, right: int) -> None:
            merged = self._numbers.get(self._pieces[tokens[left]] + self._pieces[tokens[right]])
            if merged is not None:
                heapq.heappush(heap, (-self._scores[merged], left, tokens[left], tokens[right], merged))

        for left in range(len(tokens) - 1):
            offer(left, left + 1)
        while heap:
            _, left, left_token, right_token, merged = heapq.heappop(heap)
            right = after[left]
            if not alive[left] or right < 0 or (tokens[left], tokens[right]) != (left_token, right_token):
                continue
            tokens[left], alive[right], after[left] = merged, False, after[right]
            if after[left] >= 0:
                before[after[left]] = left
                offer(left, after[left])
            if before[left] >= 0:
                offer(before[left], left)
        return [token for token, living in zip(tokens, alive) if living]


def _read_pieces(path: Path, max_pieces: int, max_bytes: int) -> tuple[list[bytes], list[float]]:
    file = open_random(path)
    if not 4 < file.size <= max_bytes:
        raise DataError(f"{path} has {file.size} bytes, which is no llama2.c tokenizer file; check the path")
    data = file.read_at(0, file.size)
    (longest,) = struct.unpack_from("<i", data)
    pieces: list[bytes] = []
    scores: list[float] = []
    position = 4
    while position < len(data):
        if position + 8 > len(data):
            raise DataError(f"{path} ends inside piece {len(pieces)}; get it again")
        score, length = struct.unpack_from("<fi", data, position)
        position += 8
        if not 0 <= length <= longest or position + length > len(data) or len(pieces) == max_pieces:
            raise DataError(
                f"{path} is no llama2.c tokenizer file: piece {len(pieces)} is {length} bytes long"
            )
        pieces.append(data[position : position + length])
        scores.append(score)
        position += length
    return pieces, scores


def find_tokenizer(wanted: str | Tokenizer, beside: Path, texts: Iterable[str]) -> Tokenizer:
    """The tokenizer a user means by `wanted`: "byte", "char" (vocabulary from `texts`), the path of a
    llama2.c file, an object with `encode` and `vocabulary`, or "auto": the one `tok*.bin` in the folder
    `beside`, else bytes."""
    if not isinstance(wanted, str):
        return wanted
    if wanted == "byte":
        return ByteTokenizer()
    if wanted == "char":
        return CharTokenizer(texts)
    if wanted != "auto":
        return LlamaTokenizer(Path(wanted).expanduser())
    found = sorted(beside.glob("tok*.bin"))
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise UsageError(f"{beside} holds several tokenizers ({names}); choose one with ?tokenizer=PATH")
    return LlamaTokenizer(found[0]) if found else ByteTokenizer()


def token_reader(text: Callable[[int], str], tokenizer: Tokenizer, max_length: int) -> Callable[[int], Array]:
    """Reads sample i as int64 [length], at most `max_length` tokens of its text."""
    return lambda index: np.array(tokenizer.encode(text(index))[:max_length], np.int64)
