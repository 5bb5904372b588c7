"""Loop nests of kernels in the formula language: what they sum, and the op that they compute.

`meaning` is the convolution of the op, `formula` reads back what the nest of a kernel prints. The two must be
equal, which the normal form of formulas proves for all images and weights, and for all sizes where these are
symbols.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tensmith.formula.expr import (
    ZERO,
    Choose,
    Expr,
    Formula,
    Read,
    Reduce,
    as_expr,
    compute,
    fresh,
    guard,
    inside,
    substitute,
    tensor,
    total,
)
from tensmith.formula.poly import Dim, Poly
from tensmith.ir.op import OPS, Symbolic
from tensmith.kernel.algorithm import Kernel
from tensmith.kernel.algorithms.depthwise import Depthwise
from tensmith.kernel.algorithms.direct import Direct
from tensmith.kernel.algorithms.gemm import GemmKernel
from tensmith.kernel.algorithms.spatial_pack import SpatialPack
from tensmith.kernel.buffer import Halo
from tensmith.kernel.groups import wide_groups
from tensmith.kernel.nest import (
    LANE,
    TOGETHER,
    Axis,
    Fetched,
    ForEach,
    MultiplyAdd,
    Registers,
    Step,
    SumOver,
)
from tensmith.kernel.planes import PlaneKernel
from tensmith.kernel.problem import ConvolutionProblem

# Of bytes, any number: it stands for a scalar that formulas know nothing of.
ZERO_POINT = Read("zero_point", ())


def image(problem: ConvolutionProblem) -> Formula:
    """x[c, i, j]."""
    return tensor("x", problem.channels, problem.height, problem.width)


def filters(problem: ConvolutionProblem) -> Formula:
    """w[k, c, u, v]."""
    return tensor("w", problem.filters, problem.channels // problem.groups, *problem.window)


def meaning(problem: ConvolutionProblem) -> Formula:
    """y[k, i, j] as the op's own formula has it; of bytes, the convolution of x - zero_point."""
    x, zero = image(problem), ZERO_POINT if problem.dtype == "u8" else as_expr(0)
    batch = compute((1, *x.shape), lambda _, *at: x[at] - zero)
    attrs = {
        "kernel_shape": None, "strides": problem.strides, "dilations": problem.dilations,
        "pads": problem.pads, "group": problem.groups, "auto_pad": "NOTSET",
    }  # fmt: skip
    (y,) = OPS["conv"].formula(Symbolic(attrs, (batch, filters(problem))))
    return compute(y.shape[1:], lambda *at: y[(0, *at)])


def laid(problem: ConvolutionProblem, block: int, offset: int = 0, halo: Halo | None = None) -> Formula:
    """x as kernels read it, at [block of channels, row, column, place], from where the halo begins.

    Places past a block are those of the next columns. The halo (the pads, if none is given) holds zeros, or
    the zero point of bytes, all `offset` less than they were. Beyond it, and in lanes past the channels, lies
    something unknown.
    """
    x, (top, left, bottom, right) = image(problem), halo or problem.pads
    size = (problem.height + top + bottom, problem.width + left + right)
    border = ZERO_POINT if problem.dtype == "u8" else as_expr(0)

    def element(*place: Poly) -> Expr:
        at, row, column, lane = place
        channel, column = at * block + lane % block, column + lane // block
        i, j, unknown = row - top, column - left, Read("unknown", place)
        known = border + guard(
            [*inside(i, problem.height), *inside(j, problem.width)], x[channel, i, j] - border
        )
        there = [*inside(row, size[0]), *inside(column, size[1]), problem.channels - 1 - channel]
        return Choose(tuple(there), known - offset, unknown)

    return compute((-(-problem.channels // block), *size, block), element)


def widened(problem: ConvolutionProblem, lanes: int) -> Formula:
    """[wide group, filter, channel, *window]: what `widen_groups` makes, zeros off the diagonal."""
    groups, channels, count = wide_groups(problem, lanes)
    w, joined = filters(problem), problem.groups // groups
    own_filters, own_channels = count // joined, channels // joined

    def element(group: Poly, k: Poly, c: Poly, u: Poly, v: Poly) -> Expr:
        own = c - k // own_filters * own_channels if joined > 1 else c
        return guard(inside(own, own_channels) if joined > 1 else (), w[group * count + k, own, u, v])

    return compute((groups, count, channels, *problem.window), element)


def rows_of_bytes(w: Formula) -> Formula:
    """w[group, filter, channel, *window] as [group, filter, byte of a row, row, 1], rows channels last."""
    groups, count, channels, tall, wide = w.shape

    def element(group: Poly, k: Poly, byte: Poly, u: Poly, _: Poly) -> Expr:
        return w[group, k, byte % channels, u, byte // channels]

    return compute((groups, count, channels * wide, tall, 1), element)


def started(sums: Formula, problem: ConvolutionProblem, offset: int) -> Formula:
    """Sums of lowered bytes with what each filter starts from: (offset - zero point) * sum(w)."""
    w = filters(problem)

    def element(k: Poly, i: Poly, j: Poly) -> Expr:
        weights = total(w.shape[1:], lambda *at: w[(k, *at)])
        return sums[k, i, j] + (as_expr(offset) - ZERO_POINT) * weights

    return compute(sums.shape, element)


def over(axis: Axis, body: Expr) -> Expr:
    """The sum of `body` over an axis."""
    if axis.ragged:
        outer, full, rest = axis.ragged
        body = guard([(full - Poly.symbol(outer)) * axis.extent + rest - 1 - axis.poly], body)
    for one in reversed(axis.joins or (axis,)):
        var = fresh()
        body = Reduce("sum", var, Poly.of(one.extent), substitute(body, {one.var: Poly.symbol(var)}))
    return body


def summed(step: Step, tensors: Mapping[str, Formula], at: Mapping[str, Dim]) -> Expr:
    """What the sums of a nest come to, for values `at` of the axes that are not summed over."""
    return substitute(_summed(step, tensors), at)


def _summed(step: Step, tensors: Mapping[str, Formula]) -> Expr:
    def read(value: Fetched | Registers) -> Expr:
        operand = value.operand if isinstance(value, Fetched) else value.fetched.operand
        return tensors[operand.name][operand.index]

    match step:
        case SumOver(axis, steps):
            return over(axis, sum((_summed(each, tensors) for each in steps), ZERO))
        case ForEach(_, steps):
            return sum((_summed(each, tensors) for each in steps), ZERO)
        case MultiplyAdd(_, left, right, _, together):
            product = read(left) * read(right)
            return total(together, lambda e: substitute(product, {TOGETHER: e}))
    return ZERO


def formula(kernel: Kernel) -> Formula:
    """What y[k, i, j] is to sum: the nest of `kernel`, of a tile at every position."""
    return _FORMULAS[type(kernel)](kernel)


def _depthwise(kernel: Depthwise) -> Formula:
    """Channel k is lane k % lanes of block k // lanes."""
    p, lanes, w = kernel.problem, kernel.isa.lanes, filters(kernel.problem)
    packed = compute(
        (-(-p.filters // lanes), *p.window, lanes), lambda at, u, v, lane: w[at * lanes + lane, 0, u, v]
    )
    tensors = {"x": laid(p, lanes), "w": packed}

    def element(k: Poly, i: Poly, j: Poly) -> Expr:
        return summed(kernel._nest((1, 1)), tensors, {"block": k // lanes, LANE: k % lanes, "i": i, "j": j})

    return compute((p.filters, *p.output), element)


def _direct(kernel: Direct) -> Formula:
    return _of_planes(kernel, kernel._nest(kernel.isa.lanes), "x", laid(kernel.problem, 1))


def _gemm(kernel: GemmKernel) -> Formula:
    """Of the columns that are gathered of x."""
    p = kernel.problem
    x, channels = laid(p, 1), p.channels // p.groups
    (down, across), (far, wide) = p.strides, p.dilations

    def gathered(group: Poly, c: Poly, u: Poly, v: Poly, i: Poly, j: Poly) -> Expr:
        return x[group * channels + c, i * down + u * far, j * across + v * wide, 0]

    columns = compute((p.groups, channels, *p.window, *p.output), gathered)
    return _of_planes(kernel, kernel._nest(), "t", columns)


def _of_planes(kernel: PlaneKernel, nest: SumOver, name: str, x: Formula) -> Formula:
    """`name` is the operand that x is."""
    p, tensors = kernel.problem, {name: x, "w": widened(kernel.problem, 1)}
    count = p.filters // p.groups

    def element(k: Poly, i: Poly, j: Poly) -> Expr:
        at: dict[str, Dim] = {"group": k // count, "k": k % count, "i": i, "j": j, "p": 0, LANE: 0}
        return summed(nest, tensors, at)

    return compute((p.filters, *p.output), element)


def _spatial_pack(kernel: SpatialPack) -> Formula:
    p, nest = kernel.problem, kernel._nest((1, 1), 1)
    offset, count = kernel.isa.byte_offset * (p.dtype == "u8"), wide_groups(p, kernel.vector)[2]
    block = kernel.isa.lanes if p.dtype == "bf16" else kernel.block
    tensors = {"x": laid(p, block, offset), "w": _packed(kernel)}

    def element(k: Poly, i: Poly, j: Poly) -> Expr:
        return summed(nest, tensors, {"group": k // count, "k": 0, LANE: k % count, "i": i, "j": j})

    sums = compute((p.filters, *p.output), element)
    return started(sums, p, offset) if p.dtype == "u8" else sums


def _packed(kernel: SpatialPack) -> Formula:
    """What `pack` lays, at [group, channel block, *window, product, filter, channel of the product]."""
    together, (channels, block, *window) = kernel._how.together, kernel._over
    w = widened(kernel.problem, kernel.vector)
    groups, count = w.shape[:2]
    w = rows_of_bytes(w) if kernel._in_runs else w

    def element(group: Poly, cb: Poly, u: Poly, v: Poly, c: Poly, k: Poly, e: Poly) -> Expr:
        place = cb * block + c * together + e
        return guard([channels - 1 - place], w[group, k, place, u, v])

    blocks, products = -(-channels // block), -(-block // together)
    return compute((groups, blocks, *window, products, count, together), element)


_FORMULAS: Mapping[type[Kernel], Callable[..., Formula]] = {
    Depthwise: _depthwise, Direct: _direct, GemmKernel: _gemm, SpatialPack: _spatial_pack,
}  # fmt: skip
