"""Comparison, Boolean and bitwise ops, selection by value, and tests for NaN and infinity."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Arith, Array
from tensmith.formula.poly import Dim, Poly
from tensmith.formula.scalars import Scalars, T, predicate
from tensmith.formula.scalars import where as choose
from tensmith.ir.op import REQUIRED, Attrs, Run, Typed, op
from tensmith.ir.ops.elementwise import Elementwise, elementwise
from tensmith.ir.ops.sizes import lower_bound


class Comparison(Elementwise):
    """y = whether a relation holds; of sizes where every value of the symbols gives the same answer."""

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """The relation element by element; sizes are compared by their bounds."""
        a, b = call[0], call[1]
        sizes = not arith.exact and any(isinstance(item, Poly) for x in (a, b) for item in x.flat)
        if not sizes:
            return super().run(call, arith)
        return (np.asarray(np.frompyfunc(_SIZES[self.name], 2, 1)(a, b)).astype(np.bool_),)


def _surely_above(a: Dim, b: Dim, least: int) -> bool:
    bound = lower_bound(Poly.of(a) - b)
    return bound is not None and bound >= least


def _size_less(a: Dim, b: Dim) -> bool:
    if _surely_above(b, a, 1):
        return True
    if _surely_above(a, b, 0):
        return False
    raise ProgramError(f"whether {a} < {b} depends on the sizes")


def _size_equal(a: Dim, b: Dim) -> bool:
    if Poly.of(a) == Poly.of(b):
        return True
    if _surely_above(a, b, 1) or _surely_above(b, a, 1):
        return False
    raise ProgramError(f"whether {a} equals {b} depends on the sizes")


_SIZES: dict[str, Any] = {
    "equal": _size_equal,
    "less": _size_less,
    "greater": lambda a, b: _size_less(b, a),
    "less_or_equal": lambda a, b: not _size_less(b, a),
    "greater_or_equal": lambda a, b: not _size_less(a, b),
}


def _comparison(onnx: str, name: str, relation: str, sign: str) -> None:
    def meaning(m: Scalars[T], a: T, b: T) -> T:
        return m.compare(relation, a, b)

    meaning.__doc__ = f"y = a {sign} b."
    declare = elementwise(
        onnx, name, function=relation, result="bool", commutative=relation == "equal", base=Comparison
    )
    declare(meaning)


_comparison("Equal", "equal", "equal", "==")
_comparison("Less", "less", "less", "<")
_comparison("Greater", "greater", "greater", ">")
_comparison("LessOrEqual", "less_or_equal", "less_equal", "<=")
_comparison("GreaterOrEqual", "greater_or_equal", "greater_equal", ">=")


class Logical(Elementwise):
    """A Boolean function; its formula is the polynomial that has its values at 0 and 1."""

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """NumPy's logical function: Booleans are themselves in every arithmetic."""
        return (np.asarray(_LOGICAL[self.name](*(np.asarray(x).astype(np.bool_) for x in call.inputs))),)


_LOGICAL = {"not": np.logical_not, "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


@elementwise("Not", "not", function="not", result="bool", base=Logical)
def negation(m: Scalars[T], a: T) -> T:
    """y = 1 - a."""
    return m.sub(m.const(1, a), a)


@elementwise("And", "and", function="and", result="bool", commutative=True, base=Logical)
def conjunction(m: Scalars[T], a: T, b: T) -> T:
    """y = a b."""
    return m.mul(a, b)


@elementwise("Or", "or", function="or", result="bool", commutative=True, base=Logical)
def disjunction(m: Scalars[T], a: T, b: T) -> T:
    """y = a + b - a b."""
    return m.sub(m.add(a, b), m.mul(a, b))


@elementwise("Xor", "xor", function="xor", result="bool", commutative=True, base=Logical)
def exclusive(m: Scalars[T], a: T, b: T) -> T:
    """y = a + b - 2 a b."""
    return m.sub(m.add(a, b), m.mul(m.const(2, a), m.mul(a, b)))


@elementwise("Where", function="where", like=1, carries=True)
def where(m: Scalars[T], condition: T, a: T, b: T) -> T:
    """y = a where the condition holds, else b."""
    return choose(condition, a, b)


@elementwise("IsNaN", "isnan", function="isnan", result="bool")
def isnan(m: Scalars[T], x: T) -> T:
    """y = whether x is NaN."""
    return predicate(m, "isnan", x)


@op("isinf", onnx="IsInf", attributes={"detect_negative": 1, "detect_positive": 1})
class IsInf(Elementwise):
    """y = whether x is infinite, of the signs asked for. ONNX IsInf."""

    result = "bool"

    def accepts(self, call: Typed) -> str | None:
        """At least one sign is asked for."""
        if call.attrs["detect_negative"] or call.attrs["detect_positive"]:
            return None
        return "detect_negative and detect_positive are both 0"

    def _apply(self, m: Any, attrs: Attrs, *args: Any) -> Any:
        if attrs["detect_negative"] and attrs["detect_positive"]:
            return predicate(m, "isinf", args[0])
        return predicate(m, "isposinf" if attrs["detect_positive"] else "isneginf", args[0])


def _of_bits(onnx: str) -> None:
    name = f"bitwise_{onnx.lower()}"

    def meaning(m: Scalars[T], a: T, b: T) -> T:
        return m.call(name, a, b)

    meaning.__doc__ = f"y = {onnx.lower()} of the bits."
    elementwise(f"Bitwise{onnx}", name, function=name, commutative=True)(meaning)


for _onnx in ("And", "Or", "Xor"):
    _of_bits(_onnx)


@elementwise("BitwiseNot", "bitwise_not", function="bitwise_not", ring=True)
def bitwise_not(m: Scalars[T], x: T) -> T:
    """y = not of the bits, which is -1 - x."""
    return m.call("bitwise_not", x)


@op("bit_shift", onnx="BitShift", attributes={"direction": REQUIRED})
class BitShift(Elementwise):
    """y = a << b or a >> b, by `direction` LEFT or RIGHT. ONNX BitShift."""

    def scalar(self, attrs: Attrs) -> str:
        """By the direction."""
        return "left_shift" if attrs["direction"] == "LEFT" else "right_shift"

    def _apply(self, m: Any, attrs: Attrs, *args: Any) -> Any:
        return m.call(self.scalar(attrs), *args)
