"""Polynomials in terms, and their parts by index variable."""

from __future__ import annotations

from collections.abc import Mapping

from tensmith.formula.expr import Read
from tensmith.formula.poly import Poly
from tensmith.formula.walk import loads, polys, walk
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


def symbols(term: Term) -> frozenset[str]:
    """Every symbol of every polynomial inside, and the scalar parameters."""
    found = {name for part in walk(term) for poly in polys(part) for name in poly.symbols()}
    return frozenset(
        found | {part.tensor for part in walk(term) if isinstance(part, Read) and not part.indices}
    )


def arrays_read(term: Term) -> frozenset[str]:
    """Arrays that the term reads."""
    return frozenset(read.tensor for read in loads(term))
