"""Elements of GGUF tensors: floats, and numbers coded in blocks, as exact codes where they are that.

Source: the structs of ggml (ggml-common.h) and what their rows stand for (ggml-quants.c). Two kinds of
blocks:

    code * scale              Q8_0 Q4_0 Q5_0 Q3_K Q6_K: integers, and one scale for 16 or 32 of them
    code * scale + minimum    Q4_1 Q5_1 Q2_K Q4_K Q5_K

A scale in a block of 256 is a half times an integer of at most 8 bits: a float32 holds that unrounded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from tensmith.data.gguf import GgufTensor
from tensmith.formula.arith import Array
from tensmith.ir.types import bit_fields


@dataclass(frozen=True)
class Coded:
    """Numbers as codes int8 [..., d], scales and minima float32 [..., d / block], the latter None if 0."""

    codes: Array
    scales: Array
    minima: Array | None
    block: int

    @property
    def bits(self) -> int:
        """4 where all codes fit, else 8."""
        return 4 if self.codes.size and self.codes.min() >= -8 and self.codes.max() <= 7 else 8


def floats(tensor: GgufTensor) -> Array:
    """The elements in float32: a view of the file where they lie there so."""
    name = tensor.kind.name
    if name == "F32":
        return tensor.data.view(np.float32).reshape(tensor.shape)
    if name in ("F16", "BF16"):
        kind = np.float16 if name == "F16" else ml_dtypes.bfloat16
        return np.asarray(tensor.data.view(kind).astype(np.float32)).reshape(tensor.shape)
    found = coded(tensor)
    shape = (*found.scales.shape, found.block)
    with np.errstate(all="ignore"):  # a stranger's scale may be no number: whoever computes with it says so
        values = found.codes.reshape(shape) * found.scales[..., None]
        if found.minima is not None:
            values += found.minima[..., None]
    return values.reshape(tensor.shape)


def coded(tensor: GgufTensor) -> Coded:
    """A tensor of a coded type as its codes."""
    kind = tensor.kind
    blocks = tensor.data.reshape(-1, kind.bytes)
    with np.errstate(all="ignore"):
        codes, scales, minima = _DECODERS[kind.name](blocks)
    per_row = (*tensor.shape[:-1], tensor.shape[-1] // kind.elements * scales.shape[1])
    return Coded(
        codes.astype(np.int8).reshape(tensor.shape),
        scales.astype(np.float32).reshape(per_row),
        None if minima is None else minima.astype(np.float32).reshape(per_row),
        kind.elements // scales.shape[1],
    )


# Codes [n, elements], scales and minima [n, parts] of blocks [n, bytes]
_Parts = tuple[Array, Array, Array | None]


def _half(blocks: Array, at: int) -> Array:
    """The half at a byte of each block, [n, 1] in float32."""
    return np.ascontiguousarray(blocks[:, at : at + 2]).view(np.float16).astype(np.float32)


def _signed(codes: Array, zero: int) -> Array:
    return np.asarray(codes.astype(np.int8) - np.int8(zero))


def _q8_0(b: Array) -> _Parts:
    return b[:, 2:].view(np.int8), _half(b, 0), None


def _q4_0(b: Array) -> _Parts:
    return _signed(bit_fields(b[:, 2:], 4, 16), 8), _half(b, 0), None


def _q4_1(b: Array) -> _Parts:
    return bit_fields(b[:, 4:], 4, 16), _half(b, 0), _half(b, 2)


def _five(low: Array, high: Array) -> Array:
    return np.asarray(bit_fields(low, 4, 16) | bit_fields(high, 1, 1) << 4)


def _q5_0(b: Array) -> _Parts:
    return _signed(_five(b[:, 6:], b[:, 2:6]), 16), _half(b, 0), None


def _q5_1(b: Array) -> _Parts:
    return _five(b[:, 8:], b[:, 4:8]), _half(b, 0), _half(b, 2)


def _q2_k(b: Array) -> _Parts:
    parts = b[:, :16]
    return bit_fields(b[:, 16:80], 2, 32), _half(b, 80) * (parts & 15), -_half(b, 82) * (parts >> 4)


def _q3_k(b: Array) -> _Parts:
    high, low, parts = b[:, :32], b[:, 32:96], b[:, 96:108]
    scales = bit_fields(parts[:, :8], 4, 8) | bit_fields(parts[:, 8:], 2, 4) << 4
    codes = bit_fields(low, 2, 32) | bit_fields(high, 1, 32) << 2
    return _signed(codes, 4), _half(b, 108) * _signed(scales, 32), None


def _sixes(b: Array) -> tuple[Array, Array]:
    """Eight scales and eight minima of 6 bits, behind the two halves of a block: of the last four of each
    the upper two bits stand above the first four."""
    first, second, rest = b[:, 4:8], b[:, 8:12], b[:, 12:16]
    scales = np.concatenate([first & 63, rest & 15 | first >> 6 << 4], 1)
    return scales, np.concatenate([second & 63, rest >> 4 | second >> 6 << 4], 1)


def _q4_k(b: Array) -> _Parts:
    scales, minima = _sixes(b)
    return bit_fields(b[:, 16:], 4, 32), _half(b, 0) * scales, -_half(b, 2) * minima


def _q5_k(b: Array) -> _Parts:
    scales, minima = _sixes(b)
    codes = bit_fields(b[:, 48:], 4, 32) | bit_fields(b[:, 16:48], 1, 32) << 4
    return codes, _half(b, 0) * scales, -_half(b, 2) * minima


def _q6_k(b: Array) -> _Parts:
    codes = bit_fields(b[:, :128], 4, 64) | bit_fields(b[:, 128:192], 2, 32) << 4
    return _signed(codes, 32), _half(b, 208) * b[:, 192:208].view(np.int8), None


_DECODERS: dict[str, Callable[[Array], _Parts]] = {
    "Q8_0": _q8_0, "Q4_0": _q4_0, "Q4_1": _q4_1, "Q5_0": _q5_0, "Q5_1": _q5_1, "Q2_K": _q2_k,
    "Q3_K": _q3_k, "Q4_K": _q4_k, "Q5_K": _q5_k, "Q6_K": _q6_k,
}  # fmt: skip
