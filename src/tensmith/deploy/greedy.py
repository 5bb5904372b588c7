"""The likeliest tokens by a compiled step, in C: a small model takes no longer than a call from Python."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tensmith.backend.native.emit.loader import Model, arena_of, pointers_of
from tensmith.errors import EngineError
from tensmith.formula.arith import Array

_SOURCE = Path(__file__).with_name("greedy.c")
# Tokens come together that take so long at most, and at most so many of them.
_SECONDS, _MOST = 5e-3, 64

_P, _L = ctypes.c_void_p, ctypes.c_int64


class _Step(ctypes.Structure):
    _fields_ = (("run", _P), ("weights", _P), ("reads", _P), ("writes", _P), ("arena", _P), ("logits", _P),
                ("vocabulary", _L))  # fmt: skip


class _Field(ctypes.Structure):
    _fields_ = (("to", _P), ("table", _P), ("bytes", _L), ("to_step", _L), ("table_step", _L))


class GreedyLoop:
    """Calls a model again and again: its inputs and outputs as it was bound to them, `row` the logits.

    numbered: inputs of one element that hold how many tokens came before; mask: [1, length], ones up to the
    new token. TensmithError where it cannot be done so here.
    """

    def __init__(
        self, model: Model, given: Mapping[str, Array], results: Mapping[str, Array], row: Array,
        token: Array, numbered: Sequence[Array], mask: Array | None, most: int,
    ) -> None:  # fmt: skip
        entry = model.entry()
        if entry is None or row.dtype != np.float32 or any(a.size != 1 for a in (token, *numbered)):
            raise EngineError("a step in threads, of other logits or of several tokens is called by Python")
        self._greedy = _library()
        arena = arena_of(model.manifest["arena_bytes"])
        reads, writes = pointers_of(given.values()), pointers_of(results.values())
        addresses = (entry, model.weights_at, ctypes.addressof(reads), ctypes.addressof(writes), arena[0])
        self._step = _Step(*addresses, row.ctypes.data, row.size)
        self._tokens = _counted(token, row.size)
        fields = [_counted(place, most) for place in numbered]
        if mask is not None:
            one = np.ones(1, mask.dtype)
            fields.append((_Field(mask.ctypes.data, one.ctypes.data, one.itemsize, one.itemsize, 0), one))
        self._fields = (_Field * max(1, len(fields)))(*(field for field, _ in fields))
        self._count = len(fields)
        self._kept = (model, given, results, arena, reads, writes, fields)  # alive as long as the loop is
        self._said = np.empty(_MOST, np.int64)

    def tokens(self, token: int, count: int, wanted: int) -> Iterator[int]:
        """The tokens after `token`, number `count` of its text; fewer where logits are no numbers."""
        together = 1
        while wanted:
            together = max(1, min(together, wanted, _MOST))
            began = time.perf_counter()
            arguments = (ctypes.byref(self._tokens[0]), self._fields, self._count, token, count, together)
            found = self._greedy(ctypes.byref(self._step), *arguments, self._said.ctypes.data)
            if found < 0:
                raise EngineError("the model failed while running")
            seconds, fewer = time.perf_counter() - began, found < together
            said = self._said[:found].tolist()
            yield from said
            if fewer:
                return
            token, count, wanted = said[-1], count + found, wanted - found
            together = int(_SECONDS * found / seconds)


def _counted(array: Array, most: int) -> tuple[_Field, Array]:
    """An input that holds a number from 0 on, and a table of those."""
    table = np.arange(most).astype(array.dtype)
    return _Field(array.ctypes.data, table.ctypes.data, table.itemsize, 0, table.itemsize), table


@cache
def _library() -> Any:
    """The function of greedy.c, from the cache or compiled now; TensmithError where that cannot be."""
    from tensmith.kernel.isa import host_isa
    from tensmith.kernel.toolchain import load_library

    isa = host_isa()
    library = load_library(f"{isa.prelude}\n{_SOURCE.read_text()}", isa)
    library.greedy.restype, library.greedy.argtypes = _L, [_P, _P, _P, _L, _L, _L, _L, _P]
    return library.greedy
