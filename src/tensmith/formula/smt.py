"""Formulas as SMT terms, for equalities that the normal form leaves open.

Subscripts are integers, values are reals; tensors, opaque functions and roots are uninterpreted functions.
Reductions over the same range are equal where their bodies are (congruence); nothing else is known of them.
So `proved` is a proof over the reals, and a failure to prove says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import z3

from tensmith.formula.bounds import OUTPUT, Ranges
from tensmith.formula.expr import (
    Call,
    Choose,
    Expr,
    Formula,
    Num,
    Pow,
    Read,
    Reduce,
    Size,
    substitute,
)
from tensmith.formula.poly import FloorDiv, Poly
from tensmith.formula.walk import free_variables

_TIMEOUT_MS = 5000


def prove_equal(left: Formula, right: Formula, ranges: Ranges | None = None) -> bool:
    """Whether z3 proves the two formulas equal for all sizes in range."""
    solver = _refutation(left, right, ranges or Ranges())
    return solver is not None and solver.check() == z3.unsat


def _refutation(left: Formula, right: Formula, ranges: Ranges) -> z3.Solver | None:
    """A solver holding the ranges and the negation of left = right; None if the ranks differ."""
    if left.rank != right.rank:
        return None
    solver = z3.Solver()
    solver.set("timeout", _TIMEOUT_MS)
    solver.set("ctrl_c", False)  # z3 would answer a Ctrl-C by "unknown", and Python would not hear of it
    names = [f"{OUTPUT}{axis}" for axis in range(left.rank)]
    writer = _Writer(ranges, set(names))
    at = tuple(map(Poly.symbol, names))
    a, b = writer.value(left[at]), writer.value(right[at])
    for name, size in zip(names, left.shape):
        solver.add(
            writer.integer(Poly.symbol(name)) >= 0, writer.integer(Poly.symbol(name)) < writer.integer(size)
        )
    shapes = [writer.integer(x) == writer.integer(y) for x, y in zip(left.shape, right.shape)]
    solver.add(*writer.facts())
    solver.add(z3.Not(z3.And(*shapes, a == b)))
    return solver


@dataclass
class _Writer:
    ranges: Ranges
    indices: set[str]
    symbols: dict[str, Any] = field(default_factory=dict)
    divisions: list[Any] = field(default_factory=list)
    reductions: dict[str, Any] = field(default_factory=dict)

    def facts(self) -> list[Any]:
        """Lower bounds of sizes and the meaning of divisions."""
        lower = [s >= self.ranges.lower.get(n, 0) for n, s in self.symbols.items() if n not in self.indices]
        return [*lower, *self.divisions]

    def integer(self, poly: Poly) -> Any:
        """A polynomial as an integer term."""
        total: Any = z3.IntVal(0)
        for monomial, coefficient in poly.terms:
            product: Any = z3.IntVal(coefficient)
            for atom, power in monomial:
                base = self._symbol(atom) if isinstance(atom, str) else self._division(atom)
                for _ in range(power):
                    product = product * base
            total = total + product
        return total

    def value(self, expr: Expr) -> Any:
        """An expression as a real term."""
        match expr:
            case Num(number):
                return _rational(Fraction(number))
            case Size(poly):
                return z3.ToReal(self.integer(poly))
            case Read(name, indices):
                return _apply(f"read.{name}", [self.integer(i) for i in indices], z3.IntSort())
            case Call("add", args):
                return z3.Sum([self.value(arg) for arg in args])
            case Call("mul", args):
                return z3.Product([self.value(arg) for arg in args])
            case Pow(base, exponent):
                return self._power(self.value(base), exponent)
            case Choose(conditions, then, otherwise):
                holds = z3.And(*(self.integer(c) >= 0 for c in conditions))
                return z3.If(holds, self.value(then), self.value(otherwise))
            case Reduce(kind, var, extent, body):
                return self._reduction(kind, var, extent, body)
            case Call(function, args):
                return self._call(function, [self.value(arg) for arg in args])
        raise TypeError(f"not an expression: {expr!r}")

    def _symbol(self, name: str) -> Any:
        return self.symbols.setdefault(name, z3.Int(name))

    def _division(self, division: FloorDiv) -> Any:
        top, bottom = self.integer(division.top), self.integer(division.bottom)
        quotient = z3.Int(f"div.{division}")
        # Nothing is known of a quotient by what is not positive, least of all that there are no such sizes.
        meant = z3.And(bottom * quotient <= top, top < bottom * quotient + bottom)
        self.divisions.append(z3.Implies(bottom > 0, meant))
        return quotient

    def _power(self, base: Any, exponent: Fraction) -> Any:
        if exponent.denominator == 1 and exponent >= 0:
            return z3.Product([base] * int(exponent)) if exponent else z3.RealVal(1)
        if exponent == -1:  # of 0 it is some number, and nothing is known of it
            return 1 / base
        return _apply(f"pow.{exponent}", [base], z3.RealSort())

    def _reduction(self, kind: str, var: str, extent: Poly, body: Expr) -> Any:
        """The body at a placeholder names the reduction: equal bodies over equal ranges, equal values."""
        depth = f"bound.{len(self.indices)}"
        inner = substitute(body, {var: Poly.symbol(depth)})
        self.indices.add(depth)
        text = z3.simplify(self.value(inner), som=True).sexpr()
        self.indices.discard(depth)
        size = self.integer(extent)
        free = sorted(free_variables(inner) - {depth})
        key = f"{kind}.{text}"
        number = self.reductions.setdefault(key, len(self.reductions))
        return _apply(f"reduce.{number}", [size, *(self._symbol(n) for n in free)], z3.IntSort())

    def _call(self, function: str, args: Sequence[Any]) -> Any:
        if function == "maximum":
            return z3.If(args[0] >= args[1], args[0], args[1])
        if function == "minimum":
            return z3.If(args[0] <= args[1], args[0], args[1])
        if function == "abs":
            return z3.If(args[0] >= 0, args[0], -args[0])
        if function == "where":
            return z3.If(args[0] != 0, args[1], args[2])
        relations = {
            "less": lambda a, b: a < b,
            "less_equal": lambda a, b: a <= b,
            "greater": lambda a, b: a > b,
            "greater_equal": lambda a, b: a >= b,
            "equal": lambda a, b: a == b,
        }
        if function in relations:
            return z3.If(relations[function](*args), z3.RealVal(1), z3.RealVal(0))
        value = _apply(f"call.{function}", args, z3.RealSort())
        if function == "exp":
            self.divisions.append(value > 0)
        return value


def _rational(number: Fraction) -> Any:
    return z3.Q(number.numerator, number.denominator)


def _apply(name: str, args: Sequence[Any], sort: Any) -> Any:
    if not args:
        return z3.Real(name)
    return z3.Function(f"{name}/{len(args)}", *([sort] * len(args)), z3.RealSort())(*args)
