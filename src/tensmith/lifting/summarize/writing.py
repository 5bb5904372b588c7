"""On which paths a store writes: elsewhere it leaves the array alone, which need not be as long there.

Only what scalar parameters decide makes a path, so that a size may be 0 outside of it (`summary.SizeSymbol`).
"""

from __future__ import annotations

from fractions import Fraction

from tensmith.formula.expr import Call, Choose, Num, Read, Size
from tensmith.formula.functions import DIVISIONS
from tensmith.formula.poly import Poly
from tensmith.formula.types import BOOL, I64
from tensmith.formula.walk import walk
from tensmith.lifting.summary import Path, Term, Written

_MOST_PATHS = 4


def writing(array: str, written: Written) -> tuple[Path, ...] | None:
    """The paths on which something is written; None where none is known that leaves all alone."""
    first = tuple(
        (_reaches_zero(poly), True) for poly in written.where if not poly.symbols() & {*written.indices}
    )
    if not (first or _leaves(array, written.at, written.value)):
        return None
    found = tuple((*first, *path) for path in _paths(array, written.at, written.value))
    known = all(path and all(by_scalars(condition) for condition, _ in path) for path in found)
    return found if known and len(found) <= _MOST_PATHS else None


def by_scalars(condition: Term) -> bool:
    """Whether scalar parameters alone decide a condition, in arithmetic that has a result for all of them."""
    for part in walk(condition):
        match part:
            case Size(poly) if any(mark in name for name in poly.symbols() for mark in "%@ ?("):
                return False
            case Call(operator, _, type_) if operator == "unknown" or (
                operator in DIVISIONS and type_.kind == "int"
            ):
                return False
            case Call() | Read(_, ()) | Num() | Size():
                continue
            case _:
                return False
    return True


def _reaches_zero(poly: Poly) -> Term:
    """poly >= 0."""
    return Call("less_equal", (Num(Fraction(0), I64), Size(poly, I64)), BOOL)


def at_least_zero(condition: Term) -> Poly | None:
    """The polynomial of which a condition says that it is >= 0."""
    match condition:
        case Call("less_equal", (Num(0), Size(poly))):
            return poly
    return None


def _leaves(array: str, at: tuple[Poly, ...], value: Term) -> bool:
    """Whether scalars alone may decide that a value is the element that was there."""
    match value:
        case Read(name, place):
            return (name, place) == (array, at)
        case Call("where", (condition, left, right)):
            sides = [_leaves(array, at, left), _leaves(array, at, right)]
            return any(sides) if by_scalars(condition) else all(sides)
        case Choose(_, then, otherwise):
            return _leaves(array, at, then) and _leaves(array, at, otherwise)
    return False


def _paths(array: str, at: tuple[Poly, ...], value: Term) -> list[Path]:
    """The choices that lead to another value than the element that was there."""
    match value:
        case Read(name, place) if (name, place) == (array, at):
            return []
        case Call("where", (condition, left, right)):
            then, otherwise = _paths(array, at, left), _paths(array, at, right)
            if by_scalars(condition):
                then = [((condition, True), *path) for path in then]
                otherwise = [((condition, False), *path) for path in otherwise]
            return list(dict.fromkeys((*then, *otherwise)))
        case Choose(_, then_, otherwise_):
            return list(dict.fromkeys((*_paths(array, at, then_), *_paths(array, at, otherwise_))))
    return [()]
