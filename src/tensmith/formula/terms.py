"""What normal forms are made of: atoms, terms with their bound variables, and walking over them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TypeAlias, Union

from tensmith.formula.bounds import CANONICAL
from tensmith.formula.functions import EXTREMES
from tensmith.formula.poly import Poly

Bound: TypeAlias = tuple[tuple[str, Poly], ...]
Atom: TypeAlias = Union["ReadAtom", "SizeAtom", "CallAtom", "ReduceAtom", "GroupAtom"]

ONE = Fraction(1)


@dataclass(frozen=True)
class ReadAtom:
    """One tensor element."""

    tensor: str
    indices: tuple[Poly, ...]

    def __str__(self) -> str:
        return f"{self.tensor}[{', '.join(map(str, self.indices))}]"


@dataclass(frozen=True)
class SizeAtom:
    """A size or position used as a value: one variable, or one division."""

    poly: Poly

    def __str__(self) -> str:
        return f"<{self.poly}>"


@dataclass(frozen=True)
class CallAtom:
    """An opaque function of normal forms."""

    function: str
    args: tuple[NormalForm, ...]

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.args))})"


@dataclass(frozen=True)
class ReduceAtom:
    """A reduction other than a sum."""

    kind: str
    bound: Bound
    body: NormalForm

    def __str__(self) -> str:
        extents = ", ".join(f"{name} < {extent}" for name, extent in self.bound)
        return f"{self.kind}({extents}; {self.body})"


@dataclass(frozen=True)
class GroupAtom:
    """A sum that is raised to a power."""

    body: NormalForm

    def __str__(self) -> str:
        return f"({self.body})"


@dataclass(frozen=True)
class Term:
    """coefficient * sum over `bound` of [all guards >= 0] * product of atom ** exponent."""

    coefficient: Fraction = ONE
    bound: Bound = ()
    guards: frozenset[Poly] = frozenset()
    factors: tuple[tuple[Atom, Fraction], ...] = ()

    @cached_property
    def key(self) -> str:
        """Everything but the coefficient, as text: equal keys mean like terms."""
        bound = ", ".join(f"{name} < {extent}" for name, extent in self.bound)
        guards = "".join(f"[{text}]" for text in sorted(map(str, self.guards)))
        factors = " * ".join(
            str(atom) if exponent == 1 else f"{atom}^{exponent}" for atom, exponent in self.factors
        )
        return (f"sum({bound}; " if bound else "(") + f"{guards}{factors or '1'})"

    def __str__(self) -> str:
        return self.key if self.coefficient == 1 else f"{self.coefficient} * {self.key}"


@dataclass(frozen=True)
class NormalForm:
    """A sum of terms in canonical order."""

    terms: tuple[Term, ...]

    @cached_property
    def text(self) -> str:
        """The canonical text; equality of normal forms is equality of it."""
        return " + ".join(map(str, self.terms)) or "0"

    @cached_property
    def height(self) -> int:
        """Nesting depth of normal forms inside atoms; names bound here are unique to it."""
        return 1 + max((_atom_height(atom) for term in self.terms for atom, _ in term.factors), default=0)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NormalForm) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text


# Canonical names


def canonical(term: Term) -> Term:
    """The term with bound variables named and ordered canonically."""
    factors = in_order(term.factors)
    if not term.bound:
        return replace(term, factors=factors)
    height = 1 + max((_atom_height(atom) for atom, _ in factors), default=0)
    plain = replace(term, bound=(), factors=factors)
    names, renamed = canonical_names(term.bound, height, lambda n: rename(plain, n).key)
    return replace(rename(plain, renamed), bound=names)


def canonical_names(
    bound: Bound, height: int, text: Callable[[Mapping[str, Poly]], str]
) -> tuple[Bound, dict[str, Poly]]:
    """Canonical names of bound variables: among the orders that their roles leave open, the least text."""
    anonymous = {name: Poly.symbol("_") for name, _ in bound}
    roles = {
        name: f"{extent.substitute(anonymous)} {text({**anonymous, name: Poly.symbol('@')})}"
        for name, extent in bound
    }
    groups = [
        list(group)
        for _, group in itertools.groupby(sorted(bound, key=lambda b: roles[b[0]]), key=lambda b: roles[b[0]])
    ]
    best: tuple[str, Bound, dict[str, Poly]] | None = None
    for order in itertools.product(*(itertools.permutations(group) for group in groups)):
        sequence = [item for group in order for item in group]
        names = {old: Poly.symbol(f"{CANONICAL}{height}.{i}") for i, (old, _) in enumerate(sequence)}
        renamed = tuple((str(names[old]), extent.substitute(names)) for old, extent in sequence)
        candidate = (f"{renamed} {text(names)}", renamed, names)
        if best is None or candidate[0] < best[0]:
            best = candidate
    assert best is not None
    return best[1], best[2]


# Walking terms


def _atom_height(atom: Atom) -> int:
    """Nesting depth of the names that an atom binds inside."""
    match atom:
        case CallAtom(_, args):
            return max((arg.height for arg in args), default=0)
        case ReduceAtom(_, _, body):
            return body.height + 1
        case GroupAtom(body):
            return body.height
    return 0


def in_order(factors: Iterable[tuple[Atom, Fraction]]) -> tuple[tuple[Atom, Fraction], ...]:
    return tuple(sorted(factors, key=lambda item: (str(item[0]), item[1])))


def _map_atom(atom: Atom, change: Callable[[Poly], Poly]) -> Atom:
    match atom:
        case ReadAtom(name, indices):
            return ReadAtom(name, tuple(map(change, indices)))
        case SizeAtom(poly):
            return SizeAtom(change(poly))
        case CallAtom(function, args):
            changed = [_map_normal(arg, change) for arg in args]
            if function in EXTREMES:
                changed.sort(key=lambda n: n.text)
            return CallAtom(function, tuple(changed))
        case ReduceAtom(kind, bound, body):
            return ReduceAtom(kind, tuple((n, change(e)) for n, e in bound), _map_normal(body, change))
        case GroupAtom(body):
            return GroupAtom(_map_normal(body, change))
    raise TypeError(f"not an atom: {atom!r}")


def _map_normal(normal: NormalForm, change: Callable[[Poly], Poly]) -> NormalForm:
    terms = [canonical(map_polys(term, change)) for term in normal.terms]
    return NormalForm(tuple(sorted(terms, key=lambda term: term.key)))


def map_polys(term: Term, change: Callable[[Poly], Poly]) -> Term:
    return Term(
        term.coefficient,
        tuple((name, change(extent)) for name, extent in term.bound),
        frozenset(map(change, term.guards)),
        in_order((_map_atom(atom, change), exponent) for atom, exponent in term.factors),
    )


def rename(term: Term, names: Mapping[str, Poly]) -> Term:
    changed = map_polys(term, lambda poly: poly.substitute(names))
    bound = tuple((str(names.get(name, name)), extent) for name, extent in changed.bound)
    return replace(changed, bound=bound)


def rename_normal(normal: NormalForm, names: Mapping[str, Poly]) -> NormalForm:
    return _map_normal(normal, lambda poly: poly.substitute(names))


def symbols(term: Term) -> frozenset[str]:
    found: set[str] = set()

    def note(poly: Poly) -> Poly:
        found.update(poly.symbols())
        return poly

    map_polys(replace(term, bound=()), note)
    for _, extent in term.bound:
        note(extent)
    return frozenset(found)
