"""The normal form: a sum of terms  coefficient * sum(bound vars) [guards] * product(atom ** exponent).

Two formulas with the same normal form are equal for all sizes and all real inputs at which both are
defined. The converse does not hold; what the normal form leaves open goes to SMT (`smt.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TypeAlias, Union

from tensmith.formula.bounds import CANONICAL, Ranges
from tensmith.formula.expr import Add, Call, Expr, Formula, Guard, Mul, Num, Pow, Read, Reduce, Size, fresh
from tensmith.formula.poly import Poly

Bound: TypeAlias = tuple[tuple[str, Poly], ...]
Atom: TypeAlias = Union["ReadAtom", "SizeAtom", "CallAtom", "ReduceAtom", "GroupAtom"]

_ONE = Fraction(1)
_LATTICE = {"maximum": "max", "minimum": "min"}


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
    args: tuple[Normal, ...]

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.args))})"


@dataclass(frozen=True)
class ReduceAtom:
    """A reduction other than a sum."""

    kind: str
    bound: Bound
    body: Normal

    def __str__(self) -> str:
        extents = ", ".join(f"{name} < {extent}" for name, extent in self.bound)
        return f"{self.kind}({extents}; {self.body})"


@dataclass(frozen=True)
class GroupAtom:
    """A sum that is raised to a power."""

    body: Normal

    def __str__(self) -> str:
        return f"({self.body})"


@dataclass(frozen=True)
class Term:
    """coefficient * sum over `bound` of [all guards >= 0] * product of atom ** exponent."""

    coefficient: Fraction = _ONE
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
class Normal:
    """A sum of terms in canonical order."""

    terms: tuple[Term, ...]

    @cached_property
    def text(self) -> str:
        """The canonical text; equality of normal forms is equality of it."""
        return " + ".join(map(str, self.terms)) or "0"

    @cached_property
    def height(self) -> int:
        """Nesting depth of normal forms inside atoms; names bound here are unique to it."""
        return 1 + max((_height(atom) for term in self.terms for atom, _ in term.factors), default=0)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Normal) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text


def normalize(expr: Expr, ranges: Ranges) -> Normal:
    """The normal form of `expr`, simplified with what `ranges` says of its variables."""
    return _combine(_expand(expr, ranges), ranges)


def equal(left: Formula, right: Formula, ranges: Ranges | None = None) -> bool:
    """Whether two formulas have the same shape and the same normal form (a proof for all sizes)."""
    return explain_difference(left, right, ranges) is None


def explain_difference(left: Formula, right: Formula, ranges: Ranges | None = None) -> str | None:
    """None if `equal`; otherwise what differs, as text."""
    ranges = ranges or Ranges()
    if left.rank != right.rank:
        return f"ranks differ: {left.rank} and {right.rank}"
    for axis, (a, b) in enumerate(zip(left.shape, right.shape)):
        if ranges.simplify(a - b) != 0:
            return f"sizes of axis {axis} differ: {a} and {b}"
    names = [f"o{axis}" for axis in range(left.rank)]
    at = tuple(map(Poly.symbol, names))
    inner = ranges.having(zip(names, left.shape))
    first, second = normalize(left[at], inner), normalize(right[at], inner)
    return None if first == second else f"left  = {first}\nright = {second}"


# Expansion: an expression as a list of terms, names of bound variables still arbitrary


def _expand(expr: Expr, ranges: Ranges) -> list[Term]:
    match expr:
        case Num(value):
            return [Term(value)] if value else []
        case Size(poly):
            return _expand_size(poly)
        case Read(name, indices):
            return [Term(factors=((ReadAtom(name, indices), _ONE),))]
        case Add(args):
            return [term for arg in args for term in _expand(arg, ranges)]
        case Mul(args):
            return _product([_expand(arg, ranges) for arg in args])
        case Pow(base, exponent):
            return _power(base, exponent, ranges)
        case Guard(conditions, body):
            return [replace(t, guards=t.guards | set(conditions)) for t in _expand(body, ranges)]
        case Reduce("sum", var, extent, body):
            inner = ranges.having(((var, extent),))
            return [replace(t, bound=((var, extent), *t.bound)) for t in _expand(body, inner)]
        case Reduce():
            return [Term(factors=((_reduction(expr, ranges), _ONE),))]
        case Call(function, args):
            return _call(function, args, ranges)
    raise TypeError(f"not an expression: {expr!r}")


def _expand_size(poly: Poly) -> list[Term]:
    terms = []
    for monomial, coefficient in poly.terms:
        factors = tuple((SizeAtom(Poly(((((a, 1),), 1),))), Fraction(power)) for a, power in monomial)
        terms.append(Term(Fraction(coefficient), factors=_sorted(factors)))
    return terms


def _product(parts: list[list[Term]]) -> list[Term]:
    result = [Term()]
    for part in parts:
        result = [_times(left, right) for left in result for right in part]
    return result


def _times(left: Term, right: Term) -> Term:
    taken = {name for name, _ in left.bound}
    clash = {name: Poly.symbol(fresh()) for name, _ in right.bound if name in taken}
    other = _rename(right, clash) if clash else right
    exponents: dict[Atom, Fraction] = dict(left.factors)
    for atom, exponent in other.factors:
        exponents[atom] = exponents.get(atom, Fraction(0)) + exponent
    factors = _sorted((atom, exponent) for atom, exponent in exponents.items() if exponent)
    return Term(
        left.coefficient * other.coefficient, left.bound + other.bound, left.guards | other.guards, factors
    )


def _power(base: Expr, exponent: Fraction, ranges: Ranges) -> list[Term]:
    if exponent.denominator == 1 and 0 <= exponent <= 8:
        return _product([_expand(base, ranges)] * int(exponent))
    inner = _combine(_expand(base, ranges), ranges)
    if len(inner.terms) == 1 and not inner.terms[0].bound and not inner.terms[0].guards:
        (term,) = inner.terms
        if exponent.denominator == 1:  # 1/(c*x*y) = 1/c * 1/x * 1/y
            factors = tuple((atom, power * exponent) for atom, power in term.factors)
            return [Term(term.coefficient**exponent.numerator, factors=factors)]
        if term.coefficient == 1 and len(term.factors) == 1 and term.factors[0][1] == 1:
            return [Term(factors=((term.factors[0][0], exponent),))]
    return [Term(factors=((GroupAtom(inner), exponent),))]


def _reduction(expr: Reduce, ranges: Ranges) -> ReduceAtom:
    bound: list[tuple[str, Poly]] = []
    body: Expr = expr
    while isinstance(body, Reduce) and body.kind == expr.kind:
        bound.append((body.var, body.extent))
        body = body.body
    inner = normalize(body, ranges.having(bound))
    # One level above what the body's own sums are named by, so that neither captures the other.
    level = inner.height + 1
    names, renamed = _canonical_names(tuple(bound), level, lambda n: _rename_normal(inner, n).text)
    return ReduceAtom(expr.kind, names, _rename_normal(inner, renamed))


def _call(function: str, args: tuple[Expr, ...], ranges: Ranges) -> list[Term]:
    normals = [normalize(arg, ranges) for arg in args]
    if function in _LATTICE:
        return _lattice(function, normals)
    return [Term(factors=((CallAtom(function, tuple(normals)), _ONE),))]


def _lattice(function: str, args: list[Normal]) -> list[Term]:
    """maximum and minimum: associative, commutative, idempotent."""
    flat: dict[str, Normal] = {}
    for arg in args:
        atom = _only_atom(arg)
        nested = atom.args if isinstance(atom, CallAtom) and atom.function == function else (arg,)
        flat.update((n.text, n) for n in nested)
    if len(flat) == 1:
        return [_freed(term) for term in next(iter(flat.values())).terms]
    constants = [n for n in flat.values() if all(not (t.bound or t.guards or t.factors) for t in n.terms)]
    if len(constants) > 1:
        pick = max if function == "maximum" else min
        kept = pick(constants, key=lambda n: n.terms[0].coefficient if n.terms else Fraction(0))
        return _lattice(function, [n for n in flat.values() if n not in constants] + [kept])
    ordered = tuple(flat[text] for text in sorted(flat))
    return [Term(factors=((CallAtom(function, ordered), _ONE),))]


def _freed(term: Term) -> Term:
    """A canonical term with bound variables of its own again, fit to be multiplied with others."""
    return _rename(term, {name: Poly.symbol(fresh()) for name, _ in term.bound})


def _only_atom(normal: Normal) -> Atom | None:
    if len(normal.terms) != 1:
        return None
    (term,) = normal.terms
    plain = term.coefficient == 1 and not term.bound and not term.guards and len(term.factors) == 1
    return term.factors[0][0] if plain and term.factors[0][1] == 1 else None


# Simplification and canonical order


def _combine(terms: Iterable[Term], ranges: Ranges) -> Normal:
    table: dict[str, Term] = {}
    for term in terms:
        for simple in _simplify(term, ranges):
            named = _canonical(simple)
            before = table.get(named.key)
            table[named.key] = (
                named
                if before is None
                else replace(named, coefficient=before.coefficient + named.coefficient)
            )
    kept = [term for term in table.values() if term.coefficient]
    merged = _merge_cases(kept, ranges)
    if len(merged) != len(kept):
        return _combine(merged, ranges)
    return Normal(tuple(sorted(kept, key=lambda term: term.key)))


def _simplify(term: Term, ranges: Ranges) -> list[Term]:
    inner = ranges.having(term.bound)
    term = _map_polys(term, inner.simplify)
    guards = _needed_guards(term.guards, inner)
    if guards is None:
        return []
    term = replace(term, guards=guards)
    solved = _solve_equality(term)
    if solved is not None:
        return _simplify(solved, ranges)
    for name, extent in term.bound:
        if name not in _symbols(term) and inner.never_negative(extent):  # sum(k < K; x) = K * x
            rest = replace(term, bound=tuple(item for item in term.bound if item[0] != name))
            return [s for t in _product([[rest], _expand_size(extent)]) for s in _simplify(t, ranges)]
    return [term]


def _needed_guards(guards: frozenset[Poly], ranges: Ranges) -> frozenset[Poly] | None:
    """Guards without those that always hold or follow from another; None if they cannot all hold."""
    for one in guards:
        for other in guards:
            if ranges.never_negative(-1 - one if one is other else -1 - one - other):
                return None
    kept = [g for g in sorted(guards, key=str) if not ranges.never_negative(g)]
    for guard in list(kept):
        if any(other is not guard and ranges.never_negative(guard - other) for other in kept):
            kept.remove(guard)
    return frozenset(kept)


def _solve_equality(term: Term) -> Term | None:
    """Sums over a variable that guards fix: [e >= 0][-e >= 0] with e = v - rest puts v = rest."""
    for guard in term.guards:
        if -guard not in term.guards:
            continue
        for name, extent in term.bound:
            factor = guard.coefficient(name)
            if factor is None or factor.constant not in (1, -1):
                continue
            value = Poly.symbol(name) - guard * int(factor.constant or 1)
            rest = replace(
                term,
                bound=tuple(item for item in term.bound if item[0] != name),
                guards=(term.guards - {guard, -guard}) | {Poly.symbol(name), extent - 1 - Poly.symbol(name)},
            )
            return _rename(rest, {name: value})
    return None


def _merge_cases(terms: list[Term], ranges: Ranges) -> list[Term]:
    """[g] * t + [not g] * t = t, where the other guards of each side follow on the other."""
    for first, second in itertools.combinations(terms, 2):
        if first.coefficient != second.coefficient or first.factors != second.factors:
            continue
        if first.bound != second.bound:
            continue
        inner = ranges.having(first.bound)
        for guard in first.guards:
            opposite = -1 - guard
            if opposite not in second.guards:
                continue
            ours, theirs = first.guards - {guard}, second.guards - {opposite}
            if _follow(theirs, first.guards, inner) and _follow(ours, second.guards, inner):
                merged = replace(first, guards=ours | theirs)
                return [merged, *(t for t in terms if t is not first and t is not second)]
    return terms


def _follow(wanted: Iterable[Poly], given: frozenset[Poly], ranges: Ranges) -> bool:
    return all(ranges.never_negative(w) or any(ranges.never_negative(w - g) for g in given) for w in wanted)


def _canonical(term: Term) -> Term:
    """The term with bound variables named and ordered canonically."""
    factors = _sorted(term.factors)
    if not term.bound:
        return replace(term, factors=factors)
    height = 1 + max((_height(atom) for atom, _ in factors), default=0)
    plain = replace(term, bound=(), factors=factors)
    names, renamed = _canonical_names(term.bound, height, lambda n: _rename(plain, n).key)
    return replace(_rename(plain, renamed), bound=names)


def _canonical_names(
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


def _height(atom: Atom) -> int:
    """Nesting depth of the names that an atom binds inside."""
    match atom:
        case CallAtom(_, args):
            return max((arg.height for arg in args), default=0)
        case ReduceAtom(_, _, body):
            return body.height + 1
        case GroupAtom(body):
            return body.height
    return 0


def _sorted(factors: Iterable[tuple[Atom, Fraction]]) -> tuple[tuple[Atom, Fraction], ...]:
    return tuple(sorted(factors, key=lambda item: (str(item[0]), item[1])))


def _map_atom(atom: Atom, change: Callable[[Poly], Poly]) -> Atom:
    match atom:
        case ReadAtom(name, indices):
            return ReadAtom(name, tuple(map(change, indices)))
        case SizeAtom(poly):
            return SizeAtom(change(poly))
        case CallAtom(function, args):
            changed = [_map_normal(arg, change) for arg in args]
            if function in _LATTICE:
                changed.sort(key=lambda n: n.text)
            return CallAtom(function, tuple(changed))
        case ReduceAtom(kind, bound, body):
            return ReduceAtom(kind, tuple((n, change(e)) for n, e in bound), _map_normal(body, change))
        case GroupAtom(body):
            return GroupAtom(_map_normal(body, change))
    raise TypeError(f"not an atom: {atom!r}")


def _map_normal(normal: Normal, change: Callable[[Poly], Poly]) -> Normal:
    terms = [_canonical(_map_polys(term, change)) for term in normal.terms]
    return Normal(tuple(sorted(terms, key=lambda term: term.key)))


def _map_polys(term: Term, change: Callable[[Poly], Poly]) -> Term:
    return Term(
        term.coefficient,
        tuple((name, change(extent)) for name, extent in term.bound),
        frozenset(map(change, term.guards)),
        _sorted((_map_atom(atom, change), exponent) for atom, exponent in term.factors),
    )


def _rename(term: Term, names: Mapping[str, Poly]) -> Term:
    changed = _map_polys(term, lambda poly: poly.substitute(names))
    bound = tuple((str(names.get(name, name)), extent) for name, extent in changed.bound)
    return replace(changed, bound=bound)


def _rename_normal(normal: Normal, names: Mapping[str, Poly]) -> Normal:
    return _map_normal(normal, lambda poly: poly.substitute(names))


def _symbols(term: Term) -> frozenset[str]:
    found: set[str] = set()

    def note(poly: Poly) -> Poly:
        found.update(poly.symbols())
        return poly

    _map_polys(replace(term, bound=()), note)
    for _, extent in term.bound:
        note(extent)
    return frozenset(found)
