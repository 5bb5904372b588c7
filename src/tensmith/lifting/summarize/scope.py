"""What is known at a place in the source: ranges of index variables, polynomials that are >= 0, and the path.

Proofs here only steer the derivation; `conditions` proves everything again. Sound and incomplete: True is a
proof, False means that none was found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import TypeAlias

from tensmith.formula.expr import Choose
from tensmith.formula.poly import FloorDiv, Poly, floor_div, long_division, map_divisions
from tensmith.lifting.summary import Term

Conjunction: TypeAlias = tuple[Poly, ...]
_DEPTH = 2


@dataclass(frozen=True)
class Scope:
    """ranges: index variables, outermost first, 0 <= name < extent; facts: polynomials >= 0; path: conditions
    on data that hold (True) or do not (False); sizes: symbols that are never negative."""

    sizes: frozenset[str] = frozenset()
    ranges: tuple[tuple[str, Poly], ...] = ()
    facts: tuple[Poly, ...] = ()
    path: tuple[tuple[Term, bool], ...] = ()

    def binding(self, *bound: tuple[str, Poly]) -> Scope:
        """This scope inside loops over `bound`: every range is non-empty there."""
        facts = tuple(extent - 1 for _, extent in bound if extent.constant is None)
        return replace(self, ranges=(*self.ranges, *bound), facts=(*self.facts, *facts))

    def knowing(self, facts: Iterable[Poly]) -> Scope:
        """This scope where also `facts` are >= 0."""
        new = tuple(fact for fact in facts if fact.constant is None)
        return replace(self, facts=(*self.facts, *new)) if new else self

    def after(self, condition: Term, holds: bool) -> Scope:
        """This scope behind a branch on data."""
        return replace(self, path=(*self.path, (condition, holds)))

    def fixed(self) -> Scope:
        """This scope with its index variables as given numbers: bounds found in it may name them."""
        below = tuple(extent - 1 - Poly.symbol(name) for name, extent in self.ranges)
        return replace(self, sizes=self.sizes | self._extents.keys(), ranges=(), facts=(*self.facts, *below))

    def proves(self, poly: Poly, depth: int = _DEPTH) -> bool:
        """Whether poly >= 0."""
        if poly.constant is not None:
            return poly.constant >= 0
        lows = tuple(dict.fromkeys((*self._lower(poly), poly)))
        if any(map(self._positive, lows)):
            return True
        if depth == 0:
            return False
        if any(self.proves(low - fact, depth - 1) for low in lows for fact in self._floors(low)):
            return True
        symbols = poly.symbols()
        return any(
            self.proves(poly - fact, depth - 1)
            for fact in self.facts
            if not symbols.isdisjoint(fact.symbols())
        )

    def refutes(self, poly: Poly) -> bool:
        """Whether poly < 0."""
        return self.proves(-poly - 1)

    def decides(self, poly: Poly) -> bool | None:
        """Whether poly >= 0; None where it is not known."""
        return True if self.proves(poly) else False if self.refutes(poly) else None

    def choice(self, found: Sequence[tuple[Conjunction, Term]], otherwise: Term) -> Term:
        """The first value whose conditions hold, else `otherwise`, without what is decided here."""
        kept: list[tuple[Conjunction, Term]] = []
        for conditions, value in found:
            open_ = tuple(dict.fromkeys(poly for poly in conditions if not self.proves(poly)))
            if any(self.refutes(poly) for poly in open_):
                continue
            if not open_:
                otherwise = value
                break
            kept.append((open_, value))
        for conditions, value in reversed(kept):
            if value != otherwise:
                otherwise = Choose(conditions, value, otherwise, otherwise.type)
        return otherwise

    def shorter(self, conditions: Conjunction) -> Conjunction | None:
        """Conditions without those that follow from the others; None where they cannot all hold."""
        kept = list(conditions)
        for poly in conditions:
            others = self.knowing(other for other in kept if other != poly)
            if others.refutes(poly):
                return None
            if others.proves(poly):
                kept.remove(poly)
        return tuple(kept)

    def upper(self, poly: Poly) -> Poly | None:
        """The least upper bound found that names no index variable."""
        best = None
        for bound in self.uppers(poly):
            if best is None or (bound != best and self.proves(best - bound)):
                best = bound
        return best

    def uppers(self, poly: Poly) -> Iterator[Poly]:
        """The upper bounds found that name no index variable."""
        masks = [fact for fact in self.facts if not fact.symbols().isdisjoint(self._extents)]
        floors = [mask for mask in self._floors(poly) if not mask.symbols().isdisjoint(self._extents)]
        masks += floors
        if len(poly.divisions()) > 1:
            masks += [one + other for one, other in combinations(floors, 2)]
        for candidate in (poly, self._divided(poly), *(poly + mask for mask in masks)):
            for low in self._lower(-candidate):
                if not low.symbols() & self._extents.keys():
                    yield -low

    def lower(self, poly: Poly) -> Poly | None:
        """The greatest lower bound found that names no index variable."""
        bound = self.upper(-poly)
        return None if bound is None else -bound

    def _divided(self, poly: Poly) -> Poly:
        """What a polynomial is at most: quotients that index variables change where those are greatest."""

        def greatest(division: FloorDiv) -> Poly:
            fixed = division.bottom.symbols().isdisjoint(self._extents) and self._above_0(division.bottom)
            top = self.upper(division.top) if fixed else None
            if top is None:
                return floor_div(division.top, division.bottom)
            return map_divisions(floor_div(top, division.bottom), below_0)

        def below_0(division: FloorDiv) -> Poly:
            just = self.refutes(division.top) and self._above_0(division.bottom)
            return Poly.of(-1) if just else floor_div(division.top, division.bottom)

        for monomial, coefficient in poly.terms:
            for atom, power in monomial:
                varying = isinstance(atom, FloorDiv) and atom.symbols() & self._extents.keys()
                if varying and (coefficient < 0 or power > 1 or len(monomial) > 1):
                    return poly
        return map_divisions(poly, greatest)

    def _above_0(self, poly: Poly) -> bool:
        return poly.constant > 0 if poly.constant is not None else self._positive(poly - 1)

    def _floors(self, poly: Poly) -> list[Poly]:
        """What the divisions in a polynomial are within: 0 <= top - bottom * quotient < bottom, also times
        what bottom and quotient are multiplied by."""
        found = []
        for atom in poly.divisions():
            if self._above_0(atom.bottom):
                rest = atom.top - atom.bottom * Poly(((((atom, 1),), 1),))
                found += [rest, atom.bottom - 1 - rest]
                found += [bound * times for times in self._times(poly, atom) for bound in found[-2:]]
        return found

    def _times(self, poly: Poly, atom: FloorDiv) -> list[Poly]:
        """What is never negative and the bottom and the quotient of a division are multiplied by."""
        held = (
            Poly.from_terms({tuple(each for each in monomial if each[0] != atom): abs(coefficient)})
            for monomial, coefficient in poly.terms
            if (atom, 1) in monomial
        )
        times = (long_division(factor, atom.bottom) for factor in held)
        return [by for by, rest in times if rest == 0 and by.constant is None and self._positive(by)]

    @cached_property
    def _extents(self) -> dict[str, Poly]:
        return dict(self.ranges)

    def _lower(self, poly: Poly) -> Iterator[Poly]:
        """`poly` at the corner of the ranges where it is least, inner variables first."""
        for name, extent in reversed(self.ranges):
            if name not in poly.symbols():
                continue
            factor = poly.coefficient(name)
            if factor is None:
                return
            if self._signed(factor):
                poly = poly.substitute({name: 0})
            elif self._signed(-factor):
                poly = poly.substitute({name: extent - 1})
            else:
                return
        yield poly

    def _signed(self, factor: Poly) -> bool:
        if factor.constant is not None:
            return factor.constant >= 0
        return self._positive(factor) or any(self._positive(low) for low in self._lower(factor))

    @cached_property
    def _least(self) -> dict[str, int]:
        """Lower bounds of single symbols: sizes are >= 0, and what the facts say."""
        least = dict.fromkeys(self.sizes, 0)
        for fact in self.facts:
            rest = [term for term in fact.terms if term[0]]
            if len(rest) == 1 and rest[0][1] > 0 and len(rest[0][0]) == 1:
                (atom, power), constant = rest[0][0][0], dict(fact.terms).get((), 0)
                bound = -(constant // rest[0][1])
                if power == 1 and isinstance(atom, str):
                    least[atom] = max(least.get(atom, bound), bound)
        return least

    def _positive(self, poly: Poly) -> bool:
        """Whether poly >= 0 by the signs of its terms, every symbol as its least value plus something."""
        least = self._least
        shifts = {name: Poly.symbol(name) + least[name] for name in poly.symbols() if least.get(name)}
        shifted = poly.substitute(shifts) if shifts else poly
        return all(
            coefficient >= 0 and all(self._never_negative(atom) for atom, power in monomial if power % 2)
            for monomial, coefficient in shifted.terms
        )

    def _never_negative(self, atom: str | FloorDiv) -> bool:
        """Of what is over its least value."""
        if isinstance(atom, FloorDiv):
            return self._positive(atom.top)
        return atom in self._least or atom in self._extents
