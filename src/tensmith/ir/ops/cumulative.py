"""Running sums, products, maxima and minima along one axis."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Arith, Array
from tensmith.formula.expr import Expr, Formula, compute, reduce
from tensmith.formula.functions import JOINS
from tensmith.formula.poly import Poly
from tensmith.ir.op import Node, Op, Run, Symbolic, Typed, op
from tensmith.ir.ops.shared import normal_axis
from tensmith.ir.ops.sizes import select
from tensmith.ir.tensors import neutral, reduce_over
from tensmith.ir.types import TensorType

if TYPE_CHECKING:
    from tensmith.ir.elements import Elements, I, V


class Cumulative(Op):
    """y[i] = kind(x[k]; k <= i), or k < i if exclusive, or from the other end if reverse.

    Inputs: x, axis (an int32 or int64 scalar). Before the first element is what `kind` gives of none: of a
    maximum the least number of the type.
    """

    kind: ClassVar[str]

    @property
    def _extreme(self) -> bool:
        return self.kind in ("max", "min")

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """x's type; the axis is one number."""
        x, axis = call.type(0), call.ints(1)
        if call.type(1).static is not None and math.prod(call.type(1).static or ()) != 1:
            raise ProgramError(f"axis {call.type(1)} must be one number")
        if axis is not None and x.shape is not None:
            normal_axis(axis[0], len(x.shape))
        return (x,)

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """One slice after the other."""
        x = call[0]
        axis = normal_axis(int(call[1].reshape(-1)[0]), x.ndim)
        slices = list(np.moveaxis(x, axis, 0))
        if call.attrs["reverse"]:
            slices.reverse()
        dtype = np.dtype(np.float64) if arith.exact else x.dtype
        unit = arith.const(neutral(self.kind, dtype), like=None if arith.exact else x)
        running = [np.broadcast_to(unit, x.shape[:axis] + x.shape[axis + 1 :])]
        if arith.exact and self._extreme:  # there, a maximum of maxima is another function
            starts = (np.stack(slices[: n + 1]) for n in range(len(slices)))
            running += [reduce_over(arith, self.kind, start, (0,), keepdims=False) for start in starts]
        else:
            plain = {"sum": arith.add, "prod": arith.mul}
            join = plain.get(self.kind, partial(arith.call, JOINS[self.kind]))
            for item in slices:
                running.append(np.asarray(join(running[-1], item)))
        kept = running[:-1] if call.attrs["exclusive"] else running[1:]
        if call.attrs["reverse"]:
            kept.reverse()
        return (np.stack(kept, axis) if kept else x,)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """A reduction over the whole axis: beyond i sums take 0, and extremes the element at i again."""
        x = call[0]
        axis = normal_axis(int(call.value(1).reshape(-1)[0]), x.rank)
        margin = 1 if call.attrs["exclusive"] else 0
        if self._extreme and margin:
            raise ProgramError("before the first element there is no extreme that a formula can say")

        def element(*at: Poly) -> Expr:
            def term(k: Poly) -> Expr:
                reach = (k - at[axis] if call.attrs["reverse"] else at[axis] - k) - margin
                value = x[(*at[:axis], k, *at[axis + 1 :])]
                return select((reach,), value, x[at] if self._extreme else int(self.kind == "prod"))

            return reduce(self.kind, (x.shape[axis],), term)

        return (compute(x.shape, element),)

    def element(self, m: Elements[V, I], node: Node, at: tuple[I, ...]) -> V | None:
        """The elements up to the subscript, or from the last down to it, with or without its own."""
        x, given = node.inputs[0], m.program.facts[node.inputs[1]].value
        if given is None:
            return None
        axis, own = normal_axis(int(given.reshape(-1)[0]), len(at)), 0 if node.attrs["exclusive"] else 1
        if not node.attrs["reverse"]:
            count = m.plus(at[axis], m.index(own))
            return m.fold(self.kind, count, lambda k: m.at(x, (*at[:axis], k, *at[axis + 1 :])), node)
        last = m.index(Poly.of(m.dims(x)[axis]) - 1)
        count = m.plus(m.minus(last, at[axis]), m.index(own))
        return m.fold(
            self.kind, count, lambda k: m.at(x, (*at[:axis], m.minus(last, k), *at[axis + 1 :])), node
        )


@op("cum_sum", onnx="CumSum", attributes={"exclusive": 0, "reverse": 0})
class CumSum(Cumulative):
    """y[i] = sum(k <= i; x[k]) along an axis. ONNX CumSum."""

    ring = True

    kind = "sum"


@op("cum_prod", onnx="CumProd", attributes={"exclusive": 0, "reverse": 0})
class CumProd(Cumulative):
    """y[i] = product(k <= i; x[k]) along an axis. ONNX CumProd."""

    ring = True

    kind = "prod"


@op("cum_max", attributes={"exclusive": 0, "reverse": 0})
class CumMax(Cumulative):
    """y[i] = max(k <= i; x[k]) along an axis. ONNX has no such operator."""

    kind = "max"


@op("cum_min", attributes={"exclusive": 0, "reverse": 0})
class CumMin(Cumulative):
    """y[i] = min(k <= i; x[k]) along an axis. ONNX has no such operator."""

    kind = "min"
