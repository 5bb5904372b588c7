"""The packed file's bytes: a header, four compressed sections, and hashes over both ends.

    magic        4 bytes   93 54 53 4D ("\\x93TSM")
    version      1 byte    3
    check        16 bytes  first half of the SHA-256 of everything after it
    sha256       32 bytes  of the model this file unpacks to
    model size   varint    bytes (all numbers are the zigzag varints of `streams.number`)
    lanes        varint    of the symbol stream
    4 x          method, plain size, stored size: skeleton, parameters, plain, symbols
    4 sections

Sizes are checked against the stored bytes before anything is allocated: a file becomes a model of at most
16 MiB, or 1024 times its own size where that is more, and of less than 2 GiB in any case.

Symbols are a uint32 state a lane, then uint16 words that all lanes share (`rans`). Which table a symbol has
follows from what was read before it: one of the tensor (`frequency.histogram_weights`), the level of its row
and column (`scaled`), or the level and mean that a kernel's earlier taps foretell (`predicted`); at most 53
levels and 19 means, and where a tensor's numbers are of a `trellis`, two quantizers. A context's table is
`frequency.student`: float32 operations one at a time, then integers, so that every machine has the same.
"""

from __future__ import annotations

import hashlib
import lzma
from dataclasses import dataclass

import zstandard

from tensmith.backend.packed.rans import MAX_LANES
from tensmith.backend.packed.streams import Cursor, number
from tensmith.errors import ModelError, OutputError

MAGIC = b"\x93TSM"
VERSION = 3
_FREE_BYTES = 16 << 20  # what any file may expand to; past it, at most _MAX_RATIO times its own size
_MAX_RATIO = 1024
_CHECK_BYTES = 16
_STORED, _ZSTD, _LZMA = range(3)
_SLOW_BYTES = 2 << 20  # up to here the strongest settings are tried
_PIECE = 1 << 20
_LZMA_FILTERS = [
    {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": _SLOW_BYTES, "pb": 0}
]


@dataclass(frozen=True)
class Container:
    """A packed file's contents, with its sections decompressed (`stored` gives their compressed sizes)."""

    model_size: int
    model_sha256: bytes
    lanes: int
    skeleton: bytes
    parameters: bytes
    plain: bytes
    symbols: bytes
    stored: tuple[int, ...] = ()

    @property
    def sections(self) -> tuple[bytes, bytes, bytes, bytes]:
        """In file order."""
        return self.skeleton, self.parameters, self.plain, self.symbols


class TooSmallError(OutputError):
    """A model shrinks so far that readers would refuse its packed file as a bomb."""


def write(container: Container) -> bytes:
    """The file; TooSmallError where no reader would take it."""
    header = [container.model_sha256, number(container.model_size), number(container.lanes)]
    stored = []
    for section in container.sections:
        method, data = _compress(section)
        header += [number(method), number(len(section)), number(len(data))]
        stored.append(data)
    body = b"".join([*header, *stored])
    if container.model_size > _allowed(len(body)):
        raise TooSmallError(
            f"the model packs to less than 1/{_MAX_RATIO} of its size; ship it as .onnx with zstd instead"
        )
    return MAGIC + bytes([VERSION]) + _check(body) + body


def read(packed: bytes, max_bytes: int) -> Container:
    """Inverse of `write`; ModelError for what is damaged, too new, or would exceed `max_bytes`."""
    start = len(MAGIC) + 1 + _CHECK_BYTES
    if packed[: len(MAGIC)] != MAGIC:
        raise ModelError(
            "this is not a packed tensmith model; pass a file written by tensmith (model.packed)"
        )
    if len(packed) > len(MAGIC) and packed[len(MAGIC)] != VERSION:
        raise ModelError(
            f"the packed model has format version {packed[len(MAGIC)]}, and this tensmith reads {VERSION}; "
            "unpack it with the tensmith that wrote it, or upgrade this one: pip install --upgrade tensmith"
        )
    body = packed[start:]
    if len(packed) < start or _check(body) != packed[start - _CHECK_BYTES : start]:
        raise ModelError(
            "the packed model is damaged or cut short (its check sum does not match); fetch it again"
        )
    cursor = Cursor(body)
    sha256 = cursor.take(32)
    size = cursor.number(0, max_bytes)
    if size > _allowed(len(body)):
        raise ModelError(
            f"the packed model claims {size} bytes from {len(packed)}; no honest file does, refused"
        )
    lanes = cursor.number(1, MAX_LANES)
    limit = 2 * size + (1 << 16)  # streams may be somewhat longer than what they encode, never much
    shapes = [
        (cursor.number(_STORED, _LZMA), cursor.number(0, limit), cursor.number(0, len(body)))
        for _ in range(4)
    ]
    skeleton_size, *others = (plain for _, plain, _ in shapes)
    if skeleton_size > size or sum(others) > limit:
        raise ModelError("the packed model's sections are larger than any of its size; the file is damaged")
    sections = [_decompress(method, cursor.take(stored), plain) for method, plain, stored in shapes]
    cursor.finish()
    skeleton, parameters, plain, symbols = sections
    sizes = tuple(stored for _, _, stored in shapes)
    return Container(size, sha256, lanes, skeleton, parameters, plain, symbols, sizes)


def _check(body: bytes) -> bytes:
    return hashlib.sha256(body).digest()[:_CHECK_BYTES]


def _allowed(packed_size: int) -> int:
    return max(_FREE_BYTES, _MAX_RATIO * packed_size)


def _compress(data: bytes) -> tuple[int, bytes]:
    """The smallest of the methods; what the fastest cannot shrink is stored: symbols and mantissas."""
    if len(zstandard.compress(data, 1)) >= len(data):
        return _STORED, data
    slow = len(data) <= _SLOW_BYTES
    choices = [(_STORED, data), (_ZSTD, zstandard.compress(data, 19 if slow else 9))]
    if slow:
        choices.append((_LZMA, lzma.compress(data, lzma.FORMAT_RAW, filters=_LZMA_FILTERS)))
    return min(choices, key=lambda choice: len(choice[1]))


def _zstd_plain(stored: bytes, most: int) -> bytes:
    """The first `most` bytes; room for all of them at once is what a reader makes before it knows any."""
    reader = zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(stored)
    pieces: list[bytes] = []
    while piece := reader.read(min(most, _PIECE)):
        pieces.append(piece)
        most -= len(piece)
    return b"".join(pieces)


def _decompress(method: int, stored: bytes, size: int) -> bytes:
    """Exactly `size` bytes; never allocates more than that, and that only as the input yields it."""
    try:
        if method == _STORED:
            plain = stored
        elif method == _ZSTD:
            plain = _zstd_plain(stored, size + 1)
        else:
            plain = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=_LZMA_FILTERS).decompress(stored, size + 1)
    except (zstandard.ZstdError, lzma.LZMAError, EOFError) as error:
        raise ModelError(
            f"a section of the packed model does not decompress ({error}); the file is damaged"
        ) from error
    if len(plain) != size:
        raise ModelError(
            "a section of the packed model has a wrong size; the file is damaged, fetch it again"
        )
    return plain
