"""The image of a program for a device without operating system: what of it lies in flash and in RAM.

Cortex-M has both in one space of 32-bit addresses (Armv7-M Architecture Reference Manual, B3.1): code and
constants from FLASH on, what is written from RAM on. ELF files are read as TIS 1.2 specifies them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tensmith.files import TemporaryFolder
from tensmith.kernel.isa import Isa
from tensmith.kernel.toolchain import link_image

FLASH, RAM = 0x0800_0000, 0x2000_0000

_SCRIPT = f"""\
SECTIONS
{{
    . = {FLASH:#x};
    .text : {{ *(.text*) *(.rodata*) *(.ARM.extab*) }}
    .ARM.exidx : {{ *(.ARM.exidx*) }}
    . = {RAM:#x};
    .data : {{ *(.data*) *(.bss*) *(COMMON) }}
}}
"""
# Functions that call one another, at most: the model, its steps, a kernel, a tile, a helper, memset.
_DEEPEST = 6
_ALLOCATED, _WRITTEN = 2, 1
_SYMBOLS, _WITHOUT_BYTES = 2, 8


class Section(NamedTuple):
    """Where a part of the image lies, how large it is there, and what it holds (nothing: zeros)."""

    address: int
    size: int
    content: bytes


@dataclass(frozen=True)
class Image:
    """What is put into flash and what is kept in RAM; addresses of functions by name.

    `stack` bounds what the functions that were compiled put there, unless one calls itself.
    """

    flash: tuple[Section, ...]
    ram: tuple[Section, ...]
    symbols: dict[str, int]
    stack: int

    @property
    def flash_bytes(self) -> int:
        """Code and constants."""
        return sum(section.size for section in self.flash)

    @property
    def ram_bytes(self) -> int:
        """What is there all the time: not the stack."""
        return sum(section.size for section in self.ram)


def make_image(text: str, isa: Isa, entry: str) -> Image:
    """C text, compiled and linked around the function `entry`; EngineError if something is missing."""
    with TemporaryFolder("tensmith-image-") as folder:
        path = Path(folder) / "image.elf"
        link_image(text, isa, _SCRIPT, entry, path)
        return _read(path.read_bytes())


class _Header(NamedTuple):
    """A section header of a 32-bit ELF file."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    each: int


def _read(elf: bytes) -> Image:
    """A linked file, as our own compiler wrote it."""
    (table,) = struct.unpack_from("<I", elf, 32)
    each, count, names = struct.unpack_from("<3H", elf, 46)
    headers = [_Header._make(struct.unpack_from("<10I", elf, table + n * each)) for n in range(count)]

    def content(header: _Header) -> bytes:
        return b"" if header.kind == _WITHOUT_BYTES else elf[header.offset : header.offset + header.size]

    kept = [(h, Section(h.address, h.size, content(h))) for h in headers if h.flags & _ALLOCATED and h.size]
    words = content(headers[names])
    frames = [
        size
        for header in headers
        if _word(words, header.name) == ".stack_sizes"
        for size in _frames(content(header))
    ]
    symbols = {
        _word(content(headers[header.link]), name): value
        for header in headers
        if header.kind == _SYMBOLS
        for name, value, *_ in struct.iter_unpack("<3I2BH", content(header))
    }
    return Image(
        tuple(section for header, section in kept if not header.flags & _WRITTEN),
        tuple(section for header, section in kept if header.flags & _WRITTEN),
        symbols,
        sum(sorted(frames)[-_DEEPEST:]),
    )


def _word(words: bytes, start: int) -> str:
    return words[start : words.index(b"\0", start)].decode()


def _frames(table: bytes) -> Iterator[int]:
    """Each function's bytes of stack, of pairs of its address and them as an unsigned LEB128."""
    at = 0
    while at < len(table):
        at += 4
        size = shift = 0
        while True:
            size |= (table[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if not table[at - 1] & 128:
                break
        yield size
