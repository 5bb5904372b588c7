"""Entropy coding of an integer array under the cheapest of four models.

- bytes: as they are, for what has no skew (a float's low mantissa);
- histogram: one stored distribution, for what has no order (palette indices);
- scaled: a spread for each row and column, for weights, in `scaled.py`;
- predicted: taps of kernels that tell one another's mean and spread, for convolutions, in `predicted.py`.

Of the latter two, integers that a `trellis` made go by its quantizers: along the first axis, or the second
one of a matrix that is stored the other way round.
"""

from __future__ import annotations

import math

import numpy as np

from tensmith import trellis
from tensmith.backend.packed import predicted, scaled
from tensmith.backend.packed.elements import AnyIntegers, Integers, moved
from tensmith.backend.packed.frequency import histogram_codes, histogram_weights, normalise
from tensmith.backend.packed.rans import batch_of
from tensmith.backend.packed.streams import EncodedTensor, StreamReader, number
from tensmith.errors import ModelError
from tensmith.trellis import Truths

_BYTES, _HISTOGRAM, _SCALED, _PREDICTED, _DEPENDENT, _TURNED = range(6)
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
        head, odd = EncodedTensor(), _quantizers(values, shape)
        if odd is not None:
            head = EncodedTensor(number(_DEPENDENT))
        elif len(shape) == 2 and (odd := _quantizers(_turned(values, shape), shape[::-1])) is not None:
            head, values, shape = EncodedTensor(number(_TURNED)), _turned(values, shape), shape[::-1]
        most = min(candidate.bits for candidate in candidates)
        candidates += _encode_weights(head, values, shape, most, odd)
    return min(candidates, key=lambda candidate: candidate.bits)


def _encode_weights(
    head: EncodedTensor, values: Integers, shape: tuple[int, ...], most: float, odd: Truths | None
) -> list[EncodedTensor]:
    """By `scaled`, and where that is cheaper, and than `most` bits, by `predicted`. odd: see these."""
    plain = head + EncodedTensor(number(_SCALED)) + scaled.encode(values, shape, odd)
    foretold = predicted.encode(values, shape, min(most, plain.bits), odd)
    return [plain] if foretold is None else [plain, head + EncodedTensor(number(_PREDICTED)) + foretold]


def _quantizers(values: Integers, shape: tuple[int, ...]) -> Truths | None:
    """Of each value, where a trellis made them; 0 is among what these may be."""
    if not _are_rows(shape) or not values.min() <= 0 <= values.max():
        return None
    odd = trellis.quantizers(values.reshape(shape[0], -1))
    return odd.ravel() if odd is not None and odd.any() else None


def _are_rows(shape: tuple[int, ...]) -> bool:
    return len(shape) > 1 and trellis.serves(*shape[:2])


def _turned(values: AnyIntegers, shape: tuple[int, ...]) -> Integers:
    """Values of a matrix, columns first."""
    return np.ascontiguousarray(values.reshape(shape).T, np.int64).ravel()


def decode_integers(reader: StreamReader, shape: tuple[int, ...], count: int) -> AnyIntegers:
    """Inverse of `encode_integers`; `count` is the product of `shape`."""
    model = reader.parameters.number(_BYTES, _TURNED)
    if model == _DEPENDENT:
        return _decode_rows(reader, shape, count)
    if model == _TURNED:
        if len(shape) != 2:
            raise ModelError("the packed model turns a tensor that is no matrix; the file is damaged")
        return _turned(_decode_rows(reader, shape[::-1], count), shape[::-1])
    if model == _BYTES:
        return np.frombuffer(reader.plain.take(count), np.uint8).astype(np.int16)
    if model == _SCALED:
        return scaled.decode(reader, shape, count)
    if model == _PREDICTED:
        return predicted.decode(reader, shape)
    low = reader.parameters.number(-_LIMIT, _LIMIT)
    alphabet = reader.parameters.number(1, _MAX_ALPHABET)
    return moved(reader.alike(count, histogram_weights(reader.parameters.take(alphabet))), low)


def _decode_rows(reader: StreamReader, shape: tuple[int, ...], count: int) -> AnyIntegers:
    """What a trellis made."""
    if not _are_rows(shape) or not count:
        raise ModelError("the packed model has rows of a tensor without such; the file is damaged")
    if reader.parameters.number(_SCALED, _PREDICTED) == _SCALED:
        return scaled.decode(reader, shape, count, dependent=True)
    return predicted.decode(reader, shape, dependent=True)


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
