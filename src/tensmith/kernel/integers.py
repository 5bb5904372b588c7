"""Functions of C vectors for 8-bit kernels: products summed in 32 bits, rounding, packing onto the u8 grid.

No product saturates: where there is no instruction for u8 x s8 -> s32, bytes are widened to 16 bits first,
or else weights are narrow: none is beyond 64, so that the sum of two products is at most 32,640.
Arm has instructions for s8 x s8 alone (all but I8MM): there x is lowered by 128, and whoever sums adds 128
times the sum of the weights, which is a constant: see Isa.byte_offset.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace


@dataclass(frozen=True)
class Integers:
    """Bodies of the functions below that an instruction set writes in its own way."""

    dot: str
    rint: str
    within: str
    round: str
    widen: str
    taps: str
    put: str
    bytes: str
    maximum: str
    narrow: str = "return dot(sums, x, w);"
    half: str = "return dot(sums, x, w);"

    def prelude(self, lanes: int, offset: int) -> str:
        """C text; needs the types vf and vi."""
        return _PRELUDE.format(lanes=lanes, offset=offset, **asdict(self))


_PRELUDE = """\
typedef uint8_t vb __attribute__((vector_size({lanes}), aligned(1), may_alias));
typedef int32_t viu __attribute__((vector_size(4 * {lanes}), aligned(4), may_alias));
typedef int32_t quad __attribute__((aligned(1), may_alias));

static inline vi iload(const void *p) {{ return *(const viu *)p; }}
static inline vi isplat(int32_t x) {{ return x - (vi){{0}}; }}
static inline vf widen(const uint8_t *p) {{ {widen} }}
/* n bytes, each `step` after the one before; the other lanes are zero. */
static inline vf widen_step(const uint8_t *p, int step, int n)
{{
    uint8_t t[{lanes}] = {{0}};
    for (int i = 0; i < n; i++) t[i] = p[i * step];
    return widen(t);
}}
static inline vi iclamp(vi x, vi low, vi high)
{{
    x = (x & (x > low)) | (low & ~(x > low));
    return (x & (x < high)) | (high & ~(x < high));
}}
/* sums + the products of four unsigned bytes of x, less {offset}, and four signed ones of w in each lane. */
static inline vi dot(vi sums, vi x, vi w)
{{
    {dot}
}}
/* The same where none of the bytes of w is beyond 64. */
static inline vi dot_narrow(vi sums, vi x, vi w)
{{
    {narrow}
}}
/* The same of the first half of the lanes; the others hold anything. */
static inline vi dot_half(vi sums, vi x, vi w)
{{
    {half}
}}
/* x rounded, halves to even, as floats and as integers; what is beyond 2^22 stays that large at least. */
static inline vf rint_f(vf x) {{ {round} }}
static inline vi rint_i(vf x) {{ {rint} }}
/* The same of numbers within 2^31. */
static inline vi rint_within(vf x) {{ {within} }}
/* Lane c: the bytes p[c], p[{lanes} + c], p[2 * {lanes} + c], p[3 * {lanes} + c], lowest first. */
static inline vi taps(const uint8_t *p)
{{
    {taps}
}}
static inline vb bmax(vb a, vb b)
{{
    {maximum}
}}
/* clamp(x + zero, low, high) of the first n <= 4 of a, b, c, d, one byte a lane, one after the other. zero is
   0 but where they are `shifted`, low and high are those of bytes but where they are `bounded`. */
static inline __attribute__((always_inline))
void put(uint8_t *y, int n, vi a, vi b, vi c, vi d, vi zero, vi low, vi high, int shifted, int bounded)
{{
    (void)zero; (void)low; (void)high; (void)shifted; (void)bounded;
    {put}
}}
/* The first n codes of x, which are floats in 0..255, as bytes: each `step` after the one before. */
static inline void to_bytes(uint8_t *p, vf x)
{{
    {bytes}
}}
static inline void to_bytes_step(uint8_t *p, vf x, int step, int n)
{{
    uint8_t t[{lanes}];
    to_bytes(t, x);
    for (int i = 0; i < n; i++) p[i * step] = t[i];
}}
"""

_GENERIC = Integers(
    dot="""\
for (int k = 0; k < 4; k++) sums += ((x >> 8 * k) & 255) * ((w << (24 - 8 * k)) >> 24);
    return sums;""",
    rint="return __builtin_convertvector(rint_f(x), vi);",
    within="return rint_i(x);",
    round="return (vmin(splat(0x1p22f), vmax(splat(-0x1p22f), x)) + 0x1.8p23f) - 0x1.8p23f;",
    widen="return __builtin_convertvector(*(const vb *)p, vf);",
    taps="""\
vi t = {0};
    for (int k = 0; k < 4; k++) t |= __builtin_convertvector(((const vb *)p)[k], vi) << 8 * k;
    return t;""",
    put="""\
vi all[4] = {a, b, c, d};
    for (int k = 0; k < n; k++)
        ((vb *)y)[k] = __builtin_convertvector(iclamp(all[k] + zero, low, high), vb);""",
    bytes="*(vb *)p = __builtin_convertvector(__builtin_convertvector(x, vi), vb);",
    maximum="return (a & (vb)(a > b)) | (b & ~(vb)(a > b));",
)

_AVX2_DOT = """\
__m256i low = _mm256_set1_epi16(255);
    __m256i even = _mm256_and_si256((__m256i)x, low), odd = _mm256_srli_epi16((__m256i)x, 8);
    __m256i w0 = _mm256_srai_epi16(_mm256_slli_epi16((__m256i)w, 8), 8);
    __m256i w1 = _mm256_srai_epi16((__m256i)w, 8);
    return sums + (vi)_mm256_madd_epi16(even, w0) + (vi)_mm256_madd_epi16(odd, w1);"""

_AVX2_NARROW_DOT = """\
__m256i pairs = _mm256_maddubs_epi16((__m256i)x, (__m256i)w);
    return sums + (vi)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));"""

# What is too large for 32 bits would be converted to the least number.
# Packing twice within 128-bit lanes leaves four bytes of each vector in turn; one permutation sorts them.
_AVX2 = Integers(
    dot=_AVX2_DOT,
    rint="return (vi)_mm256_cvtps_epi32((__m256)vmin(splat(0x1p30f), x));",
    within="return (vi)_mm256_cvtps_epi32((__m256)x);",
    round="return (vf)_mm256_round_ps((__m256)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);",
    widen="return (vf)_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)));",
    taps="""\
__m256i order = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
    __m256i turn = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    __m256i t = _mm256_permutevar8x32_epi32(_mm256_loadu_si256((const __m256i *)p), order);
    return (vi)_mm256_shuffle_epi8(t, turn);""",
    put="""\
__m256i offset = _mm256_packs_epi32((__m256i)zero, (__m256i)zero);
    __m256i p = _mm256_packs_epi32((__m256i)a, (__m256i)b), q = _mm256_packs_epi32((__m256i)c, (__m256i)d);
    if (shifted) p = _mm256_adds_epi16(p, offset), q = _mm256_adds_epi16(q, offset);
    __m256i bytes = _mm256_packus_epi16(p, q), order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i least = (__m256i)(low * 0x01010101), most = (__m256i)(high * 0x01010101);
    bytes = _mm256_permutevar8x32_epi32(bytes, order);
    if (bounded) bytes = _mm256_min_epu8(_mm256_max_epu8(bytes, least), most);
    if (n == 4) _mm256_storeu_si256((__m256i *)y, bytes);
    if (n == 2 || n == 3) _mm_storeu_si128((__m128i *)y, _mm256_castsi256_si128(bytes));
    if (n == 1) _mm_storel_epi64((__m128i *)y, _mm256_castsi256_si128(bytes));
    if (n == 3) _mm_storel_epi64((__m128i *)(y + 16), _mm256_extracti128_si256(bytes, 1));""",
    bytes="""\
__m256i codes = _mm256_cvtps_epi32((__m256)x);
    __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(codes), _mm256_extracti128_si256(codes, 1));
    _mm_storel_epi64((__m128i *)p, _mm_packus_epi16(words, words));""",
    maximum="""\
__m128i p = _mm_loadl_epi64((const __m128i *)&a), q = _mm_loadl_epi64((const __m128i *)&b);
    _mm_storel_epi64((__m128i *)&a, _mm_max_epu8(p, q));
    return a;""",
    narrow=_AVX2_NARROW_DOT,
)

_AVX512_DOT = _AVX2_DOT.replace("256", "512")

_AVX512 = Integers(
    dot=_AVX512_DOT,
    rint="return (vi)_mm512_cvtps_epi32((__m512)vmin(splat(0x1p30f), x));",
    within="return (vi)_mm512_cvtps_epi32((__m512)x);",
    round="return (vf)_mm512_roundscale_ps((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);",
    widen="return (vf)_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)));",
    taps="""\
__m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i turn = _mm512_broadcast_i32x4(
        _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    return (vi)_mm512_shuffle_epi8(_mm512_permutexvar_epi32(order, _mm512_loadu_si512(p)), turn);""",
    put="""\
__m512i offset = _mm512_packs_epi32((__m512i)zero, (__m512i)zero);
    __m512i p = _mm512_packs_epi32((__m512i)a, (__m512i)b), q = _mm512_packs_epi32((__m512i)c, (__m512i)d);
    if (shifted) p = _mm512_adds_epi16(p, offset), q = _mm512_adds_epi16(q, offset);
    __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i least = (__m512i)(low * 0x01010101), most = (__m512i)(high * 0x01010101);
    __m512i bytes = _mm512_permutexvar_epi32(order, _mm512_packus_epi16(p, q));
    if (bounded) bytes = _mm512_min_epu8(_mm512_max_epu8(bytes, least), most);
    if (n == 4) _mm512_storeu_si512(y, bytes);
    if (n == 2 || n == 3) _mm256_storeu_si256((__m256i *)y, _mm512_castsi512_si256(bytes));
    if (n == 1) _mm_storeu_si128((__m128i *)y, _mm512_castsi512_si128(bytes));
    if (n == 3) _mm_storeu_si128((__m128i *)(y + 32), _mm512_extracti32x4_epi32(bytes, 2));""",
    bytes="_mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32((__m512)x)));",
    maximum="return (vb)_mm_max_epu8((__m128i)a, (__m128i)b);",
    narrow=_AVX2_NARROW_DOT.replace("256", "512"),
)

_NEON_DOT = """\
int8x16_t signs = (int8x16_t)(x ^ (int32_t)0x80808080);
    int8x8_t x0 = (int8x8_t)vmovn_s32((int32x4_t)signs), x1 = (int8x8_t)vshrn_n_s32((int32x4_t)signs, 16);
    int8x8_t w0 = (int8x8_t)vmovn_s32((int32x4_t)w), w1 = (int8x8_t)vshrn_n_s32((int32x4_t)w, 16);
    return (vi)vpadalq_s16(vpadalq_s16((int32x4_t)sums, vmull_s8(x0, w0)), vmull_s8(x1, w1));"""

_NEON = Integers(
    dot=_NEON_DOT,
    rint="return (vi)vcvtnq_s32_f32((float32x4_t)x);",
    within="return rint_i(x);",
    round="return (vf)vrndnq_f32((float32x4_t)x);",
    widen="""\
uint32_t four;
    memcpy(&four, p, 4);
    uint16x8_t words = vmovl_u8((uint8x8_t)vdup_n_u32(four));
    return (vf)vcvtq_f32_u32(vmovl_u16(vget_low_u16(words)));""",
    taps="""\
static const uint8_t turn[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
    return (vi)vqtbl1q_u8(vld1q_u8(p), vld1q_u8(turn));""",
    put="""\
int16x8_t offset = vdupq_n_s16((int16_t)zero[0]);
    int16x8_t p = vcombine_s16(vqmovn_s32((int32x4_t)a), vqmovn_s32((int32x4_t)b));
    int16x8_t q = vcombine_s16(vqmovn_s32((int32x4_t)c), vqmovn_s32((int32x4_t)d));
    uint8x16_t bytes = vcombine_u8(vqmovun_s16(vqaddq_s16(p, offset)), vqmovun_s16(vqaddq_s16(q, offset)));
    bytes = vmaxq_u8(bytes, vdupq_n_u8((uint8_t)low[0]));
    bytes = vminq_u8(bytes, vdupq_n_u8((uint8_t)high[0]));
    memcpy(y, &bytes, 4 * n);""",
    bytes="""\
uint16x4_t words = vmovn_u32(vcvtq_u32_f32((float32x4_t)x));
    uint8x8_t bytes = vmovn_u16(vcombine_u16(words, words));
    memcpy(p, &bytes, 4);""",
    maximum="""\
uint8x8_t p = {0}, q = {0};
    memcpy(&p, &a, 4);
    memcpy(&q, &b, 4);
    p = vmax_u8(p, q);
    memcpy(&a, &p, 4);
    return a;""",
)

_OWN = {"avx512": _AVX512, "avx2": _AVX2, "neon": _NEON}

# A lane at a time: bytes 0 and 2, then 1 and 3, as halves of 16 bits, two products each.
_CORTEX_M_DOT = """\
UNROLL for (int i = 0; i < LANES; i++) {
        uint32_t u = (uint32_t)x[i], v = (uint32_t)w[i];
        int32_t s = __smlad((int16x2_t)__uxtb16(u), (int16x2_t)__sxtb16(v), sums[i]);
        sums[i] = __smlad((int16x2_t)__uxtb16(u >> 8), (int16x2_t)__sxtb16(v >> 8 | v << 24), s);
    }
    return sums;"""

# The instruction for `dot` that a feature brings.
_DOT_PRODUCTS = {
    "avx512_vnni": "return (vi)_mm512_dpbusd_epi32((__m512i)sums, (__m512i)x, (__m512i)w);",
    "avx_vnni": "return (vi)_mm256_dpbusd_avx_epi32((__m256i)sums, (__m256i)x, (__m256i)w);",
    "i8mm": "return (vi)vusdotq_s32((int32x4_t)sums, (uint8x16_t)x, (int8x16_t)w);",
    "dotprod": """\
x ^= (int32_t)0x80808080;
    return (vi)vdotq_s32((int32x4_t)sums, (int8x16_t)x, (int8x16_t)w);""",
    "dsp": _CORTEX_M_DOT,
}


# Half a register is multiplied in half the time where whole ones are taken in two halves.
HALF_PRODUCTS = {
    "avx512_vnni": """\
return (vi)_mm512_castsi256_si512(_mm256_dpbusd_epi32(_mm512_castsi512_si256((__m512i)sums),
        _mm512_castsi512_si256((__m512i)x), _mm512_castsi512_si256((__m512i)w)));""",
}


def integer_functions(name: str, lanes: int, offset: int, feature: str | None) -> str:
    """The functions for an instruction set by name; `feature` has an instruction for the dot product.

    `dot` takes `offset` off the unsigned bytes.
    """
    own = _OWN.get(name, _GENERIC)
    if feature is not None:
        own = replace(own, dot=_DOT_PRODUCTS[feature], narrow=Integers.narrow)
        own = replace(own, half=HALF_PRODUCTS.get(feature, Integers.half))
    return own.prelude(lanes, offset)
