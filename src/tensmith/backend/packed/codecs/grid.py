"""Float32 weights that lie on a grid, w = float32(q * scale): fake-quantized or dequantized tensors.

The grid is recovered from the values alone: the scale of a row is its largest magnitude over that magnitude's
number of steps, the least number that makes whole steps of the gaps between values. It counts only if every
bit is reproduced.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensmith.backend.packed.codec import Codec, codec
from tensmith.backend.packed.elements import ELEMENT_TYPES, FLOAT, Integers, PackedSpec
from tensmith.backend.packed.integers import decode_integers, encode_integers
from tensmith.backend.packed.streams import EncodedTensor, StreamReader, number

Floats = np.ndarray[Any, np.dtype[np.float32]]
_MAX_STEPS = 1023
# Magnitudes that are looked at to find the step, and their relative rounding errors (of value and of scale).
_PROBED, _ROUNDING = 24, 2.0**-21
# Which elements share a scale: all, a row, a column (the last axis), or a pair of places on the first two.
_PER_TENSOR, _PER_ROW, _PER_COLUMN, _PER_PAIR = _LAYOUTS = range(4)


@dataclass(frozen=True)
class _Grid:
    """steps [rows, n], scales [rows]; negative_zeros: a bit for each zero step in order, set if it is -0."""

    steps: Integers
    scales: Floats
    negative_zeros: bytes


@codec("grid")
class QuantizedCodec(Codec):
    """Steps as integers, scales and the signs of zeros (where any is negative) as plain bytes."""

    tag = 5

    def encode(self, data: bytes, spec: PackedSpec, most: float) -> EncodedTensor | None:
        """None unless every element is float32(integer * scale), |integer| < 1024."""
        if spec.type is not ELEMENT_TYPES[FLOAT]:
            return None
        for layout in _LAYOUTS[: 4 if len(spec.shape) > 2 else 3]:
            rows = _rows(np.frombuffer(data, "<f4"), spec, layout)
            if rows.shape[1] > 1 and (found := _find(rows)) is not None:
                steps = encode_integers(_elements(found.steps, layout).astype(np.int64), spec.shape)
                flags = number(layout) + number(len(found.negative_zeros))
                plain = found.scales.astype("<f4").tobytes() + found.negative_zeros
                return None if steps is None else EncodedTensor(flags, plain) + steps
        return None

    def decode(self, reader: StreamReader, spec: PackedSpec) -> bytes:
        layout = reader.parameters.number(_PER_TENSOR, _PER_PAIR)
        signs = reader.parameters.number(0, spec.elements)
        count = _row_count(spec, layout)
        scales = np.frombuffer(reader.plain.take(4 * count), "<f4")
        negative = np.unpackbits(np.frombuffer(reader.plain.take(signs), np.uint8))
        steps = _rows(decode_integers(reader, spec.shape, spec.elements), spec, layout)
        values = _values(steps, scales, negative)
        return _elements(values, layout).astype("<f4").tobytes()


def _row_count(spec: PackedSpec, layout: int) -> int:
    if layout == _PER_TENSOR or not spec.shape:
        return 1
    if layout == _PER_PAIR:
        return math.prod(spec.shape[:2])
    return spec.shape[0] if layout == _PER_ROW else spec.shape[-1]


def _rows(values: np.ndarray[Any, Any], spec: PackedSpec, layout: int) -> np.ndarray[Any, Any]:
    """The elements with one row for each scale, [rows, n]."""
    count = _row_count(spec, layout)
    return values.reshape(-1, count).T if layout == _PER_COLUMN else values.reshape(count, -1)


def _elements(rows: np.ndarray[Any, Any], layout: int) -> np.ndarray[Any, Any]:
    """Inverse of `_rows`, 1-D."""
    return (rows.T if layout == _PER_COLUMN else rows).ravel()


def _values(steps: Integers, scales: Floats, negative: np.ndarray[Any, np.dtype[np.uint8]]) -> Floats:
    """float32(steps * scales), the marked zeros negative."""
    with np.errstate(over="ignore", invalid="ignore"):
        values = steps.astype(np.float32) * scales[:, None]
    zeros = np.flatnonzero(steps == 0)
    flipped = zeros[: negative.size][negative[: zeros.size] == 1]
    flat = values.ravel()
    flat[flipped] = np.float32(-0.0)
    return flat.reshape(values.shape)


def _find(rows: Floats) -> _Grid | None:
    steps = np.zeros(rows.shape, np.int64)
    scales = np.zeros(len(rows), np.float32)
    for index, row in enumerate(rows):
        if (found := _find_row(row)) is None:
            return None
        steps[index], scales[index] = found
    zeros = np.signbit(rows.ravel()[np.flatnonzero(steps == 0)])
    signs = np.packbits(zeros).tobytes() if zeros.any() else b""
    grid = _Grid(steps, scales, signs)
    rebuilt = _values(steps, scales, np.unpackbits(np.frombuffer(signs, np.uint8)))
    return (
        grid if np.array_equal(rebuilt.view(np.uint32), np.ascontiguousarray(rows).view(np.uint32)) else None
    )


def _find_row(row: Floats) -> tuple[Integers, np.float32] | None:
    magnitudes = np.unique(np.abs(row))
    if magnitudes.size > _MAX_STEPS + 1 or not np.isfinite(magnitudes[-1]):
        return None
    if magnitudes[-1] == 0:
        return np.zeros(row.shape, np.int64), np.float32(0)
    count = _steps_of_largest(magnitudes.astype(np.float64))
    nearest = np.float32(float(magnitudes[-1]) / count if count else 0.0)
    if nearest == 0:
        return None
    steps = np.rint(row.astype(np.float64) / float(nearest)).astype(np.int64)
    below, above = np.nextafter(nearest, np.float32(0)), np.nextafter(nearest, np.float32(np.inf))
    for scale in (nearest, below, above):
        if (steps.astype(np.float32) * scale == row).all():
            return steps, np.float32(scale)
    return None


def _steps_of_largest(magnitudes: np.ndarray[Any, np.dtype[np.float64]]) -> int:
    """The least number of steps of the largest magnitude with which all are whole steps, else 0.

    The smallest gap is a multiple of the step, mostly the step itself; multiples up to the limit are tried.
    """
    largest = float(magnitudes[-1])
    gap = float(np.diff(magnitudes, prepend=0.0 if magnitudes[0] > 0 else -np.inf).min())
    multiples = np.arange(1, max(1, int(_MAX_STEPS * gap / largest)) + 1)
    counts = np.unique(np.rint(multiples * (largest / gap)))
    counts = counts[(counts >= 1) & (counts <= _MAX_STEPS)]
    few = magnitudes[:: max(1, len(magnitudes) // _PROBED)] / largest
    steps = np.outer(counts, few)
    inexact = np.abs(steps - np.rint(steps)).max(axis=1, initial=0.0)
    whole = counts[inexact <= counts * _ROUNDING]
    return int(whole[0]) if whole.size else 0
