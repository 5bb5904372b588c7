"""Kernels in the formula language: the op that they compute, and the arithmetic by which they do.

`meaning` is the convolution of the op; a kernel's `formula` says what its loops are to read and sum. The two
must be equal, which the normal form of formulas proves for a problem, for all images and weights. Formulas
are written beside the kernels' C, not made of it: that the C computes them is for tests to show.
"""

from __future__ import annotations

from tensmith.formula.expr import Expr, Formula, Read, Scalar, as_expr, compute, guard, inside, tensor, total
from tensmith.formula.poly import Poly
from tensmith.ir.op import OPS, Symbolic
from tensmith.kernel.buffer import Buffer
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


def memory(buffer: Buffer, x: Formula, border: Scalar = 0) -> Formula:
    """What lies at each address: `border` in the halo, something unknown in lanes past the channels."""
    halo = buffer.halo

    def element(address: Poly) -> Expr:
        block, rest = address // buffer.plane, address % buffer.plane
        row, rest = rest // buffer.row, rest % buffer.row
        column, lane = rest // buffer.block, rest % buffer.block
        channel, i, j = block * buffer.block + lane, row - halo.top, column - halo.left
        within = [*inside(i, buffer.height), *inside(j, buffer.width)]
        value = as_expr(border) + guard(within, x[channel, i, j] - as_expr(border))
        beyond = channel - buffer.channels
        return guard([-1 - beyond], value) + guard([beyond], Read("unknown", (address,)))

    return compute((buffer.size,), element)


def in_blocks(y: Formula, block: int) -> Formula:
    """y as [blocks, lanes, height, width], zero in lanes past the channels."""
    channels, *image = y.shape

    def element(at: Poly, lane: Poly, i: Poly, j: Poly) -> Expr:
        channel = at * block + lane
        return guard([channels - 1 - channel], y[channel, i, j])

    return compute((-(-channels // block), block, *image), element)


def window_address(
    problem: ConvolutionProblem, buffer: Buffer, i: Poly, j: Poly, u: Poly | int, v: Poly | int
) -> Poly:
    """Where channel 0 of what tap (u, v) of output (i, j) reads lies."""
    (down, across), (far, wide) = problem.strides, problem.dilations
    corner = buffer.address(0, -problem.pads[0], -problem.pads[1])
    return (
        (i * down + Poly.of(u) * far) * buffer.row + (j * across + Poly.of(v) * wide) * buffer.block + corner
    )


def widened(problem: ConvolutionProblem, lanes: int) -> Formula:
    """[wide group, filter, channel, *window]: what `widen_groups` makes, zeros off the diagonal."""
    groups, channels, count = wide_groups(problem, lanes)
    w, joined = filters(problem), problem.groups // groups
    own_filters, own_channels = count // joined, channels // joined

    def element(group: Poly, k: Poly, c: Poly, u: Poly, v: Poly) -> Expr:
        own = c - k // own_filters * own_channels
        kept = inside(own, own_channels) if joined > 1 else ()
        return guard(kept, w[group * count + k, own, u, v])

    return compute((groups, count, channels, *problem.window), element)


def blocked_sum(
    problem: ConvolutionProblem, lanes: int, source: Buffer, stored: Formula | None = None
) -> Formula:
    """sum(b, u, v, l < block; stored[address of channel b * block + l and the tap] * w), groups joined.

    The last block ends where the channels do. `stored` is the memory of x unless it is given.
    """
    _, channels, count = wide_groups(problem, lanes)
    x, w, block = stored or memory(source, image(problem)), widened(problem, lanes), source.block

    def element(k: Poly, i: Poly, j: Poly) -> Expr:
        group, first = k // count, k // count * (channels // block)

        def product(b: Poly, u: Poly, v: Poly, lane: Poly) -> Expr:
            at = window_address(problem, source, i, j, u, v) + (first + b) * source.plane + lane
            channel = b * block + lane
            return guard([channels - 1 - channel], x[at] * w[group, k % count, channel, u, v])

        return total((-(-channels // block), *problem.window, block), product)

    return compute((problem.filters, *problem.output), element)


def lowered(source: Buffer, problem: ConvolutionProblem, offset: int) -> Formula:
    """Bytes in memory less `offset`, which is how `dot` takes them; the halo holds their zero point."""
    stored = memory(source, image(problem), ZERO_POINT)
    return compute(stored.shape, lambda at: stored[at] - offset)


def started(sums: Formula, problem: ConvolutionProblem, offset: int) -> Formula:
    """Sums of lowered bytes with what each filter starts from: (offset - zero point) * sum(w)."""
    w = filters(problem)

    def element(k: Poly, i: Poly, j: Poly) -> Expr:
        weights = total(w.shape[1:], lambda *at: w[(k, *at)])
        return sums[k, i, j] + (as_expr(offset) - ZERO_POINT) * weights

    return compute(sums.shape, element)
