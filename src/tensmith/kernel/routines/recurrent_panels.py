"""How the weights of a recurrent layer lie, and in how many digits a state is multiplied by them.

Weights lie in panels: for each row of the state the same few vectors of every gate, so that a tile of sums
holds all gates of the same elements.

Weights that are bytes are multiplied by bytes where an instruction sums such products: a state is written in
digits of base 256, two or three of them. With its largest element a and depth H,

    |error| <= 2^-16 a sum(|w|) by two digits, 2^-22 a sum(|w|) by three

and two are taken where the bound of a sum of floats, H 2^-24 sum(|h| |w|) (Higham, 2002, eq. 3.5), is no
smaller than half of that were all elements as large as a: from 128 on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from tensmith.formula.arith import Array
from tensmith.kernel.isa import Isa
from tensmith.kernel.tiles import vector_chunks

# Sums that a processor has in flight; the most rows, and the most vectors of a gate, of a tile.
_LATENCY = 8
_MOST_ROWS = _MOST_BLOCKS = 4
# From so many elements on, two digits of a state do.
_LONG = 2**7


@dataclass(frozen=True)
class Panel:
    """`times` panels of `blocks` vectors of each gate, from vector `first` on; the last has `rest` lanes."""

    first: int
    times: int
    blocks: int
    rest: int


def digits(coded: bool, hidden: int, isa: Isa) -> int:
    """How many digits a state is written in, to be multiplied by bytes; 0 where it is not.

    As many sums a product want registers: with few, a multiplication of floats takes fewer instructions.
    """
    if not coded or not isa.has_dot or isa.registers < 16 or hidden >= 1 << 16:
        return 0
    return 2 if hidden >= _LONG else 3


def tiling(batch: int, hidden: int, gates: int, isa: Isa, sums: int = 1) -> tuple[int, list[Panel]]:
    """(rows of a tile, the panels of a matrix) that take the fewest cycles: weights come from far.

    sums: of each row, gate and vector.
    """
    vectors = -(-hidden // isa.lanes)

    def cycles(tall: int, wide: int) -> int:
        """Of one row of all panels; a vector of weights takes as long as two rows of sums."""
        return -(-batch // tall) * -(-vectors // wide) * max(max(tall, 2) * gates * sums * wide, _LATENCY)

    fitting = [
        (cycles(tall, wide), -wide, -tall)
        for tall in range(1, min(batch, _MOST_ROWS) + 1)
        for wide in range(1, min(vectors, _MOST_BLOCKS) + 1)
        if tall == wide == 1 or sums * tall * (gates * wide + 1) + 1 <= isa.registers
    ]
    _, wide, tall = min(fitting)
    panels, first = [], 0
    for blocks, times, rest in vector_chunks(hidden, -wide, isa.lanes, ragged=True):
        panels.append(Panel(first, times, blocks, rest))
        first += blocks * times
    return -tall, panels


def packed(stages: Sequence[tuple[int, ...]], batch: int, r: Array, isa: Isa) -> Array:
    """Weights or codes [D, G, H, H] in panels, by direction and stage; `stages` are the gates of each."""
    ways, _, hidden, _ = r.shape
    sums = digits(r.dtype == np.int8, hidden, isa)
    runs = 4 if sums else 1
    full = _in_vectors(r, isa)
    full = np.pad(full, [(0, 0)] * 3 + [(0, -hidden % runs)])
    parts = []
    for way, gates in product(range(ways), stages):
        for panel in tiling(batch, hidden, len(gates), isa, max(1, sums))[1]:
            wide = panel.blocks * isa.lanes
            for first in range(panel.first * isa.lanes, panel.first * isa.lanes + panel.times * wide, wide):
                part = full[way, list(gates), first : first + wide]
                quarters = part.reshape(*part.shape[:2], runs, -1)
                parts.append(quarters.transpose(3, 0, 1, 2).reshape(-1))
    return np.concatenate(parts)


def tables(bias: Array, peepholes: Array, worth: Array, weights: Array, isa: Isa) -> Array:
    """Biases [D, G, H], peepholes [D, 3, H], the worth of codes [D, G, H] and their sums over the last axis
    of the weights [D, G, H, H], direction by direction."""
    codes = weights.sum(3, np.float64) if weights.dtype == np.int8 else np.zeros(worth.shape)
    rows = np.concatenate((bias, peepholes, worth, codes), axis=1).astype(np.float32)
    return _in_vectors(rows, isa).reshape(-1)


def _in_vectors(array: Array, isa: Isa) -> Array:
    """[D, rows, H, ...] with zeros up to a whole vector of H."""
    missing = isa.round_up(array.shape[2]) - array.shape[2]
    return np.pad(array, [(0, missing if axis == 2 else 0) for axis in range(array.ndim)])
