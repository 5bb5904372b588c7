"""Ops that act on each element alone, with broadcasting: declared by one line of meaning each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tensmith.formula.arith import Arith, Array
from tensmith.formula.expr import Expr, Formula, call, compute
from tensmith.ir.op import Op, Run, Symbolic, Typed, op
from tensmith.ir.ops.shared import broadcast_read, broadcast_shapes
from tensmith.ir.types import TensorType


class Elementwise(Op):
    """y[i] = element(a[i], b[i], ...), inputs broadcast; the output has the first input's element type."""

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """The broadcast of the shapes."""
        types = [t for t in call.types if t is not None]
        if any(t.shape is None for t in types):
            return (TensorType(types[0].dtype, None),)
        return (TensorType(types[0].dtype, broadcast_shapes(*(t.dims for t in types))),)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """One scalar expression at each position."""
        tensors = [t for t in call.inputs if t is not None]
        shape = broadcast_shapes(*(t.shape for t in tensors))
        return (compute(shape, lambda *i: self.element(call, *(broadcast_read(t, i) for t in tensors))),)

    def element(self, use: Symbolic, *args: Expr) -> Expr:
        """The scalar expression."""
        raise NotImplementedError


def binary(
    name: str, onnx: str, meaning: Callable[[Arith, Array, Array], Array],
    scalar: Callable[[Expr, Expr], Expr], *, commutative: bool = False,
) -> None:  # fmt: skip
    """Declares an op of two arguments."""

    @op(name, onnx=onnx)
    class Binary(Elementwise):
        def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
            return (meaning(arith, call[0], call[1]),)

        def element(self, use: Symbolic, *args: Expr) -> Expr:
            return scalar(args[0], args[1])

    Binary.commutative = commutative
    Binary.__doc__ = f"y = {onnx}(a, b), element by element with broadcasting. ONNX {onnx}."


def unary(name: str, onnx: str, function: str | None = None) -> None:
    """Declares an op of one argument that is a named scalar function."""
    primitive = function or name

    @op(name, onnx=onnx)
    class Unary(Elementwise):
        def run(self, use: Run, arith: Arith) -> tuple[Array, ...]:
            return (arith.call(primitive, use[0]),)

        def element(self, use: Symbolic, *args: Expr) -> Expr:
            return call(primitive, args[0])

    Unary.__doc__ = f"y = {primitive}(x), element by element. ONNX {onnx}."


binary("add", "Add", lambda m, a, b: m.add(a, b), lambda a, b: a + b, commutative=True)
binary("sub", "Sub", lambda m, a, b: m.sub(a, b), lambda a, b: a - b)
binary("mul", "Mul", lambda m, a, b: m.mul(a, b), lambda a, b: a * b, commutative=True)

for _name, _onnx in {
    "exp": "Exp",
    "log": "Log",
    "tanh": "Tanh",
    "erf": "Erf",
    "sin": "Sin",
    "cos": "Cos",
}.items():
    unary(_name, _onnx)


@op("relu", onnx="Relu")
class Relu(Elementwise):
    """y = max(x, 0). ONNX Relu."""

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """Maximum with the constant zero."""
        return (arith.call("maximum", call[0], arith.const(0.0, like=call[0])),)

    def element(self, use: Symbolic, *args: Expr) -> Expr:
        """maximum(x, 0)."""
        return call("maximum", args[0], 0)


@op("identity", onnx="Identity")
class Identity(Elementwise):
    """y = x. ONNX Identity."""

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """The same array."""
        return (np.asarray(call[0]),)

    def element(self, use: Symbolic, *args: Expr) -> Expr:
        """x itself."""
        return args[0]
