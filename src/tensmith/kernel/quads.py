"""Fours of bytes in C: the bytes of four rows at one position in one lane, as `dot` multiplies them.

Two steps of unpacking, as SSE has it, put bytes 4i to 4i + 3 of every 16 bytes of the rows into the i-th
vector. Rows that are sorted beforehand hold there what makes each of the four vectors one run of positions.
"""

from __future__ import annotations

from tensmith.kernel.isa import Isa

# Bytes within which one instruction unpacks: an SSE register, and all of Arm's.
_UNPACKED = 16


def quad_functions(name: str, isa: Isa) -> str:
    """C of NAME_sort(p) and NAME_quads(q, a, b, c, d).

    The first sorts a vector of bytes in memory; the second makes q[i], i < 4, of four sorted vectors: a lane
    of it holds the bytes of one position, those of a lowest, at position i * lanes and following.
    """
    groups = isa.bytes // _UNPACKED
    order = ", ".join(str(n % 4 * groups + n // 4) for n in range(isa.lanes))
    low8, high8 = (_unpacked(isa.bytes, 8, half) for half in (0, 1))
    low16, high16 = (_unpacked(isa.bytes // 2, 4, half) for half in (0, 1))
    return f"""\
typedef uint8_t {name}_8 __attribute__((vector_size({isa.bytes}), may_alias));
typedef uint16_t {name}_16 __attribute__((vector_size({isa.bytes}), may_alias));
static inline void {name}_sort(uint8_t *p)
{{
    vi x = *(const vi *)p;
    *(vi *)p = SHUFFLE(x, x, {order});
}}
static inline void {name}_quads(vi *q, const uint8_t *a, const uint8_t *b, const uint8_t *c, const uint8_t *d)
{{
    {name}_8 w = *(const {name}_8 *)a, x = *(const {name}_8 *)b;
    {name}_8 y = *(const {name}_8 *)c, z = *(const {name}_8 *)d;
    {name}_16 l = ({name}_16)PICK({name}_8, w, x, {low8});
    {name}_16 m = ({name}_16)PICK({name}_8, y, z, {low8});
    {name}_16 n = ({name}_16)PICK({name}_8, w, x, {high8});
    {name}_16 o = ({name}_16)PICK({name}_8, y, z, {high8});
    q[0] = (vi)PICK({name}_16, l, m, {low16});
    q[1] = (vi)PICK({name}_16, l, m, {high16});
    q[2] = (vi)PICK({name}_16, n, o, {low16});
    q[3] = (vi)PICK({name}_16, n, o, {high16});
}}
"""


def _unpacked(count: int, half: int, upper: int) -> str:
    """Which elements of two vectors of `count` stand in turn: a half of every 2 * `half` of them."""
    places = [
        vector * count + first + upper * half + i
        for first in range(0, count, 2 * half)
        for i in range(half)
        for vector in (0, 1)
    ]
    return ", ".join(map(str, places))
