"""Runs of elements whose length is known when compiling: how they are cut into vectors, and copied, as C."""

from __future__ import annotations


def pieces(length: int, lanes: int) -> list[tuple[int, int]]:
    """(offset, width) of the vectors that hold a run: whole ones, then the narrowest that holds the rest."""
    whole = [(at, lanes) for at in range(0, length - length % lanes, lanes)]
    rest = length % lanes
    widths = [1, *(4 << i for i in range(lanes.bit_length()) if 4 << i <= lanes)]
    return whole + ([(length - rest, next(width for width in widths if width >= rest))] if rest else [])


def vector_types(name: str, lanes: int) -> str:
    """C types NAME_1, NAME_4, ... of as many floats, for `pieces`; memory of any alignment."""
    lines = [f"typedef float {name}_1;"]
    width = 4
    while width <= lanes:
        size = 4 * width
        lines.append(
            f"typedef float {name}_{width} __attribute__((vector_size({size}), aligned(4), may_alias));"
        )
        width *= 2
    return "\n".join(lines)


def copy_run(name: str, length: int, step: int, lanes: int) -> str:
    """C of a function NAME(y, x): y[i] = x[i * step] for i < length.

    Nothing but those is read, apart from what lies between them. Every second element is picked from whole
    vectors, which may write up to a vector less one past the run.
    """
    reach = (length - 1) * step + 1
    if step == 1:
        body = f"memcpy(y, x, {4 * length});"
        if length >= lanes:
            body = "\n    ".join(f"store(y + {i}, load(x + {i}));" for i in starts(length, lanes))
    elif step == 2 and reach >= lanes:
        width = min(lanes, length)
        body = "\n    ".join(
            f"store(y + {i}, {load_second(f'x + {2 * i}', width, lanes)});" for i in starts(length, width)
        )
    else:
        body = f"for (int i = 0; i < {length}; i++) y[i] = x[i * {step}];"
    return f"""\
static inline void {name}(float *y, const float *x)
{{
    {body}
}}
"""


def load_second(place: str, width: int, lanes: int) -> str:
    """C of a vector of `width` floats, every second one from `place` on; other lanes hold anything."""
    # They reach 2 * width - 1 far: two vectors, the second one ending with the last.
    second = 2 * width - 1 - lanes
    picked = [2 * i if 2 * i < lanes else lanes + 2 * i - second for i in range(width)]
    order = ", ".join(map(str, picked + [0] * (lanes - width)))
    return f"SHUFFLE(load({place}), load({place} + {second}), {order})"


def copy_bytes(name: str, length: int, step: int) -> str:
    """C of a function NAME(y, x): y[i] = x[i * step] for i < length; nothing past those is touched.

    Every second byte is picked from two vectors of which the second ends with the last one.
    """
    width = next((width for width in (16, 8, 4) if width <= length), 0)
    body = f"for (int i = 0; i < {length}; i++) y[i] = x[i * {step}];"
    if step == 1:
        body = f"memcpy(y, x, {length});"
    elif step == 2 and width:
        even = ", ".join(str(2 * i if 2 * i < width else 2 * i + 1) for i in range(width))
        lines = [f"typedef uint8_t run __attribute__((vector_size({width}), aligned(1), may_alias));"]
        for i in starts(length, width):
            pair = ", ".join(f"*(const run *)(x + {at})" for at in (2 * i, 2 * i + width - 1))
            lines.append(f"*(run *)(y + {i}) = PICK(run, {pair}, {even});")
        body = "\n    ".join(lines)
    return f"""\
static inline void {name}(uint8_t *y, const uint8_t *x)
{{
    {body}
}}
"""


def starts(length: int, width: int) -> list[int]:
    """Where vectors begin that cover a run exactly, the last one perhaps over its neighbour."""
    return [*range(0, length - width, width), length - width]
