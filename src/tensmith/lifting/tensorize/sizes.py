"""Which polynomials are sizes: never negative, and so an extent as they stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tensmith.formula.poly import Poly
from tensmith.lifting.summarize.scope import Scope
from tensmith.lifting.summary import Path, SizeSymbol, Summary, length_of, length_symbol


@dataclass
class Sizes:
    """The sizes of a function, and those added where an extent may be negative, which counts as 0."""

    summary: Summary
    added: list[SizeSymbol] = field(default_factory=list)

    @property
    def all(self) -> tuple[SizeSymbol, ...]:
        """The summary's, then the added ones."""
        return (*self.summary.sizes, *self.added)

    def extent(self, poly: Poly) -> Poly:
        """max(0, poly): the polynomial itself where that is known, else a symbol."""
        if poly.constant is not None:
            return Poly.of(max(0, poly.constant))
        if self.is_size(poly):
            return poly
        return self.where(poly, ())

    def where(self, poly: Poly, path: Path) -> Poly:
        """max(0, poly) where a path is taken, else 0."""
        for size in self.added:
            if (size.poly, size.where) == (poly, path):
                return Poly.symbol(size.symbol)
        base = min(poly.symbols(), key=lambda symbol: (length_of(symbol) is not None, symbol), default="some")
        size = SizeSymbol(self._fresh(base), poly, path)
        self.added.append(size)
        return Poly.symbol(size.symbol)

    def is_size(self, poly: Poly) -> bool:
        """Whether the polynomial is surely not negative: by its signs, or by a requirement."""
        return self.scope(poly).proves(poly)

    def scope(self, *polys: Poly) -> Scope:
        """What is known of sizes, of the lengths in some polynomials, and by requirements."""
        lengths = frozenset(n for poly in polys for n in poly.symbols() if length_of(n))
        stated = [(r, r.poly) for r in self.summary.requires if r.poly is not None and not r.where]
        bounds = [poly for r, poly in stated if r.kind == "at_least"]
        for r, poly in stated:
            length = length_symbol(r.array, r.axis)
            # What is a sum for a parameter below 0 may be more for its size, which is 0 there.
            if r.kind == "length" and length in lengths and str(poly) in poly.symbols():
                bounds.append(Poly.symbol(length) - poly)
        return Scope(lengths | {size.symbol for size in self.all}).knowing(bounds)

    def filled(self, poly: Poly, extents: Sequence[Poly]) -> Poly:
        """The polynomial where extents are not 0: sizes in them are what they are the positive parts of."""
        symbols = frozenset[str]().union(*map(_added, extents))
        for size in reversed(self.all):  # each over parameters and sizes before it
            if size.poly == Poly.symbol(size.symbol):
                continue
            if size.symbol in symbols or (not size.where and self.is_size(size.poly)):
                poly = poly.substitute({size.symbol: size.poly})
                symbols |= _added(size.poly)
        return poly

    def stated(self, extents: Sequence[Poly]) -> list[Poly]:
        """What is >= 0 where extents are not 0: a size is then what it is the positive part of."""
        found = []
        for size in self.all:
            if Poly.symbol(size.symbol) in extents and size.poly != Poly.symbol(size.symbol):
                found += [size.poly - Poly.symbol(size.symbol), Poly.symbol(size.symbol) - size.poly]
        return found

    def _fresh(self, base: str) -> str:
        base = "".join(c if c.isalnum() else "_" for c in base).strip("_")
        taken = {size.symbol for size in self.all} | {p.name for p in self.summary.function.parameters}
        return next(name for count in range(1, len(taken) + 2) if (name := f"{base}_{count}") not in taken)


def _added(poly: Poly) -> frozenset[str]:
    """The symbols that make a polynomial larger: what is taken away may be 0 where it is not."""
    rising = {monomial: factor for monomial, factor in poly.terms if factor > 0}
    return Poly.from_terms(rising).symbols()
