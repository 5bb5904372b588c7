"""Positions as terms: the symbols inside, and what takes their places."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tensmith.formula.expr import Choose, Read, Reduce, Size, fresh, rebuilt
from tensmith.formula.poly import Poly
from tensmith.formula.types import MachineType
from tensmith.formula.walk import polys, walk
from tensmith.lifting.summarize.constants import number
from tensmith.lifting.summarize.scope import Scope
from tensmith.lifting.summary import Term


def index(poly: Poly, type_: MachineType) -> Term:
    """A polynomial as a value."""
    return Size(poly, type_) if poly.constant is None else number(poly.constant, type_)


def is_open(poly: Poly) -> bool:
    """Whether it names what a variable holds at a loop's head ("sum@label"), which may be data."""
    return any("@" in name for name in poly.symbols())


def varies(poly: Poly) -> bool:
    """Whether it names counters or what variables hold at a loop's head."""
    return is_open(poly) or any("%" in name for name in poly.symbols())


def symbols(term: Term) -> frozenset[str]:
    """Every name inside: arguments, arrays, symbols of polynomials."""
    found: set[str] = set()
    for part in walk(term):
        found = found.union(*(poly.symbols() for poly in polys(part)))
        if isinstance(part, Read):
            found.add(part.tensor)
    return frozenset(found)


def substitute(term: Term, values: Mapping[str, Poly]) -> Term:
    """The term with variables of polynomials replaced; bound variables that would capture are renamed."""
    if not values:
        return term
    taken = frozenset(name for value in values.values() for name in value.symbols())
    return mapped(term, lambda poly: poly.substitute(values), taken)


def mapped(term: Term, change: Callable[[Poly], Poly], taken: frozenset[str]) -> Term:
    """The term with its polynomials changed; `taken` names may appear in them."""

    def inner(part: Term) -> Term:
        if isinstance(part, Reduce) and part.var in taken:
            part = renamed(part)
        if isinstance(part, Size):
            return index(change(part.poly), part.type)
        made = rebuilt(part, inner, change)
        if isinstance(made, Choose):
            return Scope().choice([(made.conditions, made.then)], made.otherwise)
        return made

    return inner(term)


def renamed(fold: Reduce) -> Reduce:
    """The fold over a fresh variable."""
    var = fresh("k")
    return replace(fold, var=var, body=substitute(fold.body, {fold.var: Poly.symbol(var)}))
