"""Functions of C vectors that have no instruction: shuffles, exp, log and what is built on them.

`vexp` reduces by powers of two and takes a polynomial of degree 6 (Cody and Waite, 1980); its relative error
is below 2e-7. Below the normal numbers it is 0: such numbers cost processors a hundred cycles a vector, and
masked scores of attention are nothing else. `verf` is x times a polynomial of degree 14 in x^2 on
[-3.7, 3.7], beyond which erf is 1 within 2e-7; fitted to the least largest error by iteratively reweighted
least squares (Lawson, 1961). Its absolute error is below 2e-7 plus two roundings of 1. From 3.92 on, where it
rounds to 1, it is 1: Gelu multiplies what is missing there.

`vlog` takes out the power of two that leaves something between 1/sqrt(2) and sqrt(2), and of that a
polynomial of degree 9 around 1 (Moshier, Cephes, 1989); its relative error is below 2e-7. Numbers below the
normal ones are among those it takes. `vlog1p` gives back what 1 + x is rounded by, x / ((1 + x) - 1) times
the logarithm of the rounded sum (Hewlett-Packard HP-15C Advanced Functions Handbook, 1982): below 5e-7.

`vtanh` is x times a polynomial of degree 5 in x^2 below 0.625 (Moshier, Cephes, 1989), and elsewhere
1 - 2 / (exp(2 x) + 1); its relative error is below 4e-7.
"""

FUNCTIONS = """\
/* The elements of a, then those of b, that the indices name: one for each lane, of an integer `type`. */
#ifdef __clang__
#define PICK(type, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define PICK(type, a, b, ...) __builtin_shuffle(a, b, (type){__VA_ARGS__})
#endif
#define SHUFFLE(a, b, ...) PICK(vi, a, b, __VA_ARGS__)
static inline vf vexp(vf x)
{
    const vf least = splat(-87.33f);
    vf c = vmin(splat(89), vmax(least, x));
    vf n = (c * 1.44269504f + 12582912.0f) - 12582912.0f;
    vf r = c - n * 0.693359375f + n * 2.12194440e-4f;
    vf p = ((((r * 1.9875691500e-4f + 1.3981999507e-3f) * r + 8.3334519073e-3f) * r + 4.1665795894e-2f) * r
            + 1.6666665459e-1f) * r + 5.0000001201e-1f;
    vi k = __builtin_convertvector(n, vi), half = k >> 1;
    vf y = (p * r * r + r + 1.0f) * (vf)((half + 127) << 23);
    return (vf)((vi)(y * (vf)((k - half + 127) << 23)) & ~(x < least));
}
/* a where the bits of m are 1, b where they are 0. */
static inline vf vselect(vi m, vf a, vf b) { return (vf)(((vi)a & m) | ((vi)b & ~m)); }
static inline vf vlog(vf x)
{
    const vi root = (vi)splat(0.707106781f);
    vi small = x < splat(1.17549435e-38f), bits = (vi)vselect(small, x * 8388608.0f, x) - root;
    vf e = __builtin_convertvector((bits >> 23) - (small & 23), vf);
    vf f = (vf)((bits & 0x7fffff) + root) - 1.0f, z = f * f;
    vf p = (((((((f * 7.0376836292e-2f - 1.1514610310e-1f) * f + 1.1676998740e-1f) * f - 1.2420140846e-1f) * f
            + 1.4249322787e-1f) * f - 1.6668057665e-1f) * f + 2.0000714765e-1f) * f - 2.4999993993e-1f) * f
        + 3.3333331174e-1f;
    vf y = f + (f * z * p - e * 2.12194440e-4f - z * 0.5f) + e * 0.693359375f;
    y = vselect((x > 0) & (x < INFINITY), y, x);  /* infinity and what is no number stay */
    return vselect(x == 0, splat(-INFINITY), vselect(x < 0, splat(NAN), y));
}
static inline vf vlog1p(vf x)
{
    vf sum = x + 1.0f, y = vlog(sum);
    return vselect((sum == 1) | (x == INFINITY), x, y * (x / (sum - 1.0f)));
}
static inline vf vtanh(vf x)
{
    vf z = x * x;
    vf p = (((z * -5.70498873e-3f + 2.06390888e-2f) * z - 5.37397156e-2f) * z + 1.33314422e-1f) * z
        - 3.33332819e-1f;
    return vselect(z < 0.390625f, x * (z * p + 1.0f), 1.0f - 2.0f / (vexp(x + x) + 1.0f));
}
static inline vf vleaky(vf x, vf slope) { return vmax(splat(0), x) + slope * vmin(splat(0), x); }
/* maximum and minimum of IEEE 754-2019: NaN where either is. */
static inline vf vmaximum(vf a, vf b) { return vselect(a != a, a, vmax(a, b)); }
static inline vf vminimum(vf a, vf b) { return vselect(a != a, a, vmin(a, b)); }
static inline vf vabs(vf x) { return (vf)((vi)x & 0x7fffffff); }
static inline vf verf(vf x)
{
    vf c = vmin(splat(3.7f), vmax(splat(-3.7f), x));
    vf u = c * c * 0.146092042f - 1.0f;
    vf p = (((((6.39825885e-4f * u - 1.76007207e-3f) * u + 1.8160562e-3f) * u - 2.8813479e-3f) * u
            + 7.9503078e-3f) * u - 1.50291286e-2f) * u + 2.34067813e-2f;
    p = ((((p * u - 3.5721831e-2f) * u + 5.20421378e-2f) * u - 7.0562169e-2f) * u + 9.05374214e-2f) * u
        - 1.12631626e-1f;
    vf y = c * (((p * u + 1.4079456e-1f) * u - 1.90468162e-1f) * u + 3.82137477e-1f);
    return vselect(vabs(x) < 3.92f, y, vmin(splat(1), vmax(splat(-1), x)));
}
"""
