"""Parts of vectors, vectors of elements that lie apart, and what all lanes of a vector come to."""

PARTS = """\
#define LANES ((int)(sizeof(vf) / sizeof(float)))
/* The first n elements; the other lanes are zero. */
static inline vf load_part(const float *p, int n) { vf x = {0}; memcpy(&x, p, n * sizeof(float)); return x; }
static inline void store_part(float *p, vf x, int n) { memcpy(p, &x, n * sizeof(float)); }
/* n elements, each `step` after the one before. */
static inline vf load_step(const float *p, int step, int n)
{
    vf x = {0};
    for (int i = 0; i < n; i++) x[i] = p[i * step];
    return x;
}
static inline void store_step(float *p, vf x, int step, int n)
{
    for (int i = 0; i < n; i++) p[i * step] = x[i];
}
static inline float sum_of(vf x)
{
    float s = 0;
    UNROLL for (int i = 0; i < LANES; i++) s += x[i];
    return s;
}
/* Not a number where any lane is none. */
static inline float most_of(vf x)
{
    float m = x[0];
    UNROLL for (int i = 1; i < LANES; i++) m = x[i] <= m || m != m ? m : x[i];
    return m;
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
    float rest = 0;
    int j = 0;
    for (; j + 4 * LANES <= n; j += 4 * LANES)
        UNROLL for (int k = 0; k < 4; k++) d = load(x + j + k * LANES) - middle, s[k] += d * d;
    for (; j + LANES <= n; j += LANES) d = load(x + j) - middle, s[0] += d * d;
    for (; j < n; j++) rest += (x[j] - middle) * (x[j] - middle);
    return sum_of(s[0] + s[1] + (s[2] + s[3])) + rest;
}
/* y = exp(x - max(x)) for n numbers in a row; their sum. */
static inline float row_exp(const float *x, float *y, int n)
{
    int whole = n - n % LANES;
    vf m = splat(-INFINITY);
    for (int j = 0; j < whole; j += LANES) m = vmax(m, load(x + j));
    float most = most_of(m);
    for (int j = whole; j < n; j++) most = x[j] <= most ? most : x[j];
    for (int j = 0; j < whole; j += LANES) store(y + j, vexp(load(x + j) - most));
    if (whole < n) store_part(y + whole, vexp(load_part(x + whole, n - whole) - most), n - whole);
    return row_sum(y, n);
}
/* A function of floats, lane by lane. */
#define EACH(f, x) ({ vf each_ = (x); for (int i_ = 0; i_ < LANES; i_++) each_[i_] = f(each_[i_]); each_; })
"""


def load_code(pointer: str, count: int, lanes: int) -> str:
    """The C expression of `count` floats in a row, at most a vector."""
    return f"load({pointer})" if count == lanes else f"load_part({pointer}, {count})"


def store_code(pointer: str, value: str, count: int, lanes: int) -> str:
    """The C expression that stores so many floats of a vector."""
    return f"store({pointer}, {value})" if count == lanes else f"store_part({pointer}, {value}, {count})"
