"""Kernels in the formula language: the op that they compute, and the arithmetic by which they do.

`meaning` is the convolution of the op; a kernel's `formula` says what its loops are to read and sum. The two
must be equal, which the normal form of formulas proves for all images and weights; of kernels whose formula
is read from the nest that they print (kernel.nest), for all sizes. The others' formulas are written beside
their C: that the C computes them is for tests to show.
"""

from __future__ import annotations

from tensmith.formula.expr import Choose, Expr, Formula, Read, as_expr, compute, guard, inside, tensor, total
from tensmith.formula.poly import Poly
from tensmith.ir.op import OPS, Symbolic
from tensmith.kernel.buffer import Halo
from tensmith.kernel.codes import CODE_BITS
from tensmith.kernel.groups import wide_groups
from tensmith.kernel.problem import ConvolutionProblem

# Of bytes, any number: it stands for a scalar that formulas know nothing of.
ZERO_POINT = Read("zero_point", ())


def image(problem: ConvolutionProblem) -> Formula:
    """x[c, i, j]."""
    return tensor("x", problem.channels, problem.height, problem.width)


def filters(problem: ConvolutionProblem) -> Formula:
    """w[k, c, u, v]; what its codes stand for, where weights are codes."""
    shape = (problem.filters, problem.channels // problem.groups, *problem.window)
    if problem.dtype not in CODE_BITS:
        return tensor("w", *shape)
    code, scale, zero = code_tensors(problem)

    def element(k: Poly, c: Poly, _u: Poly, _v: Poly) -> Expr:
        block = c // problem.block
        return scale[k, block] * (code[k, c] - zero[k, block])

    return compute(shape, element)


def code_tensors(problem: ConvolutionProblem) -> tuple[Formula, Formula, Formula]:
    """code[k, c], scale[k, block], zero[k, block]."""
    blocks = -(-problem.channels // problem.block)
    return (
        tensor("code", problem.filters, problem.channels),
        tensor("scale", problem.filters, blocks),
        tensor("zero", problem.filters, blocks),
    )


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


def tap(problem: ConvolutionProblem, i: Poly, j: Poly, u: Poly, v: Poly) -> tuple[Poly, Poly]:
    """Row and column, from where the pads begin, of what tap (u, v) of output (i, j) reads."""
    (down, across), (far, wide) = problem.strides, problem.dilations
    return i * down + u * far, j * across + v * wide


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
