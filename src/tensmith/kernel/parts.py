"""Parts of vectors, vectors of elements that lie apart, and what all lanes of a vector come to."""

from __future__ import annotations

from collections.abc import Iterable

# Each lane with the one that lies half of what is left away, in as many steps as a vector has halves.
_LANES = """\
#define LANES {lanes}
/* The first n lanes. */
static inline vi first_lanes(int n) {{ return (vi){{{order}}} < n; }}
/* Every other lane: of a from the first, of b from the second on. */
#define EVENS(a, b) SHUFFLE(a, b, {evens})
#define TWICE(x) SHUFFLE(x, x, {first}), SHUFFLE(x, x, {second})
static inline float sum_of(vf x)
{{
{sums}    return x[0];
}}
/* Not a number where any lane is none. */
static inline float most_of(vf x)
{{
{maxima}    return x[0];
}}
"""

_PARTS = """\
/* The first n elements; the other lanes are zero. What looks for foreign memory sees through no mask. */
#if defined(__AVX512F__) && LANES == 16 && !defined(__SANITIZE_ADDRESS__)
#define MASKED
static inline vf load_part(const float *p, int n) { return (vf)_mm512_maskz_loadu_ps((1u << n) - 1, p); }
static inline void store_part(float *p, vf x, int n) { _mm512_mask_storeu_ps(p, (1u << n) - 1, (__m512)x); }
#else
static inline vf load_part(const float *p, int n) { vf x = {0}; memcpy(&x, p, n * sizeof(float)); return x; }
static inline void store_part(float *p, vf x, int n) { memcpy(p, &x, n * sizeof(float)); }
#endif
/* n elements, each `step` after the one before. */
static inline vf load_step(const float *p, int step, int n)
{
    vf x = {0};
    if (step == 2 && n == LANES) return EVENS(load(p), load(p + LANES - 1));
#ifdef MASKED
    if (step == 2) {
        const int more = 2 * n - LANES;
        vf rest = more > 0 ? load_part(p + LANES - 1, more) : x;
        return EVENS(load_part(p, more > 0 ? LANES : 2 * n - 1), rest);
    }
#endif
    for (int i = 0; i < n; i++) x[i] = p[i * step];
    return x;
}
static inline void store_step(float *p, vf x, int step, int n)
{
#ifdef MASKED
    if (step == 2) {
        const vf both[2] = {TWICE(x)};
        const uint32_t lanes = 0x55555555 & ((1ull << 2 * n) - 1);
        _mm512_mask_storeu_ps(p, lanes & 0xffff, (__m512)both[0]);
        if (n > LANES / 2) _mm512_mask_storeu_ps(p + LANES, lanes >> LANES, (__m512)both[1]);
        return;
    }
#endif
    for (int i = 0; i < n; i++) p[i * step] = x[i];
}
/* Sums over n numbers in a row: of them, of their squared distances from `middle`. */
static inline float row_sum(const float *x, int n)
{
    vf s[4] = {{0}};
    int j = 0;
    for (; j + 4 * LANES <= n; j += 4 * LANES)
        UNROLL for (int k = 0; k < 4; k++) s[k] += load(x + j + k * LANES);
    for (; j + LANES <= n; j += LANES) s[0] += load(x + j);
    return sum_of(s[0] + s[1] + (s[2] + s[3]) + load_part(x + j, n - j));
}
static inline float row_squares(const float *x, float middle, int n)
{
    vf s[4] = {{0}}, d;
    int j = 0;
    for (; j + 4 * LANES <= n; j += 4 * LANES)
        UNROLL for (int k = 0; k < 4; k++) d = load(x + j + k * LANES) - middle, s[k] += d * d;
    for (; j + LANES <= n; j += LANES) d = load(x + j) - middle, s[0] += d * d;
    if (j < n) d = (vf)((vi)(load_part(x + j, n - j) - middle) & first_lanes(n - j)), s[1] += d * d;
    return sum_of(s[0] + s[1] + (s[2] + s[3]));
}
/* y = exp(x - most) for n numbers in a row; their sum. */
static inline float row_exp_from(const float *x, float *y, float most, int n)
{
    const int left = n % LANES, whole = n - left;
    const vi inside = first_lanes(left);
    vf e, sum = splat(0);
    for (int j = 0; j < whole; j += LANES) store(y + j, e = vexp(load(x + j) - most)), sum += e;
    if (left) {
        store_part(y + whole, e = vexp(load_part(x + whole, left) - most), left);
        sum += (vf)((vi)e & inside);
    }
    return sum_of(sum);
}
/* The same from the largest of them. */
static inline float row_exp(const float *x, float *y, int n)
{
    const int left = n % LANES, whole = n - left;
    vf m = splat(-INFINITY);
    for (int j = 0; j < whole; j += LANES) m = vmax(m, load(x + j));
    if (left) m = vmax(m, vselect(first_lanes(left), load_part(x + whole, left), m));
    return row_exp_from(x, y, most_of(m), n);
}
/* An expression in which x has a name. */
#define LET(name, x, expression) ({ vf name = (x); expression; })
/* A function of floats, lane by lane. */
#define EACH(f, x) ({ vf each_ = (x); for (int i_ = 0; i_ < LANES; i_++) each_[i_] = f(each_[i_]); each_; })
"""


def part_functions(lanes: int) -> str:
    """C of functions of vectors of so many floats, a power of two."""
    apart = [lanes >> n for n in range(1, lanes.bit_length())]
    other = [f"SHUFFLE(x, x, {_listed(lane ^ d for lane in range(lanes))})" for d in apart]
    return (
        _LANES.format(
            lanes=lanes,
            order=_listed(range(lanes)),
            evens=_listed((*range(0, lanes, 2), *range(lanes + 1, 2 * lanes, 2))),
            first=_listed(lane // 2 for lane in range(lanes)),
            second=_listed((lanes + lane) // 2 for lane in range(lanes)),
            sums="".join(f"    x += {turned};\n" for turned in other),
            maxima="".join(f"    x = vmaximum(x, {turned});\n" for turned in other),
        )
        + _PARTS
    )


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def load_code(pointer: str, count: int, lanes: int) -> str:
    """The C expression of `count` floats in a row, at most a vector."""
    return f"load({pointer})" if count == lanes else f"load_part({pointer}, {count})"


def store_code(pointer: str, value: str, count: int, lanes: int) -> str:
    """The C expression that stores so many floats of a vector."""
    return f"store({pointer}, {value})" if count == lanes else f"store_part({pointer}, {value}, {count})"
