"""What is claimed to be at least 0, as callers see it, and the branches under which they are asked for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tensmith.formula.expr import Call, Choose, Read, Reduce
from tensmith.formula.poly import FloorDiv, Poly, floor_div, map_divisions
from tensmith.formula.walk import walk
from tensmith.lifting.summarize.execute import Execution
from tensmith.lifting.summarize.plan import at_least_text
from tensmith.lifting.summarize.scope import Scope
from tensmith.lifting.summarize.substitution import symbols, varies
from tensmith.lifting.summarize.wording import under
from tensmith.lifting.summarize.writing import at_least_zero
from tensmith.lifting.summary import Path, Requirement, Term


def at_least(poly: Poly, run: Execution, where: Path = ()) -> Requirement:
    """poly >= 0 under branches; a factor that is never negative is left out."""
    raw = shown(poly, run)
    if len(raw.terms) == 1 and raw.terms[0][1] > 0:
        ((monomial, _),) = raw.terms
        rest = tuple((atom, power) for atom, power in monomial if atom not in run.plan.never_negative)
        if rest:
            raw = Poly.from_terms({rest: 1})
    return Requirement("at_least", under(at_least_text(raw), where), raw, where=where)


def shown(poly: Poly, run: Execution) -> Poly:
    """The polynomial with sizes that are not named like their parameter written out, -1 // n as it is for n
    that is claimed to be above 0."""
    raw = {symbol: raw for symbol, raw in run.plan.raw.items() if raw != Poly.symbol(symbol)}
    divisors = {(claim + 1).substitute(raw) for claim in run.algebra.promised}

    def known(division: FloorDiv) -> Poly:
        just = division.top == -1 and division.bottom in divisors
        return Poly.of(-1) if just else floor_div(division.top, division.bottom)

    return map_divisions(poly.substitute(raw), known)


def claims(run: Execution) -> Iterator[Requirement]:
    """What was claimed where integers are converted or divided, and sizes that were taken for parameters."""
    scope = Scope(run.plan.never_negative)
    for poly, here in dict.fromkeys((*run.algebra.claims, *run.algebra.fits)):
        if (not scope.proves(poly) or poly.symbols() & run.algebra.alone) and not varies(poly):
            yield at_least(poly, run, branches(run, here))
    for size in run.plan.sizes:
        if size.symbol in run.algebra.exact:
            yield Requirement("at_least", at_least_text(size.poly), size.poly)


def claimed(run: Execution) -> Iterator[Poly]:
    """What is required to be >= 0 apart from subscripts."""
    for requirement in (*run.plan.requires, *claims(run)):
        if requirement.poly is not None and not requirement.where:
            yield requirement.poly


def branches(run: Execution, scope: Scope) -> Path:
    """The branches around a read that arguments decide, as they were at entry.

    What loops decide is not among them: a requirement that leaves it out is stronger.
    """
    return tuple(dict.fromkeys(step for step in scope.path if _by_arguments(run, step[0])))


def _by_arguments(run: Execution, condition: Term) -> bool:
    """Whether a condition is over parameters, and elements of arrays at fixed places."""
    for part in walk(condition):
        match part:
            case Read(array, (_, *_)):
                if array not in run.arrays:
                    return False
            case Reduce() | Choose() | Call("unknown"):
                return False
    return not any(mark in name for name in symbols(condition) for mark in "%@ ")


def canonical(run: Execution, path: Path) -> frozenset[Poly | tuple[Term, bool]]:
    """The steps of a path, integer comparisons as polynomials that are >= 0."""
    algebra, found = run.algebra.aside(), set[Poly | tuple[Term, bool]]()
    for condition, holds in path:
        poly = at_least_zero(condition) if holds else None
        ask = algebra.positional if holds else algebra.negated
        polys = ((poly,),) if poly is not None else ask(condition, Scope(run.plan.never_negative))
        found |= set(polys[0]) if polys is not None and len(polys) == 1 else {_plain(condition, holds)}
    return frozenset(found)


def _plain(condition: Term, holds: bool) -> tuple[Term, bool]:
    """A step that is no negation."""
    match condition:
        case Call("not", (inner,)):
            return _plain(inner, not holds)
        case Call("not_equal"):
            return replace(condition, function="equal"), not holds
    return condition, holds
