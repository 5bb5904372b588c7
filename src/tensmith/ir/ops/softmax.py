"""Softmax, its logarithm, and the one-hot maximum, along one axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensmith.formula.arith import Arith, Array
from tensmith.formula.expr import Formula
from tensmith.ir.op import Op, Run, Symbolic, Typed, op
from tensmith.ir.ops.reduction import arg_extreme
from tensmith.ir.ops.shared import normal_axis
from tensmith.ir.tensors import FORMULAS, T, Tensors, reduce_over, shape_of
from tensmith.ir.types import TensorType

# Exporters write a finite number below this for minus infinity in masks; and what it takes to read it so.
LEFT_OUT = -1e30
MASKED = "a constant below -1e30 that is added before a softmax leaves its place out, as minus infinity does"


def softmax(m: Tensors[T], x: T, axis: int) -> T:
    """exp(x - max(x)) / sum(exp(x - max(x)))."""
    powers = m.call("exp", m.sub(x, reduce_over(m, "max", x, (axis,))))
    return m.div(powers, reduce_over(m, "sum", powers, (axis,)))


def log_softmax(m: Tensors[T], x: T, axis: int) -> T:
    """x - max(x) - log(sum(exp(x - max(x))))."""
    shifted = m.sub(x, reduce_over(m, "max", x, (axis,)))
    return m.sub(shifted, m.call("log", reduce_over(m, "sum", m.call("exp", shifted), (axis,))))


class AlongAxis(Op):
    """y = meaning(x) along `axis`; x's shape and element type."""

    meaning: Any

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """x's type."""
        x = call.type(0)
        if x.shape is not None:
            normal_axis(call.attrs["axis"], len(x.shape))
        return (x,)

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """The meaning on arrays; nothing to do where there are no elements."""
        x = call[0]
        return (x if x.size == 0 else type(self).meaning(arith, x, normal_axis(call.attrs["axis"], x.ndim)),)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """The meaning on formulas."""
        x = call[0]
        return (type(self).meaning(FORMULAS, x, normal_axis(call.attrs["axis"], len(shape_of(x)))),)


@op("softmax", onnx="Softmax", attributes={"axis": -1}, since=13)
class Softmax(AlongAxis):
    """y = exp(x - max(x)) / sum(exp(x - max(x))) along `axis`. ONNX Softmax."""

    meaning = staticmethod(softmax)


@op("log_softmax", onnx="LogSoftmax", attributes={"axis": -1}, since=13)
class LogSoftmax(AlongAxis):
    """y = x - max(x) - log(sum(exp(x - max(x)))) along `axis`. ONNX LogSoftmax."""

    meaning = staticmethod(log_softmax)


@op("hardmax", onnx="Hardmax", attributes={"axis": -1}, since=13)
class Hardmax(Op):
    """y = 1 at the first largest element along `axis`, 0 elsewhere. ONNX Hardmax."""

    orders = True

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """x's type."""
        return (call.type(0),)

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """One-hot of arg_max."""
        x = call[0]
        if x.size == 0:
            return (x,)
        axis = normal_axis(call.attrs["axis"], x.ndim)
        places = np.arange(x.shape[axis]).reshape([-1 if a == axis else 1 for a in range(x.ndim)])
        chosen = np.expand_dims(arg_extreme(x, axis, "arg_max", False, arith), axis)
        return (np.asarray(places == chosen).astype(x.dtype),)
