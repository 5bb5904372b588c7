"""Scalar meanings written once and read twice: on arrays by an `Arith`, on index formulas here.

A function `f(m, x, y)` that computes only with `m` runs in floats, in a prime field, and builds its own
expression, so an op's meaning and its formula cannot drift apart.
"""

from __future__ import annotations

import operator
from typing import Any, Protocol, TypeVar

import numpy as np

from tensmith.formula.arith import Array
from tensmith.formula.expr import Expr, Scalar, as_expr, call
from tensmith.formula.functions import MIRRORED

T = TypeVar("T")


class Scalars(Protocol[T]):
    """The part of an Arith that acts on each element alone; see `Arith` for the operations."""

    @property
    def exact(self) -> bool:
        """Whether arithmetic is that of the real numbers (or a field), without rounding."""

    def const(self, value: float, like: T | None = None) -> T: ...
    def add(self, a: T, b: T) -> T: ...
    def sub(self, a: T, b: T) -> T: ...
    def mul(self, a: T, b: T) -> T: ...
    def div(self, a: T, b: T) -> T: ...
    def call(self, function: str, *args: T) -> T: ...
    def compare(self, relation: str, a: T, b: T) -> T: ...


class Operators:
    """The four operations by the operators of the values themselves."""

    add = staticmethod(operator.add)
    sub = staticmethod(operator.sub)
    mul = staticmethod(operator.mul)
    div = staticmethod(operator.truediv)


class Expressions(Operators):
    """Builds the expression instead of computing the value."""

    exact = True

    def const(self, value: Scalar, like: Expr | None = None) -> Expr:
        """A number at its exact binary value."""
        return as_expr(value)

    def call(self, function: str, *args: Expr) -> Expr:
        """An opaque call."""
        return call(function, *args)

    def compare(self, relation: str, a: Expr, b: Expr) -> Expr:
        """1 where the relation holds, else 0; a > b is written b < a."""
        if relation in MIRRORED:
            return call(MIRRORED[relation], b, a)
        return call(relation, a, b)


EXPRESSIONS = Expressions()


def where(condition: T, a: T, b: T) -> T:
    """a where the condition holds, else b: a selection by value, opaque in formulas.

    Tensors of PyTorch choose by a method of their own.
    """
    parts: tuple[Any, Any, Any] = (condition, a, b)
    chosen: Any
    if isinstance(condition, Expr):
        chosen = call("where", *parts)
    elif hasattr(a, "where"):
        chosen = parts[1].where(condition, b)
    else:
        chosen = np.where(*parts)
    return chosen  # type: ignore[no-any-return]


def predicate(m: Scalars[T], function: str, x: T) -> T:
    """A function with truth values; an exact arithmetic gives random ones, as it does for comparisons."""
    value = m.call(function, x)
    result: Any = value
    if isinstance(value, np.ndarray) and value.dtype != np.bool_:
        result = as_truth(value)
    return result  # type: ignore[no-any-return]


def as_truth(residues: Array) -> Array:
    """Random residues as random booleans."""
    return np.asarray(residues & 1 == 1)
