"""Sparse weights as a stream: what a kernel that skips zeros reads from beginning to end.

    int32   how many values there are
    int32   counts[group][block of rows][strip of filters]
    float   values[place][filter of the strip], in that order, of each strip those that are not all zero
    uint16  rows[place]: where a place's factors lie

Whatever the pattern, the code that reads it is the same. Counts are padded to whole steps by values of zero
at row 0, which holds zeros.
"""

from __future__ import annotations

import numpy as np

from tensmith.formula.arith import Array

# Weights that are more often not zero are no sparse weights: skipping costs more than it saves.
MOST_DENSE = 0.5


def density(weights: Array) -> float:
    """The share of weights that are not zero, in hundredths; 1 for those that are not sparse."""
    share = round(np.count_nonzero(weights) / max(1, weights.size), 2)
    return share if share <= MOST_DENSE else 1.0


def quads(weights: Array) -> float:
    """The share of fours of channels of [filters, channels/groups, *window] that are not all zero."""
    return _fours(weights.swapaxes(0, 1)) if density(weights) < 1 else 1.0


def strips(weights: Array) -> float:
    """The share of fours of filters of [filters, channels/groups, *window] that are not all zero."""
    return _fours(weights) if density(weights) < 1 else 1.0


def _fours(weights: Array) -> float:
    """The share of fours along the first axis that are not all zero, in hundredths."""
    count = len(weights) // 4
    fours = weights[: 4 * count].reshape(count, 4, *weights.shape[1:]).any(1)
    return round(np.count_nonzero(fours) / fours.size, 2) if fours.size else 1.0


def pack_stream(weights: Array, groups: int, rows: int, pitch: int, step: int, strip: int = 1) -> Array:
    """The bytes of the stream of weights [filters, channels/groups, *window] in blocks of `rows` rows.

    A row is a channel and a place in the window. The n-th row of a block lies at (n + 1) * pitch, which must
    be below 2**16; counts are multiples of `step`. `strip` filters have one count; of each place, the weights
    of all of them are stored unless they are all zero.
    """
    matrix = weights.reshape(groups, len(weights) // groups // strip, strip, -1).astype(np.float32)
    parts = [
        _block(matrix[group, ..., first : first + rows], pitch, step)
        for group in range(groups)
        for first in range(0, matrix.shape[3], rows)
    ]
    counts, values, places = map(np.concatenate, zip(*parts, strict=True))
    total = np.array([len(values)], np.int32)
    return np.concatenate([part.view(np.uint8) for part in (total, counts, values, places)])


def _block(matrix: Array, pitch: int, step: int) -> tuple[Array, Array, Array]:
    """Counts, values and places of one block [strips, filters of a strip, rows]."""
    strips, rows = np.nonzero(matrix.any(1))
    counts = np.bincount(strips, minlength=len(matrix))
    padded = -(-counts // step) * step
    # A strip's values begin where the padded ones of the strips before it end.
    shift = np.cumsum(padded - counts) - (padded - counts)
    at = np.arange(len(strips)) + shift[strips]
    values = np.zeros((padded.sum(), matrix.shape[1]), np.float32)
    places = np.zeros(padded.sum(), np.uint16)
    values[at] = matrix[strips, :, rows]
    places[at] = (rows + 1) * pitch
    return padded.astype(np.int32), values.reshape(-1), places


def pack_quads(rows: Array, joined: bool) -> Array:
    """The bytes of a stream of int8 weights [filters, rows], rows a multiple of four, for dot products.

        int32   how many fours of weights there are
        int32   counts[filter]
        int8    weights[four][4]
        uint16  rows[four][4] that they multiply, or, if four neighbours are `joined`, rows[four] of the first

    Joined fours are those that are not all zero; otherwise any four weights of a filter that are not zero.
    """
    if joined:
        filters, places = np.nonzero(rows.reshape(len(rows), -1, 4).any(2))
        places = 4 * places
        counts = np.bincount(filters, minlength=len(rows))
        weights = rows.reshape(len(rows), -1, 4)[filters, places // 4]
    else:
        filters, found = np.nonzero(rows)
        left = np.bincount(filters, minlength=len(rows))
        counts = -(-left // 4)
        # A filter's fours begin where those of the filters before it end.
        at = np.arange(len(filters)) + (np.cumsum(4 * counts - left) - (4 * counts - left))[filters]
        weights, places = np.zeros(4 * counts.sum(), np.int8), np.zeros(4 * counts.sum(), np.int64)
        weights[at], places[at] = rows[filters, found], found
    header = np.array([counts.sum(), *counts], np.int32)
    parts = (header, weights.astype(np.int8).reshape(-1), places.astype(np.uint16))
    return np.concatenate([part.view(np.uint8) for part in parts])
