"""Subscripts that are chosen among positions: clamped, mirrored and wrapped ones, as borders are read.

A variable stands for each chosen position while elements are looked for, and the choice is put in its place
afterwards: where it varies, the subscript of an element is a term.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tensmith.formula.expr import Call, Choose, Expr, Num, Read, Reduce, Size, fresh, rebuilt
from tensmith.formula.poly import Poly
from tensmith.formula.types import BOOL, I64, MachineType
from tensmith.formula.walk import loads, polys
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.summarize.algebra import POLYNOMIAL, SizeAlgebra
from tensmith.lifting.summarize.constants import number
from tensmith.lifting.summarize.logic import both
from tensmith.lifting.summarize.scope import Scope
from tensmith.lifting.summarize.substitution import index, is_open, varies
from tensmith.lifting.summary import Term, looked_up

# A position, and what is known where it is chosen.
Chosen: TypeAlias = tuple[Poly, Scope]
_MOST = 64


def choices(term: Term, scope: Scope, poly: Callable[[Term], Poly | None]) -> list[Chosen] | None:
    """The positions that a term is among; None where they are not known, or too many. poly: that of a term
    without choices."""
    match term:
        case Choose(conditions, then, otherwise):
            left = scope.shorter(conditions)
            if not left:
                return choices(otherwise if left is None else then, scope, poly)
            conditions = left
            unless = scope.knowing((-conditions[0] - 1,)) if len(conditions) == 1 else scope
            a, b = choices(then, scope.knowing(conditions), poly), choices(otherwise, unless, poly)
            return None if a is None or b is None else [*a, *b]
        case Call("where", (_, then, otherwise)):
            a, b = choices(then, scope, poly), choices(otherwise, scope, poly)
            return None if a is None or b is None else [*a, *b]
        case Call("neg", (inner,)):
            found = choices(inner, scope, poly)
            return None if found is None else [(-each, inside) for each, inside in found]
        case Call("cast", (inner,), MachineType("int", bits)) if bits is None or bits >= 32:
            return choices(inner, scope, poly)
        case Call(("add" | "sub" | "mul" | "maximum" | "minimum") as operator, (left, right)):
            found = []
            for a_, around in choices(left, scope, poly) or ():
                for b_, inside in choices(right, around, poly) or ():
                    found += _joined(operator, a_, b_, inside)
            return found if 0 < len(found) <= _MOST else None
    found_poly = poly(term)
    return None if found_poly is None else [(found_poly, scope)]


def _joined(operator: str, a: Poly, b: Poly, scope: Scope) -> list[Chosen]:
    if operator in POLYNOMIAL:
        return [(POLYNOMIAL[operator](a, b), scope)]
    above = a - b if operator == "maximum" else b - a
    return [(a, scope.knowing((above,))), (b, scope.knowing((-above,)))]


def position(term: Term) -> Poly | None:
    """A position as a polynomial; None for other terms."""
    match term:
        case Size(poly):
            return poly
        case Num(value):
            return Poly.of(int(value))
    return None


def lowest(positions: Sequence[Chosen], scope: Scope) -> Poly | None:
    """A lower bound of positions that names no index variable: the least where one surely is that, or 0."""
    bounds = [*(inside.lower(poly) for poly, inside in positions), Poly.of(0)]
    found = [low for low in bounds if low is not None and _below(low, positions)]
    return next((low for low in found if scope.proves(low)), found[0] if found else None)


def highest(positions: Sequence[Chosen], scope: Scope) -> list[Poly]:
    """Upper bounds of positions that name no index variable, without those that another surely undercuts:
    first what is a position itself, then what bounds most of them, at last the last of a counter."""
    named = frozenset[str]().union(*(poly.symbols() for poly, _ in positions))
    found = [(poly, _least(inside.uppers(poly), inside)) for poly, inside in positions]
    counted = Counter(bound for _, bounds in found for bound in bounds)
    bounds = [poly for poly, bounds in found if bounds == [poly]]
    bounds += [bound for bound, _ in counted.most_common()]
    bounds += [extent - 1 for name, extent in scope.ranges if name in named]
    return _least((bound for bound in bounds if _above(bound, positions)), scope)


def _least(bounds: Iterable[Poly], scope: Scope) -> list[Poly]:
    """Bounds without those that another one surely undercuts."""
    found = list(dict.fromkeys(bounds))
    return [bound for bound in found if not any(_undercuts(other, bound, scope) for other in found)]


def _undercuts(one: Poly, other: Poly, scope: Scope) -> bool:
    return one != other and scope.proves(other - one) and not scope.proves(one - other)


def _below(bound: Poly, positions: Sequence[Chosen]) -> bool:
    return all(inside.proves(poly - bound) for poly, inside in positions)


def _above(bound: Poly, positions: Sequence[Chosen]) -> bool:
    return all(inside.proves(bound - poly) or bound in inside.uppers(poly) for poly, inside in positions)


@dataclass
class ChosenPlaces:
    """Polynomials in which variables stand for chosen positions. ranges: the variables and their extents;
    values: the choices, counted from the least position, in 64 bits."""

    algebra: SizeAlgebra
    scope: Scope
    ranges: list[tuple[str, Poly]] = field(default_factory=list)
    values: dict[str, Term] = field(default_factory=dict)

    def poly(self, term: Term) -> Poly | None:
        """An integer term as a polynomial; None where a choice has no bounds, or is of data."""
        match term:
            case Choose():
                return self._chosen(term)
            case Call("neg", (inner,), MachineType("int")):
                found = self.poly(inner)
                return None if found is None else -found
            case Call(("add" | "sub" | "mul") as operator, (left, right), MachineType("int")):
                a, b = self.poly(left), self.poly(right)
                return None if a is None or b is None else POLYNOMIAL[operator](a, b)
            case Call("cast", (inner,), MachineType("int", bits)) if bits is None or bits >= 32:
                return self.poly(inner)
        return self._position(term)

    def _position(self, term: Term) -> Poly | None:
        poly = self.algebra.aside().poly(term)
        if poly is None or is_open(poly):
            return None
        if not isinstance(term, Size):
            self.algebra.used(self.scope, poly)
        return poly

    def _chosen(self, term: Choose) -> Poly | None:
        positions = choices(term, self.scope, self._position)
        if positions is None:
            return None
        for missing in self._missing(positions):
            self.algebra.claim(missing)
            self.scope = self.scope.knowing((missing,))
        positions = choices(term, self.scope, self._position)
        assert positions is not None, "it has positions where less is known"
        low, high = lowest(positions, self.scope), next(iter(highest(positions, self.scope)), None)
        if low is None or high is None:
            return None
        if self.scope.path and not Scope(self.scope.sizes).binding(*self.scope.ranges).proves(high):
            return None  # a branch says that there is an element at all
        value = self._clamped(positions, low, high) or self._counted(term, low)
        name = next((name for name, known in self.values.items() if known == value), None)
        if name is None:
            name = fresh("p")
            self.ranges.append((name, high - low + 1))
            self.values[name] = value
        return low + Poly.symbol(name)

    def _missing(self, positions: Sequence[Chosen]) -> list[Poly]:
        """What callers have to promise so that no position is negative."""
        found: list[Poly] = []
        for poly, inside in positions:
            low = None if inside.proves(poly) else inside.lower(poly)
            if low is None or varies(low) or low.constant is not None:
                continue
            if not self.scope.knowing(found).proves(low):
                found = [other for other in found if not self.scope.knowing((low,)).proves(other)]
                found.append(low)
        return found

    def _clamped(self, positions: Sequence[Chosen], low: Poly, high: Poly) -> Term | None:
        """A position that is another one unless that is below the first, or above the last, counted from the
        first: one form for all ways to write it."""
        others = dict.fromkeys(poly for poly, _ in positions if poly not in (low, high))
        if len(others) != 1:
            return None
        (free,) = others
        for poly, inside in positions:
            holds = {low: inside.proves(low - free), high: inside.proves(free - high), free: True}
            if not holds[poly]:
                return None
        value = index(free - low, I64)
        if not self.scope.proves(high - free):
            value = Call("minimum", (value, index(high - low, I64)), I64)
        if not self.scope.proves(free - low):
            value = Call("maximum", (value, number(0, I64)), I64)
        return value

    def _counted(self, term: Term, low: Poly) -> Term:
        """A choice in 64 bits, counted from the least position."""
        if isinstance(term, Choose):
            then, otherwise = self._counted(term.then, low), self._counted(term.otherwise, low)
            return Choose(term.conditions, then, otherwise, I64)
        poly = self._position(term)
        if poly is not None:
            return index(poly - low, I64)
        assert isinstance(term, Call), "sums of choices are left"
        inner = Call(term.function, tuple(self._counted(each, Poly.of(0)) for each in term.args), I64)
        return inner if low == 0 else Call("sub", (inner, index(low, I64)), I64)


def placed(term: Term, values: Mapping[str, Term]) -> Term:
    """The term with choices in the place of variables. Raises Refusal where a sum's length would vary."""

    def varies(part: Expr) -> bool:
        return any(not poly.symbols().isdisjoint(values) for poly in polys(part))

    def inner(part: Expr) -> Expr:
        match part:
            case Size(poly, type_) if varies(part):
                value = _valued(poly, values)
                return value if type_ == I64 else Call("cast", (value,), type_)
            case Read(array, indices, type_) if varies(part):
                return looked_up(array, [_valued(poly, values) for poly in indices], type_)
            case Choose(conditions, then, otherwise, type_) if varies(part):
                fixed = tuple(poly for poly in conditions if poly.symbols().isdisjoint(values))
                holds: Term | None = None
                for poly in (poly for poly in conditions if poly not in fixed):
                    here = Call("less_equal", (number(0, I64), _valued(poly, values)), BOOL)
                    holds = here if holds is None else both(holds, here)
                assert holds is not None
                other = inner(otherwise)
                chosen = Call("where", (holds, inner(then), other), type_)
                return Choose(fixed, chosen, other, type_) if fixed else chosen
            case Reduce() if varies(part):
                raise Refusal("how much is summed depends on a chosen position")
        return rebuilt(part, inner)

    return inner(term)


def read_at_entry(term: Term, arrays: Mapping[str, object]) -> bool:
    """Whether all elements that a term reads are those of parameters, as they came in."""
    return all(read.tensor in arrays for read in loads(term))


def _valued(poly: Poly, values: Mapping[str, Term]) -> Term:
    """A polynomial that is linear in variables, as a term."""
    found: Term | None = None
    for name in sorted(poly.symbols() & values.keys()):
        factor = poly.coefficient(name)
        if factor is None or not factor.symbols().isdisjoint(values):
            raise Refusal("chosen positions are multiplied with each other")
        poly = poly - factor * Poly.symbol(name)
        part = values[name]
        if factor != 1:
            part = Call("mul", (index(factor, I64), part), I64)
        found = part if found is None else Call("add", (found, part), I64)
    if found is None:
        return Size(poly, I64)
    return found if poly == 0 else Call("add", (found, index(poly, I64)), I64)
