"""Interleaved range asymmetric numeral systems (rANS), vectorised over lanes.

J. Duda, "Asymmetric numeral systems", arXiv:1311.2540; interleaved as in F. Giesen, arXiv:1402.3392.
Symbol i of a batch belongs to lane i mod lanes. Every lane's state lies in [2^16, 2^32) and is renormalised
by 16-bit words that all lanes share. Probabilities are integers out of 2^15. States persist over batches, so
a whole model is one stream and pays for its lanes once.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tensmith.backend.packed.elements import Integers
from tensmith.errors import ModelError

PRECISION = 15
TOTAL = 1 << PRECISION
MAX_LANES = 4096
LOW = 1 << 16
_WORD = 16
_UNLIMITED = 1 << 62
_SYMBOLS_PER_LANE = 8192  # a lane costs four bytes: under 0.1 % of a 4-bit symbol stream
# So many lanes are gone through one after the other, by Python's integers: sooner done than NumPy's steps.
_FEW_LANES = 16
_BLOCK = 16 * MAX_LANES  # of so many symbols at a time, or nearly, 64-bit numbers are in memory

Words = np.ndarray[Any, np.dtype[np.uint16]]
Contexts = np.ndarray[Any, np.dtype[np.unsignedinteger[Any]]]
Shorts = np.ndarray[Any, np.dtype[np.int16]]
Slots = np.ndarray[Any, np.dtype[np.int32]]


class SymbolBatch(NamedTuple):
    """Symbols to code: each one's interval is that of its context's row in a table out of 2^15.

    symbols, contexts: 1-D, of one length; frequencies: [contexts, alphabet]; bits: the ideal code length.
    """

    symbols: Contexts
    contexts: Contexts
    frequencies: Integers
    bits: float

    def intervals(self) -> tuple[Integers, Integers]:
        """Where each symbol's interval starts, and how wide it is."""
        starts = np.cumsum(self.frequencies, axis=1) - self.frequencies
        return starts[self.contexts, self.symbols], self.frequencies[self.contexts, self.symbols]


def batch_of(
    symbols: Integers, contexts: Contexts, frequencies: Integers, counts: Integers | None = None
) -> SymbolBatch:
    """The batch of `symbols[i]` under row `contexts[i]` of the table `frequencies` [contexts, alphabet].

    counts: how often each row has each symbol, where that is known.
    """
    if counts is not None:
        bits = code_bits(counts, frequencies)
    else:
        bits = PRECISION * symbols.size - float(np.log2(frequencies[contexts, symbols]).sum())
    return SymbolBatch(symbols.astype(_width(frequencies.shape[1])), contexts, frequencies, bits)


def counted(symbols: Integers, contexts: Contexts, rows: int, alphabet: int) -> Integers:
    """How often each of `rows` contexts has each symbol, [rows, alphabet]."""
    keys = contexts * np.int64(alphabet) + symbols
    return np.bincount(keys, minlength=rows * alphabet).reshape(rows, alphabet)


def code_bits(counts: Integers, frequencies: Integers) -> float:
    """The ideal code length of symbols that occur so often in each context; both [contexts, alphabet]."""
    return PRECISION * int(counts.sum()) - float((counts * np.log2(frequencies)).sum())


def _width(numbers: int) -> type[np.uint8] | type[np.uint16]:
    """The type that holds as many numbers from 0 on."""
    return np.uint8 if numbers <= 256 else np.uint16


def numbered(contexts: np.ndarray[Any, np.dtype[Any]]) -> tuple[Integers, Contexts]:
    """The distinct numbers among `contexts` (1-D, small, none negative), ascending, and each one's place."""
    present = np.bincount(contexts) > 0
    found = np.flatnonzero(present)
    places = np.cumsum(present) - 1
    return found, places.astype(_width(found.size))[contexts]


def lanes_for(symbols: int) -> int:
    """A power of two: enough lanes that NumPy's per-step cost vanishes, few enough that their states do."""
    return min(MAX_LANES, 1 << max(0, (symbols // _SYMBOLS_PER_LANE).bit_length() - 1))


def encode(batches: Sequence[SymbolBatch], lanes: int) -> bytes:
    """One stream that `Decoder` reads batch after batch."""
    if lanes <= _FEW_LANES:
        return _encoded_in_turn(batches, lanes)
    states = np.full(lanes, LOW, np.int64)
    blocks: list[Words] = []
    for batch in reversed(batches):
        starts, frequencies = batch.intervals()
        for begin in reversed(range(0, starts.size, lanes)):
            start, frequency = starts[begin : begin + lanes], frequencies[begin : begin + lanes]
            state = states[: start.size]
            full = state >= frequency << (2 * _WORD - PRECISION)
            if full.any():
                blocks.append((state[full] & 0xFFFF).astype(np.uint16))
                state[full] >>= _WORD
            quotient, remainder = np.divmod(state, frequency)
            state[:] = (quotient << PRECISION) + remainder + start
    return b"".join(
        [states.astype("<u4").tobytes(), *(block.astype("<u2").tobytes() for block in reversed(blocks))]
    )


def _encoded_in_turn(batches: Sequence[SymbolBatch], lanes: int) -> bytes:
    """What `encode` gives, lane after lane."""
    states, words = [LOW] * lanes, list[int]()
    for batch in reversed(batches):
        starts, frequencies = (part.tolist() for part in batch.intervals())
        for place in reversed(range(len(starts))):
            lane, frequency = place % lanes, frequencies[place]
            state = states[lane]
            if state >= frequency << (2 * _WORD - PRECISION):
                words.append(state & 0xFFFF)
                state >>= _WORD
            states[lane] = (state // frequency << PRECISION) + state % frequency + starts[place]
    words.reverse()
    return np.array(states, "<u4").tobytes() + np.array(words, "<u2").tobytes()


class Table:
    """Frequencies [contexts, alphabet] in a row, and where each one's interval starts: in its context, and
    after those of all contexts before. Made once for batches that are read by the same ones.
    """

    def __init__(self, frequencies: Integers) -> None:
        self.contexts, self.alphabet = frequencies.shape
        self.frequencies = frequencies.ravel()
        self.starts = (np.cumsum(frequencies, axis=1) - frequencies).ravel()
        self.intervals = self.starts + (np.arange(self.contexts) << PRECISION).repeat(self.alphabet)

    @cached_property
    def lists(self) -> tuple[list[int], list[int], list[int]]:
        """The three as Python's integers."""
        return self.frequencies.tolist(), self.starts.tolist(), self.intervals.tolist()

    @cached_property
    def slots(self) -> Slots:
        """The place in the row of each slot of all contexts."""
        return np.repeat(np.arange(self.frequencies.size, dtype=np.int32), self.frequencies)


def no_words() -> ModelError:
    """The error where symbols need words beyond the last one."""
    return ModelError("the packed model's symbols end early; the file is damaged, fetch it again")


class Decoder:
    """Reads batches in the order they were encoded; ModelError when the stream ends early."""

    def __init__(self, data: bytes, lanes: int) -> None:
        if not 1 <= lanes <= MAX_LANES or len(data) < 4 * lanes or len(data) % 2:
            raise ModelError(
                "the packed model's symbol stream is cut short; the file is damaged, fetch it again"
            )
        self._states = np.frombuffer(data, "<u4", lanes).astype(np.int64)
        self._words = np.frombuffer(data, "<u2", offset=4 * lanes)
        self._left = lanes * 2 * _SYMBOLS_PER_LANE if lanes < MAX_LANES else _UNLIMITED
        self.position = 0

    def expect(self, symbols: int) -> None:
        """ModelError where so many more take too long: it goes by lanes, and an encoder gives them enough."""
        self._left -= symbols
        if self._left <= 0:
            raise ModelError("the packed model has too few lanes for its symbols; the file is damaged")

    def read(self, contexts: Contexts, frequencies: Integers | Table) -> Shorts:
        """One symbol for each context: inverse of `encode` on `batch_of(symbols, contexts, frequencies)`."""
        self.expect(contexts.size)
        table = frequencies if isinstance(frequencies, Table) else Table(frequencies)
        # A table costs 2^15 entries for each context; few symbols are found faster by bisection.
        slots = table.slots if contexts.size > table.contexts << PRECISION else None
        out = np.empty(contexts.size, np.int16)
        block = _BLOCK - _BLOCK % self._states.size
        for begin in range(0, contexts.size, block):
            rows = contexts[begin : begin + block].astype(np.int64)
            if self._states.size <= _FEW_LANES:
                found = np.array(self._in_turn(rows.tolist(), *table.lists), np.int64)
            else:
                found = self._in_steps(rows << PRECISION, table, slots)
            out[begin : begin + block] = found - rows * table.alphabet
        return out

    def _in_steps(self, keys: Integers, table: Table, slots: Slots | None) -> Integers:
        """The place in the table of one symbol for each context, a step of all lanes at a time.

        keys: where the contexts' own slots begin among those of all.
        """
        flat, starts, intervals = table.frequencies, table.starts, table.intervals
        out, lanes = np.empty(keys.size, np.int64), self._states.size
        for begin in range(0, keys.size, lanes):
            key = keys[begin : begin + lanes]
            state = self._states[: key.size]
            slot = state & (TOTAL - 1)
            key += slot
            index = slots.take(key) if slots is not None else intervals.searchsorted(key, "right") - 1
            out[begin : begin + lanes] = index
            state >>= PRECISION
            state *= flat.take(index)
            state += slot
            state -= starts.take(index)
            hungry = (state < LOW).nonzero()[0]
            if hungry.size:
                stop = self.position + hungry.size
                if stop > self._words.size:
                    raise no_words()
                state[hungry] = state[hungry] << _WORD | self._words[self.position : stop]
                self.position = stop
        return out

    def _in_turn(
        self, contexts: list[int], frequencies: list[int], starts: list[int], intervals: list[int]
    ) -> list[int]:
        """The place in the table of one symbol for each context, lane after lane."""
        states = self._states.tolist()
        most = self._words[self.position : self.position + len(contexts)]  # a symbol takes one at most
        words, found = iter(most.tolist()), list[int]()
        taken = 0
        for lane, context in zip(itertools.cycle(range(len(states))), contexts):
            slot = states[lane] & (TOTAL - 1)
            index = bisect_right(intervals, (context << PRECISION) + slot) - 1
            found.append(index)
            state = (states[lane] >> PRECISION) * frequencies[index] + slot - starts[index]
            if state < LOW:
                word = next(words, None)
                if word is None:
                    raise no_words()
                state = state << _WORD | word
                taken += 1
            states[lane] = state
        self._states[:] = states
        self.position += taken
        return found

    def finish(self) -> None:
        """ModelError unless every word was used and every lane is back at its first state."""
        if self.position != self._words.size or (self._states != LOW).any():
            raise ModelError("the packed model's symbols do not end where they should; the file is damaged")
