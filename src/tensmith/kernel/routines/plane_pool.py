"""The maximum over windows of planes: down the columns by whole vectors, then along each row of maxima."""

from __future__ import annotations

import functools
from typing import NamedTuple

from tensmith.kernel.buffer import Buffer
from tensmith.kernel.routine import Routine
from tensmith.kernel.runs import load_second, starts

# Rows of maxima that wait for each other: what was just stored cannot be read from another place at once.
_ROWS = 8


class Windows(NamedTuple):
    """Windows at o * strides - pads, with elements `dilations` apart; all of them (height, width)."""

    size: tuple[int, int]
    strides: tuple[int, int]
    pads: tuple[int, int]
    dilations: tuple[int, int]


def plane_maximum(name: str, windows: Windows, source: Buffer, target: Buffer, lanes: int) -> str:
    """C of a routine whose windows are cut at the image's borders.

    Planes of x and y are at least `lanes` wide, windows one or two columns apart.
    """
    (tall, wide), (down, along), (top, left), (apart, gap) = windows
    reach = max(left + source.width, (target.width - 1) * along + (wide - 1) * gap + 1)

    def most(at: int) -> str:
        """The maxima of the windows from column `at` of y on."""
        places = [f"m + {at * along + v * gap}" for v in range(wide)]
        taps = [load_second(place, lanes, lanes) if along == 2 else f"load({place})" for place in places]
        return functools.reduce("vmaximum({},\n                {})".format, taps)

    put = "\n".join(f"            store(y + {at}, {most(at)});" for at in starts(target.width, lanes))
    body = f"""\
    float maxima[{_ROWS}][{reach}]; /* of the columns of windows, with borders */
    for (int i = 0; i < {_ROWS}; i++) for (int j = 0; j < {reach}; j++) maxima[i][j] = -INFINITY;
    for (int c = 0; c < {source.channels}; c++)
    for (int first = 0; first < {target.height}; first += {_ROWS}) {{
        int end = first + {_ROWS} < {target.height} ? first + {_ROWS} : {target.height};
        for (int oi = first; oi < end; oi++) {{
            const float *x = in[0] + {source.address(0, 0, 0)} + c * {source.plane}, *rows[{tall}];
            int count = 0;
            for (int u = 0; u < {tall}; u++) {{
                int i = oi * {down} - {top} + u * {apart};
                if (i >= 0 && i < {source.height}) rows[count++] = x + i * {source.row};
            }}
            for (int j = 0; j < {source.width}; j += {lanes}) {{
                int at = j < {source.width - lanes} ? j : {source.width - lanes};
                vf column = splat(-INFINITY);
                for (int u = 0; u < count; u++) column = vmaximum(column, load(rows[u] + at));
                store(maxima[oi - first] + {left} + at, column);
            }}
        }}
        for (int oi = first; oi < end; oi++) {{
            const float *m = maxima[oi - first];
            float *y = out + {target.address(0, 0, 0)} + c * {target.plane} + oi * {target.row};
{put}
        }}
    }}
"""
    image = f"{source.channels}x{source.height}x{source.width}"
    says = f"max of {tall}x{wide} windows, strides {down}x{along}, of the planes of {image}."
    return Routine.function(name, says, body)
