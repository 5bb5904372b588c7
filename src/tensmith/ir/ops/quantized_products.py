"""Matrix products and convolutions of low-bit integers, as i32 sums or requantized onto a grid."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Arith, Array
from tensmith.formula.expr import Expr, Formula, compute
from tensmith.formula.expr import call as opaque
from tensmith.formula.poly import Dim, Poly
from tensmith.ir.op import Attrs, Op, Run, Symbolic, Typed, op
from tensmith.ir.ops.convolution import Conv, Convolution, check_bias
from tensmith.ir.ops.matmul import MatMul
from tensmith.ir.ops.quantization import centred, integer_range, read_over_axis, to_grid
from tensmith.ir.ops.shared import may_equal
from tensmith.ir.types import TensorType


def requantize(call: Run, sums: Array, channel: int, arith: Arith) -> Array:
    """round(sums * a_scale * b_scale / y_scale) + y_zero_point, saturated.

    The inputs are those of the QLinear ops: a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale,
    y_zero_point. A scale of b with several values goes along axis `channel` of the sums. Scales are
    multiplied in f32 at least.
    """
    scales: tuple[Array, ...] = (call[1], call[4], call[6])
    if not arith.exact:
        scales = tuple(scale.astype(np.result_type(scale, np.float32)) for scale in scales)
    a_scale, b_scale, y_scale = scales
    factor = arith.mul(along(a_scale, 0, 0), along(b_scale, channel, sums.ndim))
    factor = arith.div(factor, along(y_scale, 0, 0))
    y_type = call.types[7]
    assert y_type is not None
    return to_grid(arith.mul(sums, factor), along(call[7], 0, 0), y_type.dtype, arith)


def along(parameter: Array, axis: int, rank: int) -> Array:
    """A scalar, or a vector shaped to go along one axis of a tensor of the given rank."""
    if parameter.size == 1:
        return parameter.reshape(())
    if rank == 0:
        raise ProgramError(f"a scale or zero point of {parameter.size} values stands where one is needed")
    return parameter.reshape(tuple(-1 if d == axis % rank else 1 for d in range(rank)))


def check_along(call: Typed, index: int, size: Dim) -> None:
    """ProgramError where a scale or zero point is a vector, and not of one number or of an axis's size."""
    shape = call.type(index).shape if call.has(index) else None
    if shape is not None and len(shape) == 1 and shape[0] != 1 and not may_equal(shape, (size,)):
        raise ProgramError(f"input {index} is {call.type(index)}, along an axis of size {size}")


def _check_matrices(call: Typed, left: Sequence[int], b: int, right: Sequence[int]) -> None:
    """check_along of what goes along the rows of input 0 or the columns of input `b`."""
    for matrix, axis, given in ((0, -2, left), (b, -1, right)):
        shape = call.type(matrix).shape
        size = shape[axis] if shape is not None and len(shape) > 1 else 1
        for index in given if shape is not None else ():
            check_along(call, index, size)


def matrix_offset(zero_point: Array | None, left: bool) -> Array | None:
    """A zero point shaped to go along the rows of the left matrix, or the columns of the right one."""
    if zero_point is None or zero_point.size == 1:
        return None if zero_point is None else zero_point.reshape(())
    return zero_point[:, None] if left and zero_point.ndim == 1 else zero_point


def _matrices(call: Typed, b: int) -> Typed:
    """The use as MatMul would see it; `b` is the position of the right matrix."""
    return Typed({}, (call.type(0), call.type(b)), (None, None))


def _shifted(q: Formula, zero_point: Formula | None, axis: int) -> Formula:
    """q - zero_point, one for all or one along an axis."""
    if zero_point is None:
        return q
    if zero_point.rank > 1:
        raise ProgramError("the formula of an integer product takes zero points along one axis only")
    return compute(q.shape, lambda *i: q[i] - read_over_axis(zero_point, i, _along(axis)))


def _along(axis: int) -> Attrs:
    return {"axis": axis, "block_size": 0}


def _requantized(call: Symbolic, sums: Formula, channel: int) -> tuple[Formula, ...]:
    """See requantize."""
    bounds = integer_range(call.dtype(7))
    if bounds is None or any(call[i].rank > 1 for i in (1, 4, 6, 7)):
        raise ProgramError("the formula of an integer product takes scales along one axis only")

    def element(*at: Poly) -> Expr:
        a, b, y, zero = (read_over_axis(call[i], at, _along(channel)) for i in (1, 4, 6, 7))
        value = opaque("round", sums[at] * (a * b / y)) + zero
        return opaque("minimum", opaque("maximum", value, bounds[0]), bounds[1])

    return (compute(sums.shape, element),)


@op("matmul_integer", onnx="MatMulInteger", since=10)
class MatMulInteger(Op):
    """y = (a - a_zero_point) @ (b - b_zero_point) in i32; zero points default to 0. ONNX MatMulInteger."""

    def presumes(self, call: Typed) -> bool:
        """As MatMul."""
        return MatMul().presumes(_matrices(call, 1))

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """The shape of a matrix product."""
        (found,) = MatMul().infer(_matrices(call, 1))
        _check_matrices(call, (2,), 1, (3,))
        return (None if found is None else found.with_dtype("i32"),)

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """One matrix product; every type is an integer's, so `arith` is never a field."""
        a = centred(call[0], matrix_offset(call.get(2), True), arith)
        b = centred(call[1], matrix_offset(call.get(3), False), arith)
        return (arith.matmul(a, b).astype(np.int64),)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """MatMul's formula of the shifted tensors."""
        a, b = _shifted(call[0], call.get(2), -2), _shifted(call[1], call.get(3), -1)
        return MatMul().formula(Symbolic({}, (a, b)))

    def cost(self, call: Typed, outputs: tuple[TensorType | None, ...]) -> int:
        """As MatMul."""
        return MatMul().cost(_matrices(call, 1), outputs)


@op("q_linear_matmul", onnx="QLinearMatMul", since=10)
class QLinearMatMul(Op):
    """The matrix product of two quantized matrices, on y's grid; see requantize. ONNX QLinearMatMul."""

    def presumes(self, call: Typed) -> bool:
        """As MatMul."""
        return MatMul().presumes(_matrices(call, 3))

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """The shape of a matrix product in y_zero_point's element type."""
        (found,) = MatMul().infer(_matrices(call, 3))
        _check_matrices(call, (2,), 3, (4, 5))
        for index in (1, 6, 7):
            check_along(call, index, 1)
        return (None if found is None else found.with_dtype(call.type(7).dtype),)

    def accepts(self, call: Typed) -> str | None:
        """Integers only; opset 21 also has small floats."""
        return None if call.type(0).dtype[0] in "iu" else f"element type {call.type(0).dtype}"

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """An exact product of integers, then requantized."""
        a = centred(call[0], matrix_offset(call[2], True), arith)
        b = centred(call[3], matrix_offset(call[5], False), arith)
        return (requantize(call, arith.matmul(a, b), -1, arith),)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """MatMul's formula of the shifted tensors, requantized."""
        a, b = _shifted(call[0], call[2], -2), _shifted(call[3], call[5], -1)
        if call[1].rank and call[1].shape[0] != 1:
            raise ProgramError("the formula of an integer product takes one scale for the left matrix")
        return _requantized(call, MatMul().formula(Symbolic({}, (a, b)))[0], -1)

    def cost(self, call: Typed, outputs: tuple[TensorType | None, ...]) -> int:
        """As MatMul."""
        return MatMul().cost(_matrices(call, 3), outputs)


def _convolve(call: Run, x: Array, w: Array, bias: Array | None, arith: Arith) -> Array:
    return Conv().run(Run(call.attrs, (x, w, bias), (), ()), arith)[0]


@op("conv_integer", onnx="ConvInteger", attributes=Conv.attributes, since=10)
class ConvInteger(Convolution):
    """y = conv(x - x_zero_point, w - w_zero_point) in i32, zeros padded after the shift. ONNX ConvInteger."""

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """As Conv."""
        (found,) = super().infer(call)
        check_along(call, 2, 1)
        if w := call.type(1).shape:
            check_along(call, 3, w[0])
        return (None if found is None else found.with_dtype("i32"),)

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """An exact convolution of integers; every type is an integer's, so `arith` is never a field."""
        x_zero, w_zero = call.get(2), call.get(3)
        x = centred(call[0], None if x_zero is None else x_zero.reshape(()), arith)
        w = centred(call[1], None if w_zero is None else along(w_zero, 0, call[1].ndim), arith)
        return (_convolve(call, x, w, None, arith).astype(np.int64),)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """Conv's formula of the shifted tensors."""
        x, w = _shifted(call[0], call.get(2), 0), _shifted(call[1], call.get(3), 0)
        return super().formula(Symbolic(call.attrs, (x, w)))


@op("q_linear_conv", onnx="QLinearConv", attributes=Conv.attributes, since=10)
class QLinearConv(Convolution):
    """The convolution of quantized x and w plus i32 bias, on y's grid; see requantize. ONNX QLinearConv."""

    @staticmethod
    def _inner(call: Typed) -> Typed:
        return Typed(call.attrs, (call.type(0), call.type(3)), (None, None))

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """As Conv, in y_zero_point's element type."""
        (found,) = super().infer(self._inner(call))
        for index in (1, 2, 6, 7):
            check_along(call, index, 1)
        if w := call.type(3).shape:
            check_along(call, 4, w[0])
            check_along(call, 5, w[0])
            check_bias(call, 8, w[0])
        return (None if found is None else found.with_dtype(call.type(7).dtype),)

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """An exact convolution of integers, then requantized."""
        x = centred(call[0], call[2].reshape(()), arith)
        w = centred(call[3], along(call[5], 0, call[3].ndim), arith)
        bias = call.get(8)
        sums = _convolve(call, x, w, None if bias is None else centred(bias, None, arith), arith)
        return (requantize(call, sums, 1, arith),)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """Conv's formula of the shifted tensors and the bias, requantized."""
        x, w = _shifted(call[0], call[2], 0), _shifted(call[3], call[5], 0)
        (sums,) = super().formula(Symbolic(call.attrs, (x, w, call.get(8))))
        return _requantized(call, sums, 1)

    def cost(self, call: Typed, outputs: tuple[TensorType | None, ...]) -> int:
        """As Conv."""
        return super().cost(self._inner(call), outputs)
