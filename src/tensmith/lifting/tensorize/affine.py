"""Polynomials in terms: subscripts as polynomials, their parts by index variable, and substitution."""

from __future__ import annotations

from collections.abc import Mapping

from tensmith.formula.poly import Dim, Poly
from tensmith.lifting.terms import Argument, Cases, Fold, Index, Number, Op, Read, Term, rebuild, walk


def polynomial(term: Term) -> Poly | None:
    """An integer term as a polynomial; None where it is none. Casts to wide integers keep subscripts."""
    match term:
        case Index(poly, _):
            return poly
        case Number(value, type_) if type_.kind == "int":
            return Poly.of(int(value))
        case Argument(name, type_) if type_.kind == "int":
            return Poly.symbol(name)
        case Op("cast", (inner,), type_) if type_.kind == "int" and type_.bits in (None, 32, 64):
            return polynomial(inner)
        case Op(operator, arguments, _) if operator in ("add", "sub", "mul", "neg"):
            polys = [polynomial(argument) for argument in arguments]
            if any(poly is None for poly in polys):
                return None
            return _combine(operator, [poly for poly in polys if poly is not None])
    return None


def _combine(operator: str, polys: list[Poly]) -> Poly:
    if operator == "neg":
        return -polys[0]
    a, b = polys
    return a + b if operator == "add" else a - b if operator == "sub" else a * b


def linear(poly: Poly, variables: Mapping[str, Poly]) -> tuple[Poly, dict[str, Poly]] | None:
    """(rest, variable -> factor) with poly = rest + sum(factor * variable); None where it is not linear."""
    rest, factors = poly, {}
    for variable in variables:
        if variable not in poly.symbols():
            continue
        factor = poly.coefficient(variable)
        if factor is None:
            return None
        factors[variable] = factor
        rest = rest - factor * Poly.symbol(variable)
    if any(factor.symbols() & variables.keys() for factor in factors.values()):
        return None
    return rest, factors


def symbols(term: Term) -> frozenset[str]:
    """Every symbol of every polynomial inside, and the scalar parameters."""
    found: set[str] = set()
    for inner in walk(term):
        match inner:
            case Index(poly, _):
                found |= poly.symbols()
            case Fold(_, _, extent, _, _, _):
                found |= extent.symbols()
            case Cases(cases, _, _):
                found |= {s for conditions, _ in cases for poly in conditions for s in poly.symbols()}
            case Argument(name, _):
                found.add(name)
    return frozenset(found)


def substitute(term: Term, values: Mapping[str, Dim]) -> Term:
    """The term with index variables replaced by polynomials; folds' variables are used nowhere else."""
    if not values:
        return term

    def inner(part: Term) -> Term:
        return rebuild(part, inner, lambda poly: poly.substitute(values))

    return inner(term)


def arrays_read(term: Term) -> frozenset[str]:
    """Arrays that the term reads."""
    return frozenset(inner.array for inner in walk(term) if isinstance(inner, Read))
