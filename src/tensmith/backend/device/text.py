"""Formulas as expressions of the kernel dialect.

Numbers are computed as floats where anything around them is a float, else as 64-bit integers: a value is
`real` if its element type, or that of something it reads, is one of floats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from tensmith.backend.device.reductions import FOLDED
from tensmith.errors import EngineError
from tensmith.formula.bounds import Ranges
from tensmith.formula.expr import Add, Call, Expr, Guard, Mul, Num, Pow, Read, Size
from tensmith.formula.poly import Div, Poly
from tensmith.ir.types import DTYPES

_COMMON: Mapping[str, str] = {
    "less": "({0} < {1})", "less_equal": "({0} <= {1})", "equal": "({0} == {1})",
    "where": "({0} != 0 ? {1} : {2})",
}  # fmt: skip
# Functions of floats. A NaN goes through all of them.
_REAL: Mapping[str, str] = {
    **_COMMON,
    **{
        name: f"{name}({{0}})"
        for name in (
            "exp", "log", "log1p", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh",
            "tanh", "asinh", "acosh", "atanh", "erf", "floor", "ceil", "trunc",
        )
    },
    "round": "rint({0})", "abs": "fabs({0})", "sign": "signum({0})",
    "maximum": "maximum({0}, {1})", "minimum": "minimum({0}, {1})",
    "pow": "pow({0}, {1})", "fmod": "fmod({0}, {1})", "mod": "modulo({0}, {1})",
    "isnan": "is_nan({0})", "isinf": "(fabs({0}) == INFINITY)",
    "isposinf": "({0} == INFINITY)", "isneginf": "({0} == -INFINITY)",
}  # fmt: skip
_WHOLE: Mapping[str, str] = {
    **_COMMON,
    "maximum": "larger({0}, {1})", "minimum": "smaller({0}, {1})", "trunc": "{0}",
    "bitwise_and": "({0} & {1})", "bitwise_or": "({0} | {1})", "bitwise_xor": "({0} ^ {1})",
    "bitwise_not": "(~{0})",
}  # fmt: skip
_REAL_STEPS: Mapping[str, str] = {
    "sum": "{0} + {1}", "prod": "{0} * {1}", "max": "maximum({0}, {1})", "min": "minimum({0}, {1})",
}  # fmt: skip
_WHOLE_STEPS: Mapping[str, str] = {**_REAL_STEPS, "max": "larger({0}, {1})", "min": "smaller({0}, {1})"}
_ONE = Fraction(1)


def is_float(dtype: str) -> bool:
    """Whether an element type stands for real numbers."""
    return dtype[0] == "f"


def folding(kind: str, dtype: str, real: bool) -> tuple[str, str]:
    """(what a reduction of this element type begins with, one step of it)."""
    step = (_REAL_STEPS if real else _WHOLE_STEPS)[kind]
    if kind in ("sum", "prod"):
        return "0" if kind == "sum" else "1", step
    if is_float(dtype):
        return "-INFINITY" if kind == "max" else "INFINITY", step
    range_ = (0, 1) if dtype == "bool" else (np.iinfo(DTYPES[dtype]).min, np.iinfo(DTYPES[dtype]).max)
    start = int(range_[0 if kind == "max" else 1])
    # The least 64-bit integer has no literal.
    return (str(start) if start > -(2**63) else f"({start + 1} - 1)"), step


@dataclass
class Text:
    """Expressions of one kernel. `stored` has element types in memory, `inside` the members' variables.

    `arguments` are the values read, in the order of first use; `names` are the variables of indices.
    """

    stored: Mapping[str, str]
    ranges: Ranges
    label: str
    inside: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)

    def position(self, poly: Poly) -> str:
        """A subscript in 32 bits."""
        terms = [self._term(coefficient, monomial) for monomial, coefficient in poly.terms]
        return " + ".join(terms).replace("+ -", "- ") or "0"

    def _term(self, coefficient: int, monomial: tuple[tuple[str | Div, int], ...]) -> str:
        factors = [self._atom(atom) for atom, power in monomial for _ in range(power)]
        if not factors:
            return str(coefficient)
        sign = {1: "", -1: "-"}.get(coefficient, f"{coefficient} * ")
        return sign + " * ".join(factors)

    def _atom(self, atom: str | Div) -> str:
        if isinstance(atom, str):
            return self.names[atom]
        top, bottom = self.position(atom.top), self.position(atom.bottom)
        if self.ranges.never_negative(atom.top):
            return f"(({top}) / {bottom})"
        return f"floor_div({top}, {bottom})"

    def value(self, expr: Expr, real: bool) -> str:
        """The expression of a number; `real` if it is computed with floats."""
        match expr:
            case Num(number):
                return self._number(number, real)
            case Size(poly):
                return f"({'float' if real else 'i64'})({self.position(poly)})"
            case Read(name, (position,)):
                return self._read(name, position, real)
            case Add(args):
                return self._sum(args, real)
            case Mul(args):
                return self._product(args, real)
            case Pow():
                return self._product((expr,), real)
            case Guard(conditions, body):
                tests = " && ".join(f"{self.position(condition)} >= 0" for condition in conditions)
                return f"({tests} ? {self.value(body, real)} : 0)"
            case Call():
                return self._call(expr, real)
        raise TypeError(f"not an expression of a kernel: {expr!r}")

    def _number(self, number: Fraction, real: bool) -> str:
        if not real:
            if number.denominator != 1:
                raise EngineError(
                    f"{self.label} mixes fractions and whole numbers, which no device kernel does"
                )
            return f"({number})" if number < 0 else str(number)
        text = f"{np.float32(float(number))!s}f"
        text = "INFINITY" if text == "inff" else "-INFINITY" if text == "-inff" else text
        return f"({text})" if text.startswith("-") else text

    def _read(self, name: str, position: Poly, real: bool) -> str:
        if name in self.inside:
            return self.inside[name]
        if name not in self.arguments:
            self.arguments.append(name)
        pointer = f"x{self.arguments.index(name)}"
        at = self.position(position)
        if self.stored[name] == "f16":
            return f"load_half({pointer}, {at})"
        text = f"{pointer}[{at}]"
        same = self.stored[name] == ("f32" if real else "i64")
        return text if same else f"({'float' if real else 'i64'}){text}"

    def _sum(self, args: tuple[Expr, ...], real: bool) -> str:
        text = self.value(args[0], real)
        for arg in args[1:]:
            negative = isinstance(arg, Mul) and arg.args[0] == Num(Fraction(-1)) and len(arg.args) > 1
            if negative and isinstance(arg, Mul):
                text = f"{text} - {self._product(arg.args[1:], real)}"
            else:
                text = f"{text} + {self.value(arg, real)}"
        return f"({text})"

    def _product(self, args: tuple[Expr, ...], real: bool) -> str:
        """Factors with negative exponents are divided by, in the order given."""
        text = ""
        for arg in args:
            base, exponent = (arg.base, arg.exponent) if isinstance(arg, Pow) else (arg, _ONE)
            if exponent < 0 and not real:
                raise EngineError(f"{self.label} divides whole numbers, which no device kernel does")
            factor = self.value(base, real)
            if exponent.denominator == 2:
                factor = f"sqrt({factor})"
            elif exponent.denominator != 1:
                power = self._number(abs(exponent), real)
                factor, exponent = f"pow({factor}, {power})", _ONE if exponent > 0 else -_ONE
            for _ in range(abs(exponent.numerator)):
                text = (
                    f"{text or '1'} / {factor}" if exponent < 0 else f"{text} * {factor}" if text else factor
                )
        return f"({text})" if text else "1"

    def _call(self, expr: Call, real: bool) -> str:
        if expr == FOLDED:
            return "folded"
        form = (_REAL if real else _WHOLE).get(expr.function)
        if form is None:
            kind = "floats" if real else "whole numbers"
            raise EngineError(f"{self.label} has no device kernel: there is no '{expr.function}' of {kind}")
        return form.format(*(self.value(arg, real) for arg in expr.args))
