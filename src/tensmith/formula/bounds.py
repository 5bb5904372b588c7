"""Deciding that a polynomial is never negative, by bounding its variables one by one.

Sound and incomplete: True is a proof for all values of the sizes, False means only that none was found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from tensmith.formula.poly import FloorDiv, Poly, floor_div, map_divisions, split_multiple

_ZERO = Poly.of(0)
# What the names of variables bound in a normal form begin with.
CANONICAL = "#"
# What the names of output indices in a claim begin with: no name of a size does, and one that did would be
# taken for the index.
OUTPUT = "%o"


@dataclass(frozen=True)
class Ranges:
    """What is known of variables: 0 <= index < extent, and size >= lower (0 where nothing is said)."""

    extents: Mapping[str, Poly] = field(default_factory=dict)
    lower: Mapping[str, int] = field(default_factory=dict)
    # What was found out already; and the same ranges with more, which know what they found out.
    _known: dict[tuple[Poly, int], bool] = field(default_factory=dict, init=False, repr=False, compare=False)
    _inner: dict[tuple[tuple[str, Poly], ...], Ranges] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def having(self, bound: Iterable[tuple[str, Poly]]) -> Ranges:
        """These ranges and those of `bound`."""
        return Ranges({**self.extents, **dict(bound)}, self.lower)

    def within(self, bound: tuple[tuple[str, Poly], ...]) -> Ranges:
        """As `having`, the same for the same `bound` as long as these ranges are there."""
        if not bound:
            return self
        inner = self._inner.get(bound)
        if inner is None:
            inner = self._inner[bound] = self.having(bound)
        return inner

    def never_negative(self, poly: Poly, depth: int = 8) -> bool:
        """Whether poly >= 0 for all values in range."""
        found = self._known.get((poly, depth))
        if found is None:
            found = self._known[poly, depth] = self._never_negative(poly, depth)
        return found

    def _never_negative(self, poly: Poly, depth: int) -> bool:
        if all(c >= 0 for _, c in poly.terms) and not _below_zero(poly, self.lower):
            return True
        if depth == 0:
            return False
        for name in self._outermost_last(poly.symbols() & self.extents.keys()):
            at_edge = self._at_worst_edge(poly, name, depth)
            if at_edge is not None:
                return self.never_negative(at_edge, depth - 1)
        for division in poly.divisions():
            for bounded in self._bound_division(poly, division, depth):
                if self.never_negative(bounded, depth - 1):
                    return True
        return self._sizes_suffice(poly)

    def _outermost_last(self, names: Iterable[str]) -> list[str]:
        """Indices in an order in which those come last that extents of others are made of."""
        found = sorted(names)
        if len(found) > 1:
            outer = {symbol for name in found for symbol in self.extents[name].symbols()}
            found.sort(key=outer.__contains__)
        return found

    def simplify(self, poly: Poly) -> Poly:
        """`poly` with the divisions gone whose quotient the ranges determine."""
        return map_divisions(poly, self._simplify_division)

    def _simplify_division(self, division: FloorDiv) -> Poly:
        top, bottom = self.simplify(division.top), self.simplify(division.bottom)
        inner = top.atom
        if isinstance(inner, FloorDiv) and self.never_negative(bottom):
            # floor(floor(a / b) / c) = floor(a / (b * c))
            top, bottom = inner.top, inner.bottom * bottom
        shift, top, bottom = self._without_places(top, bottom)
        result = shift + floor_div(top, bottom)
        for atom in result.divisions():
            below = self.never_negative(atom.top) and self.never_negative(atom.bottom - 1 - atom.top)
            if below:
                result = map_divisions(result, lambda d, gone=atom: _ZERO if d == gone else _as_poly(d))  # type: ignore[misc]
        return result

    def _without_places(self, top: Poly, bottom: Poly) -> tuple[Poly, Poly, Poly]:
        """(s, a, b) of floor((a * q + r) / (b * q)) = floor(a / b) where 0 <= r < q and b >= 0, s added."""
        for size, place, shift in _places(top, bottom):
            (blocks, more), (whole, odd) = (
                split_multiple(part, size) for part in (top - shift * bottom - place, bottom)
            )
            inside = more == odd == 0 and blocks != 0
            if inside and all(map(self.never_negative, (whole, place, size - 1 - place))):
                further, blocks, whole = self._without_places(blocks, whole)
                return shift + further, blocks, whole
        return _ZERO, top, bottom

    def _at_worst_edge(self, poly: Poly, name: str, depth: int) -> Poly | None:
        factor = poly.coefficient(name)
        if factor is None:
            return None
        if self.never_negative(factor, depth - 1):
            return poly.substitute({name: 0})
        if self.never_negative(-factor, depth - 1):
            return poly.substitute({name: self.extents[name] - 1})
        return None

    def _bound_division(self, poly: Poly, division: FloorDiv, depth: int) -> Iterable[Poly]:
        """Lower bounds of `poly` without `division`: b*floor(t/b) lies in t-b+1 .. t, for b > 0.

        Where b is 0 there is no quotient to bound; a b that may be negative bounds nothing.
        """
        if not self.never_negative(division.bottom, depth - 1):
            return
        stand_in = "quotient%"
        replaced = map_divisions(poly, lambda d: Poly.symbol(stand_in) if d == division else _as_poly(d))
        factor = replaced.coefficient(stand_in)
        if factor is None:
            return
        rest = replaced - factor * Poly.symbol(stand_in)
        share = floor_div(factor, division.bottom)
        if share * division.bottom == factor:
            if self.never_negative(share, depth - 1):
                yield rest + share * (division.top - division.bottom + 1)
            elif self.never_negative(-share, depth - 1):
                yield rest + share * division.top
        if self.never_negative(factor, depth - 1) and self.never_negative(division.top, depth - 1):
            yield rest
        if self.never_negative(-factor, depth - 1) and self.never_negative(division.top, depth - 1):
            yield rest + factor * division.top  # floor(t / b) <= t
            if division.top.symbols() <= self.extents.keys() and _rising(division.top):
                last = {name: self.extents[name] - 1 for name in division.top.symbols()}
                yield rest + factor * floor_div(division.top.substitute(last), division.bottom)

    def _sizes_suffice(self, poly: Poly) -> bool:
        """All coefficients are >= 0 once every size is written as its lower bound plus something >= 0."""
        names = poly.symbols() - self.extents.keys()
        least = {name: self.lower[name] for name in names & self.lower.keys()}
        shifted = poly.substitute({name: Poly.symbol(name) + low for name, low in least.items() if low})
        return (
            all(c >= 0 for _, c in shifted.terms)
            and not shifted.divisions()
            and not (shifted.symbols() & self.extents.keys())
        )


def _places(top: Poly, bottom: Poly) -> Iterable[tuple[Poly, Poly, Poly]]:
    """(q, r, s): `top` may be s * bottom + a * q + r, where q is a size in `bottom` or r a remainder by q."""
    for name in sorted(bottom.symbols()):
        size = Poly.symbol(name)
        yield size, split_multiple(top, size)[1], _ZERO
    for division in top.divisions():
        size, atom = division.bottom, _as_poly(division)
        count = sum(c for monomial, c in top.terms if monomial == ((division, 1),))
        cycle = bottom.constant or 0
        shift = (count + size.constant) // cycle if size.constant and cycle else 0
        yield size, division.top - atom * size, atom * shift


def _rising(poly: Poly) -> bool:
    """Whether it grows with each of its variables, none of which is negative."""
    return all(c > 0 for _, c in poly.terms) and not poly.divisions()


@lru_cache(maxsize=4096)
def _as_poly(division: FloorDiv) -> Poly:
    return Poly(((((division, 1),), 1),))


def _below_zero(poly: Poly, lower: Mapping[str, int]) -> bool:
    """Whether some variable of `poly` may be negative, so that positive coefficients prove nothing."""
    return any(lower.get(name, 0) < 0 for name in poly.symbols()) or bool(poly.divisions())
