"""The language of scalar expressions: a tensor is its index formula.

    matmul(a, b)[i, j] = sum(k < K, a[i, k] * b[k, j])

is written

    compute((a.shape[0], b.shape[1]), lambda i, j: total(K, lambda k: a[i, k] * b[k, j]))

A scalar expression is one of eight nodes. Subscripts, sizes and what is chosen by position are polynomials
(`Poly`). A node keeps its operator's name (`functions` lists them) and has no meaning of its own: whoever
reads it knows in which arithmetic.

Every node may have a machine type ("f32", "i64", "bool"). Formulas of ops have none: their values are real
numbers, sums and products have any number of terms, and there is no Let. What is printed as C has a type
everywhere (`ctext.typed` fills them in); its operators take what they take in C, one or two operands. What
was read in a source has types as well, and knows its place there.

Formulas are equal by structure. Where an object that is met twice is a value that is used twice, tables go by
`id`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias, TypeGuard, Union

from tensmith.errors import ProgramError
from tensmith.formula.poly import Dim, Poly
from tensmith.formula.types import UNTYPED, MachineType

Number: TypeAlias = int | float | Fraction
Scalar: TypeAlias = Union["Expr", Poly, int, float, Fraction]


@dataclass(frozen=True, order=True)
class SourcePosition:
    """Where something stands in a source, both counted from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.line}:{self.column}"


NOWHERE = SourcePosition(0, 0)
# What an expression was written down for: a value of a program, by its name, or a place in a source. It does
# not count where expressions are compared.
Origin: TypeAlias = str | SourcePosition


class Expr:
    """A scalar expression, of a machine type or of "", none; arithmetic operators build larger ones."""

    __slots__ = ()
    type: MachineType
    origin: Origin = ""

    @property
    def of(self) -> str:
        """The value of a program whose element it is, or ""."""
        return self.origin if isinstance(self.origin, str) else ""

    @property
    def position(self) -> SourcePosition:
        """Where it stands in a source; NOWHERE for what was read in none."""
        return NOWHERE if isinstance(self.origin, str) else self.origin

    def __add__(self, other: Scalar) -> Expr:
        return Call("add", (self, as_expr(other)))

    def __mul__(self, other: Scalar) -> Expr:
        return Call("mul", (self, as_expr(other)))

    def __neg__(self) -> Expr:
        return Call("mul", (MINUS_ONE, self))

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
    """A rational constant; of a machine type also -0.0, an infinity or NaN, as a float."""

    value: Number
    type: MachineType = UNTYPED
    origin: Origin = field(default="", compare=False)


@dataclass(frozen=True)
class Size(Expr):
    """An integer polynomial used as a value (a size, or a position)."""

    poly: Poly
    type: MachineType = UNTYPED


@dataclass(frozen=True)
class Read(Expr):
    """One element of a named tensor; without subscripts, a scalar by its name.

    Where `when` is false, nothing is read, and the value is 0.
    """

    tensor: str
    indices: tuple[Poly, ...]
    type: MachineType = UNTYPED
    when: Expr | None = None
    origin: Origin = field(default="", compare=False)


@dataclass(frozen=True)
class Pow(Expr):
    """base ** exponent; 1/x and sqrt(x) are exponents -1 and 1/2 (real arithmetic, where defined)."""

    base: Expr
    exponent: Fraction
    type: MachineType = UNTYPED


@dataclass(frozen=True)
class Choose(Expr):
    """`then` where every condition is >= 0, else `otherwise`: chosen by position; the other may be undefined.

    Padding, concatenation and selection by position need no more; selection by value is a call.
    """

    conditions: tuple[Poly, ...]
    then: Expr
    otherwise: Expr
    type: MachineType = UNTYPED


@dataclass(frozen=True)
class Reduce(Expr):
    """kind (sum, max, min, prod) of `body` for var = 0 .. extent-1, none where extent < 0.

    `start` is joined as the first operand; None is what joining leaves as it is.
    """

    kind: str
    var: str
    extent: Poly
    body: Expr
    type: MachineType = UNTYPED
    origin: Origin = field(default="", compare=False)
    start: Expr | None = None


@dataclass(frozen=True)
class Call(Expr):
    """A scalar function: equal arguments give equal values.

    Normal forms know "add" and "mul", and that "maximum" and "minimum" are commutative, associative and
    idempotent; to them all others are opaque. "cast" converts to the type of the call.
    """

    function: str
    args: tuple[Expr, ...]
    type: MachineType = UNTYPED
    origin: Origin = field(default="", compare=False)


# What the symbols of Let begin with.
PICKED = "picked"


@dataclass(frozen=True)
class Let(Expr):
    """`body`, in whose subscripts a symbol of its own stands for a computed position."""

    symbol: str
    value: Expr
    body: Expr
    type: MachineType = UNTYPED


ZERO, MINUS_ONE = Num(Fraction(0)), Num(Fraction(-1))


def as_expr(value: Scalar) -> Expr:
    """A number or polynomial as an expression; floats are taken at their exact binary value.

    ProgramError for what is no real number: an infinity, or NaN.
    """
    if isinstance(value, Expr):
        return value
    if isinstance(value, Poly):
        return Size(value)
    try:
        return Num(Fraction(value))
    except (OverflowError, ValueError) as error:
        raise ProgramError(f"{value} is no real number, and a formula has no others") from error


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
    return Choose(tuple(conditions), as_expr(body), ZERO)


def inside(index: Dim, size: Dim) -> tuple[Poly, Poly]:
    """The two conditions of 0 <= index < size."""
    position = Poly.of(index)
    return position, Poly.of(size) - 1 - position


def call(function: str, *args: Scalar) -> Expr:
    """A function of scalars."""
    return Call(function, tuple(map(as_expr, args)))


def variable(name: str, type: MachineType, origin: Origin = "") -> Read:
    """A scalar by its name."""
    return Read(name, (), type, None, origin)


def is_cast(expr: object) -> TypeGuard[Call]:
    """Whether it is a conversion to a machine type, of its one argument."""
    return isinstance(expr, Call) and expr.function == "cast"


def uncast(expr: Expr, loose: Callable[[Call], bool] = lambda cast: True) -> Expr:
    """The expression inside of its conversions, as far as they are `loose`."""
    while is_cast(expr) and loose(expr):
        expr = expr.args[0]
    return expr


def rebuilt(expr: Expr, part: Callable[[Expr], Expr], poly: Callable[[Poly], Poly] = lambda p: p) -> Expr:
    """The expression with its direct parts and polynomials replaced; what it binds is the caller's care."""
    match expr:
        case Size(size, type):
            return Size(poly(size), type)
        case Read(name, indices, type, when, origin):
            return Read(name, tuple(map(poly, indices)), type, when and part(when), origin)
        case Pow(base, exponent, type):
            return Pow(part(base), exponent, type)
        case Choose(conditions, then, otherwise, type):
            return Choose(tuple(map(poly, conditions)), part(then), part(otherwise), type)
        case Reduce(kind, var, extent, body, type, origin, start):
            return Reduce(kind, var, poly(extent), part(body), type, origin, start and part(start))
        case Call(function, args, type, origin):
            return Call(function, tuple(map(part, args)), type, origin)
        case Let(symbol, value, body, type):
            return Let(symbol, part(value), part(body), type)
    return expr


def substitute(expr: Expr, values: Mapping[str, Dim]) -> Expr:
    """`expr` with index variables replaced in every subscript, size and condition.

    Bound variables are fresh by construction, so nothing is captured.
    """
    return rebuilt(expr, lambda part: substitute(part, values), lambda poly: poly.substitute(values))
