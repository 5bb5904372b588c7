"""Reductions over axes: y = after(kind(before(x))), each part a line of meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from tensmith.formula.arith import Arith, Array
from tensmith.formula.expr import Formula
from tensmith.formula.poly import Dim
from tensmith.formula.scalars import predicate
from tensmith.ir.op import Attrs, Op, Run, Symbolic, Typed, op
from tensmith.ir.ops.shared import normal_axis
from tensmith.ir.tensors import FORMULAS, T, Tensors, count, reduce_over, shape_of, where, widen
from tensmith.ir.types import Shape, TensorType

# (arithmetic, tensor) -> tensor, element by element.
Step = Callable[[Any, Any], Any]
_ATTRIBUTES = {"keepdims": 1, "noop_with_empty_axes": 0}


class Reduction(Op):
    """y = after(kind over axes of before(x)). Inputs: x, axes (int64, optional: all, or none if noop)."""

    kind: ClassVar[str]
    before: ClassVar[Step | None] = None
    after: ClassVar[Step | None] = None
    average: ClassVar[bool] = False

    @property
    def takes(self) -> str:
        """sum, mean, max, min or prod where elements are reduced as they are, else ""."""
        if self.before or self.after:
            return ""
        return "mean" if self.average else self.kind

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """Reduced axes are dropped, or of size 1 with keepdims; the shape is unknown if the axes are."""
        x = call.type(0)
        if x.shape is None or (call.has(1) and call.ints(1) is None):
            return (x.with_shape(None),)
        axes = _axes(call.ints(1), call.attrs, len(x.shape))
        return (x.with_shape(reduced(x.shape, axes, bool(call.attrs["keepdims"]))),)

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """NumPy's reductions, 16-bit sums in 32 bits; one axis at a time in an exact arithmetic."""
        axes = call.get(1)
        known = None if axes is None else axes.reshape(-1)
        return (self.reduce(arith, widen(call[0]), known, call.attrs),)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """Nested reductions."""
        axes = None if call.get(1) is None else call.value(1).reshape(-1)
        return (self.reduce(FORMULAS, call[0], axes, call.attrs),)

    def reduce(self, m: Tensors[T], x: T, axes: Any, attrs: Attrs) -> T:
        """The meaning, on arrays or formulas."""
        over = _axes(axes, attrs, len(shape_of(x)))
        kind = type(self)
        y = kind.before(m, x) if kind.before else x
        y = reduce_over(m, kind.kind, y, over, bool(attrs["keepdims"]))
        if kind.average:
            y = m.div(y, count(m, x, over))
        return kind.after(m, y) if kind.after else y


def _axes(axes: Any, attrs: Attrs, rank: int) -> tuple[int, ...]:
    if axes is None or len(axes) == 0:
        return () if attrs["noop_with_empty_axes"] else tuple(range(rank))
    return tuple(sorted({normal_axis(int(axis), rank) for axis in axes}))


def reduced(shape: Shape, axes: tuple[int, ...], keepdims: bool) -> Shape:
    """The shape after reducing some axes."""
    one: Dim = 1
    if keepdims:
        return tuple(one if axis in axes else size for axis, size in enumerate(shape))
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


def _reduction(onnx: str, name: str, kind: str, formula: str, *, moved: int = 18, **parts: Any) -> None:
    steps = {key: staticmethod(part) if callable(part) else part for key, part in parts.items()}
    doc = f"y = {formula}. ONNX {onnx}."
    declared = type(onnx, (Reduction,), {"__doc__": doc, "__module__": __name__, "kind": kind, **steps})
    op(name, onnx=onnx, attributes=_ATTRIBUTES, moved={"axes": (1, moved)})(declared)


_reduction("ReduceSum", "reduce_sum", "sum", "sum(x)", moved=13, ring=True)
_reduction("ReduceMean", "reduce_mean", "sum", "sum(x) / n", average=True, cuts=True)
_reduction("ReduceMax", "reduce_max", "max", "max(x)")
_reduction("ReduceMin", "reduce_min", "min", "min(x)")
_reduction("ReduceProd", "reduce_prod", "prod", "product(x)", ring=True)
_reduction("ReduceL1", "reduce_l1", "sum", "sum(|x|)", before=lambda m, x: m.call("abs", x))
_reduction(
    "ReduceL2", "reduce_l2", "sum", "sqrt(sum(x * x))",
    before=lambda m, x: m.mul(x, x), after=lambda m, y: m.call("sqrt", y), cuts=True,
)  # fmt: skip
_reduction("ReduceSumSquare", "reduce_sum_square", "sum", "sum(x * x)", before=lambda m, x: m.mul(x, x))
_reduction(
    "ReduceLogSum", "reduce_log_sum", "sum", "log(sum(x))", after=lambda m, y: m.call("log", y), cuts=True
)


@op("reduce_log_sum_exp", onnx="ReduceLogSumExp", attributes=_ATTRIBUTES, moved={"axes": (1, 18)})
class LogSumExp(Reduction):
    """y = log(sum(exp(x))). ONNX ReduceLogSumExp."""

    cuts = True

    @property
    def takes(self) -> str:
        """Nothing as it is."""
        return ""

    def reduce(self, m: Tensors[T], x: T, axes: Any, attrs: Attrs) -> T:
        """max + log(sum(exp(x - max))), which does not overflow; an infinite maximum stays where it is."""
        over = _axes(axes, attrs, len(shape_of(x)))

        def largest(keepdims: bool) -> T:
            top = reduce_over(m, "max", x, over, keepdims)
            return where(predicate(m, "isinf", top), m.const(0, top), top)

        kept = bool(attrs["keepdims"])
        powers = reduce_over(m, "sum", m.call("exp", m.sub(x, largest(True))), over, kept)
        return m.add(m.call("log", powers), largest(kept))


class ArgExtreme(Op):
    """The int64 position of the largest or smallest element along an axis: the first, or last, of equals."""

    largest: ClassVar[bool]

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """One axis dropped, or of size 1."""
        x = call.type(0)
        if x.shape is None:
            return (TensorType("i64", None),)
        axis = normal_axis(call.attrs["axis"], len(x.shape))
        return (TensorType("i64", reduced(x.shape, (axis,), bool(call.attrs["keepdims"]))),)

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """NumPy's argmax or argmin; in a field a random position that depends on every element."""
        x = call[0]
        axis = normal_axis(call.attrs["axis"], x.ndim)
        last = bool(call.attrs["select_last_index"])
        y = arg_extreme(x, axis, self.name, last, arith)
        return (np.expand_dims(y, axis) if call.attrs["keepdims"] else y,)


def arg_extreme(x: Array, axis: int, name: str, last: bool, arith: Arith) -> Array:
    """Positions along an axis of arg_max or arg_min, the axis dropped."""
    size = x.shape[axis]
    if arith.exact:
        places = np.arange(size).reshape([-1 if a == axis else 1 for a in range(x.ndim)])
        marks = arith.call(f"{name}/last" if last else name, x, arith.const(places))
        return np.asarray(arith.sum(marks, axis) % size)
    find = np.argmax if name == "arg_max" else np.argmin
    if last:
        return np.asarray(size - 1 - find(np.flip(x, axis), axis=axis))
    return np.asarray(find(x, axis=axis)).astype(np.int64)


_POSITION = {"axis": 0, "keepdims": 1, "select_last_index": 0}


@op("arg_max", onnx="ArgMax", attributes=_POSITION)
class ArgMax(ArgExtreme):
    """The position of the largest element along `axis`. ONNX ArgMax."""

    largest = True


@op("arg_min", onnx="ArgMin", attributes=_POSITION)
class ArgMin(ArgExtreme):
    """The position of the smallest element along `axis`. ONNX ArgMin."""

    largest = False
