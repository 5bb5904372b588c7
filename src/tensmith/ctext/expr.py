"""Scalars as typed expressions: subscripts are polynomials over loop variables and sizes.

Expressions are compared by identity: the builder makes each element at each position once, so an object
met twice is a value used twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from tensmith.formula.poly import Poly

# What the symbols of computed positions begin with.
PICKED = "picked"


@dataclass(frozen=True, eq=False)
class Const:
    """A number (or a truth value) of an element type."""

    value: int | float | bool
    dtype: str


@dataclass(frozen=True, eq=False)
class Position:
    """An integer polynomial over loop variables, sizes and integer parameters, as a value."""

    poly: Poly
    dtype: str


@dataclass(frozen=True, eq=False)
class Param:
    """A scalar parameter of the source."""

    name: str
    dtype: str


@dataclass(frozen=True, eq=False)
class Load:
    """buffer[index], the index counted in elements; `at` is the position in the value that the buffer feeds.

    `value` is that value: an input of the program, a constant or a stored value. Where `when` is false,
    nothing is read, and the value is 0.
    """

    buffer: str
    index: Poly
    dtype: str
    value: str = ""
    at: tuple[Poly, ...] = ()
    when: Expr | None = None


@dataclass(frozen=True, eq=False)
class Let:
    """`body`, in whose subscripts a symbol of its own stands for a computed position."""

    symbol: str
    position: Expr
    body: Expr
    dtype: str


@dataclass(frozen=True, eq=False)
class Apply:
    """An operator on values; `value` is the program value this is an element of."""

    op: str
    args: tuple[Expr, ...]
    dtype: str
    value: str = ""


@dataclass(frozen=True, eq=False)
class Choose:
    """`then` where every condition is >= 0, else `otherwise`; only the chosen one may be evaluated."""

    conditions: tuple[Poly, ...]
    then: Expr
    otherwise: Expr
    dtype: str


@dataclass(frozen=True, eq=False)
class Fold:
    """kind (sum, prod, max, min) of `body` for var = 0 .. extent-1, of the program value `value`."""

    kind: str
    var: str
    extent: Poly
    body: Expr
    dtype: str
    value: str = ""

    @cached_property
    def free(self) -> frozenset[str]:
        """The symbols it depends on."""
        return (self.extent.symbols() | free(self.body)) - {self.var}


Expr: TypeAlias = Const | Position | Param | Load | Let | Apply | Choose | Fold


def parts(expr: Expr) -> tuple[Expr, ...]:
    """The expressions directly inside."""
    match expr:
        case Load(when=when):
            return () if when is None else (when,)
        case Let(position=position, body=body):
            return position, body
        case Apply(args=args):
            return args
        case Choose(then=then, otherwise=otherwise):
            return then, otherwise
        case Fold(body=body):
            return (body,)
    return ()


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and all inside it, each object once."""
    seen: set[int] = set()
    stack = [expr]
    while stack:
        found = stack.pop()
        if id(found) in seen:
            continue
        seen.add(id(found))
        yield found
        stack.extend(reversed(parts(found)))


def free(expr: Expr) -> frozenset[str]:
    """The symbols an expression depends on: loop variables, sizes, integer parameters."""
    known = expr.__dict__.get("_free")
    if known is None:
        known = _free(expr)
        expr.__dict__["_free"] = known
    return known


def _free(expr: Expr) -> frozenset[str]:
    match expr:
        case Position(poly=poly):
            return poly.symbols()
        case Load(index=index, when=when):
            return index.symbols() if when is None else index.symbols() | free(when)
        case Let(symbol=symbol, position=position, body=body):
            return free(position) | (free(body) - {symbol})
        case Apply(args=args):
            return frozenset[str]().union(*map(free, args))
        case Choose(conditions=conditions, then=then, otherwise=otherwise):
            tests = frozenset[str]().union(*(condition.symbols() for condition in conditions))
            return tests | free(then) | free(otherwise)
        case Fold():
            return expr.free
    return frozenset()


def chain(fold: Fold) -> tuple[tuple[Fold, ...], Expr]:
    """Directly nested folds of one kind, outermost first, and the body of the last."""
    folds = [fold]
    while isinstance(folds[-1].body, Fold) and folds[-1].body.kind == fold.kind:
        folds.append(folds[-1].body)
    return tuple(folds), folds[-1].body


def outer_folds(root: Expr) -> list[Fold]:
    """Folds that stand in no other fold, each once."""
    found: dict[int, Fold] = {}
    seen: set[int] = set()
    stack = [root]
    while stack:
        expr = stack.pop()
        if id(expr) in seen:
            continue
        seen.add(id(expr))
        if isinstance(expr, Fold):
            found[id(expr)] = expr
        else:
            stack.extend(parts(expr))
    return list(found.values())
