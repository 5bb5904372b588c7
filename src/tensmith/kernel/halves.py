"""Functions of C vectors of 16-bit floats, for instruction sets that compute with them.

A vector of halves is as wide as one of floats and holds twice as many; bfloat16 is multiplied in pairs.
"""

HALVES = """\
typedef _Float16 half;
typedef half vh __attribute__((vector_size(sizeof(vf)), may_alias));
typedef half vhu __attribute__((vector_size(sizeof(vf)), aligned(2), may_alias));
typedef half vq __attribute__((vector_size(sizeof(vf) / 2), may_alias));

static inline vh hload(const half *p) { return *(const vhu *)p; }
/* Floats as halves, rounded to nearest; beyond 65504 they become infinite. */
static inline vq narrow(vf x) { return __builtin_convertvector(x, vq); }
/* The lower (0) or upper (1) lanes of halves as floats. */
static inline vf half_of(vh x, int upper)
{
    vq parts[2];
    memcpy(parts, &x, sizeof x);
    return __builtin_convertvector(parts[upper], vf);
}
"""

BFLOATS = """\
/* A vector of floats as bfloat16, rounded to nearest even; numbers below 2^-126 become zero. */
static inline void put_bf16(uint16_t *y, vf x)
{
    _mm256_storeu_si256((__m256i *)y, (__m256i)_mm512_cvtneps_pbh((__m512)x));
}
/* Two vectors of floats as bfloat16, the second behind the first: pairs of neighbours. */
static inline vf pairs_bf16(vf first, vf second)
{
    return (vf)_mm512_cvtne2ps_pbh((__m512)second, (__m512)first);
}
/* The same, each number of the first beside that of the second. */
static inline vf zipped_bf16(vf first, vf second)
{
    const __m512i order = _mm512_setr_epi32(
        0x100000, 0x110001, 0x120002, 0x130003, 0x140004, 0x150005, 0x160006, 0x170007,
        0x180008, 0x190009, 0x1a000a, 0x1b000b, 0x1c000c, 0x1d000d, 0x1e000e, 0x1f000f);
    return (vf)_mm512_permutexvar_epi16(order, (__m512i)pairs_bf16(first, second));
}
/* sums + the products of a pair of numbers and the pairs in the lanes of w. */
static inline vf dot_bf16(vf sums, int32_t pair, vf w)
{
    return (vf)_mm512_dpbf16_ps((__m512)sums, (__m512bh)isplat(pair), (__m512bh)w);
}
"""
