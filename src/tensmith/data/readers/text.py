"""Plain text for language models: stories with separators, or one long text."""

from __future__ import annotations

import codecs
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np

from tensmith.data.dataset import ALL, Array, Dataset, DatasetPart, Indices, part_name
from tensmith.data.opening import reader
from tensmith.data.parts import checked_indices
from tensmith.data.storage import RandomFile, open_random
from tensmith.data.tokenizers import ByteTokenizer, CharTokenizer, Tokenizer, find_tokenizer
from tensmith.data.tree import decoded
from tensmith.errors import DataError, UsageError
from tensmith.files import at_home

SEPARATOR = b"<|endoftext|>"
STORY_LIMIT = 16 << 20
SHORT = 64  # characters of which a token may be
SHORTEST = 8  # so that a window holds at least two characters of up to four bytes
CACHED = 1024


@reader("text", example="FILE_OR_DIR")
def open_text(path: str, /, *, tokenizer: str | Tokenizer = "auto", max_length: int = 512) -> Dataset:
    """Text for a language model; the label of every token is the next one.

    A text with <|endoftext|> is stories, each its own sequence (white space around it dropped, cut to
    `max_length` tokens); any other is read in windows of `max_length` bytes. A folder has train*.txt,
    valid*.txt, test*.txt. `?tokenizer=` is byte, char, a llama2.c tokenizer file, a tokenizer.json or a
    .gguf file; without it, the tok*.bin or tokenizer.json beside the text if there is one, else bytes.
    Samples differ in length: batches join equal ones only.
    """
    if max_length < SHORTEST:
        raise UsageError(f"max_length is at least {SHORTEST}, not {max_length}")
    root = at_home(path)
    files = [root] if root.is_file() else sorted(root.glob("*.txt"))
    named = {_part_of(file): file for file in files}
    if not files or (len(files) > 1 and (len(named) < len(files) or ALL in named)):
        raise DataError(f"{root} is no text; name one file, or a folder of train.txt, valid.txt and test.txt")
    opened = {name: open_random(file) for name, file in named.items()}
    pieces = (piece for file in opened.values() for piece in _decoded_pieces(file))
    chosen = find_tokenizer(tokenizer, root if root.is_dir() else root.parent, pieces)
    texts = {name: _text(file, max_length, chosen) for name, file in opened.items()}
    parts = {name: TokenPart(text, chosen, max_length) for name, text in texts.items()}
    return Dataset(
        "text", "language-model", chosen.vocabulary, parts, "text",
        numbers_itself=isinstance(chosen, CharTokenizer),
        bytes_assumed=tokenizer == "auto" and isinstance(chosen, ByteTokenizer),
    )  # fmt: skip


def _part_of(file: Path) -> str:
    words = file.name.lower().replace(".", "_").replace("-", "_").split("_")
    return next((name for word in words if (name := part_name(word))), ALL)


class _Text(Protocol):
    def __len__(self) -> int: ...

    def read(self, index: int) -> str: ...


class _Stories:
    """The pieces between separators that hold something to predict."""

    def __init__(self, file: RandomFile, separators: list[int], tokenizer: Tokenizer) -> None:
        self._file = file
        starts = [0, *(position + len(SEPARATOR) for position in separators)]
        spans = zip(starts, [*separators, file.size])
        told = [span for span in spans if not _blank(file, *span, tokenizer)]
        self._spans = np.array(told, np.int64).reshape(-1, 2)

    def __len__(self) -> int:
        return len(self._spans)

    def read(self, index: int) -> str:
        start, stop = (int(position) for position in self._spans[index])
        if stop - start > STORY_LIMIT:
            raise DataError(
                f"{self._file.name}: the story at byte {start} is longer than {STORY_LIMIT} bytes; split it"
            )
        return decoded(
            self._file.read_at(start, stop - start), f"{self._file.name} from byte {start}"
        ).strip()


class _Windows:
    """Windows of `length` + 1 bytes that share one byte with the next, so that every byte is once a label.

    Window edges move right to the next start of a character. What is left after the last whole window is
    dropped; a text shorter than one window is a window.
    """

    def __init__(self, file: RandomFile, length: int) -> None:
        self._file, self._length = file, length

    def __len__(self) -> int:
        return max(1, (self._file.size - 1) // self._length) if self._file.size > 1 else 0

    def read(self, index: int) -> str:
        start = self._edge(index * self._length)
        stop = self._edge(min((index + 1) * self._length + 1, self._file.size))
        return decoded(self._file.read_at(start, stop - start), f"{self._file.name} from byte {start}")

    def _edge(self, position: int) -> int:
        following = self._file.read_at(position, min(4, self._file.size - position))
        return position + next((i for i, byte in enumerate(following) if byte & 0xC0 != 0x80), len(following))


def _text(file: RandomFile, length: int, tokenizer: Tokenizer) -> _Text:
    separators = list(_positions(file, SEPARATOR))
    text = _Stories(file, separators, tokenizer) if separators else _Windows(file, length)
    if not len(text):
        raise DataError(f"{file.name} holds no text; check the path")
    return text


def _decoded_pieces(file: RandomFile) -> Iterator[str]:
    """The whole text, separators and all."""
    try:
        yield from codecs.iterdecode(file.pieces(), "utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{file.name} is not UTF-8; convert it with iconv") from error


def _positions(file: RandomFile, needle: bytes) -> Iterator[int]:
    """Where `needle` occurs, found piece by piece; a piece keeps the end of the one before it."""
    kept, base = b"", 0
    for piece in file.pieces():
        data = kept + piece
        found = data.find(needle)
        while found >= 0:
            yield base + found
            found = data.find(needle, found + len(needle))
        kept = data[-(len(needle) - 1) :]
        base += len(data) - len(kept)


def _blank(file: RandomFile, start: int, stop: int, tokenizer: Tokenizer) -> bool:
    """Whether a span holds nothing to predict: fewer than two characters, or where it is short, tokens; looks
    at its first 64 KiB only."""
    text = file.read_at(start, min(stop - start, 1 << 16)).decode(errors="ignore").strip()
    return len(text) < 2 or (len(text) <= SHORT and len(tokenizer.encode(text)) < 2)


class TokenPart(DatasetPart):
    """Sequences of tokens: inputs are all but the last token, labels all but the first, int64 [n, length].

    Recently read sequences stay in a small cache (at most 1024), for text is asked for again and again.
    """

    ragged = True

    def __init__(self, text: _Text, tokenizer: Tokenizer, max_length: int) -> None:
        self._text, self._tokenizer, self._max_length = text, tokenizer, max_length
        self._tokens = functools.lru_cache(CACHED)(self._encode)

    def __len__(self) -> int:
        return len(self._text)

    def inputs(self, indices: Indices) -> Array:
        return self._stacked(indices)[:, :-1]

    def labels(self, indices: Indices) -> Array:
        return self._stacked(indices)[:, 1:]

    def _encode(self, index: int) -> Array:
        tokens = np.array(self._tokenizer.encode(self._text.read(index))[: self._max_length + 1], np.int64)
        if len(tokens) < 2:
            raise DataError(
                f"sequence {index} of the text has {len(tokens)} tokens, too few to predict one; remove it"
            )
        return tokens

    def _stacked(self, indices: Indices) -> Array:
        sequences = [self._tokens(int(index)) for index in checked_indices(indices, len(self))]
        if len({len(sequence) for sequence in sequences}) != 1:
            raise DataError("sequences of different lengths cannot share a batch; read them one at a time")
        return np.stack(sequences)
