"""Weights as codes of few bits: w[k, c] = scale[k, c / block] * (code[k, c] - zero[k, c / block]).

A problem of dtype i4 or i8 multiplies floats by such weights without zero points, one of dtype u4 by such
with them; its `block` says how many channels share a scale. Codes are centred: u4 lies in -8..7 as i4 does,
8 taken off codes and zero points alike.
"""

from __future__ import annotations

import numpy as np

from tensmith.formula.arith import Array

# Bits of a code, by a problem's dtype.
CODE_BITS = {"i4": 4, "u4": 4, "i8": 8}
# One weight as algorithms are given it, where it is a code.
CODE = np.dtype([("code", np.int8), ("zero", np.int8), ("scale", np.float32)])


def coded(codes: Array, scales: Array, zeros: Array | None, block: int) -> Array:
    """Weights [filters, channels, 1, 1] of CODE, from codes [filters, channels] in -128..127.

    scales and zeros: [filters, blocks].
    """
    found = np.zeros((*codes.shape, 1, 1), CODE)
    each = np.arange(codes.shape[1]) // block
    found["code"][..., 0, 0] = codes
    found["scale"][..., 0, 0] = scales[:, each]
    if zeros is not None:
        found["zero"][..., 0, 0] = zeros[:, each]
    return found


def per_vector(dtype: str) -> int:
    """Channels in a vector of codes: as many as fit the 32 bits of a lane, or one vector of bytes each."""
    return 8 if CODE_BITS[dtype] == 4 else 1


def code_bytes(codes: Array, dtype: str) -> Array:
    """Codes [filters, channels] in bytes, vector after vector of all filters; zeros fill the last one."""
    if per_vector(dtype) == 1:
        return np.ascontiguousarray(codes.T).view(np.uint8).reshape(-1)
    full = np.zeros((len(codes), -(-codes.shape[1] // 8), 8), np.uint32)
    full.reshape(len(codes), -1)[:, : codes.shape[1]] = codes & 15
    words = np.bitwise_or.reduce(full << np.arange(0, 32, 4, dtype=np.uint32), 2)
    return np.ascontiguousarray(words.T).view(np.uint8).reshape(-1)


def code_functions(name: str) -> str:
    """C functions that turn codes into floats, for an instruction set by name."""
    return _FUNCTIONS.format(_BYTES.get(name, _CONVERTED), _NIBBLES.get(name, _SHIFTED))


_FUNCTIONS = """\
typedef int8_t vc __attribute__((vector_size(sizeof(vf) / 4), aligned(1), may_alias));
/* Signed bytes as floats. */
static inline vf bytes_of(const void *p) {{ {} }}
/* The h-th four bits of each lane, lowest first, as a number in -8..7. */
static inline vf nibble(vi x, int h)
{{
    {}
}}
"""
_CONVERTED = "return __builtin_convertvector(*(const vc *)p, vf);"
# GCC 12 converts bytes one by one where it is not told the instructions.
_BYTES = {
    "avx512": "return (vf)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(p)));",
    "avx2": "return (vf)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(p)));",
}
_SHIFTED = "return __builtin_convertvector((x << (28 - 4 * h)) >> 28, vf);"
# A permutation looks at the lowest four bits of each index: it is a table of 16 numbers.
_NIBBLES = {
    "avx512": """\
__m512 numbers = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1);
    return (vf)_mm512_permutexvar_ps((__m512i)(x >> 4 * h), numbers);""",
}
