"""Polynomials in terms, and their parts by index variable."""

from __future__ import annotations

from collections.abc import Mapping

from tensmith.formula.poly import Poly
from tensmith.formula.walk import loads
from tensmith.lifting.summary import Term


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


def bounding(condition: Poly, variables: Mapping[str, Poly]) -> tuple[str, int, Poly] | None:
    """(variable, 1 or -1, rest) where condition >= 0 bounds one variable by what none changes."""
    parts = linear(condition, variables)
    if parts is None or len(parts[1]) != 1:
        return None
    ((variable, factor),) = parts[1].items()
    return (variable, factor.constant, parts[0]) if factor.constant in (1, -1) else None


def arrays_read(term: Term) -> frozenset[str]:
    """Arrays that the term reads."""
    return frozenset(read.tensor for read in loads(term))
