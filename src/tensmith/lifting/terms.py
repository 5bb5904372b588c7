"""Terms: the typed scalar language of closed forms.

What a variable or an array element holds, as a function of the arguments at entry: no state, no loops.
Subscripts are polynomials (`Poly`) over index variables, sizes and integer parameters; so is a value where it
can be one, as an `Index`. Every term has a machine type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

from tensmith.formula.poly import Poly
from tensmith.lifting.loops import Scalar


@dataclass(frozen=True)
class TermNumber:
    """A constant of a type; floats at their exact binary value."""

    value: Fraction
    type: Scalar


@dataclass(frozen=True)
class Index:
    """An integer polynomial over index variables, sizes and integer parameters, as a value of `type`."""

    poly: Poly
    type: Scalar


@dataclass(frozen=True)
class Argument:
    """A scalar parameter at entry. Integer ones may also be symbols of polynomials, under the same name."""

    name: str
    type: Scalar


@dataclass(frozen=True)
class TermRead:
    """An element of a parameter array at entry (locals and later states are substituted away)."""

    array: str
    indices: tuple[Poly, ...]
    type: Scalar


@dataclass(frozen=True)
class Operation:
    """An operator of `loops.Apply`, or "cast" (to `type`), on terms; "inf" is infinity, and has none."""

    operator: str
    arguments: tuple[Term, ...]
    type: Scalar


@dataclass(frozen=True)
class Fold:
    """kind (sum, prod, max, min) over var = 0 .. extent-1 of body, joined to `start` as the first operand.

    extent counts as 0 where it is negative. sum with start 0 is the plain sum; max with start a[0] is the
    maximum over a whole array whose loop begins at 1.
    """

    kind: str
    var: str
    extent: Poly
    body: Term
    start: Term
    type: Scalar


@dataclass(frozen=True)
class TermChoose:
    """`then` where every condition is >= 0, else `otherwise`: chosen by position."""

    conditions: tuple[Poly, ...]
    then: Term
    otherwise: Term
    type: Scalar


Term: TypeAlias = TermNumber | Index | Argument | TermRead | Operation | Fold | TermChoose
# Conditions, and whether they hold.
Path: TypeAlias = tuple[tuple[Term, bool], ...]


def infinity(positive: bool, type_: Scalar) -> Term:
    """Above all numbers of a float type, or below."""
    found = Operation("inf", (), type_)
    return found if positive else Operation("neg", (found,), type_)


def infinite(term: Term) -> int:
    """1 for infinity, -1 for its negative, 0 for all other terms."""
    match term:
        case Operation("inf"):
            return 1
        case Operation("neg", (Operation("inf"),)):
            return -1
    return 0


def parts(term: Term) -> tuple[Term, ...]:
    """The terms directly inside."""
    match term:
        case Operation(_, arguments, _):
            return arguments
        case Fold(_, _, _, body, start, _):
            return (body, start)
        case TermChoose(_, then, otherwise, _):
            return (then, otherwise)
    return ()


def polys(term: Term) -> tuple[Poly, ...]:
    """The polynomials directly inside."""
    match term:
        case Index(poly, _):
            return (poly,)
        case TermRead(_, indices, _):
            return indices
        case Fold(_, _, extent, _, _, _):
            return (extent,)
        case TermChoose(conditions, _, _, _):
            return conditions
    return ()


def walk(term: Term) -> Iterator[Term]:
    """The term and all inside it, outermost first."""
    yield term
    for part in parts(term):
        yield from walk(part)


def rebuild(term: Term, parts_to: Callable[[Term], Term], poly_to: Callable[[Poly], Poly]) -> Term:
    """The term with its direct parts and polynomials replaced; variables of folds are the caller's care."""
    match term:
        case Index(poly, _):
            return replace(term, poly=poly_to(poly))
        case TermRead(_, indices, _):
            return replace(term, indices=tuple(map(poly_to, indices)))
        case Operation(_, arguments, _):
            return replace(term, arguments=tuple(map(parts_to, arguments)))
        case Fold(_, _, extent, body, start, _):
            return replace(term, extent=poly_to(extent), body=parts_to(body), start=parts_to(start))
        case TermChoose(conditions, then, otherwise, type_):
            return TermChoose(tuple(map(poly_to, conditions)), parts_to(then), parts_to(otherwise), type_)
    return term
