"""Functions of C vectors of 16-bit floats, for instruction sets that compute with them.

A vector of halves is as wide as one of floats and holds twice as many.
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
