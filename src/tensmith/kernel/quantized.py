"""8-bit arithmetic: grids, and the numbers that turn sums of integers into the next grid's.

An image of bytes q stands for scale * (q - zero_point). Signed bytes are kept as unsigned ones, 128 added to
them and to their zero point. A convolution of x by codes w with one scale a filter is, exactly,

    scale_x * scale_w * (sum(x_q * w_q) + start),    start = bias_q - zero_point_x * sum(w_q)

where the halo of x holds its zero point. The kernel then computes in single precision

    v = sums * factor + offset
    v = clamp(round(v), inner.low, inner.high) * inner_step     if the sums have a grid of their own,
                                                                where a late offset comes behind it
    v = v + residual * residual_step + residual_offset          if there is a residual
    y = clamp(round(activation(v) * step) + zero_point, low, high)

The integers are exact. Before the last rounding v is off by at most 5 roundings of 2^-24 of the largest term,
so y is what real arithmetic gives wherever that lies further than 6e-5 from a half (terms below 256 units),
and one unit off elsewhere: about one element in ten thousand. ONNX's own order of roundings is no closer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tensmith.errors import EngineError
from tensmith.formula.arith import Array
from tensmith.kernel.epilogue import Activation, Epilogue
from tensmith.kernel.isa import Isa
from tensmith.kernel.problem import ConvolutionProblem

# Words before the first filter's: the numbers that all filters share.
HEADER = 16
# Words of each filter: start, factor, offset.
FIELDS = 3
_LARGEST = 2.0**31
# The numbers of a kernel are off by four roundings of 2^-24.
_ROUNDED = 1 - 2.0**-20


class QuantizationParameters(NamedTuple):
    """scale * (q - zero_point) for bytes q in low..high; a clip of the real numbers narrows low and high."""

    scale: float
    zero_point: int
    low: int = 0
    high: int = 255

    def clipped(self, low: float, high: float) -> QuantizationParameters:
        """The grid of clip(x, low, high): rounding keeps order, so that bytes are clipped instead."""
        below, above = (
            int(np.clip(np.rint(np.float32(bound) / np.float32(self.scale)) + self.zero_point, 0, 255))
            for bound in (low, high)
        )
        return self._replace(low=min(max(self.low, below), above), high=min(max(self.high, below), above))


@dataclass(frozen=True, eq=False)
class Requantization:
    """Between which grids a convolution works. `target` None leaves real numbers.

    `scales` are the filters'; `bias` is in real numbers, `codes` in units of source.scale * scales. `inner`
    is the grid on which the sums are rounded first, a `late` bias comes behind that; `residual` the other
    operand's grid (None: real numbers).
    """

    source: QuantizationParameters
    scales: Array
    target: QuantizationParameters | None
    codes: Array | None = None
    bias: Array | None = None
    inner: QuantizationParameters | None = None
    residual: QuantizationParameters | None = None
    late: bool = False

    def epilogue(self, activation: Activation | None, isa: Isa) -> Epilogue:
        """What a kernel does to its sums, before a residual. For processors of little memory it is the same
        text whatever the bytes' bounds are, so that layers alike are one function."""
        zero, *bounds = (self.target or QuantizationParameters(1, 0))[1:]
        general = not isa.hosted
        return Epilogue(
            activation=activation,
            inner=self.inner is not None,
            late=self.late,
            shifted=general or zero != 0,
            bounded=general or bounds != [0, 255],
        )


def constants(
    problem: ConvolutionProblem, isa: Isa, weights: Array, how: Requantization, curved: bool
) -> Array:
    """What the kernel reads beside the weights, as float32 words: a header, then a vector of each field.

    weights: int8 [filters, channels/groups, *window]. `curved` if the activation is no clip, and so works on
    real numbers. EngineError where 32 bits would overflow.
    """
    padded = isa.round_up(problem.filters)
    table = np.zeros((FIELDS, padded), np.float32)
    start, *floats = fields(problem, weights, how, curved)
    lost = isa.byte_offset * weights.reshape(problem.filters, -1).astype(np.int64).sum(1)
    table[0].view(np.int32)[: problem.filters] = start + lost
    table[1:, : problem.filters] = floats
    vectors = table.reshape(FIELDS, -1, isa.lanes).transpose(1, 0, 2)
    return np.concatenate([_header(how, _unit(how, curved)), vectors.reshape(-1)])


def fields(
    problem: ConvolutionProblem, weights: Array, how: Requantization, curved: bool
) -> tuple[Array, Array, Array]:
    """(start, factor, offset) of each filter; EngineError where 32 bits would overflow."""
    unit = _unit(how, curved)
    scales = np.broadcast_to(np.float64(how.source.scale) * how.scales.astype(np.float64), problem.filters)
    flat = weights.reshape(problem.filters, -1).astype(np.int64)
    start = -how.source.zero_point * flat.sum(1) + (0 if how.codes is None else how.codes.astype(np.int64))
    first = 1 / how.inner.scale if how.inner else unit
    factor = scales * first
    offset = np.zeros(problem.filters)
    if how.bias is not None:
        offset = how.bias.astype(np.float64) * (unit if how.late else first)
    most = abs(start) + 255 * abs(flat).sum(1)
    if np.any(most >= _LARGEST) or np.any(most * abs(factor) + abs(offset) >= _LARGEST * _ROUNDED):
        raise EngineError(f"the sums of a {problem} with these weights and scales do not fit 32 bits")
    return start, factor, offset


def _unit(how: Requantization, curved: bool) -> float:
    """What a real one is in the numbers that the kernel computes with."""
    return 1.0 if curved or how.target is None else 1 / how.target.scale


def _header(how: Requantization, unit: float) -> Array:
    """[zero point, low, high, step; inner low, high, step; residual step, offset]."""
    words = np.zeros(HEADER, np.float32)
    target, inner, residual = how.target or QuantizationParameters(1, 0), how.inner, how.residual
    words[:3].view(np.int32)[...] = (target.zero_point, target.low, target.high)
    words[3] = 1 / target.scale
    if inner:
        bounds = (inner.low - inner.zero_point, inner.high - inner.zero_point)
        words[4:7] = (*bounds, inner.scale * unit)
    words[7] = residual.scale * unit if residual else unit
    words[8] = -residual.scale * residual.zero_point * unit if residual else 0
    return words


def put_code(at: str, count: str, sums: str, epilogue: Epilogue) -> str:
    """The C that writes `count` of four vectors of rounded numbers as bytes."""
    known = f"{int(epilogue.shifted)}, {int(epilogue.bounded)}"
    return f"put({at}, {count}, {sums}, isplat(g[0]), isplat(g[1]), isplat(g[2]), {known});"


def rounding(epilogue: Epilogue) -> str:
    """What rounds the numbers of `finish_code`: sums and a bias alone fit 32 bits, as `fields` demands."""
    plain = not (epilogue.inner or epilogue.residual) and epilogue.activation is None
    return "rint_within" if plain else "rint_i"


def finish_code(
    epilogue: Epilogue, sums: str, fields: str, residual: str, lanes: int, read: str = "load({})"
) -> str:
    """The C expression of a finished vector of real numbers or grid units, before the last rounding.

    `sums` is a vector of integers, `fields` points to the filters' words, of which `read` makes a vector;
    `residual` is a vector; the header is `h`. Products are added by `vfma`, which leaves compilers no choice
    of roundings: bytes are the same on every device that has the instruction.
    """
    factor, offset = (read.format(f"{fields} + {field * lanes}") for field in (1, 2))
    numbers, other = f"__builtin_convertvector({sums}, vf)", f"vfma({residual}, splat(h[7]), splat(h[8]))"
    value = f"vfma({numbers}, {factor}, {offset})"
    if epilogue.inner:
        first = f"{numbers} * {factor}" if epilogue.late else value
        rounded = f"vmin(splat(h[5]), vmax(splat(h[4]), rint_f({first})))"
        behind = offset if epilogue.late else other if epilogue.residual else None
        value = f"vfma({rounded}, splat(h[6]), {behind})" if behind else f"{rounded} * h[6]"
    if epilogue.residual and (epilogue.late or not epilogue.inner):
        value = f"{value} + {other}"
    return value if epilogue.activation is None else epilogue.activation.apply(value)
