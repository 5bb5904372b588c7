"""Machine types for formulas: in which arithmetic each number is computed.

A number is a float where anything that it is made of is one, else an integer or a truth value. What only
chooses among numbers (extremes, selections, guards) keeps their type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from tensmith.formula.bounds import Ranges
from tensmith.formula.expr import (
    MINUS_ONE,
    Call,
    Choose,
    Expr,
    Num,
    Pow,
    Read,
    Reduce,
    Size,
    substitute,
)
from tensmith.formula.functions import BITWISE, EXTREMES, PREDICATES, REAL, RELATIONS, ROUNDINGS
from tensmith.formula.poly import Poly
from tensmith.formula.types import BOOL, F32, F64, I64, UNTYPED, MachineType

# Of floats and of integers.
_ARITHMETIC = frozenset({"abs", "sign", "pow", "mod", "fmod"})
_ONE = Fraction(1)


@dataclass
class KnownRanges:
    """What is known of variables so far."""

    ranges: Ranges = field(default_factory=Ranges)


@dataclass
class Typing:
    """The types of one formula. `read` is an element at subscripts; `value` says whose element is computed.

    Floats that nothing else decides are `real`, "" where there must be none; sums of floats are kept in
    `sums`, if that is a type. Integers are computed in `whole`, or, if that is "", as `narrow` ones; their
    real functions in `wide`, which holds more of them than `real`: by it, a power by a float has no rounding
    that makes it another integer. If there is no such type, they have no powers by floats.
    """

    read: Callable[[str, tuple[Poly, ...]], Expr]
    refuse: Callable[[str], Exception]
    bounds: KnownRanges = field(default_factory=KnownRanges)
    value: str = ""
    real: MachineType = F32
    sums: MachineType = UNTYPED
    whole: MachineType = I64
    narrow: MachineType = I64
    wide: MachineType = F64
    _known: dict[int, tuple[Expr, Expr]] = field(default_factory=dict)
    _folds: dict[Expr, Expr] = field(default_factory=dict)
    _casts: dict[tuple[int, MachineType], tuple[Expr, Expr]] = field(default_factory=dict)

    def typed(self, expr: Expr, dtype: MachineType) -> Expr:
        """A formula's element as one of `dtype`."""
        return self.cast(self.number(expr), dtype)

    def number(self, expr: Expr) -> Expr:
        """A formula's element in the type that it has by itself; parts met twice are one object."""
        if id(expr) not in self._known:
            self._known[id(expr)] = (expr, self._number(expr))
        return self._known[id(expr)][1]

    def _number(self, expr: Expr) -> Expr:
        match expr:
            case Num(_, dtype) if dtype:
                return expr
            case Num(value):
                number = Fraction(value)
                whole = number.denominator == 1 and abs(number) < 2**63
                return Num(int(number), I64) if whole else Num(float(number), self._real())
            case Size(poly):
                return Size(self.bounds.ranges.simplify(poly), self.whole or self.narrow)
            case Read(name, indices):
                return self.read(name, indices)
            case Call("add", args):
                return self._sum(args)
            case Call("mul", args):
                return self._product(args)
            case Pow():
                return self._product((expr,))
            case Choose(conditions, then, otherwise):
                return self._choice(conditions, then, otherwise)
            case Reduce(_, var, extent, body) if extent == 1:
                return self.number(substitute(body, {var: Poly.of(0)}))
            case Reduce():
                if expr not in self._folds:
                    self._folds[expr] = self._fold(expr)
                return self._folds[expr]
            case Call(function, args):
                return self._call(function, list(map(self.number, args)))
        raise TypeError(f"not a formula: {expr!r}")

    # Types

    def cast(self, expr: Expr, dtype: MachineType) -> Expr:
        """The expression as one of another type."""
        if expr.type == dtype:
            return expr
        if isinstance(expr, Num):
            return Num(float(expr.value) if dtype[0] == "f" else int(expr.value), dtype)
        if isinstance(expr, Size) and dtype != "bool":
            return Size(expr.poly, dtype)
        key = (id(expr), dtype)
        if key not in self._casts:
            self._casts[key] = (expr, self._apply("cast", (expr,), dtype))
        return self._casts[key][1]

    def _cast(self, args: Sequence[Expr], dtype: MachineType) -> tuple[Expr, ...]:
        return tuple(self.cast(arg, dtype) for arg in args)

    def _real(self) -> MachineType:
        if not self.real:
            raise self.refuse("it mixes fractions and whole numbers")
        return self.real

    def _real_of_whole(self, args: Sequence[Expr]) -> MachineType:
        """The type of a real function of integers; known numbers and positions are not many."""
        known = all(isinstance(arg, Num | Size) for arg in args)
        return self._real() if known or not self.wide else max(self.wide, self._real())

    def _common(self, args: Sequence[Expr]) -> MachineType:
        """The type that keeps what all of them are."""
        own = {arg.type for arg in args if not isinstance(arg, Num) and not self._adapts(arg)}
        if len(own) != 1:
            return BOOL if all(arg.type == "bool" for arg in args) else self._computed(args)
        (dtype,) = own
        fits = all(_fits(arg, dtype) for arg in args if isinstance(arg, Num))
        return dtype if fits else self._computed(args)

    def _computed(self, args: Sequence[Expr]) -> MachineType:
        """The type in which something is computed from them."""
        floats = [arg.type for arg in args if arg.type[0] == "f"]
        if floats:
            return max(floats)
        own = {arg.type for arg in args if not isinstance(arg, Num) and arg.type != "bool"}
        return self.whole or (own.pop() if len(own) == 1 else self.narrow)

    def _adapts(self, arg: Expr) -> bool:
        """Whether it is a position that takes the type of what it meets."""
        return isinstance(arg, Size) and not self.whole

    # Arithmetic

    def _apply(self, function: str, args: Sequence[Expr], dtype: MachineType) -> Expr:
        return Call(function, tuple(args), dtype, self.value)

    def _sum(self, args: tuple[Expr, ...]) -> Expr:
        """a + b, written as a difference where b is minus something."""
        first, *others = args
        signed = [("add", first), *map(_signed, others)]
        terms = [self.number(term) for _, term in signed]
        dtype = self._computed(terms)
        result, *rest = self._cast(terms, dtype)
        for (function, _), term in zip(signed[1:], rest):
            result = self._apply(function, (result, term), dtype)
        return result

    def _product(self, args: tuple[Expr, ...]) -> Expr:
        """A product whose factors with negative exponents are divided by, in the order given."""
        powers = [(a.base, a.exponent) if isinstance(a, Pow) else (a, _ONE) for a in args]
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
                power = Num(float(abs(exponent)), dtype)
                factor, count = self._apply("pow", (factor, power), dtype), 1
            for _ in range(count):
                if exponent < 0:
                    result = self._apply("div", (result or Num(1, dtype), factor), dtype)
                else:
                    result = factor if result is None else self._apply("mul", (result, factor), dtype)
        return Num(1, dtype) if result is None else result

    def _divided(self, factors: Sequence[Expr], dtype: MachineType) -> MachineType:
        """The type of a quotient of integers: sizes and numbers are divided as floats."""
        if all(isinstance(factor, Num | Size) for factor in factors) and self.real:
            return self.real
        if self.whole:
            raise self.refuse("it divides whole numbers")
        return dtype

    def _choice(self, conditions: tuple[Poly, ...], then: Expr, otherwise: Expr) -> Expr:
        ranges = self.bounds.ranges
        simpler = tuple(map(ranges.simplify, conditions))
        left = tuple(condition for condition in simpler if not ranges.never_negative(condition))
        if not left:
            return self.number(then)
        dtype = self._common(sides := (self.number(then), self.number(otherwise)))
        return Choose(left, self.cast(sides[0], dtype), self.cast(sides[1], dtype), dtype)

    def _fold(self, expr: Reduce) -> Expr:
        self.bounds.ranges = self.bounds.ranges.having([(expr.var, expr.extent)])
        body, dtype = self.term(expr.kind, expr.body)
        wide = self.sums if self.sums and dtype[0] == "f" and expr.kind in ("sum", "prod") else dtype
        return self.cast(Reduce(expr.kind, expr.var, expr.extent, body, wide, self.value), dtype)

    def term(self, kind: str, body: Expr) -> tuple[Expr, MachineType]:
        """(one term of a reduction, the type of all terms together)."""
        term = self.number(body)
        dtype = self._common([term]) if kind in ("max", "min") else self._computed([term])
        return self.cast(term, dtype), dtype

    # Functions

    def _call(self, function: str, args: list[Expr]) -> Expr:
        floating = any(arg.type[0] == "f" for arg in args)
        if function == "where":
            chosen = self._cast(args[1:], self._common(args[1:]))
            return self._apply("where", (self._truth(args[0]), *chosen), chosen[0].type)
        if function in RELATIONS:
            return self._apply(function, self._cast(args, self._common(args)), BOOL)
        if function in EXTREMES:
            dtype = self._common(args)
            return self._apply(function, self._cast(args, dtype), dtype)
        if function in PREDICATES:
            return self._predicate(function, args[0]) if floating else Num(0, BOOL)
        if function in ROUNDINGS and not floating:
            return args[0]
        if function in REAL | ROUNDINGS:
            dtype = self._computed(args) if floating else self._real_of_whole(args)
        elif function == "pow" and floating and args[0].type[0] != "f":
            if not self.wide:
                raise self.refuse("it has powers of integers by floats, and there are no doubles")
            dtype = self.wide
        elif function in _ARITHMETIC or (function in BITWISE and not floating):
            dtype = self._computed(args)
        else:
            raise self.refuse(f"there is no function '{function}' of {'floats' if floating else 'integers'}")
        return self._apply(function, self._cast(args, dtype), dtype)

    def _predicate(self, function: str, x: Expr) -> Expr:
        if function == "isnan":
            return self._apply("isnan", (x,), BOOL)
        infinity = Num(float("-inf" if function == "isneginf" else "inf"), x.type)
        of = self._apply("abs", (x,), x.type) if function == "isinf" else x
        return self._apply("equal", (of, infinity), BOOL)

    def _truth(self, condition: Expr) -> Expr:
        if condition.type == "bool":
            return condition
        zero = self._apply("equal", (condition, Num(0, condition.type)), BOOL)
        return self._apply("not", (zero,), BOOL)


def _signed(term: Expr) -> tuple[str, Expr]:
    """How a term is joined to a sum, and what: sub, x of (-1) * x."""
    match term:
        case Call("mul", (first, *rest)) if first == MINUS_ONE and rest:
            return "sub", rest[0] if len(rest) == 1 else Call("mul", tuple(rest))
    return "add", term


def _fits(const: Num, dtype: MachineType) -> bool:
    """Whether a number is one of a type."""
    least, greatest = MachineType(dtype).limits or (0, 1)
    return dtype[0] == "f" or (const.value % 1 == 0 and least <= const.value <= greatest)
