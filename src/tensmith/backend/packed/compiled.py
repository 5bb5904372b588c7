"""Symbols written and read by C: symbols.c, compiled once for this machine and kept in the user's cache.

It gives what `rans` gives and refuses what that refuses. That one works where there is no compiler, and on
small models: finding the compiler, let alone running it, takes longer than they do.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tensmith.backend.packed.elements import Integers
from tensmith.backend.packed.frequency import CONTEXTS, MIN_LEVEL, Floats, context_shifts
from tensmith.backend.packed.rans import LOW, Decoder, Shorts, SymbolBatch, no_words
from tensmith.errors import TensmithError

# So many elements take NumPy as long as the library takes to be found, and to be compiled.
WORTH_LOADING, WORTH_COMPILING = 1 << 19, 1 << 23
_SOURCE = Path(__file__).with_name("symbols.c")
_NODE, _NEAR = 16, 8  # as symbols.c has them


class Density(NamedTuple):
    """Distributions of the integers low..low + alphabet - 1: what `frequency.student` makes them of."""

    low: int
    alphabet: int
    degrees: int
    squares: Floats  # [LEVELS]
    factors: Floats  # [alphabet]; of each of two quantizers, one after the other, where a trellis made them


class KernelPlan(NamedTuple):
    """What `predicted` knows of kernels before it reads any; sums of rests [kernels] begin as `rests`."""

    rests: Integers
    near: Integers  # [taps, 8], earlier taps; only the first min(tap, 8) of a tap count
    weights: Integers  # [taps, 8]
    shares: Floats  # [taps]
    factors: Integers  # [taps]
    turns: Integers  # [taps]
    inverse: Floats  # [LEVELS]
    quarters: tuple[int, ...]
    most_rest: int
    most_added: int
    run: int = 0  # kernels of a row, where a trellis made them


def _structure(name: str, **fields: Any) -> type[ctypes.Structure]:
    return type(name, (ctypes.Structure,), {"_fields_": list(fields.items())})


_P, _I, _L = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
_Stream = _structure("_Stream", words=_P, count=_L, position=_L, states=_P, lanes=_L, lane=_L)
_Shape = _structure(
    "_Shape", low=_I, alphabet=_I, power=_I, squares=_P, factors=_P, shifts=_P, rows=_P, known=_P, row=_L,
    first=_L,
)  # fmt: skip
_Kernels = _structure(
    "_Kernels", count=_L, taps=_I, quarters=_I * 3, most_rest=_I, most_added=_I, inverse=_P, shares=_P,
    factors=_P, turns=_P, near=_P, weights=_P, rests=_P, known=_P, run=_L, states=_P,
)  # fmt: skip


def bind(library: ctypes.CDLL) -> ctypes.CDLL:
    """The library of symbols.c with its functions' types."""
    library.packed_alike.argtypes = [_P, _P, _P, _L, _P]
    library.packed_grid.argtypes = [_P, _P, _P, _L, _P, _L, _I, _L, _P, _P]
    library.packed_kernels.argtypes = [_P, _P, _P, _P]
    library.packed_words.argtypes = [_P, _P, _P, _I, _L, _P, _L, _P]
    library.packed_words.restype = _L
    return library


def compiled_library(elements: int) -> ctypes.CDLL | None:
    """The library, where a model of so many elements gains by it; None where NumPy shall read it."""
    if _loaded.cache_info().currsize:
        return _loaded()
    if elements >= WORTH_COMPILING:
        return _loaded()
    if elements >= WORTH_LOADING and _kept():
        return _loaded()
    return None


@functools.cache
def _loaded() -> ctypes.CDLL | None:
    """From the cache or compiled now; None where that cannot be."""
    from tensmith.kernel.isa import host_isa
    from tensmith.kernel.toolchain import load_library

    if sys.byteorder != "little":
        return None
    try:
        return bind(load_library(text(), host_isa()))
    except TensmithError:
        return None


@functools.cache
def _kept() -> bool:
    from tensmith.kernel.isa import host_isa
    from tensmith.kernel.toolchain import kept_library

    try:
        return kept_library(text(), host_isa()) is not None
    except TensmithError:
        return False


def text() -> str:
    """The C text."""
    return _SOURCE.read_text(encoding="utf-8")


def compiled_encode(batches: Sequence[SymbolBatch], lanes: int, library: ctypes.CDLL) -> bytes:
    """What `rans.encode` gives."""
    states = np.full(lanes, LOW, np.uint32)
    blocks: list[bytes] = []
    for batch in reversed(batches):
        count, alphabet = batch.symbols.size, batch.frequencies.shape[1]
        starts = np.zeros((len(batch.frequencies), alphabet + 1), np.uint16)
        starts[:, 1:] = np.cumsum(batch.frequencies, axis=1)
        symbols, contexts = (
            np.ascontiguousarray(each, np.uint16) for each in (batch.symbols, batch.contexts)
        )
        words = np.empty(count, np.uint16)  # a symbol leaves one at most
        given = [*map(_address, (symbols, contexts, starts)), alphabet, count, _address(states), lanes]
        left = library.packed_words(*given, _address(words))
        blocks.append(words[left:].tobytes())
    return states.tobytes() + b"".join(reversed(blocks))


class CompiledDecoder(Decoder):
    """A `Decoder` that reads in C. All it is given was checked but for the words themselves."""

    def __init__(self, data: bytes, lanes: int, library: ctypes.CDLL) -> None:
        super().__init__(data, lanes)
        self._library = library
        self._states = self._states.astype(np.uint32)
        self._shifts = context_shifts().astype(np.int32)
        self._known = np.zeros(2 * CONTEXTS, np.uint8)
        self._rows = np.zeros(0, np.int16)
        self._stream = _Stream(
            words=_address(self._words), count=self._words.size, states=_address(self._states), lanes=lanes
        )
        self._shape = _Shape(shifts=_address(self._shifts), known=_address(self._known))
        self._given = ctypes.addressof(self._stream), ctypes.addressof(self._shape)

    def alike(self, count: int, weights: Integers) -> Shorts:
        """`count` symbols by one distribution, as `frequency.normalise` makes it of weights [alphabet]."""
        self._begin(0, weights.size, contexts=1)
        return self._read("packed_alike", (count,), weights.astype(np.int32), count)

    def grid(
        self,
        density: Density,
        rows: Integers,
        columns: Integers,
        base: int,
        inner: int,
        dependent: bool = False,
    ) -> Shorts:
        """Integers [rows, columns, inner] whose level is `base` and the row's and the column's.

        dependent: whether a trellis made them.
        """
        self._begin(density.low, density.alphabet, density)
        of = rows.astype(np.int32), rows.size, columns.astype(np.int32), columns.size, base - MIN_LEVEL, inner
        states = np.zeros(columns.size * inner, np.uint8) if dependent else 0
        return self._read("packed_grid", (rows.size * columns.size * inner,), *of, states)

    def kernels(self, density: Density, plan: KernelPlan) -> Shorts:
        """Integers [kernels, taps]."""
        taps, count = len(plan.near), plan.rests.size
        arrays: dict[str, np.ndarray[Any, Any]] = {
            "known": np.empty(taps * count, np.int16),
            "inverse": plan.inverse,
            "states": np.zeros(plan.run, np.uint8),
            "shares": plan.shares,
        }
        for name in ("rests", "near", "weights", "factors", "turns"):
            arrays[name] = np.ascontiguousarray(getattr(plan, name), np.int32)
        kernels = _Kernels(
            count=count,
            taps=taps,
            quarters=(_I * 3)(*plan.quarters),
            most_rest=plan.most_rest,
            most_added=plan.most_added,
            run=plan.run,
            **{name: _address(array) for name, array in arrays.items()},
        )
        self._begin(density.low, density.alphabet, density)
        return self._read("packed_kernels", (count, taps), ctypes.addressof(kernels))

    def _begin(
        self, low: int, alphabet: int, density: Density | None = None, contexts: int = 2 * CONTEXTS
    ) -> None:
        """Room for a tensor's distributions, of which none is known yet: 8.8 MB at most, whatever follows."""
        first = 0 if alphabet <= _NODE else _padded(-(-alphabet // _NODE))
        row = first + _padded(alphabet + 1)
        if self._rows.size < contexts * row:
            self._rows = np.empty(contexts * row, np.int16)
            self._shape.rows = _address(self._rows)
        self._known.fill(0)
        shape = self._shape
        shape.low, shape.alphabet, shape.row, shape.first = low, alphabet, row, first
        if density is not None:
            shape.power = (density.degrees + 1) // 2
            shape.squares, shape.factors = _address(density.squares), _address(density.factors)

    def _read(self, function: str, extents: tuple[int, ...], *arguments: Any) -> Shorts:
        out = np.empty(extents, np.int16)
        self.expect(out.size)
        given = [_address(each) if isinstance(each, np.ndarray) else each for each in (*arguments, out)]
        ended = getattr(self._library, function)(*self._given, *given)
        self.position = self._stream.position
        if ended:
            raise no_words()
        return out


def _address(array: np.ndarray[Any, Any]) -> int:
    """Of its first element; the array is contiguous."""
    found: int = array.__array_interface__["data"][0]
    return found


def _padded(entries: int) -> int:
    return -(-entries // _NODE) * _NODE
