"""What real functions are known to do, as rewriting of formulas: equal wherever both sides are defined.

    exp(a + b) = exp(a) exp(b), exp(q a) = exp(a)**q        exp(log(a)) = a, log(exp(a)) = a
    log(a b) = log(a) + log(b), log(a**q) = q log(a)         sqrt(a) = a**(1/2), (a b)**p = a**p b**p
    (a**2)**(1/2) = |a|                                     tanh(a) = 1 - 2 / (exp(a)**2 + 1)
    max(k; a(k) + b) = max(k; a(k)) + b                     max(k; -a(k)) = -min(k; a(k))
    max(k; a(k) * exp(b)) = max(k; a(k)) * exp(b)           round(a) = a of a whole a
    f(-a) = -f(a) of odd f, f(a) of even f

A prime field knows none of them: a rule that needs one holds over the reals alone. Logarithms and roots of
products are taken apart where one part at most may be negative: the parts have them where the product has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeGuard

from tensmith.formula.bounds import Ranges
from tensmith.formula.expr import MINUS_ONE, ZERO, Call, Choose, Expr, Formula, Num, Pow, Reduce, Size
from tensmith.formula.functions import ROUNDINGS
from tensmith.formula.normal import any_element, normalize
from tensmith.formula.poly import Poly
from tensmith.formula.walk import free_variables, parts

ODD = frozenset({"erf", "sin", "sinh", "asin", "asinh", "atan", "atanh", "tan", "sign"})
EVEN = frozenset({"abs", "cos", "cosh"})
_ONE, _HALF = Num(Fraction(1)), Fraction(1, 2)
# Minus infinity: what is outside of an image when maxima are taken.
_LOWEST = Call("log", (ZERO,))


@dataclass(frozen=True)
class Reals:
    """Facts where both sides are defined; numbers whose normal forms are `known` are then never negative."""

    known: frozenset[str] = frozenset()

    @classmethod
    def of(cls, *sides: Expr) -> Reals:
        """What holds where all sides are defined: the arguments of logarithms and roots are not negative."""
        found: set[str] = set()
        stack = list(sides)
        while stack:
            match stack.pop():
                case Choose() | Call("where"):
                    continue  # what is not chosen may be undefined
                case Call("log" | "sqrt", (base,)) as part:
                    found.add(normalize(base, Ranges()).text)
                case Pow(base, exponent) as part if exponent.denominator % 2 == 0:
                    found.add(normalize(base, Ranges()).text)
                case part:
                    pass
            stack.extend(parts(part))
        return cls(frozenset(found))

    def form(self, expr: Expr) -> Expr:
        """`expr` in the form that the facts above lead to."""
        match expr:
            case Call("add", args):
                return _sum([self.form(arg) for arg in args])
            case Call("mul", args):
                return _product([self.form(arg) for arg in args])
            case Pow(base, exponent):
                return self._power(self.form(base), exponent)
            case Choose(conditions, then, otherwise):
                return Choose(conditions, self.form(then), self.form(otherwise))
            case Reduce(kind, var, extent, body):
                return _reduction(kind, var, extent, self.form(body))
            case Call(function, args):
                return self._call(function, [self.form(arg) for arg in args])
        return expr

    def _power(self, base: Expr, exponent: Fraction) -> Expr:
        if isinstance(base, Pow):
            if base.exponent == 2 and exponent == _HALF:
                return self._call("abs", [base.base])
            even = base.exponent.denominator == 1 and base.exponent.numerator % 2 == 0
            if exponent.denominator == 1 or not even:  # else it would be a power of |base|
                return self._power(base.base, base.exponent * exponent)
        if _is(base, "mul"):
            parts = base.args if exponent.denominator == 1 else self._apart(base.args)
            if len(parts) > 1:
                return _product([self._power(part, exponent) for part in parts])
        if isinstance(base, Num) and exponent.denominator == 1 and base.value:
            return Num(base.value**exponent.numerator)
        return base if exponent == 1 else Pow(base, exponent)

    def _apart(self, factors: Sequence[Expr]) -> tuple[Expr, ...]:
        """Factors whose roots multiply and whose logarithms add up: none is negative but the last one, which
        is the product of all that may be."""
        safe = tuple(factor for factor in factors if self._never_negative(factor))
        rest = [factor for factor in factors if factor not in safe]
        if not rest:
            return safe
        return (*safe, rest[0] if len(rest) == 1 else Call("mul", tuple(rest)))

    def _never_negative(self, expr: Expr) -> bool:
        """Whether a number is 0 or more wherever it is defined, by its form."""
        match expr:
            case Num(value):
                return value >= 0
            case Pow(base, exponent):
                even = exponent.denominator % 2 == 0 or exponent.numerator % 2 == 0
                return even or self._never_negative(base)
            case Call("exp" | "abs" | "sqrt"):
                return True
        return normalize(expr, Ranges()).text in self.known

    def _call(self, function: str, args: list[Expr]) -> Expr:
        if len(args) == 1:
            (arg,) = args
            if function in ODD and _is_negative(arg):
                return _negative(self._call(function, [_negative(arg)]))
            if function in EVEN and _is_negative(arg):
                return self._call(function, [_negative(arg)])
            if function in ROUNDINGS and _is_whole(arg):
                return arg
            if function == "exp":
                return self._exponential(arg)
            if function == "log":
                return self._logarithm(arg)
            if function == "sqrt":
                return self._power(arg, _HALF)
            if function == "tanh":
                square = Pow(self._exponential(arg), Fraction(2))
                return Call(
                    "add",
                    (_ONE, Call("mul", (Num(Fraction(-2)), Pow(Call("add", (square, _ONE)), Fraction(-1))))),
                )
        return Call(function, tuple(args))

    def _exponential(self, arg: Expr) -> Expr:
        match arg:
            case Num(value) if value == 0:
                return _ONE
            case Call("add", args):
                return _product([self._exponential(part) for part in args])
            case Call("mul", (Num(value), *rest)):
                return self._power(self._exponential(_product(list(rest))), Fraction(value))
            case Call("log", (inner,)):
                return inner
        return Call("exp", (arg,))

    def _logarithm(self, arg: Expr) -> Expr:
        match arg:
            case Num(value) if value == 1:
                return ZERO
            case Call("mul", args) if len(parts := self._apart(args)) > 1:
                return _sum([self._logarithm(part) for part in parts])
            case Pow(base, exponent) if exponent.denominator > 1 or exponent.numerator % 2:
                return _product([Num(exponent), self._logarithm(base)])
            case Call("exp", (inner,)):
                return inner
        return Call("log", (arg,))


def same_fraction(left: Formula, right: Formula, ranges: Ranges) -> bool:
    """Whether two formulas are equal as quotients, facts of real functions known: a/b = c/d if ad = cb."""
    if left.rank != right.rank or any(ranges.simplify(a - b) != 0 for a, b in zip(left.shape, right.shape)):
        return False
    at, inner = any_element(left, ranges)
    sides = [side[at] for side in (left, right)]
    facts = Reals.of(*sides)
    (a, b), (c, d) = (_fraction(facts.form(side)) for side in sides)
    return normalize(Call("mul", (a, d)), inner) == normalize(Call("mul", (c, b)), inner)


def _fraction(expr: Expr) -> tuple[Expr, Expr]:
    match expr:
        case Call("add", args):
            top, bottom = _fraction(args[0])
            for arg in args[1:]:
                a, b = _fraction(arg)
                top, bottom = (
                    Call("add", (Call("mul", (top, b)), Call("mul", (a, bottom)))),
                    Call("mul", (bottom, b)),
                )
            return top, bottom
        case Call("mul", args):
            parts = [_fraction(arg) for arg in args]
            return Call("mul", tuple(a for a, _ in parts)), Call("mul", tuple(b for _, b in parts))
        case Pow(base, exponent) if exponent.denominator == 1:
            top, bottom = _fraction(base)
            a, b = (Pow(part, abs(exponent)) for part in (top, bottom))
            return (a, b) if exponent >= 0 else (b, a)
    return expr, _ONE


def _sum(args: list[Expr]) -> Expr:
    flat = [part for arg in args for part in (arg.args if _is(arg, "add") else (arg,))]
    kept = [arg for arg in flat if arg != ZERO]
    return kept[0] if len(kept) == 1 else Call("add", tuple(kept))


def _product(args: list[Expr]) -> Expr:
    """Powers of equal bases become one."""
    flat = [part for arg in args for part in (arg.args if _is(arg, "mul") else (arg,))]
    number = Fraction(1)
    powers: dict[str, tuple[Expr, Fraction]] = {}
    for part in flat:
        if isinstance(part, Num):
            number *= Fraction(part.value)
            continue
        base, exponent = (part.base, part.exponent) if isinstance(part, Pow) else (part, Fraction(1))
        key = normalize(base, Ranges()).text
        powers[key] = base, powers.get(key, (base, Fraction(0)))[1] + exponent
    factors = [base if e == 1 else Pow(base, e) for base, e in powers.values() if e]
    if number == 0 or not factors:
        return Num(number)
    factors = factors if number == 1 else [Num(number), *factors]
    return factors[0] if len(factors) == 1 else Call("mul", tuple(factors))


def _reduction(kind: str, var: str, extent: Poly, body: Expr) -> Expr:
    if kind == "min":
        return _negative(_reduction("max", var, extent, _negative(body)))
    if kind == "sum" and _is(body, "mul"):
        still = [part for part in body.args if var not in free_variables(part)]
        moving = [part for part in body.args if var in free_variables(part)]
        return _product([*still, Reduce(kind, var, extent, _product(moving))])
    if kind != "max":
        return Reduce(kind, var, extent, body)
    if var not in free_variables(body):
        return body
    chosen = body if isinstance(body, Choose) and body.otherwise == _LOWEST else None
    inner = body if chosen is None else chosen.then
    parts = inner.args if isinstance(inner, Call) else ()
    still = [part for part in parts if var not in free_variables(part)]
    moving = [part for part in parts if var in free_variables(part)]

    def largest(part: Expr) -> Expr:
        return _reduction(kind, var, extent, part if chosen is None else replace(chosen, then=part))

    if not still or not moving:
        return Reduce(kind, var, extent, body)
    if _is(inner, "add"):
        return _sum([*still, largest(_sum(moving))])
    if _is(inner, "mul") and all(map(_is_positive, still)):
        return _product([*still, largest(_product(moving))])
    if _is(inner, "maximum") and len(moving) == 1 and chosen is None:
        return Call("maximum", (largest(moving[0]), *still))
    return Reduce(kind, var, extent, body)


def _is_positive(expr: Expr) -> bool:
    return expr.value > 0 if isinstance(expr, Num) else _is(expr, "exp")


def _is_whole(expr: Expr) -> bool:
    match expr:
        case Num(value):
            return Fraction(value).denominator == 1
        case Call("add" | "mul" | "maximum" | "minimum", args):
            return all(map(_is_whole, args))
        case Call(function):
            return function in ROUNDINGS
    return isinstance(expr, Size)


def _is(expr: Expr, function: str) -> TypeGuard[Call]:
    return isinstance(expr, Call) and expr.function == function


def _negative(expr: Expr) -> Expr:
    if _is(expr, "add"):
        return _sum([_negative(arg) for arg in expr.args])
    return _product([MINUS_ONE, expr])


def _is_negative(expr: Expr) -> bool:
    first = expr.args[0] if _is(expr, "mul") else expr
    return isinstance(first, Num) and first.value < 0
