"""Squares of as many vectors as a vector has lanes, turned in registers."""

from __future__ import annotations


def turn(name: str, lanes: int, indent: int) -> str:
    """C that turns the square whose rows are the vectors `name`[0], `name`[1]...

    Its halves are exchanged, then the halves of those, and so on (Eklundh, 1972).
    """
    pad = " " * indent
    return "".join(_exchange(name, lanes, lanes >> step, pad) for step in range(1, lanes.bit_length()))


def _exchange(name: str, lanes: int, half: int, pad: str) -> str:
    """C that exchanges the upper right `half` of every square of twice its size with the lower left."""
    low = ", ".join(str(lanes + (j ^ half) if j & half else j) for j in range(lanes))
    high = ", ".join(str(lanes + j if j & half else j | half) for j in range(lanes))
    return f"""\
{pad}UNROLL for (int c = 0; c < {lanes}; c++) if (!(c & {half})) {{
{pad}    vf low = {name}[c], high = {name}[c + {half}];
{pad}    {name}[c] = SHUFFLE(low, high, {low});
{pad}    {name}[c + {half}] = SHUFFLE(low, high, {high});
{pad}}}
"""
