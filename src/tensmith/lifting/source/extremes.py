"""Integers that are the greatest, or the least, of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice, product
from typing import Literal, TypeAlias

from tensmith.formula.expr import Call, Expr
from tensmith.formula.types import INT

Extreme: TypeAlias = Literal["maximum", "minimum"]

_OPPOSITE: dict[Extreme, Extreme] = {"maximum": "minimum", "minimum": "maximum"}
# The most parts that are told.
_MOST = 16


def parts(
    expression: Expr, extreme: Extreme, chooses: Callable[[Call, Extreme], bool] = lambda *_: False
) -> tuple[Expr, ...]:
    """The expressions whose greatest, or least, an integer is; itself, where it is none, or of too many.

    chooses: whether a choice, `where(c, a, b)`, is the greatest, or the least, of both.
    """
    found = tuple(islice(_parts(expression, extreme, chooses), _MOST + 1))
    return tuple(dict.fromkeys(found)) if len(found) <= _MOST else (expression,)


def _parts(expression: Expr, extreme: Extreme, chooses: Callable[[Call, Extreme], bool]) -> Iterator[Expr]:
    match expression:
        case Call("maximum" | "minimum" as function, args) if function == extreme:
            yield from (part for arg in args for part in _parts(arg, extreme, chooses))
        case Call("where", (_, *args)) if chooses(expression, extreme):
            yield from (part for arg in args for part in _parts(arg, extreme, chooses))
        # A bounded integer may overflow where it is added to another one than was chosen.
        case Call("add" | "sub" as function, (first, second), type_) if type_ == INT:
            other = extreme if function == "add" else _OPPOSITE[extreme]
            pairs = product(parts(first, extreme, chooses), parts(second, other, chooses))
            yield from (replace(expression, args=pair) for pair in pairs)
        case _:
            yield expression
