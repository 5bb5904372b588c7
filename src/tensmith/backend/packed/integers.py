"""Entropy coding of an integer array under the cheapest of four models.

- bytes: as they are, for what has no skew (a float's low mantissa);
- histogram: one stored distribution, for what has no order (palette indices);
- scaled: a spread for each row and column, for weights, in `scaled.py`;
- predicted: taps of kernels that tell one another's mean and spread, for convolutions, in `predicted.py`.
"""

from __future__ import annotations

import math

import numpy as np

from tensmith.backend.packed import predicted, scaled
from tensmith.backend.packed.elements import AnyIntegers, Integers, moved
from tensmith.backend.packed.frequency import histogram_codes, histogram_weights, normalise
from tensmith.backend.packed.rans import batch_of
from tensmith.backend.packed.streams import EncodedTensor, StreamReader, number

_BYTES, _HISTOGRAM, _SCALED, _PREDICTED = range(4)
_MAX_ALPHABET = 2048
_LIMIT = 1 << 40
_SKEWED = 0.999  # of the cost of uniform symbols; above it no spread is worth looking for


def encode_integers(values: Integers, shape: tuple[int, ...]) -> EncodedTensor | None:
    """`values` (1-D, the row-major elements of `shape`); None when their range exceeds 2048."""
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    if high - low >= _MAX_ALPHABET or max(abs(low), abs(high)) > _LIMIT:
        return None
    skewed = _encode_histogram(values - low, low, high - low + 1)
    candidates = [skewed]
    if low >= 0 and high < 256:
        candidates.append(EncodedTensor(number(_BYTES), values.astype(np.uint8).tobytes()))
    if low < high and skewed.batches[0].bits < _SKEWED * values.size * math.log2(high - low + 1):
        candidates.append(EncodedTensor(number(_SCALED)) + scaled.encode(values, shape))
        foretold = predicted.encode(values, shape, min(each.bits for each in candidates))
        candidates += [EncodedTensor(number(_PREDICTED)) + foretold] if foretold is not None else []
    return min(candidates, key=lambda candidate: candidate.bits)


def decode_integers(reader: StreamReader, shape: tuple[int, ...], count: int) -> AnyIntegers:
    """Inverse of `encode_integers`; `count` is the product of `shape`."""
    model = reader.parameters.number(_BYTES, _PREDICTED)
    if model == _BYTES:
        return np.frombuffer(reader.plain.take(count), np.uint8).astype(np.int64)
    if model == _SCALED:
        return scaled.decode(reader, shape, count)
    if model == _PREDICTED:
        return predicted.decode(reader, shape)
    low = reader.parameters.number(-_LIMIT, _LIMIT)
    alphabet = reader.parameters.number(1, _MAX_ALPHABET)
    return moved(reader.alike(count, histogram_weights(reader.parameters.take(alphabet))), low)


def entropy(values: Integers) -> float:
    """Bits of so many symbols (none negative, small), each by itself."""
    counts = np.bincount(values)
    counts = counts[counts > 0]
    return float(-(counts * np.log2(counts / values.size)).sum())


def _encode_histogram(symbols: Integers, low: int, alphabet: int) -> EncodedTensor:
    counts = np.bincount(symbols, minlength=alphabet)
    codes = histogram_codes(counts)
    table = normalise(histogram_weights(codes)[None])
    batch = batch_of(symbols, np.zeros(symbols.size, np.uint8), table, counts[None])
    return EncodedTensor(number(_HISTOGRAM) + number(low) + number(alphabet) + codes, batches=(batch,))
