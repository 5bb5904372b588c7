"""Functions of C vectors that have no instruction: shuffles, exp and what is built on it.

`vexp` reduces by powers of two and takes a polynomial of degree 6 (Cody and Waite, 1980); its relative error
is below 2e-7. `verf` is Abramowitz and Stegun 7.1.26, absolute error below 1.5e-7 plus rounding.
"""

FUNCTIONS = """\
/* The elements of a, then those of b, that the indices name: one for each lane. */
#ifdef __clang__
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (vi){__VA_ARGS__})
#endif
static inline vf vexp(vf x)
{
    vf c = vmin(splat(89), vmax(splat(-104), x));
    vf n = (c * 1.44269504f + 12582912.0f) - 12582912.0f;
    vf r = c - n * 0.693359375f + n * 2.12194440e-4f;
    vf p = ((((r * 1.9875691500e-4f + 1.3981999507e-3f) * r + 8.3334519073e-3f) * r + 4.1665795894e-2f) * r
            + 1.6666665459e-1f) * r + 5.0000001201e-1f;
    vi k = __builtin_convertvector(n, vi), half = k >> 1;
    vf y = (p * r * r + r + 1.0f) * (vf)((half + 127) << 23);
    return y * (vf)((k - half + 127) << 23);
}
static inline vf vsigmoid(vf x) { return 1.0f / (1.0f + vexp(-x)); }
static inline vf vtanh(vf x) { return 1.0f - 2.0f / (vexp(x + x) + 1.0f); }
static inline vf vswish(vf x) { return x * vsigmoid(x); }
static inline vf vleaky(vf x, vf slope) { return vmax(splat(0), x) + slope * vmin(splat(0), x); }
static inline vf vhard_swish(vf x) { return x * vmin(splat(1), vmax(splat(0), x * (1.0f / 6) + 0.5f)); }
/* a where the bits of m are 1, b where they are 0. */
static inline vf vselect(vi m, vf a, vf b) { return (vf)(((vi)a & m) | ((vi)b & ~m)); }
/* maximum and minimum of IEEE 754-2019: NaN where either is. */
static inline vf vmaximum(vf a, vf b) { return vselect(a != a, a, vmax(a, b)); }
static inline vf vminimum(vf a, vf b) { return vselect(a != a, a, vmin(a, b)); }
static inline vf vabs(vf x) { return (vf)((vi)x & 0x7fffffff); }
static inline vf verf(vf x)
{
    vf t = 1.0f / (1.0f + 0.3275911f * vabs(x));
    vf p = (((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t + 0.254829592f;
    vf y = 1.0f - p * t * vexp(-x * x);
    return (vf)((vi)y | ((vi)x & (int32_t)0x80000000));
}
static inline vf vgelu(vf x) { return 0.5f * x * (1.0f + verf(x * 0.707106781f)); }
"""
