"""Text to token numbers: bytes, characters, a llama2.c tokenizer file, a tokenizer.json, a .gguf file."""

from __future__ import annotations

import heapq
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tensmith import gate
from tensmith.data.dataset import Array
from tensmith.data.gguf import is_gguf
from tensmith.data.parts import ItemPart
from tensmith.data.storage import open_random
from tensmith.errors import DataError, UsageError, needing
from tensmith.files import at_home


class Tokenizer(Protocol):
    """Anything that turns text into token numbers in 0..vocabulary-1."""

    @property
    def vocabulary(self) -> int: ...

    def encode(self, text: str) -> list[int]: ...


class Speller(Tokenizer, Protocol):
    """A tokenizer that gives text back; bytes that are no UTF-8 become the replacement character.

    `ends` are the tokens that end a text.
    """

    @property
    def ends(self) -> frozenset[int]: ...

    def decode(self, tokens: Sequence[int]) -> str: ...

    def start(self, text: str) -> list[int]:
        """The tokens of a text that is to go on: without those that end one."""
        ...


class ByteTokenizer:
    """Every UTF-8 byte is a token; none ends a text."""

    vocabulary = 256
    ends: frozenset[int] = frozenset()

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    start = encode

    def decode(self, tokens: Sequence[int]) -> str:
        """Numbers above 255 are the replacement character."""
        return b"".join(bytes([n]) if n < 256 else "\ufffd".encode() for n in tokens).decode(errors="replace")


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


class ScoredPieces:
    """SentencePiece's BPE by scores: begins with `first`, then a leading space and one piece a character
    (bytes of unknown ones are tokens `byte_tokens`); the neighbours whose joined piece scores best are merged
    until none can be.

    pieces: of each token the bytes that it stands for, None for those that are neither said nor looked for;
    whole: special tokens by what they are called in a text.
    """

    def __init__(
        self,
        pieces: Sequence[bytes | None],
        scores: Sequence[float],
        byte_tokens: Sequence[int],
        first: Sequence[int],
        leading: str = " ",
        ends: Iterable[int] = (),
        whole: Mapping[str, int] | None = None,
    ) -> None:
        self.ends = frozenset(ends)
        self._whole = dict(whole or {})
        names = sorted(self._whole, key=len, reverse=True)
        self._specials = re.compile(f"({'|'.join(map(re.escape, names))})")
        self._pieces, self._scores = pieces, scores
        self._first, self._leading = list(first), leading
        self._byte_tokens = list(byte_tokens)
        self._byte_of = {token: byte for byte, token in enumerate(byte_tokens)}
        self._numbers: dict[bytes, int] = {}
        for number, piece in enumerate(pieces):
            if piece is not None and number not in self._byte_of:
                self._numbers.setdefault(piece, number)
        self.vocabulary = len(pieces)

    def encode(self, text: str) -> list[int]:
        """With the token that begins a text. What a special token is called is that token, and the text
        behind it begins anew, as in llama.cpp."""
        found = list(self._first)
        for part in self._specials.split(text) if self._whole else (text,):
            if part in self._whole:
                found.append(self._whole[part])
            elif part:
                spelt = (number for letter in self._leading + part for number in self._characters(letter))
                found += self._merged(list(spelt))
        return found

    start = encode

    def decode(self, tokens: Sequence[int]) -> str:
        """Pieces joined; those of single bytes are the bytes, and what is not said nothing."""
        return b"".join(map(self._bytes, tokens)).decode(errors="replace").removeprefix(self._leading)

    def _bytes(self, token: int) -> bytes:
        if token in self._byte_of:
            return bytes([self._byte_of[token]])
        return (self._pieces[token] if 0 <= token < self.vocabulary else None) or b""

    def _characters(self, character: str) -> list[int]:
        data = character.encode()
        known = self._numbers.get(data)
        return [self._byte_tokens[byte] for byte in data] if known is None else [known]

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
            first, second = (self._pieces[tokens[at]] for at in (left, right))
            merged = None if first is None or second is None else self._numbers.get(first + second)
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


class LlamaTokenizer(ScoredPieces):
    """SentencePiece's BPE in the file format of llama2.c (tokenizer.bin, tok512.bin).

    The file: int32 longest piece; then for each piece float32 score, int32 length, the bytes; little-endian.
    Encoding follows llama2.c: BOS is token 1, EOS 2, and byte b token b + 3. Both end a text: its models were
    trained on texts that lie one behind the other, each begun by BOS.
    """

    BOS, EOS = 1, 2
    FIRST_BYTE = 3

    def __init__(self, path: Path) -> None:
        pieces, scores = read_pieces(path)
        if len(pieces) < self.FIRST_BYTE + 256:
            raise DataError(
                f"{path} has {len(pieces)} pieces, too few for the 256 bytes; is it a llama2.c tokenizer?"
            )
        said = [None if number <= self.EOS else piece for number, piece in enumerate(pieces)]
        bytes_ = range(self.FIRST_BYTE, self.FIRST_BYTE + 256)
        super().__init__(said, scores, bytes_, [self.BOS], ends=(self.BOS, self.EOS))


@contextmanager
def of_package(what: str, todo: str = "") -> Iterator[None]:
    """DataError for whatever the package `tokenizers` raises: any error, and panics, which are none."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, DataError):
        raise
    except BaseException as error:
        raise DataError(f"{what} ({error}){todo and f'; {todo}'}") from error


class TokenizerFile:
    """The tokenizer.json of an encoder such as BERT, by the package `tokenizers`.

    It says itself how text is normalized and split, and which tokens begin and end it: around two texts so
    many as are `added`.
    """

    # What a token in no use for the model is called, in the order of looking.
    PADDING = ("[PAD]", "<pad>", "<|endoftext|>", "</s>")
    # What ends a text is called, in the families of decoders that publish such files.
    ENDS = ("</s>", "<|endoftext|>", "<|im_end|>", "<|eot_id|>", "<|end_of_text|>", "<eos>")

    def __init__(self, path: Path) -> None:
        data = gate.read_bytes(path, gate.WORDS)
        with needing("reading tokenizer.json", "text"):
            from tokenizers import Tokenizer as Encoder
        with of_package(f"{path} is no tokenizer.json that tokenizers reads"):
            self._encoder: Any = Encoder.from_buffer(data)
        self._encoder.no_padding()
        self._encoder.no_truncation()
        self.vocabulary = int(self._encoder.get_vocab_size())
        known = map(self._encoder.token_to_id, self.ENDS)
        self.ends = frozenset(number for number in known if number is not None)
        self.added = int(self._encoder.num_special_tokens_to_add(True))
        self._path = path

    def encode(self, text: str) -> list[int]:
        """With the tokens that begin and end a text."""
        return list(self._encoded(text).ids)

    def start(self, text: str) -> list[int]:
        """With the tokens that begin a text, without those that end it."""
        whole, added = self.encode(text), self._encoded("a").special_tokens_mask
        ending = next((n for n, mark in enumerate(reversed(added)) if not mark), 0)
        return whole[: len(whole) - ending]

    def _encoded(self, *texts: str) -> Any:
        with of_package(f"{self._path} cannot encode this text"):
            return self._encoder.encode(*texts)

    def decode(self, tokens: Sequence[int]) -> str:
        with of_package(f"{self._path} cannot decode these tokens"):
            return str(self._encoder.decode(list(tokens)))

    def inputs(self, length: int) -> Callable[[Sequence[str]], dict[str, Array]]:
        """Encodes a text, or a pair of them, as an encoder's inputs, each int64 [length].

        Longer ones are cut before the token that ends them, shorter ones padded where the mask is 0.
        """
        encoder = type(self._encoder).from_str(self._encoder.to_str())
        encoder.enable_truncation(length)
        known = (encoder.token_to_id(word) for word in self.PADDING)
        encoder.enable_padding(length=length, pad_id=next((n for n in known if n is not None), 0))

        def encoded(texts: Sequence[str]) -> dict[str, Array]:
            with of_package(f"{self._path} cannot encode this text"):
                found = encoder.encode(*texts)
            columns = (found.ids, found.attention_mask, found.type_ids)
            return {name: np.array(column, np.int64) for name, column in zip(ENCODER_INPUTS, columns)}

        return encoded


# Inputs of encoders by their usual names; models may do without all but the first.
ENCODER_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
BESIDE_TOKENS = frozenset(ENCODER_INPUTS[1:])


_MOST_PIECES, _MOST_BYTES = 1 << 20, 64 << 20


def read_pieces(path: Path) -> tuple[list[bytes], list[float]]:
    """The pieces and scores in a tokenizer file of llama2.c."""
    file = open_random(path)
    if not 4 < file.size <= _MOST_BYTES:
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
        if not 0 <= length <= longest or position + length > len(data) or len(pieces) == _MOST_PIECES:
            raise DataError(
                f"{path} is no llama2.c tokenizer file: piece {len(pieces)} is {length} bytes long"
            )
        pieces.append(data[position : position + length])
        scores.append(score)
        position += length
    return pieces, scores


# What a tokenizer is called that is no path.
NAMED = ("auto", "byte", "char")


def find_tokenizer(wanted: str | Tokenizer, beside: Path, texts: Iterable[str]) -> Tokenizer:
    """The tokenizer a user means by `wanted`.

    "byte", "char" (vocabulary from `texts`), the path of a tokenizer.json, a llama2.c or a .gguf file, an
    object with `encode` and `vocabulary`, or "auto": the one `tok*.bin` or tokenizer.json in `beside`, else
    bytes.
    """
    if not isinstance(wanted, str):
        return wanted
    if wanted == "byte":
        return ByteTokenizer()
    if wanted == "char":
        return CharTokenizer(texts)
    if wanted != "auto":
        return _tokenizer_in(at_home(wanted))
    found = sorted((*beside.glob("tok*.bin"), *beside.glob("tokenizer.json")))
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise UsageError(f"{beside} holds several tokenizers ({names}); choose one with ?tokenizer=PATH")
    return _tokenizer_in(found[0]) if found else ByteTokenizer()


def speller(wanted: str) -> Speller:
    """The tokenizer that --tokenizer names: byte, or the path of a tokenizer.json, llama2.c or .gguf file."""
    return ByteTokenizer() if wanted == "byte" else _tokenizer_in(at_home(wanted))


def _tokenizer_in(path: Path) -> Speller:
    from tensmith.data.gguf_tokens import tokenizer_of_gguf

    if is_gguf(path):
        return tokenizer_of_gguf(path)
    return TokenizerFile(path) if path.suffix == ".json" else LlamaTokenizer(path)


def text_part(
    texts: Callable[[int], Sequence[str]],
    tokenizer: Tokenizer,
    max_length: int,
    labels: Array,
    remark: str = "",
) -> ItemPart:
    """Samples of one text or two each, with labels [n].

    By a tokenizer.json they are an encoder's inputs of `max_length` tokens; else int64 [length], at most
    `max_length` tokens of the text, two joined by a tab. UsageError where that leaves none of the text.
    """
    added = tokenizer.added if isinstance(tokenizer, TokenizerFile) else 0
    if max_length <= added:
        raise UsageError(f"max_length is at least {added + 1}, not {max_length}")
    if isinstance(tokenizer, TokenizerFile):
        encoded = tokenizer.inputs(max_length)
        count = len(labels)
        return ItemPart(
            count, lambda index: encoded(texts(index)), labels, ragged=False, remedy="", remark=remark
        )

    def read(index: int) -> Array:
        return np.array(tokenizer.encode("\t".join(texts(index)))[:max_length], np.int64)

    remedy = "read texts of one length together"
    return ItemPart(len(labels), read, labels, ragged=True, remedy=remedy, remark=remark)
