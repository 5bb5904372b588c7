"""The normal form: a sum of terms  coefficient * sum(bound vars) [guards] * product(atom ** exponent).

Two formulas with the same normal form are equal for all sizes and all real inputs at which both are
defined. The converse does not hold; what the normal form leaves open goes to SMT (`smt.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

from tensmith.formula.bounds import OUTPUT, Ranges
from tensmith.formula.expr import Call, Choose, Expr, Formula, Num, Pow, Read, Reduce, Size, fresh
from tensmith.formula.functions import EXTREMES
from tensmith.formula.poly import Poly
from tensmith.formula.sums import ascending, found, joined, parted, shifted, solved, strided
from tensmith.formula.terms import (
    ONE,
    Atom,
    CallAtom,
    GroupAtom,
    NormalForm,
    ReadAtom,
    ReduceAtom,
    SizeAtom,
    Term,
    canonical,
    canonical_names,
    in_order,
    map_polys,
    rename,
    rename_normal,
    symbols,
)
from tensmith.formula.walk import chain


def normalize(expr: Expr, ranges: Ranges) -> NormalForm:
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
    at, inner = any_element(left, ranges)
    first, second = normalize(left[at], inner), normalize(right[at], inner)
    return None if first == second else f"left  = {first}\nright = {second}"


def any_element(formula: Formula, ranges: Ranges) -> tuple[tuple[Poly, ...], Ranges]:
    """The subscripts of whichever element, and what is known where these lie inside."""
    names = [f"{OUTPUT}{axis}" for axis in range(formula.rank)]
    at = tuple(Poly.of(0) if size == 1 else Poly.symbol(name) for name, size in zip(names, formula.shape))
    return at, ranges.having(zip(names, formula.shape))


# Expansion: an expression as a list of terms, names of bound variables still arbitrary


def _expand(expr: Expr, ranges: Ranges) -> list[Term]:
    match expr:
        case Num(value):
            return [Term(Fraction(value))] if value else []
        case Size(poly):
            return _expand_size(poly)
        case Read(name, indices):
            return [Term(factors=((ReadAtom(name, indices), ONE),))]
        case Call("add", args):
            return [term for arg in args for term in _expand(arg, ranges)]
        case Call("mul", args):
            return _product([_expand(arg, ranges) for arg in args])
        case Pow(base, exponent):
            return _power(base, exponent, ranges)
        case Choose(conditions, then, otherwise):
            return _choice(conditions, _expand(then, ranges), _expand(otherwise, ranges))
        case Reduce("sum", var, extent, body):
            inner = ranges.within(((var, extent),))
            return [replace(t, bound=((var, extent), *t.bound)) for t in _expand(body, inner)]
        case Reduce():
            return [Term(factors=((_reduction(expr, ranges), ONE),))]
        case Call(function, args):
            return _call(function, args, ranges)
    raise TypeError(f"not an expression: {expr!r}")


def _expand_size(poly: Poly) -> list[Term]:
    terms = []
    for monomial, coefficient in poly.terms:
        factors = tuple((SizeAtom(Poly(((((a, 1),), 1),))), Fraction(power)) for a, power in monomial)
        terms.append(Term(Fraction(coefficient), factors=in_order(factors)))
    return terms


def _choice(conditions: tuple[Poly, ...], then: list[Term], otherwise: list[Term]) -> list[Term]:
    """[all hold] * then, and otherwise where the first one that fails is this one, for each of them."""
    cases = [(set(conditions), then)]
    cases += [({*conditions[:n], -1 - condition}, otherwise) for n, condition in enumerate(conditions)]
    return [replace(term, guards=term.guards | guards) for guards, terms in cases for term in terms]


def _product(parts: list[list[Term]]) -> list[Term]:
    result = [Term()]
    for part in parts:
        result = [_times(left, right) for left in result for right in part]
    return result


def _times(left: Term, right: Term) -> Term:
    taken = {name for name, _ in left.bound}
    clash = {name: Poly.symbol(fresh()) for name, _ in right.bound if name in taken}
    other = rename(right, clash) if clash else right
    exponents: dict[Atom, Fraction] = dict(left.factors)
    for atom, exponent in other.factors:
        exponents[atom] = exponents.get(atom, Fraction(0)) + exponent
    factors = in_order((atom, exponent) for atom, exponent in exponents.items() if exponent)
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
    nested, body = chain(expr)
    bound = tuple((each.var, each.extent) for each in nested)
    inner = normalize(body, ranges.within(bound))
    # One level above what the body's own sums are named by, so that neither captures the other.
    level = inner.height + 1
    names, renamed = canonical_names(bound, level, lambda n: rename_normal(inner, n).text)
    return ReduceAtom(expr.kind, names, rename_normal(inner, renamed))


def _call(function: str, args: tuple[Expr, ...], ranges: Ranges) -> list[Term]:
    normals = [normalize(arg, ranges) for arg in args]
    if function in EXTREMES:
        return _extreme(function, normals)
    return [Term(factors=((CallAtom(function, tuple(normals)), ONE),))]


def _extreme(function: str, args: list[NormalForm]) -> list[Term]:
    """maximum and minimum: associative, commutative, idempotent."""
    flat: dict[str, NormalForm] = {}
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
        return _extreme(function, [n for n in flat.values() if n not in constants] + [kept])
    ordered = tuple(flat[text] for text in sorted(flat))
    return [Term(factors=((CallAtom(function, ordered), ONE),))]


def _freed(term: Term) -> Term:
    """A canonical term with bound variables of its own again, fit to be multiplied with others."""
    return rename(term, {name: Poly.symbol(fresh()) for name, _ in term.bound})


def _only_atom(normal: NormalForm) -> Atom | None:
    if len(normal.terms) != 1:
        return None
    (term,) = normal.terms
    plain = term.coefficient == 1 and not term.bound and not term.guards and len(term.factors) == 1
    return term.factors[0][0] if plain and term.factors[0][1] == 1 else None


# Simplification and canonical order


def _combine(terms: Iterable[Term], ranges: Ranges) -> NormalForm:
    table: dict[str, Term] = {}
    for term in terms:
        for simple in _simplify(term, ranges):
            named = canonical(simple)
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
    return NormalForm(tuple(sorted(kept, key=lambda term: term.key)))


def _simplify(term: Term, ranges: Ranges) -> list[Term]:
    inner = ranges.within(term.bound)
    term = map_polys(term, inner.simplify)
    if any(extent == 0 for _, extent in term.bound):
        return []
    guards = _needed_guards(term.guards, inner)
    if guards is None:
        return []
    term = replace(term, guards=guards)
    for change in (solved, shifted, strided, joined, parted, found, ascending):
        changed = change(term, inner)
        if changed is not None:
            return _simplify(changed, ranges)
    for name, extent in term.bound:
        if name not in symbols(term) and inner.never_negative(extent):  # sum(k < K; x) = K * x
            rest = replace(term, bound=tuple(item for item in term.bound if item[0] != name))
            return [s for t in _product([[rest], _expand_size(extent)]) for s in _simplify(t, ranges)]
    return [term]


def _needed_guards(guards: frozenset[Poly], ranges: Ranges) -> frozenset[Poly] | None:
    """Guards without those that always hold or follow from another; None if they cannot all hold.

    Two that have no variable in common say nothing of each other beyond what each says alone.
    """
    for one in guards:
        if ranges.never_negative(-1 - one):
            return None
    for one, other in itertools.combinations(guards, 2):
        if _related(one, other) and ranges.never_negative(-1 - one - other):
            return None
    kept = [g for g in sorted(guards, key=str) if not ranges.never_negative(g)]
    for guard in list(kept):
        others = (other for other in kept if other is not guard and _related(guard, other))
        if any(ranges.never_negative(guard - other) for other in others):
            kept.remove(guard)
    return frozenset(kept)


def _related(one: Poly, other: Poly) -> bool:
    return not one.symbols().isdisjoint(other.symbols())


def _merge_cases(terms: list[Term], ranges: Ranges) -> list[Term]:
    """[g] * t + [not g] * t = t, where the other guards of each side follow on the other."""
    for first, second in itertools.combinations(terms, 2):
        if first.coefficient != second.coefficient or first.factors != second.factors:
            continue
        if first.bound != second.bound:
            continue
        inner = ranges.within(first.bound)
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
