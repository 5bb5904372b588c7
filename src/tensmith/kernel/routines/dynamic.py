"""Grids found at run time: a tensor's own range, its bytes, and what that makes of a product's numbers.

A range is two floats, scale and zero point, as ONNX's DynamicQuantizeLinear finds them.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensmith.kernel.buffer import Buffer
from tensmith.kernel.quantized import FIELDS, HEADER
from tensmith.kernel.routine import Routine
from tensmith.kernel.routines.strided import Strided, StridedOperand, StridedStatement
from tensmith.kernel.view import StridedView


@dataclass(frozen=True)
class DynamicScale(Routine):
    """scale = (max(x, 0) - min(x, 0)) / 255, or 1 where that is 0; zero_point = round(-min(x, 0) / scale).

    x: `size` floats.
    """

    size: int
    lanes: int

    def code(self, name: str, sources: tuple[Buffer, ...], target: Buffer) -> str:
        """One pass, several vectors at a time."""
        n, step = self.size, 4 * self.lanes
        whole = n - n % step
        body = f"""\
    const float *x = in[0];
    vf none = splat(0), most[4] = {{none, none, none, none}}, least[4] = {{none, none, none, none}};
    for (int j = 0; j < {whole}; j += {step}) UNROLL for (int k = 0; k < 4; k++) {{
        vf v = load(x + j + k * {self.lanes});
        most[k] = vmax(most[k], v);
        least[k] = vmin(least[k], v);
    }}
    float high = 0, low = 0;
    for (int k = 0; k < 4; k++) for (int i = 0; i < {self.lanes}; i++) {{
        high = most[k][i] > high ? most[k][i] : high;
        low = least[k][i] < low ? least[k][i] : low;
    }}
    for (int j = {whole}; j < {n}; j++) {{
        high = x[j] > high ? x[j] : high;
        low = x[j] < low ? x[j] : low;
    }}
    float scale = high > low ? (high - low) / 255 : 1;
    out[0] = scale;
    out[1] = vmin(splat(255), vmax(splat(0), rint_f(splat(-low) / scale)))[0];
"""
        return self.function(name, f"The range of {n} numbers.", body)


def dynamic_quantize(size: int, lanes: int) -> Strided:
    """y = clamp(round(x / scale) + zero_point) of `size` floats x, in bytes; reads x and its range."""
    every = StridedView.dense((size,))
    scale, zero = (StridedOperand(1, StridedView((size,), (0,), place)) for place in range(2))
    codes = "vmin(splat(255), vmax(splat(0), rint_f({0} / {1}) + {2}))"
    return Strided((StridedStatement(codes, (StridedOperand(0, every), scale, zero), every),), lanes, "u8")


@dataclass(frozen=True)
class DynamicRequantization(Routine):
    """The numbers that kernel.quantized.constants makes, for x on a range read at run time.

    `constants`: those for x on the grid of scale 1 and zero point 0, then the sum of each filter's weights.
    """

    vectors: int
    lanes: int

    def code(self, name: str, sources: tuple[Buffer, ...], target: Buffer) -> str:
        """The header as it is, then start, factor and offset of each vector of filters."""
        lanes, step = self.lanes, FIELDS * self.lanes
        body = f"""\
    const float *t = constants + {HEADER}, *sums = t + {self.vectors * step};
    float *y = out + {HEADER};
    vf scale = splat(in[0][0]);
    int32_t zero = (int32_t)in[0][1];
    memcpy(out, constants, {4 * HEADER});
    for (int v = 0; v < {self.vectors}; v++, t += {step}, y += {step}, sums += {lanes}) {{
        vi start = iload(t) - zero * iload(sums);
        memcpy(y, &start, sizeof start);
        store(y + {lanes}, load(t + {lanes}) * scale);
        store(y + {2 * lanes}, load(t + {2 * lanes}));
    }}
"""
        return self.function(name, f"The numbers of {self.vectors} vectors of filters.", body)
