"""Arithmetic on elements: sums, products, quotients, powers, extremes, rounding, functions of one number."""

from __future__ import annotations

from fractions import Fraction
from functools import reduce as fold
from typing import Any

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Arith, Array, power
from tensmith.formula.functions import STEPS
from tensmith.formula.poly import Dim
from tensmith.formula.scalars import Scalars, T
from tensmith.ir.op import Attrs, Run, Symbolic, op
from tensmith.ir.ops.elementwise import Elementwise, elementwise
from tensmith.ir.ops.sizes import lower_bound


@elementwise("Add", function="add", commutative=True, ring=True)
def add(m: Scalars[T], a: T, b: T) -> T:
    """y = a + b."""
    return m.add(a, b)


@elementwise("Sub", function="sub", ring=True)
def sub(m: Scalars[T], a: T, b: T) -> T:
    """y = a - b."""
    return m.sub(a, b)


@elementwise("Mul", function="mul", commutative=True, ring=True)
def mul(m: Scalars[T], a: T, b: T) -> T:
    """y = a * b."""
    return m.mul(a, b)


class Negation(Elementwise):
    """0 - x, which of 0.0 is -0.0 to machines."""

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """NumPy's; exact numbers have one zero."""
        return super().run(call, arith) if arith.exact else (np.asarray(np.negative(call[0])),)


@elementwise("Neg", function="neg", ring=True, base=Negation)
def neg(m: Scalars[T], x: T) -> T:
    """y = 0 - x."""
    return m.sub(m.const(0, x), x)


@elementwise("Reciprocal")
def reciprocal(m: Scalars[T], x: T) -> T:
    """y = 1 / x."""
    return m.div(m.const(1, x), x)


@op("div", onnx="Div")
class Div(Elementwise):
    """y = a / b; integers are divided towards zero. ONNX Div. The formula is real division."""

    function = "div"
    cuts = True

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """Real division; of integers and sizes truncated division."""
        a, b = call[0], call[1]
        if arith.exact or a.dtype.kind not in "iuO":
            return (arith.div(a, b),)
        if object in (a.dtype, b.dtype):
            return (np.asarray(np.frompyfunc(_toward_zero, 2, 1)(a, b), dtype=object),)
        quotient = np.asarray(a // b)
        if a.dtype.kind == "u":
            return (quotient,)
        above = np.logical_and(quotient < 0, quotient * b != a)
        return (np.asarray(quotient + above.astype(quotient.dtype)),)

    def _apply(self, m: Any, attrs: Attrs, *args: Any) -> Any:
        return m.div(*args)


def _toward_zero(a: Dim, b: Dim) -> Dim:
    """a / b cut off toward zero: where b does not divide a, their signs must be known."""
    floor = a // b
    if floor * b == a:
        return floor
    (sign, top), (other, bottom) = _signed(a), _signed(b)
    return sign * other * (top // bottom)


def _signed(size: Dim) -> tuple[int, Dim]:
    """-1 or 1, and a size that is not negative, of which a size is the product."""
    for sign in (1, -1):
        bound = lower_bound(sign * size)
        if bound is not None and bound >= 0:
            return sign, sign * size
    raise ProgramError(f"whether {size} is negative is not known")


@op("mod", onnx="Mod", attributes={"fmod": 0})
class Mod(Elementwise):
    """y = a mod b with the sign of b (fmod = 0), or C's fmod with the sign of a (fmod = 1). ONNX Mod."""

    jumps = True

    def scalar(self, attrs: Attrs) -> str:
        """By the sign of the remainder."""
        return "fmod" if attrs["fmod"] else "mod"

    def _apply(self, m: Any, attrs: Attrs, *args: Any) -> Any:
        return m.call(self.scalar(attrs), *args)


# Exponents whose power is a product, a quotient or a root.
_PLAIN_EXPONENTS = (*map(Fraction, range(-3, 13)), *(Fraction(numerator, 2) for numerator in (-3, -1, 1, 3)))


def _plain_power(m: Scalars[T], x: T, exponent: Fraction) -> T:
    """x ** exponent, by multiplication, division and sqrt alone."""
    base = m.call("sqrt", x) if exponent.denominator == 2 else x
    count = abs(exponent.numerator)
    product = fold(m.mul, [base] * count) if count else m.const(1, x)
    return product if exponent >= 0 else m.div(m.const(1, x), product)


@op("pow", onnx="Pow")
class Power(Elementwise):
    """y = base ** exponent in base's element type; plain constant exponents are products. ONNX Pow."""

    function = "pow"

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """The power; in a field a plain uniform exponent is recognised by its residue."""
        base, exponent = call[0], call[1]
        if not arith.exact:
            return (power(base, exponent),)
        residues = arith.const(exponent)
        shape = np.broadcast_shapes(base.shape, exponent.shape)
        for plain in _PLAIN_EXPONENTS:
            if residues.size and np.all(residues == arith.const(float(plain))):
                return (np.broadcast_to(_plain_power(arith, base, plain), shape),)
        return (arith.call("pow", base, residues),)

    def value(self, m: Any, call: Symbolic, *args: Any) -> Any:
        """A plain power, or an opaque one where the exponent is not one known constant."""
        known = call.values[1] if len(call.values) > 1 else None
        if known is not None and known.size and np.all(known == known.flat[0]) and np.isfinite(known.flat[0]):
            plain = Fraction(float(known.flat[0]))
            if plain in _PLAIN_EXPONENTS:
                return _plain_power(m, args[0], plain)
        return m.call("pow", *args)


@elementwise("Sum", function="add", commutative=True, ring=True)
def sum(m: Scalars[T], *terms: T) -> T:
    """y = a + b + ..., of any number of tensors."""
    return fold(m.add, terms)


@elementwise("Mean", commutative=True)
def mean(m: Scalars[T], *terms: T) -> T:
    """y = (a + b + ...) / n, of any number of tensors."""
    return m.div(fold(m.add, terms), m.const(len(terms), terms[0]))


class Extreme(Elementwise):
    """The maximum or minimum of any number of tensors, of sizes too where their order is known."""

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """Two at a time; sizes are compared by their bounds."""
        if not arith.exact and any(x is not None and x.dtype == object for x in call.inputs):
            larger: Any = np.frompyfunc(_larger if self.name == "max" else _smaller, 2, 1)
            return (np.asarray(fold(larger, call.inputs), dtype=object),)
        return super().run(call, arith)


def _larger(a: Dim, b: Dim) -> Dim:
    for high, low in ((a, b), (b, a)):
        bound = lower_bound(high - low)
        if bound is not None and bound >= 0:
            return high
    raise ProgramError(f"which of {a} and {b} is larger is not known")


def _smaller(a: Dim, b: Dim) -> Dim:
    return b if _larger(a, b) is a else a


@elementwise("Max", function="maximum", commutative=True, base=Extreme)
def max(m: Scalars[T], *terms: T) -> T:
    """y = max(a, b, ...), of any number of tensors."""
    return fold(lambda a, b: m.call("maximum", a, b), terms)


@elementwise("Min", function="minimum", commutative=True, base=Extreme)
def min(m: Scalars[T], *terms: T) -> T:
    """y = min(a, b, ...), of any number of tensors."""
    return fold(lambda a, b: m.call("minimum", a, b), terms)


@elementwise("Clip")
def clip(m: Scalars[T], x: T, low: T | None = None, high: T | None = None) -> T:
    """y = min(max(x, low), high); a bound left out does not bound."""
    y = x if low is None else m.call("maximum", x, low)
    return y if high is None else m.call("minimum", y, high)


def _function(name: str, onnx: str) -> None:
    def meaning(m: Scalars[T], x: T) -> T:
        return m.call(name, x)

    meaning.__doc__ = f"y = {name}(x)."
    elementwise(onnx, name, function=name, jumps=name in STEPS)(meaning)


for _onnx in (
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor",
    "Log", "Round", "Sign", "Sin", "Sinh", "Sqrt", "Tan", "Tanh",
):  # fmt: skip
    _function(_onnx.lower(), _onnx)
