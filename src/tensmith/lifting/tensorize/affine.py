"""Polynomials in terms: their parts by index variable, and substitution."""

from __future__ import annotations

from collections.abc import Mapping

from tensmith.formula.poly import Dim, Poly
from tensmith.lifting.terms import Argument, Term, TermRead, polys, rebuild, walk


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
    found = {name for part in walk(term) for poly in polys(part) for name in poly.symbols()}
    return frozenset(found | {part.name for part in walk(term) if isinstance(part, Argument)})


def substitute(term: Term, values: Mapping[str, Dim]) -> Term:
    """The term with index variables replaced by polynomials; folds' variables are used nowhere else."""
    if not values:
        return term

    def inner(part: Term) -> Term:
        return rebuild(part, inner, lambda poly: poly.substitute(values))

    return inner(term)


def arrays_read(term: Term) -> frozenset[str]:
    """Arrays that the term reads."""
    return frozenset(inner.array for inner in walk(term) if isinstance(inner, TermRead))
