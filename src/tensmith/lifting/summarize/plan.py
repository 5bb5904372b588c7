"""Size symbols: which polynomials of parameters and lengths count as extents, and what they are called.

Extents that differ by constants share a symbol, that of the smallest, which is then required not to be
negative; an extent alone is a size max(0, extent) with nothing required. Where the extent is a symbol of its
own plus the rest (n - 2, n - k + 1), that symbol is written through the size everywhere (n = n_1 + 2).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from tensmith.formula.poly import FloorDiv, Poly, floor_div
from tensmith.lifting.summarize.scope import Scope
from tensmith.lifting.summary import Requirement, SizeSymbol, StridedMemory, as_shown, length_of

_QUOTIENT = re.compile(r"\(\(((?:[^()]|len\([^()]+\))+)\) // \((\w+)\)\)")


@dataclass(frozen=True)
class DerivationPlan:
    """What one run of the derivation learnt for the next.

    symbols: integer parameter or length -> polynomial in sizes; opaque: extents with a symbol of their own;
    never_negative: symbols that are >= 0 at any time; grids: array -> strides.
    """

    sizes: tuple[SizeSymbol, ...] = ()
    symbols: Mapping[str, Poly] = field(default_factory=dict)
    opaque: Mapping[Poly, Poly] = field(default_factory=dict)
    never_negative: frozenset[str] = frozenset()
    requires: tuple[Requirement, ...] = ()
    alone: frozenset[str] = frozenset()  # sizes of extents that may be negative
    grids: Mapping[str, StridedMemory] = field(default_factory=dict)

    @property
    def raw(self) -> dict[str, Poly]:
        """size symbol -> its polynomial in parameters and lengths."""
        return {size.symbol: size.poly for size in self.sizes}


def plan_sizes(extents: Collection[Poly], unsigned: frozenset[str], taken: frozenset[str]) -> DerivationPlan:
    """The plan for the extents seen, polynomials in parameters and lengths, without grids.

    unsigned: names never negative by type; taken: names that a symbol may not have.
    """
    groups: dict[Poly, list[int]] = {}
    for extent in dict.fromkeys((*extents, *map(Poly.symbol, _divided(extents)))):
        if extent.constant is None:
            constant = dict(extent.terms).get((), 0)
            groups.setdefault(extent - constant, []).append(constant)
    singles = {key for key in groups if _single(key) is not None}
    made = _Making(set(taken), unsigned)
    for key in sorted(groups, key=lambda key: (key not in singles, list(groups).index(key))):
        constants = groups[key]
        name = _single(key)
        as_they_stand = {symbol for symbol, poly in made.symbols.items() if _single(poly) is not None}
        if name in unsigned:
            constants = constants if min(constants) < 0 else [0]
        elif Scope(frozenset(as_they_stand)).proves(key + min(constants)):
            continue
        made.add(key, constants, name or _solvable(key, singles, made.symbols))
    sizes = tuple(made.sizes)
    return DerivationPlan(
        sizes,
        made.symbols,
        made.opaque,
        unsigned | {size.symbol for size in sizes},
        tuple(made.requires),
        frozenset(made.alone),
    )


class _Making:
    """A plan in the making."""

    def __init__(self, taken: set[str], never: Collection[str]) -> None:
        self.taken, self.never = taken, never
        self.sizes: list[SizeSymbol] = []
        self.symbols: dict[str, Poly] = {}
        self.opaque: dict[Poly, Poly] = {}
        self.requires: list[Requirement] = []
        self.alone: set[str] = set()

    def add(self, key: Poly, constants: list[int], solved: str | None) -> None:
        """A size for the smallest of the extents key + constant."""
        least = min(constants)
        poly = key + least
        symbol = self.name(poly, solved)
        self.sizes.append(SizeSymbol(symbol, poly))
        if least == 0 and _single(key) in self.never:
            pass
        elif len(set(constants)) > 1:
            self.requires.append(Requirement("at_least", at_least_text(poly), poly))
        else:
            self.alone.add(symbol)
        if solved is None:
            for constant in constants:
                self.opaque[key + constant] = Poly.symbol(symbol) + (constant - least)
        else:
            self.symbols[solved] = Poly.symbol(symbol) - (poly - Poly.symbol(solved))

    def name(self, poly: Poly, solved: str | None) -> str:
        """What to call a size: as the parameter or array it is, else with a number."""
        base = solved or "_".join(sorted(poly.symbols()))
        length = length_of(base)
        if length is not None:
            array, axis = length
            base = f"len_{array}_{axis}" if axis else f"len_{array}"
        if not base.isidentifier():  # x_ and x are two parameters
            base = re.sub(r"\W+", "_", base).strip("_")
        exact = solved is not None and poly == Poly.symbol(solved)
        if (
            exact
            and (length is None or base not in self.taken)
            and base not in {size.symbol for size in self.sizes}
        ):
            symbol = base
        else:
            symbol = next(
                name for n in range(1, len(self.taken) + 2) if (name := f"{base}_{n}") not in self.taken
            )
        self.taken.add(symbol)
        return symbol


def at_least_text(poly: Poly) -> str:
    """poly >= 0 as people write it: "n >= 2", "lda >= n", "n <= 9"."""
    above = Poly.from_terms({m: c for m, c in poly.terms if c > 0 and m})
    below = Poly.from_terms({m: -c for m, c in poly.terms if c < 0 or not m})
    if not above.terms:
        constant = dict(poly.terms).get((), 0)
        return f"{display(below + constant)} <= {constant}"
    return f"{display(above)} >= {display(below)}"


def display(poly: Poly) -> str:
    """A polynomial as it is shown: positive terms first, lengths as len(a), len(a[0])."""
    above = Poly.from_terms({m: c for m, c in poly.terms if c > 0})
    below = Poly.from_terms({m: -c for m, c in poly.terms if c < 0})
    minus = "".join(f" - {Poly.from_terms({m: c})}" for m, c in below.terms)
    text = str(above) + minus if above.terms or not minus else minus.replace(" - ", "-", 1)
    return _QUOTIENT.sub(lambda m: f"({m[1] if ' ' not in m[1] else f'({m[1]})'} // {m[2]})", as_shown(text))


def _single(key: Poly) -> str | None:
    """The symbol that the polynomial is."""
    return key.atom if isinstance(key.atom, str) else None


def _solvable(key: Poly, singles: set[Poly], solved: Mapping[str, Poly]) -> str | None:
    """A symbol with the factor 1 that no other extent determines."""
    for name in sorted(key.symbols()):
        if Poly.symbol(name) not in singles and name not in solved and key.coefficient(name) == 1:
            return name
    return None


def never_negative(poly: Poly, sizes: Collection[str]) -> bool:
    """Whether the polynomial has only positive terms, in sizes and in quotients of such polynomials."""
    return all(
        coefficient >= 0
        and all(
            never_negative(atom.top, sizes) and never_negative(atom.bottom, sizes)
            if isinstance(atom, FloorDiv)
            else atom in sizes
            for atom, _ in monomial
        )
        for monomial, coefficient in poly.terms
    )


def _divided(extents: Iterable[Poly]) -> dict[str, None]:
    """Parameters that are divided in extents, which are made sizes so that their quotients are."""
    tops = (quotient.top for extent in extents for quotient in extent.divisions())
    return dict.fromkeys(name for top in tops if never_negative(top, top.symbols()) for name in top.symbols())


def cut_alike(extent: Poly, size: Poly) -> bool:
    """Whether an extent may be computed from the size of a polynomial: it is that, or a quotient of it."""
    quotients = extent.divisions()
    if extent == size or len(quotients) != 1 or (quotients[0].bottom.constant or 0) <= 0:
        return extent == size
    return quotients[0].top == size and extent == floor_div(size, quotients[0].bottom)
