"""The formula language: a tensor is its index formula.

    matmul(a, b)[i, j] = sum(k < K, a[i, k] * b[k, j])

is written

    compute((a.shape[0], b.shape[1]), lambda i, j: total(K, lambda k: a[i, k] * b[k, j]))

A scalar expression is one of seven nodes. Subscripts, sizes and guards are polynomials (`Poly`); values are
real numbers. A guard `[p >= 0]` is 1 where the polynomial is not negative and 0 elsewhere, which is all that
padding, concatenation and selection by position need; selection by value is an opaque call.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias, Union

from tensmith.formula.poly import Dim, Poly

Number: TypeAlias = int | float | Fraction
Scalar: TypeAlias = Union["Expr", Poly, int, float, Fraction]


class Expr:
    """A scalar expression; arithmetic operators build larger ones."""

    __slots__ = ()

    def __add__(self, other: Scalar) -> Expr:
        return Add((self, as_expr(other)))

    def __mul__(self, other: Scalar) -> Expr:
        return Mul((self, as_expr(other)))

    def __neg__(self) -> Expr:
        return Mul((Num(Fraction(-1)), self))

    def __sub__(self, other: Scalar) -> Expr:
        return self + -as_expr(other)

    def __rsub__(self, other: Scalar) -> Expr:
        return as_expr(other) - self

    def __truediv__(self, other: Scalar) -> Expr:
        return self * Pow(as_expr(other), Fraction(-1))

    def __rtruediv__(self, other: Scalar) -> Expr:
        return as_expr(other) / self

    def __pow__(self, exponent: int | Fraction) -> Expr:
        return Pow(self, Fraction(exponent))

    def __radd__(self, other: Scalar) -> Expr:
        return as_expr(other) + self

    def __rmul__(self, other: Scalar) -> Expr:
        return as_expr(other) * self


@dataclass(frozen=True)
class Num(Expr):
    """A rational constant."""

    value: Fraction


@dataclass(frozen=True)
class Size(Expr):
    """An integer polynomial used as a value (a size, or a position)."""

    poly: Poly


@dataclass(frozen=True)
class Read(Expr):
    """One element of a named tensor."""

    tensor: str
    indices: tuple[Poly, ...]


@dataclass(frozen=True)
class Add(Expr):
    """A sum of expressions."""

    args: tuple[Expr, ...]


@dataclass(frozen=True)
class Mul(Expr):
    """A product of expressions."""

    args: tuple[Expr, ...]


@dataclass(frozen=True)
class Pow(Expr):
    """base ** exponent; 1/x and sqrt(x) are exponents -1 and 1/2 (real arithmetic, where defined)."""

    base: Expr
    exponent: Fraction


@dataclass(frozen=True)
class Guard(Expr):
    """`body` where every condition is >= 0, else 0."""

    conditions: tuple[Poly, ...]
    body: Expr


@dataclass(frozen=True)
class Reduce(Expr):
    """kind (sum, max, min, prod) of `body` for var = 0 .. extent-1."""

    kind: str
    var: str
    extent: Poly
    body: Expr


@dataclass(frozen=True)
class Call(Expr):
    """An opaque scalar function: equal arguments give equal values, and nothing more is known.

    `max` and `min` are commutative, associative and idempotent; the normal form knows that.
    """

    function: str
    args: tuple[Expr, ...]


def as_expr(value: Scalar) -> Expr:
    """A number or polynomial as an expression; floats are taken at their exact binary value."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, Poly):
        return Size(value)
    return Num(Fraction(value))


_fresh = itertools.count()


def fresh(prefix: str = "k") -> str:
    """A variable name used nowhere else in this process."""
    return f"{prefix}%{next(_fresh)}"


@contextmanager
def numbered_from_zero() -> Iterator[None]:
    """Fresh names inside do not depend on what the process did before, so that what is made there can be made
    again, letter for letter. It must not meet anything with fresh names that was made before, and no other
    thread may ask for any; later names differ from all."""
    global _fresh
    before, _fresh = _fresh, itertools.count()
    try:
        yield
    finally:
        _fresh = itertools.count(max(next(before), next(_fresh)))


@dataclass(frozen=True)
class Formula:
    """A tensor: its shape, the names of its index variables, and the value at them."""

    shape: tuple[Poly, ...]
    indices: tuple[str, ...]
    body: Expr

    def __getitem__(self, at: Sequence[Dim] | Dim) -> Expr:
        """The element at the given subscripts (0 <= subscript < size is the caller's duty)."""
        subscripts = at if isinstance(at, (tuple, list)) else (at,)
        if len(subscripts) != len(self.shape):
            raise ValueError(f"{len(subscripts)} subscripts for a tensor of rank {len(self.shape)}")
        return substitute(self.body, dict(zip(self.indices, map(Poly.of, subscripts))))

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)


def tensor(name: str, *shape: Dim) -> Formula:
    """The formula of an input tensor."""
    indices = tuple(fresh("i") for _ in shape)
    return Formula(tuple(map(Poly.of, shape)), indices, Read(name, tuple(map(Poly.symbol, indices))))


def compute(shape: Sequence[Dim], element: Callable[..., Scalar]) -> Formula:
    """The tensor whose element at (i, j, ...) is `element(i, j, ...)`."""
    indices = tuple(fresh("i") for _ in shape)
    body = as_expr(element(*map(Poly.symbol, indices)))
    return Formula(tuple(map(Poly.of, shape)), indices, body)


def reduce(kind: str, extents: Sequence[Dim], element: Callable[..., Scalar]) -> Expr:
    """kind over all index tuples below `extents` of `element`."""
    names = [fresh() for _ in extents]
    body = as_expr(element(*map(Poly.symbol, names)))
    for name, extent in zip(reversed(names), reversed(list(extents))):
        body = Reduce(kind, name, Poly.of(extent), body)
    return body


def total(extents: Sequence[Dim] | Dim, element: Callable[..., Scalar]) -> Expr:
    """The sum over all index tuples below `extents` of `element`."""
    return reduce("sum", extents if isinstance(extents, (tuple, list)) else (extents,), element)


def guard(conditions: Sequence[Poly], body: Scalar) -> Expr:
    """`body` where all of `conditions` are >= 0, else 0."""
    return Guard(tuple(conditions), as_expr(body))


def inside(index: Dim, size: Dim) -> tuple[Poly, Poly]:
    """The two conditions of 0 <= index < size."""
    position = Poly.of(index)
    return position, Poly.of(size) - 1 - position


def call(function: str, *args: Scalar) -> Expr:
    """An opaque function of scalars."""
    return Call(function, tuple(map(as_expr, args)))


def substitute(expr: Expr, values: Mapping[str, Poly]) -> Expr:
    """`expr` with index variables replaced in every subscript, size and guard.

    Bound variables are fresh by construction, so nothing is captured.
    """
    match expr:
        case Num():
            return expr
        case Size(poly):
            return Size(poly.substitute(values))
        case Read(name, indices):
            return Read(name, tuple(index.substitute(values) for index in indices))
        case Add(args):
            return Add(tuple(substitute(arg, values) for arg in args))
        case Mul(args):
            return Mul(tuple(substitute(arg, values) for arg in args))
        case Pow(base, exponent):
            return Pow(substitute(base, values), exponent)
        case Guard(conditions, body):
            return Guard(tuple(c.substitute(values) for c in conditions), substitute(body, values))
        case Reduce(kind, var, extent, body):
            return Reduce(kind, var, extent.substitute(values), substitute(body, values))
        case Call(function, args):
            return Call(function, tuple(substitute(arg, values) for arg in args))
    raise TypeError(f"not an expression: {expr!r}")
