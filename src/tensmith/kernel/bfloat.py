"""Functions of C vectors of pairs of bfloat16, for instruction sets that multiply them."""

BFLOATS = """\
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
