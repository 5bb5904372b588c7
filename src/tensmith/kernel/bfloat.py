"""Functions of C vectors of pairs of bfloat16, for instruction sets that multiply them."""

from __future__ import annotations

# Instruction sets that multiply pairs of bfloat16 and sum them up as floats -> the feature it takes.
_FEATURES = {"avx512": "avx512_bf16"}

_FUNCTIONS = """\
/* A vector of floats as bfloat16, rounded to nearest even; numbers below 2^-126 become zero. */
static inline void put_bf16(uint16_t *y, vf x)
{
    _mm256_storeu_si256((__m256i *)y, (__m256i)_mm512_cvtneps_pbh((__m512)x));
}
/* sums + the products of a pair of numbers and the pairs in the lanes of w. */
static inline vf dot_bf16(vf sums, int32_t pair, vf w)
{
    return (vf)_mm512_dpbf16_ps((__m512)sums, (__m512bh)isplat(pair), (__m512bh)w);
}
"""


def has_bfloat(name: str, features: frozenset[str]) -> bool:
    """Whether an instruction set by name multiplies bfloat16."""
    return _FEATURES.get(name) in features


def bfloat_functions(name: str, features: frozenset[str]) -> str:
    """The functions above; nothing where bfloat16 is not multiplied."""
    return _FUNCTIONS if has_bfloat(name, features) else ""
