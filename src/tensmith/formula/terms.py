"""What normal forms are made of: atoms, terms with their bound variables, and walking over them."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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


class _Written(ABC):
    """Its text, made once: whoever orders or compares terms asks again and again."""

    @abstractmethod
    def _write(self) -> str: ...

    @cached_property
    def _text(self) -> str:
        return self._write()

    def __str__(self) -> str:
        return self._text


@dataclass(frozen=True)
class ReadAtom(_Written):
    """One tensor element."""

    tensor: str
    indices: tuple[Poly, ...]

    def _write(self) -> str:
        return f"{self.tensor}[{', '.join(map(str, self.indices))}]"


@dataclass(frozen=True)
class SizeAtom(_Written):
    """A size or position used as a value: one variable, or one division."""

    poly: Poly

    def _write(self) -> str:
        return f"<{self.poly}>"


@dataclass(frozen=True)
class CallAtom(_Written):
    """An opaque function of normal forms."""

    function: str
    args: tuple[NormalForm, ...]

    def _write(self) -> str:
        return f"{self.function}({', '.join(map(str, self.args))})"


@dataclass(frozen=True)
class ReduceAtom(_Written):
    """A reduction other than a sum."""

    kind: str
    bound: Bound
    body: NormalForm

    def _write(self) -> str:
        extents = ", ".join(f"{name} < {extent}" for name, extent in self.bound)
        return f"{self.kind}({extents}; {self.body})"


@dataclass(frozen=True)
class GroupAtom(_Written):
    """A sum that is raised to a power."""

    body: NormalForm

    def _write(self) -> str:
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
    if len(bound) == 1:
        return _named(bound, height)
    anonymous = {name: Poly.symbol("_") for name, _ in bound}
    roles = {
        name: f"{extent.substitute(anonymous)} {text({**anonymous, name: Poly.symbol('@')})}"
        for name, extent in bound
    }
    groups = [
        list(group)
        for _, group in itertools.groupby(sorted(bound, key=lambda b: roles[b[0]]), key=lambda b: roles[b[0]])
    ]
    orders = itertools.product(*(itertools.permutations(group) for group in groups))
    named = [_named([item for group in order for item in group], height) for order in orders]
    return named[0] if len(named) == 1 else min(named, key=lambda n: f"{n[0]} {text(n[1])}")


def _named(sequence: Sequence[tuple[str, Poly]], height: int) -> tuple[Bound, dict[str, Poly]]:
    """Bound variables named by their places, and the names that they get."""
    names = {old: Poly.symbol(f"{CANONICAL}{height}.{i}") for i, (old, _) in enumerate(sequence)}
    return tuple((str(names[old]), extent.substitute(names)) for old, extent in sequence), names


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


# What a change leaves as it is stays the same object: most changes concern few parts of a term.


def _map_atom(atom: Atom, change: Callable[[Poly], Poly]) -> Atom:
    match atom:
        case ReadAtom(name, indices):
            moved = tuple(map(change, indices))
            return atom if _same(moved, indices) else ReadAtom(name, moved)
        case SizeAtom(poly):
            size = change(poly)
            return atom if size is poly else SizeAtom(size)
        case CallAtom(function, args):
            changed = [_map_normal(arg, change) for arg in args]
            if _same(changed, args):
                return atom
            if function in EXTREMES:
                changed.sort(key=lambda n: n.text)
            return CallAtom(function, tuple(changed))
        case ReduceAtom(kind, bound, body):
            extents, inner = _map_bound(bound, change), _map_normal(body, change)
            return atom if extents is bound and inner is body else ReduceAtom(kind, extents, inner)
        case GroupAtom(body):
            inner = _map_normal(body, change)
            return atom if inner is body else GroupAtom(inner)
    raise TypeError(f"not an atom: {atom!r}")


def _map_bound(bound: Bound, change: Callable[[Poly], Poly]) -> Bound:
    changed = tuple((name, change(extent)) for name, extent in bound)
    return bound if all(new is old for (_, new), (_, old) in zip(changed, bound)) else changed


def _map_normal(normal: NormalForm, change: Callable[[Poly], Poly]) -> NormalForm:
    changed = [map_polys(term, change) for term in normal.terms]
    if _same(changed, normal.terms):
        return normal
    return NormalForm(tuple(sorted(map(canonical, changed), key=lambda term: term.key)))


def map_polys(term: Term, change: Callable[[Poly], Poly]) -> Term:
    bound = _map_bound(term.bound, change)
    old = tuple(term.guards)
    new = tuple(map(change, old))
    guards = term.guards if _same(new, old) else frozenset(new)
    atoms = [_map_atom(atom, change) for atom, _ in term.factors]
    if not _same(atoms, [atom for atom, _ in term.factors]):
        factors = in_order(zip(atoms, (exponent for _, exponent in term.factors)))
    elif bound is term.bound and guards is term.guards:
        return term
    else:
        factors = term.factors
    return Term(term.coefficient, bound, guards, factors)


def _same(new: Iterable[object], old: Iterable[object]) -> bool:
    return all(one is other for one, other in zip(new, old))


def rename(term: Term, names: Mapping[str, Poly]) -> Term:
    changed = map_polys(term, lambda poly: poly.substitute(names))
    if all(name not in names for name, _ in term.bound):
        return changed
    bound = tuple((str(names.get(name, name)), extent) for name, extent in changed.bound)
    return replace(changed, bound=bound)


def rename_normal(normal: NormalForm, names: Mapping[str, Poly]) -> NormalForm:
    return _map_normal(normal, lambda poly: poly.substitute(names))


def polys(term: Term) -> Iterator[Poly]:
    """Every extent, guard and subscript in a term."""
    yield from (extent for _, extent in term.bound)
    yield from term.guards
    for atom, _ in term.factors:
        yield from _atom_polys(atom)


def _atom_polys(atom: Atom) -> Iterator[Poly]:
    bodies: Iterable[NormalForm] = ()
    match atom:
        case ReadAtom(_, indices):
            yield from indices
        case SizeAtom(poly):
            yield poly
        case CallAtom(_, args):
            bodies = args
        case ReduceAtom(_, bound, body):
            yield from (extent for _, extent in bound)
            bodies = (body,)
        case GroupAtom(body):
            bodies = (body,)
    for body in bodies:
        for term in body.terms:
            yield from polys(term)


def symbols(term: Term) -> frozenset[str]:
    return frozenset().union(*(poly.symbols() for poly in polys(term)))
