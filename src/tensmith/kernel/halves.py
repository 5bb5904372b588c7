"""Functions of C vectors of 16-bit floats, for instruction sets that compute with them."""

from __future__ import annotations

# Instruction sets that multiply vectors of halves -> the feature it takes. A vector of halves is as wide as
# one of floats and holds twice as many.
_FEATURES = {"neon": "fp16"}

_HALVES = """\
typedef _Float16 half;
typedef half vh __attribute__((vector_size({bytes}), may_alias));
typedef half vhu __attribute__((vector_size({bytes}), aligned(2), may_alias));
typedef half vq __attribute__((vector_size({bytes} / 2), may_alias));

static inline vh hload(const half *p) {{ return *(const vhu *)p; }}
/* Floats as halves, rounded to nearest; beyond 65504 they become infinite. */
static inline vq narrow(vf x) {{ return __builtin_convertvector(x, vq); }}
/* The lower (0) or upper (1) lanes of halves as floats. */
static inline vf half_of(vh x, int upper)
{{
    vq parts[2];
    memcpy(parts, &x, sizeof x);
    return __builtin_convertvector(parts[upper], vf);
}}
"""


def has_halves(name: str, features: frozenset[str]) -> bool:
    """Whether an instruction set by name multiplies halves."""
    return _FEATURES.get(name) in features


def half_functions(name: str, bytes_: int, features: frozenset[str]) -> str:
    """The functions above; nothing where halves are not multiplied."""
    return _HALVES.format(bytes=bytes_) if has_halves(name, features) else ""
