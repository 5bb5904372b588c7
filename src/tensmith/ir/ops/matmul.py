"""Matrix products: matmul with batch broadcasting, and gemm."""

from __future__ import annotations

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Arith, Array
from tensmith.formula.expr import Formula
from tensmith.formula.poly import Dim
from tensmith.ir.op import Attrs, Run, Symbolic, Typed, op
from tensmith.ir.ops.product import Product
from tensmith.ir.ops.shared import broadcast_shapes, may_broadcast, surely_broadcast
from tensmith.ir.tensors import FORMULAS, T, Tensors, permute
from tensmith.ir.types import Shape, TensorType


@op("matmul", onnx="MatMul")
class MatMul(Product):
    """y[..., i, j] = sum(k; a[..., i, k] * b[..., k, j]), leading axes broadcast. ONNX MatMul.

    a: [..., I, K] or [K]; b: [..., K, J] or [K]; a vector's row or column is dropped from y.
    """

    ring = True

    def filters(self, attrs: Attrs) -> int:
        """Columns."""
        return -1

    def presumes(self, call: Typed) -> bool:
        """Where open sizes of the leading axes meet others."""
        a, b = call.type(0).shape, call.type(1).shape
        return a is None or b is None or not surely_broadcast(a[:-2], b[:-2])

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """Checks that the inner sizes may agree."""
        a, b = call.type(0), call.type(1)
        if a.shape is None or b.shape is None:
            return (a.with_shape(None),)
        if not a.shape or not b.shape:
            raise ProgramError(f"matmul takes no scalars, but is given {a} and {b}")
        _check_depth(a.shape[-1], b.shape[-2 if len(b.shape) > 1 else -1], a, b)
        batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
        columns = b.shape[-1:] if len(b.shape) > 1 else ()
        return (a.with_shape((*batch, *a.shape[-2:-1], *columns)),)

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """The arithmetic's own matrix product."""
        return (arith.matmul(call[0], call[1]),)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """The formula of the class docstring."""
        return (FORMULAS.matmul(call[0], call[1]),)

    def cost(self, call: Typed, outputs: tuple[TensorType | None, ...]) -> int:
        """Output elements times depth."""
        return _cost(outputs[0], call.type(0), -1)


def _check_depth(left: Dim, right: Dim, a: TensorType, b: TensorType) -> None:
    if isinstance(left, int) and isinstance(right, int) and left != right:
        raise ProgramError(f"inner sizes of {a} and {b} differ: {left} and {right}")


def _cost(out: TensorType | None, a: TensorType, depth_axis: int) -> int:
    if out is None or out.static is None or a.static is None:
        return 0
    return int(np.prod(out.static)) * a.static[depth_axis]


@op("gemm", onnx="Gemm", attributes={"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0})
class Gemm(Product):
    """y[i,j] = alpha * sum(k; a[i,k] * b[k,j]) + beta * c[i,j]. ONNX Gemm.

    a: [I, K], or [K, I] with transA; b: [K, J], or [J, K] with transB; c broadcasts to [I, J], optional.
    """

    ring = True

    biased = True

    def filters(self, attrs: Attrs) -> int:
        """Columns, or rows with transB."""
        return 0 if attrs["transB"] else 1

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """[I, J]."""
        a, b = call.type(0), call.type(1)
        if a.shape is None or b.shape is None:
            return (a.with_shape(None),)
        if len(a.shape) != 2 or len(b.shape) != 2:
            raise ProgramError(f"gemm takes matrices, but is given {a} and {b}")
        rows, depth = _turned(a.shape, call.attrs["transA"])
        depth_b, columns = _turned(b.shape, call.attrs["transB"])
        _check_depth(depth, depth_b, a, b)
        c = call.type(2).shape if call.has(2) else None
        if c is not None and not may_broadcast(c, (rows, columns)):
            raise ProgramError(f"c {call.type(2)} does not broadcast to [{rows}, {columns}]")
        return (a.with_shape((rows, columns)),)

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """The meaning on arrays."""
        return (_gemm(arith, call[0], call[1], call.get(2), call.attrs),)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """The meaning on formulas."""
        return (_gemm(FORMULAS, call[0], call[1], call.get(2), call.attrs),)

    def cost(self, call: Typed, outputs: tuple[TensorType | None, ...]) -> int:
        """Output elements times depth."""
        return _cost(outputs[0], call.type(0), 0 if call.attrs["transA"] else 1)


def _turned(shape: Shape, transposed: int) -> Shape:
    return shape[::-1] if transposed else shape


def _gemm(m: Tensors[T], a: T, b: T, c: T | None, attrs: Attrs) -> T:
    left = permute(a, (1, 0)) if attrs["transA"] else a
    right = permute(b, (1, 0)) if attrs["transB"] else b
    y = _scaled(m, m.matmul(left, right), attrs["alpha"])
    return y if c is None else m.add(y, _scaled(m, c, attrs["beta"]))


def _scaled(m: Tensors[T], x: T, factor: float) -> T:
    return x if factor == 1.0 else m.mul(m.const(float(np.float32(factor)), x), x)
