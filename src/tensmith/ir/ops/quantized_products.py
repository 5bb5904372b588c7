"""Matrix products and convolutions of low-bit integers, as i32 sums or requantized onto a grid."""

from __future__ import annotations

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Arith, Array
from tensmith.formula.expr import Expr, Formula, compute, total
from tensmith.formula.poly import Poly
from tensmith.ir.op import Op, Run, Symbolic, Typed, op
from tensmith.ir.ops.convolution import Conv
from tensmith.ir.ops.quantization import centred, to_grid
from tensmith.ir.ops.shared import broadcast_read, broadcast_shapes
from tensmith.ir.types import Shape, TensorType


def requantize(call: Run, sums: Array, channel: int, arith: Arith) -> Array:
    """round(sums * a_scale * b_scale / y_scale) + y_zero_point, saturated.

    The inputs are those of the QLinear ops: a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale,
    y_zero_point. A scale of b with several values goes along axis `channel` of the sums.
    """
    weight_scale = along(call[4], channel, sums.ndim)
    factor = arith.div(arith.mul(along(call[1], 0, 0), weight_scale), along(call[6], 0, 0))
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


def matrix_offset(zero_point: Array | None, left: bool) -> Array | None:
    """A zero point shaped to go along the rows of the left matrix, or the columns of the right one."""
    if zero_point is None or zero_point.size == 1:
        return None if zero_point is None else zero_point.reshape(())
    return zero_point[:, None] if left and zero_point.ndim == 1 else zero_point


def matmul_shape(a: TensorType, b: TensorType) -> Shape | None:
    """The shape of a matrix product with leading axes broadcast, as NumPy's matmul."""
    if a.shape is None or b.shape is None:
        return None
    left = a.shape if len(a.shape) > 1 else (1, *a.shape)
    right = b.shape if len(b.shape) > 1 else (*b.shape, 1)
    if isinstance(left[-1], int) and isinstance(right[-2], int) and left[-1] != right[-2]:
        raise ProgramError(f"a {a} and b {b} do not multiply: {left[-1]} columns, {right[-2]} rows")
    rows = left[-2:-1] if len(a.shape) > 1 else ()
    columns = right[-1:] if len(b.shape) > 1 else ()
    return (*broadcast_shapes(left[:-2], right[:-2]), *rows, *columns)


def matmul_cost(a: TensorType, out: TensorType | None) -> int:
    """Output elements times the inner size."""
    if out is None or out.static is None or a.static is None:
        return 0
    return int(np.prod(out.static)) * a.static[-1]


@op("matmul_integer", onnx="MatMulInteger", since=10)
class MatMulInteger(Op):
    """y = (a - a_zero_point) @ (b - b_zero_point) in i32; zero points default to 0. ONNX MatMulInteger."""

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """The shape of a matrix product."""
        return (TensorType("i32", matmul_shape(call.type(0), call.type(1))),)

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """One matrix product; every type is an integer's, so `arith` is never a field."""
        a = centred(call[0], matrix_offset(call.get(2), True), arith)
        b = centred(call[1], matrix_offset(call.get(3), False), arith)
        return (arith.matmul(a, b).astype(np.int64),)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """The formula of the class docstring, for matrices and one zero point each."""
        a, b, a_zero, b_zero = call[0], call[1], call.get(2), call.get(3)
        if min(a.rank, b.rank) < 2 or any(z is not None and z.rank > 0 for z in (a_zero, b_zero)):
            raise ProgramError("matmul_integer has a formula for matrices and scalar zero points only")

        def element(*at: Poly) -> Expr:
            def term(k: Poly) -> Expr:
                left = broadcast_read(a, (*at[:-1], k))
                right = broadcast_read(b, (*at[:-2], k, at[-1]))
                return (left - (a_zero[()] if a_zero else 0)) * (right - (b_zero[()] if b_zero else 0))

            return total(a.shape[-1], term)

        return (compute((*broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]), element),)

    def cost(self, call: Typed, outputs: tuple[TensorType | None, ...]) -> int:
        """See matmul_cost."""
        return matmul_cost(call.type(0), outputs[0])


@op("q_linear_matmul", onnx="QLinearMatMul", since=10)
class QLinearMatMul(Op):
    """The matrix product of two quantized matrices, on y's grid; see requantize. ONNX QLinearMatMul."""

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """The shape of a matrix product in y_zero_point's element type."""
        return (TensorType(call.type(7).dtype, matmul_shape(call.type(0), call.type(3))),)

    def accepts(self, call: Typed) -> str | None:
        """Integers only; opset 21 also has small floats."""
        return None if call.type(0).dtype[0] in "iu" else f"element type {call.type(0).dtype}"

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """An exact product of integers, then requantized."""
        a = centred(call[0], matrix_offset(call[2], True), arith)
        b = centred(call[3], matrix_offset(call[5], False), arith)
        return (requantize(call, arith.matmul(a, b), -1, arith),)

    def cost(self, call: Typed, outputs: tuple[TensorType | None, ...]) -> int:
        """See matmul_cost."""
        return matmul_cost(call.type(0), outputs[0])


def _convolve(call: Run, x: Array, w: Array, bias: Array | None, arith: Arith) -> Array:
    return Conv().run(Run(call.attrs, (x, w, bias), (), ()), arith)[0]


@op("conv_integer", onnx="ConvInteger", attributes=Conv.attributes, since=10)
class ConvInteger(Conv):
    """y = conv(x - x_zero_point, w - w_zero_point) in i32, zeros padded after the shift. ONNX ConvInteger."""

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """As Conv."""
        (found,) = super().infer(call)
        return (None if found is None else found.with_dtype("i32"),)

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """An exact convolution of integers; every type is an integer's, so `arith` is never a field."""
        x_zero, w_zero = call.get(2), call.get(3)
        x = centred(call[0], None if x_zero is None else x_zero.reshape(()), arith)
        w = centred(call[1], None if w_zero is None else along(w_zero, 0, call[1].ndim), arith)
        return (_convolve(call, x, w, None, arith).astype(np.int64),)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """Conv's formula of the shifted tensors, for scalar zero points."""
        shifted = []
        for q, zero in ((call[0], call.get(2)), (call[1], call.get(3))):
            if zero is not None and zero.rank > 0:
                raise ProgramError("conv_integer has a formula for scalar zero points only")
            shifted.append(q if zero is None else compute(q.shape, lambda *i, q=q, z=zero: q[i] - z[()]))
        return super().formula(Symbolic(call.attrs, tuple(shifted)))


@op("q_linear_conv", onnx="QLinearConv", attributes=Conv.attributes, since=10)
class QLinearConv(Conv):
    """The convolution of quantized x and w plus i32 bias, on y's grid; see requantize. ONNX QLinearConv."""

    @staticmethod
    def _inner(call: Typed) -> Typed:
        return Typed(call.attrs, (call.type(0), call.type(3)), (None, None))

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """As Conv, in y_zero_point's element type."""
        (found,) = super().infer(self._inner(call))
        return (None if found is None else found.with_dtype(call.type(7).dtype),)

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """An exact convolution of integers, then requantized."""
        x = centred(call[0], call[2].reshape(()), arith)
        w = centred(call[3], along(call[5], 0, call[3].ndim), arith)
        bias = call.get(8)
        sums = _convolve(call, x, w, None if bias is None else centred(bias, None, arith), arith)
        return (requantize(call, sums, 1, arith),)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """None: the range that saturates is the output's element type's, which a formula does not hold."""
        raise ProgramError("op 'q_linear_conv' has no formula")

    def cost(self, call: Typed, outputs: tuple[TensorType | None, ...]) -> int:
        """As Conv."""
        return super().cost(self._inner(call), outputs)
