"""Formulas as typed expressions: in which arithmetic each number of a formula is computed.

A number is a float where anything that it is made of is one, else an integer or a truth value. What only
chooses among numbers (extremes, selections, guards) keeps their type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from tensmith.ctext.expr import Apply, Choose, Const, Expr, Fold, Position
from tensmith.formula import expr as formula
from tensmith.formula.bounds import Ranges
from tensmith.formula.poly import Poly

_RELATIONS = {"less": "lt", "less_equal": "le", "equal": "eq"}
_CHOICES = {"maximum": "max", "minimum": "min", "max": "max", "min": "min"}
_BITS = {"bitwise_and": "band", "bitwise_or": "bor", "bitwise_xor": "bxor", "bitwise_not": "bnot"}
# Of floats and of integers; mod takes the sign of the divisor, fmod that of the dividend.
_ARITHMETIC = {"abs": "abs", "sign": "sign", "pow": "pow", "mod": "fmod", "fmod": "tmod"}
_ROUNDINGS = frozenset({"floor", "ceil", "round", "trunc"})
# Of floats alone.
_REAL = _ROUNDINGS | {
    "exp", "log", "log1p", "sqrt", "sin", "cos", "tan", "tanh", "erf", "asin", "acos", "atan", "sinh",
    "cosh", "asinh", "acosh", "atanh",
}  # fmt: skip
_SPECIAL = frozenset({"isnan", "isinf", "isposinf", "isneginf"})
_MINUS = formula.Num(Fraction(-1))
_ONE = Fraction(1)


@dataclass
class Bounds:
    """What is known of variables so far."""

    ranges: Ranges = field(default_factory=Ranges)


@dataclass
class Typing:
    """The types of one formula. `read` is an element at subscripts; `value` says whose element is computed.

    Floats that nothing else decides are `real`, "" where there must be none; sums of floats are kept in
    `sums`, if that is a type. Integers are computed in `whole`, or, if that is "", as `narrow` ones.
    """

    read: Callable[[str, tuple[Poly, ...]], Expr]
    refuse: Callable[[str], Exception]
    bounds: Bounds = field(default_factory=Bounds)
    value: str = ""
    real: str = "f32"
    sums: str = ""
    whole: str = "i64"
    narrow: str = "i64"
    _known: dict[int, tuple[formula.Expr, Expr]] = field(default_factory=dict)
    _folds: dict[formula.Expr, Expr] = field(default_factory=dict)
    _casts: dict[tuple[int, str], tuple[Expr, Expr]] = field(default_factory=dict)

    def typed(self, expr: formula.Expr, dtype: str) -> Expr:
        """A formula's element as one of `dtype`."""
        return self.cast(self.number(expr), dtype)

    def number(self, expr: formula.Expr) -> Expr:
        """A formula's element in the type that it has by itself; parts met twice are one object."""
        if id(expr) not in self._known:
            self._known[id(expr)] = (expr, self._number(expr))
        return self._known[id(expr)][1]

    def _number(self, expr: formula.Expr) -> Expr:
        match expr:
            case formula.Num(value):
                whole = value.denominator == 1 and abs(value) < 2**63
                return Const(int(value), "i64") if whole else Const(float(value), self._real())
            case formula.Size(poly):
                return Position(self.bounds.ranges.simplify(poly), self.whole or self.narrow)
            case formula.Read(name, indices):
                return self.read(name, indices)
            case formula.Add(args):
                return self._sum(args)
            case formula.Mul(args):
                return self._product(args)
            case formula.Pow():
                return self._product((expr,))
            case formula.Guard(conditions, body):
                return self._guard(conditions, body)
            case formula.Reduce(_, var, extent, body) if extent == 1:
                return self.number(formula.substitute(body, {var: Poly.of(0)}))
            case formula.Reduce():
                if expr not in self._folds:
                    self._folds[expr] = self._fold(expr)
                return self._folds[expr]
            case formula.Call(function, args):
                return self._call(function, list(map(self.number, args)))
        raise TypeError(f"not a formula: {expr!r}")

    # Types

    def cast(self, expr: Expr, dtype: str) -> Expr:
        """The expression as one of another type."""
        if expr.dtype == dtype:
            return expr
        if isinstance(expr, Const):
            return Const(float(expr.value) if dtype[0] == "f" else int(expr.value), dtype)
        if isinstance(expr, Position) and dtype != "bool":
            return replace(expr, dtype=dtype)
        key = (id(expr), dtype)
        if key not in self._casts:
            self._casts[key] = (expr, Apply("cast", (expr,), dtype, self.value))
        return self._casts[key][1]

    def _cast(self, args: Sequence[Expr], dtype: str) -> tuple[Expr, ...]:
        return tuple(self.cast(arg, dtype) for arg in args)

    def _real(self) -> str:
        if not self.real:
            raise self.refuse("it mixes fractions and whole numbers")
        return self.real

    def _common(self, args: Sequence[Expr]) -> str:
        """The type that keeps what all of them are."""
        own = {arg.dtype for arg in args if not isinstance(arg, Const) and not self._adapts(arg)}
        if len(own) != 1:
            return "bool" if all(arg.dtype == "bool" for arg in args) else self._computed(args)
        (dtype,) = own
        fits = all(_fits(arg, dtype) for arg in args if isinstance(arg, Const))
        return dtype if fits else self._computed(args)

    def _computed(self, args: Sequence[Expr]) -> str:
        """The type in which something is computed from them."""
        floats = [arg.dtype for arg in args if arg.dtype[0] == "f"]
        if floats:
            return max(floats)
        own = {arg.dtype for arg in args if not isinstance(arg, Const) and arg.dtype != "bool"}
        return self.whole or (own.pop() if len(own) == 1 else self.narrow)

    def _adapts(self, arg: Expr) -> bool:
        """Whether it is a position that takes the type of what it meets."""
        return isinstance(arg, Position) and not self.whole

    # Arithmetic

    def _apply(self, op: str, args: Sequence[Expr], dtype: str) -> Expr:
        return Apply(op, tuple(args), dtype, self.value)

    def _sum(self, args: tuple[formula.Expr, ...]) -> Expr:
        """a + b, written as a difference where b is minus something."""
        minus = [isinstance(a, formula.Mul) and a.args[0] == _MINUS and len(a.args) > 1 for a in args]
        minus[0] = False
        terms = [self.number(_without_sign(arg) if sign else arg) for arg, sign in zip(args, minus)]
        dtype = self._computed(terms)
        result, *rest = self._cast(terms, dtype)
        for term, sign in zip(rest, minus[1:]):
            result = self._apply("sub" if sign else "add", (result, term), dtype)
        return result

    def _product(self, args: tuple[formula.Expr, ...]) -> Expr:
        """A product whose factors with negative exponents are divided by, in the order given."""
        powers = [(a.base, a.exponent) if isinstance(a, formula.Pow) else (a, _ONE) for a in args]
        factors = [self.number(base) for base, _ in powers]
        dtype = self._computed(factors)
        if dtype[0] != "f" and any(exponent < 0 or exponent.denominator > 1 for _, exponent in powers):
            dtype = self._divided(factors, dtype)
        result: Expr | None = None
        for factor, (_, exponent) in zip(self._cast(factors, dtype), powers):
            count = abs(exponent.numerator)
            if exponent.denominator == 2:
                factor = self._apply("sqrt", (factor,), dtype)
            elif exponent.denominator > 1:
                power = Const(float(abs(exponent)), dtype)
                factor, count = self._apply("pow", (factor, power), dtype), 1
            for _ in range(count):
                if exponent < 0:
                    result = self._apply("div", (result or Const(1, dtype), factor), dtype)
                else:
                    result = factor if result is None else self._apply("mul", (result, factor), dtype)
        return Const(1, dtype) if result is None else result

    def _divided(self, factors: Sequence[Expr], dtype: str) -> str:
        """The type of a quotient of integers: sizes and numbers are divided as floats."""
        if all(isinstance(factor, Const | Position) for factor in factors) and self.real:
            return self.real
        if self.whole:
            raise self.refuse("it divides whole numbers")
        return dtype

    def _guard(self, conditions: tuple[Poly, ...], body: formula.Expr) -> Expr:
        ranges = self.bounds.ranges
        simpler = tuple(map(ranges.simplify, conditions))
        left = tuple(condition for condition in simpler if not ranges.never_negative(condition))
        inner = self.number(body)
        return Choose(left, inner, Const(0, inner.dtype), inner.dtype) if left else inner

    def _fold(self, expr: formula.Reduce) -> Expr:
        self.bounds.ranges = self.bounds.ranges.having([(expr.var, expr.extent)])
        body, dtype = self.term(expr.kind, expr.body)
        wide = self.sums if self.sums and dtype[0] == "f" and expr.kind in ("sum", "prod") else dtype
        return self.cast(Fold(expr.kind, expr.var, expr.extent, body, wide, self.value), dtype)

    def term(self, kind: str, body: formula.Expr) -> tuple[Expr, str]:
        """(one term of a reduction, the type of all terms together)."""
        term = self.number(body)
        dtype = self._common([term]) if kind in ("max", "min") else self._computed([term])
        return self.cast(term, dtype), dtype

    # Functions

    def _call(self, function: str, args: list[Expr]) -> Expr:
        floating = any(arg.dtype[0] == "f" for arg in args)
        if function == "where":
            chosen = self._cast(args[1:], self._common(args[1:]))
            return self._apply("where", (self._truth(args[0]), *chosen), chosen[0].dtype)
        if function in _RELATIONS:
            return self._apply(_RELATIONS[function], self._cast(args, self._common(args)), "bool")
        if function in _CHOICES:
            dtype = self._common(args)
            return self._apply(_CHOICES[function], self._cast(args, dtype), dtype)
        if function in _SPECIAL:
            return self._special(function, args[0]) if floating else Const(0, "bool")
        if function in _ROUNDINGS and not floating:
            return args[0]
        if function in _REAL:
            dtype = self._computed(args) if floating else self._real()
            return self._apply(function, self._cast(args, dtype), dtype)
        operator = _ARITHMETIC.get(function) or (None if floating else _BITS.get(function))
        if operator is None:
            raise self.refuse(f"there is no function '{function}' of {'floats' if floating else 'integers'}")
        dtype = self._computed(args)
        return self._apply(operator, self._cast(args, dtype), dtype)

    def _special(self, function: str, x: Expr) -> Expr:
        if function == "isnan":
            return self._apply("isnan", (x,), "bool")
        infinity = Const(float("-inf" if function == "isneginf" else "inf"), x.dtype)
        of = self._apply("abs", (x,), x.dtype) if function == "isinf" else x
        return self._apply("eq", (of, infinity), "bool")

    def _truth(self, condition: Expr) -> Expr:
        if condition.dtype == "bool":
            return condition
        zero = self._apply("eq", (condition, Const(0, condition.dtype)), "bool")
        return self._apply("not", (zero,), "bool")


def _without_sign(expr: formula.Expr) -> formula.Expr:
    """x of (-1) * x."""
    assert isinstance(expr, formula.Mul)
    return expr.args[1] if len(expr.args) == 2 else formula.Mul(expr.args[1:])


def _fits(const: Const, dtype: str) -> bool:
    """Whether a number is one of a type."""
    if dtype[0] == "f":
        return True
    if const.value % 1:
        return False
    if dtype == "bool":
        return const.value in (0, 1)
    bits = int(dtype[1:])
    low, high = (-(1 << bits - 1), 1 << bits - 1) if dtype[0] == "i" else (0, 1 << bits)
    return low <= const.value < high
