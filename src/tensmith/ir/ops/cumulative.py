"""Running sums and products along one axis."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Arith, Array
from tensmith.formula.expr import Expr, Formula, compute, reduce
from tensmith.formula.poly import Poly
from tensmith.ir.op import Node, Op, Run, Symbolic, Typed, op
from tensmith.ir.ops.shared import normal_axis
from tensmith.ir.ops.sizes import select
from tensmith.ir.types import TensorType

if TYPE_CHECKING:
    from tensmith.ir.elements import Elements, I, V


class Cumulative(Op):
    """y[i] = kind(x[k]; k <= i), or k < i if exclusive, or from the other end if reverse.

    Inputs: x, axis (an int32 or int64 scalar).
    """

    kind: ClassVar[str]

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
        combine = arith.add if self.kind == "sum" else arith.mul
        unit = arith.const(0 if self.kind == "sum" else 1, like=x)
        running = [np.broadcast_to(unit, x.shape[:axis] + x.shape[axis + 1 :])]
        for item in slices:
            running.append(np.asarray(combine(running[-1], item)))
        kept = running[:-1] if call.attrs["exclusive"] else running[1:]
        if call.attrs["reverse"]:
            kept.reverse()
        return (np.stack(kept, axis) if kept else x,)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """A reduction over the whole axis, guarded by k <= i."""
        x = call[0]
        axis = normal_axis(int(call.value(1).reshape(-1)[0]), x.rank)
        margin = 1 if call.attrs["exclusive"] else 0

        def element(*at: Poly) -> Expr:
            def term(k: Poly) -> Expr:
                reach = (k - at[axis] if call.attrs["reverse"] else at[axis] - k) - margin
                value = x[(*at[:axis], k, *at[axis + 1 :])]
                return select((reach,), value, 0 if self.kind == "sum" else 1)

            return reduce(self.kind, (x.shape[axis],), term)

        return (compute(x.shape, element),)

    def element(self, m: Elements[V, I], node: Node, at: tuple[I, ...]) -> V | None:
        """The elements up to the subscript, or from it on, with or without its own."""
        x, given = node.inputs[0], m.program.facts[node.inputs[1]].value
        if given is None:
            return None
        axis, own = normal_axis(int(given.reshape(-1)[0]), len(at)), 0 if node.attrs["exclusive"] else 1
        first, count = m.zero, m.plus(at[axis], m.index(own))
        if node.attrs["reverse"]:
            first = m.plus(at[axis], m.index(1 - own))
            count = m.minus(m.index(m.dims(x)[axis]), first)
        return m.fold(
            self.kind, count, lambda k: m.at(x, (*at[:axis], m.plus(first, k), *at[axis + 1 :])), node
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
