"""Changing the element type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx.numpy_helper

from tensmith.errors import ProgramError
from tensmith.formula.arith import Arith, Array
from tensmith.formula.expr import Expr, Formula, compute
from tensmith.formula.poly import Poly
from tensmith.formula.scalars import EXPRESSIONS
from tensmith.ir.op import REQUIRED, Attrs, Node, Op, Run, Symbolic, Typed, op
from tensmith.ir.ops.sizes import onnx_dtype
from tensmith.ir.types import DTYPES, TensorType

if TYPE_CHECKING:
    from tensmith.ir.elements import Elements, I, V

_SATURATING = ("f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz")


def _is_float(dtype: str) -> bool:
    return TensorType(dtype, ()).floating


def convert(x: Array, dtype: str, arith: Arith, was_float: bool, attrs: Attrs) -> Array:
    """x in another element type; see ONNX Cast for `saturate` and `round_mode`, which rule 8-bit floats.

    In an exact arithmetic a float type change is the identity, an integer becomes itself, and rounding a
    real number to an integer is an opaque function.
    """
    if arith.exact:
        return _convert_exactly(x, dtype, arith, was_float)
    if x.dtype == object and any(isinstance(item, Poly) for item in x.flat):
        if dtype not in ("i64", "i32", "u64"):
            raise ProgramError(f"symbolic sizes have no value as {dtype}")
        return x
    if dtype == "string":
        raise ProgramError("numbers are written as text by each runtime in its own way")
    if dtype in _SATURATING and attrs["saturate"]:
        return np.asarray(onnx.numpy_helper.saturate_cast(x, DTYPES[dtype]))
    if dtype == "f8e8m0":
        wide = x.astype(np.float32)
        return np.asarray(
            onnx.numpy_helper.to_float8e8m0(wide, bool(attrs["saturate"]), attrs["round_mode"])
        ).astype(DTYPES[dtype])
    return np.asarray(x.astype(DTYPES[dtype]))


def _convert_exactly(x: Array, dtype: str, arith: Arith, was_float: bool) -> Array:
    if _is_float(dtype):
        return x if was_float else arith.const(x)
    if not was_float:
        return np.asarray(x.astype(DTYPES[dtype]))
    if dtype == "bool":
        return np.asarray(~arith.compare("equal", x, arith.const(0.0)))
    return arith.call("trunc", x)


def _formula(x: Formula, dtype: str) -> Formula:
    def element(*at: Any) -> Expr:
        value, zero = x[at], EXPRESSIONS.const(0)
        if _is_float(dtype):
            return value
        if dtype == "bool":
            return EXPRESSIONS.const(1) - EXPRESSIONS.compare("equal", value, zero)
        return EXPRESSIONS.call("trunc", value)

    return compute(x.shape, element)


class Conversion(Op):
    """x in another element type."""

    def accepts(self, call: Typed) -> str | None:
        """No text: runtimes write numbers, and what is none, in their own ways."""
        if "string" in (call.type(0).dtype, self.target(call)):
            return "text that becomes numbers, or numbers that become text"
        return None

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """x's shape."""
        return (call.type(0).with_dtype(self.target(call)),)

    def target(self, call: Typed) -> str:
        """The element type of y."""
        raise NotImplementedError


@op("cast", onnx="Cast", attributes={"to": REQUIRED, "saturate": 1, "round_mode": "up"})
class Cast(Conversion):
    """y = x in the element type with ONNX number `to`, rounded to nearest, or truncated to integers.

    The formula is that of a real number: x itself in any float type. ONNX Cast.
    """

    def target(self, call: Typed) -> str:
        """As the attribute says."""
        return onnx_dtype(call.attrs["to"])

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """See convert."""
        source = call.types[0]
        was_float = source is not None and source.floating
        dtype = onnx_dtype(call.attrs["to"])
        return (convert(call[0], dtype, arith, was_float, call.attrs),)

    def element(self, m: Elements[V, I], node: Node, at: tuple[I, ...]) -> V:
        """x, converted."""
        return m.cast(m.at(node.inputs[0], at), node)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """x, x != 0, or trunc(x)."""
        return (_formula(call[0], onnx_dtype(call.attrs["to"])),)


@op("cast_like", onnx="CastLike", attributes={"saturate": 1, "round_mode": "up"})
class CastLike(Conversion):
    """y = x in the element type of the second input. ONNX CastLike. No formula: it has no types."""

    def target(self, call: Typed) -> str:
        """That of the second input."""
        return call.type(1).dtype

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """See convert."""
        source, target = call.types[0], call.types[1]
        if source is None or target is None:
            raise ProgramError("cast_like needs both inputs")
        return (convert(call[0], target.dtype, arith, source.floating, call.attrs),)
