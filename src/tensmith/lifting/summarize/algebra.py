"""Building terms: typed operators, and the simplifications that hold in every arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from fractions import Fraction
from operator import add, mul, sub

from tensmith.formula.expr import Call, Choose, Num, Read, Size
from tensmith.formula.functions import COMPARISONS, DIVISIONS, EXTREMES, WRAPPING
from tensmith.formula.poly import FloorDiv, Poly
from tensmith.formula.types import BOOL, MachineType
from tensmith.lifting.summarize.constants import (
    cast_constant,
    fold_constants,
    identity,
    infinite,
    infinity,
    number,
)
from tensmith.lifting.summarize.logic import simplified
from tensmith.lifting.summarize.scope import Conjunction, Scope
from tensmith.lifting.summarize.substitution import index, is_open, varies
from tensmith.lifting.summary import Term

# Operators that polynomials are closed under.
POLYNOMIAL: dict[str, Callable[[Poly, Poly], Poly]] = {"add": add, "sub": sub, "mul": mul}


class SizeAlgebra:
    """Terms over integer parameters that polynomials write in size symbols: `symbols`, name -> polynomial."""

    def __init__(
        self,
        symbols: Mapping[str, Poly],
        alone: frozenset[str] = frozenset(),
        sizes: frozenset[str] = frozenset(),
    ) -> None:
        self.symbols, self.alone, self.sizes = symbols, alone, sizes
        # What had to be >= 0 for a conversion to unsigned to keep its value, and what was known there.
        self.claims: list[tuple[Poly, Scope]] = []
        # What had to be >= 0 for a size or position to keep its value in a narrower signed type.
        self.fits: list[tuple[Poly, Scope]] = []
        self.here = Scope()  # what the branches around have decided
        self.counting = False  # whether remainders are polynomials
        self.shares: list[Term] = []  # sums of which each of several variables holds a share (`unrolled`)
        self.exact: set[str] = set()  # sizes max(0, e) that stood for e where e may be negative

    def poly(self, term: Term, loose: bool = False) -> Poly | None:
        """An integer term as a polynomial, or None; loose: wide conversions keep every value."""
        match term:
            case Size(poly, _):
                return poly
            case Num(value, MachineType("int")):
                return Poly.of(int(value))
            case Read(name, (), MachineType("int")):
                return self.symbols.get(name) or Poly.symbol(name)
            case Call("neg", (inner,), MachineType("int")):
                found = self.poly(inner, loose)
                return None if found is None else -found
            case Call(("add" | "sub" | "mul") as operator, (left, right), MachineType("int")):
                a = self.poly(left, loose)
                b = None if a is None else self.poly(right, loose)
                return None if a is None or b is None else POLYNOMIAL[operator](a, b)
            case Call(
                ("div" | "floor_div" | "right_shift") as operator, (top, Num(by)), MachineType("int")
            ) if by > 0:
                found = self.poly(top, loose)
                if operator == "div" and not loose:
                    found = self._claimed(found)
                bottom = 2 ** int(by) if operator == "right_shift" else int(by)
                return None if found is None else found // bottom
            case Call("mod" | "fmod" | "bitwise_and" as operator, (top, Num(by)), MachineType("int")) if (
                self.counting
            ):
                return self._remainder(term.function, self.poly(top, loose), int(by))
            case Call("bitwise_and", (top, Call("bitwise_not", (Num(by),)))) if self.counting:
                return self._remainder("bitwise_and", self.poly(top, loose), -int(by) - 1)
            case Call("cast", (inner,), MachineType("int", bits, signed)) if bits is None or bits >= 32:
                found = self.poly(inner, loose)
                if loose and found is not None and (inner.type.bits or 0) > (bits or 64):
                    return found if self._counted(found) else None
                if found is None or not _narrows(inner.type, term.type):
                    return found if signed or loose else self._claimed(found)
                if loose:
                    return found if self._counted(found) else None
                if is_open(found):
                    return found
                return None if varies(found) else self._fitted(found, term.type, self.here)
        return None

    def divided(self, term: Term, scope: Scope) -> Poly | None:
        """A position, divided by what is claimed to be above 0 where no loop changes it; what truncates is
        claimed not to be negative. None where these are no claims about arguments."""
        match term:
            case Call(operator, (left, right), MachineType("int")) if operator in DIVISIONS:
                top, bottom = self.divided(left, scope), self.poly(right)
                if top is None or bottom is None or varies(bottom):
                    return None
                scope = self._scaled(top, operator, bottom, scope)
                if operator in ("div", "fmod") and not self._made_natural(top, scope):
                    return None
                self.claim(bottom - 1)
                self.used(scope, bottom)
                return top // bottom if operator in ("div", "floor_div") else top % bottom
            case Call(operator, (left, right), MachineType("int", signed=True)) if operator in POLYNOMIAL:
                a, b = self.divided(left, scope), self.divided(right, scope)
                return None if a is None or b is None else POLYNOMIAL[operator](a, b)
        return self.poly(term)

    def _scaled(self, top: Poly, operator: str, bottom: Poly, scope: Scope) -> Scope:
        """The scope where what counters are multiplied by in what is divided is claimed to be above 0: where
        it may be negative and the division truncates, or may be 0 and the quotient ends where it does, as
        i * m // n does below m."""
        steps = (top.coefficient(name) for name, _ in scope.ranges)
        for step in [step for step in steps if step is not None and not varies(step)]:
            truncates = operator in ("div", "fmod") and scope.decides(step) is None
            ends = operator in ("div", "floor_div") and bottom.constant is None and step.constant is None
            if (truncates or ends) and not scope.proves(step - 1):
                self.claim(step - 1)
                self.used(scope, step)
                scope = scope.knowing((step - 1,))
        return scope

    def _made_natural(self, top: Poly, scope: Scope) -> bool:
        """Whether what is divided is not negative, or its least is claimed not to be."""
        if scope.proves(top):
            return True
        low = scope.lower(top)
        if low is None or all(coefficient < 0 for monomial, coefficient in low.terms if monomial):
            return False  # of i - s that s <= 0 is no condition that callers mean
        self.claim(low)
        self.used(scope, low)
        return True

    def _remainder(self, operator: str, top: Poly | None, by: int) -> Poly | None:
        """What is left of a division by a number, or of bits: the last ones, or all but those."""
        if operator == "bitwise_and":
            power = by + 1 if by >= 0 else -by
            if top is None or power & (power - 1):
                return None
            return top % power if by >= 0 else top // power * power
        top = self._claimed(top) if operator == "fmod" else top
        return None if top is None or by <= 0 else top % by

    @contextmanager
    def counts(self) -> Iterator[None]:
        """Remainders are polynomials inside: what is asked for is where a loop starts, or ends."""
        before, self.counting = self.counting, True
        try:
            yield
        finally:
            self.counting = before

    def aside(self) -> SizeAlgebra:
        """The same algebra, whose questions leave no claims here."""
        found = copy(self)
        found.claims, found.fits, found.exact = list(self.claims), list(self.fits), self.exact.copy()
        return found

    def _counted(self, poly: Poly) -> bool:
        """Whether it is made of sizes, lengths and what loops count alone, none of them data."""
        return all(name in self.sizes or any(mark in name for mark in "%@(") for name in poly.symbols())

    def _fitted(self, poly: Poly, type_: MachineType, scope: Scope) -> Poly | None:
        """The polynomial, required to lie in a signed type; None where callers cannot promise that."""
        assert type_.limits is not None
        least, greatest = type_.limits
        cut = any(not scope.proves(Poly.symbol(n) - 1) for n in poly.symbols() & self.alone - self.exact)
        above, below = poly - least, -poly + greatest
        lows = [
            scope.lower(room) for room in (above, below) if not scope.proves(room) or (cut and room is above)
        ]
        if any(low is None for low in lows):
            return None
        self.fits += [(low, scope) for low in lows if low is not None]
        return poly

    def _claimed(self, poly: Poly | None) -> Poly | None:
        """The polynomial, claimed to be >= 0; None where it varies, which no caller can promise."""
        if poly is None or varies(poly):
            return None
        self.claim(poly)
        self.used(self.here, poly)
        return poly

    @contextmanager
    def inside(self, scope: Scope) -> Iterator[None]:
        """Claims made inside hold where a branch is taken."""
        around, self.here = self.here, scope
        try:
            yield
        finally:
            self.here = around

    def claim(self, poly: Poly) -> None:
        """Note that a polynomial must be >= 0 here."""
        if not self.here.proves(poly):
            self.claims.append((poly, self.here))

    @property
    def promised(self) -> list[Poly]:
        """What is claimed on all paths, and so required, whatever loops count."""
        return list(dict.fromkeys(poly for poly, here in self.claims if not here.path and not varies(poly)))

    def used(self, scope: Scope, *polys: Poly) -> None:
        """Note that parameters were taken for their sizes at a place."""
        for poly in polys:
            for name in poly.symbols() & self.alone - self.exact:
                if not scope.proves(Poly.symbol(name) - 1):
                    self.exact.add(name)

    def apply(self, operator: str, arguments: Sequence[Term], type_: MachineType, scope: Scope) -> Term:
        """An operator on terms, simplified."""
        arguments = tuple(arguments)
        if operator == "where":
            return self.select(arguments[0], arguments[1], arguments[2], scope)
        if operator == "abs" and type_.kind == "int" and _moves(arguments[0]):
            below = Call("less", (arguments[0], number(0, type_)), BOOL)
            chosen = self.select(below, self.apply("neg", arguments, type_, scope), arguments[0], scope)
            if not isinstance(chosen, Call):
                return chosen
        if operator in EXTREMES and type_.kind == "int" and any(map(_moves, arguments)):
            a, b = arguments
            less = Call("less", (a, b) if operator == "minimum" else (b, a), BOOL)
            chosen = self.select(less, a, b, scope)
            if not isinstance(chosen, Call):
                return chosen
        if type_.kind == "int" and any(isinstance(argument, Size) for argument in arguments):
            merged = self._merge(operator, arguments, scope)
            if merged is not None:
                return index(merged, type_)
        if all(isinstance(argument, Num) for argument in arguments):
            folded = fold_constants(
                operator, [Fraction(a.value) for a in arguments if isinstance(a, Num)], type_
            )
            if folded is not None:
                return folded
        truth = simplified(operator, arguments)
        if truth is not None:
            return self.cast(truth, type_, scope)
        return _identity(operator, arguments) or Call(operator, arguments, type_)

    def _merge(self, operator: str, arguments: tuple[Term, ...], scope: Scope) -> Poly | None:
        """The polynomial that an integer operator on positions gives."""
        fits = len(self.fits)
        polys = [found for found in map(self.poly, arguments) if found is not None]
        if len(self.fits) > fits:
            del self.fits[fits:]
            return None  # data of a narrower type
        if len(polys) != len(arguments) or any(is_open(poly) for poly in polys):
            return None
        for argument, poly in zip(arguments, polys):
            if not isinstance(argument, Size):
                self.used(scope, poly)
        if operator == "neg":
            return -polys[0]
        if operator in POLYNOMIAL:
            return POLYNOMIAL[operator](*polys)
        if len(polys) != 2:
            return None
        top, bottom = polys
        if operator in ("left_shift", "right_shift"):
            if bottom.constant is None or not 0 <= bottom.constant < 63:
                return None
            bottom = Poly.of(2**bottom.constant)
            if operator == "left_shift":
                return top * bottom
            operator = "floor_div"
        if operator in DIVISIONS and scope.proves(bottom - 1):
            if operator in ("div", "fmod") and not scope.proves(top):
                return None
            return top // bottom if operator in ("div", "floor_div") else top % bottom
        return None

    def cast(self, value: Term, type_: MachineType, scope: Scope) -> Term:
        """A conversion; positions stay positions where their value surely or by assumption fits."""
        source = value.type
        if source == type_ and not _may_wrap(value):
            if isinstance(value, Size) and not type_.signed:
                self.used(scope, value.poly)
                if not (varies(value.poly) or scope.proves(value.poly)):
                    self.claim(value.poly)
            return value
        if isinstance(value, Num):
            folded = cast_constant(Fraction(value.value), source, type_)
            if folded is not None:
                return folded
        if type_.kind == "float" and infinite(value):
            return infinity(infinite(value) > 0, type_)
        if type_.kind == "int" and (type_.bits is None or type_.bits >= 32):
            if isinstance(value, Size) and self._kept(value, type_, scope):
                return Size(value.poly, type_)
            if source == type_ and (position := self._natural(value, scope)) is not None:
                return Size(position, type_)
        if isinstance(value, Call) and value.function == "cast":
            inner = value.args[0]
            kept = source.holds(inner.type) and not _may_wrap(inner)
            if kept and (type_ == inner.type or type_.holds(inner.type)):
                return self.cast(inner, type_, scope)
        return Call("cast", (value,), type_)

    def _kept(self, value: Size, type_: MachineType, scope: Scope) -> bool:
        """Whether a position is one in another type, where it may be required to fit."""
        if not type_.signed:
            return scope.proves(value.poly)
        if not _narrows(value.type, type_):
            return True
        if is_open(value.poly) or not self._counted(value.poly):
            return False
        return self._fitted(value.poly, type_, scope) is not None

    def _natural(self, term: Term, scope: Scope) -> Poly | None:
        """The position that a term is, where it is surely not negative."""
        claims, fits, exact = len(self.claims), len(self.fits), set(self.exact)
        poly = self.poly(term)
        claimed = len(self.claims) > claims or len(self.fits) > fits
        if poly is None or is_open(poly) or claimed or not scope.proves(poly):
            del self.claims[claims:], self.fits[fits:]
            self.exact = exact
            return None
        self.used(scope, poly)
        return poly

    def positional(
        self, condition: Term, scope: Scope, bound: bool = False
    ) -> tuple[Conjunction, ...] | None:
        """The condition as a disjunction of conjunctions of polynomials >= 0; None for data.

        bound: it bounds a loop, where a size serves as well as what it is the size of.
        """
        match condition:
            case Num(value, _):
                return ((),) if value else ()
            case Call(operator, (Choose() as chosen, other)) if operator in COMPARISONS:
                return self._among(chosen, lambda side: replace(condition, args=(side, other)), scope)
            case Call(operator, (other, Choose() as chosen)) if operator in COMPARISONS:
                return self._among(chosen, lambda side: replace(condition, args=(other, side)), scope)
            case Call(operator, (left, right)) if operator in COMPARISONS:
                a, b = (
                    self.poly(left),
                    self._bound(right, scope) if bound and operator == "less" else self.poly(right),
                )
                if a is None or b is None or is_open(b - a):
                    return None
                found = _relation(operator, b - a)
                if not bound:
                    polys = [p for side, p in ((left, a), (right, b)) if not isinstance(side, Size)]
                    decided = {n for p in polys for n in p.symbols() if not _cut_alike(n, found)}
                    self.used(scope, *map(Poly.symbol, sorted(decided)))
                return found
            case Call("not", (inner,), _):
                return self.negated(inner, scope)
            case Call("and", (left, right), _):
                first, second = self.positional(left, scope, bound), self.positional(right, scope, bound)
                if first is None or second is None:
                    return None
                return tuple((*x, *y) for x in first for y in second)
            case Call("or", (left, right), _):
                first, second = self.positional(left, scope, bound), self.positional(right, scope, bound)
                return None if first is None or second is None else (*first, *second)
        return None

    def _among(
        self, chosen: Choose, compared: Callable[[Term], Term], scope: Scope
    ) -> tuple[Conjunction, ...] | None:
        """A comparison with what is chosen by position, as `positional` says it."""
        then_scope = scope.knowing(chosen.conditions)
        then = self.positional(compared(chosen.then), then_scope)
        otherwise = self.positional(compared(chosen.otherwise), scope)
        if then is None or otherwise is None:
            return None
        found = [(*chosen.conditions, *case) for case in then]
        found += [(-poly - 1, *case) for poly in chosen.conditions for case in otherwise]
        kept = [scope.shorter(case) for case in found]
        return tuple(dict.fromkeys(case for case in kept if case is not None))

    def _bound(self, term: Term, scope: Scope) -> Poly | None:
        """What counts up below a truncated quotient counts up below a floored one: both end it at 0."""
        quotient = term.args[0] if isinstance(term, Call) and term.function == "cast" else term
        match quotient:
            case Call("div", arguments, type_):
                term = Call("floor_div", arguments, type_)
        found = self.poly(term)
        return self.steady(term, scope) if found is None else found

    def steady(self, term: Term, scope: Scope) -> Poly | None:
        """A position of which no loop changes what is divided. That divisors are above 0 is claimed on all
        paths, as sizes are computed on all."""
        asked = self.aside().divided(term, scope)
        if asked is None or is_open(asked) or any(map(varies, map(_quotient, asked.divisions()))):
            return None
        for division in asked.divisions():
            if division.bottom.constant is None and division.bottom - 1 not in self.promised:
                self.claims.append((division.bottom - 1, Scope()))
        return self.divided(term, scope)

    def negated(self, condition: Term, scope: Scope) -> tuple[Conjunction, ...] | None:
        """Where the condition does not hold, as `positional` says it."""
        found = self.positional(condition, scope)
        if found is None:
            return None
        result: tuple[Conjunction, ...] = ((),)
        for conjunction in found:
            result = tuple((*kept, -poly - 1) for kept in result for poly in conjunction)
        return result

    def select(self, condition: Term, then: Term, otherwise: Term, scope: Scope) -> Term:
        """condition ? then : otherwise; by position where the condition names an index variable."""
        if then == otherwise:
            return then
        found = self.positional(condition, scope)
        placed = found is not None and (
            len(found) == 0 or found == ((),) or _by_position(found, scope, then, otherwise)
        )
        if isinstance(then, Call) and then.function == "add" and otherwise in then.args:
            more = then.args[1 - then.args.index(otherwise)]
            if placed or isinstance(more, Num):
                more = self.select(condition, more, identity("sum", then.type), scope)
                return self.apply("add", (otherwise, more), then.type, scope)
        if found is not None and placed:
            shared = tuple(p for p in next(iter(found), ()) if all(p in case for case in found))
            cases = tuple((tuple(p for p in case if p not in shared), then) for case in found)
            chosen = scope.knowing(shared).choice(cases, otherwise)
            return scope.choice(((shared, chosen),), otherwise)
        if isinstance(condition, Call) and condition.function == "not":
            return self.select(condition.args[0], otherwise, then, scope)
        if isinstance(condition, Call) and condition.function == "not_equal":
            return self.select(Call("equal", condition.args, BOOL), otherwise, then, scope)
        return Call("where", (condition, then, otherwise), then.type)


def _narrows(source: MachineType, target: MachineType) -> bool:
    """Whether a position in one integer type may be none in a signed one. Memory ends before 2^63, and what
    fits no NumPy type raises in Python."""
    return target.signed and target.bits == 32 and source.bits is not None and not target.holds(source)


def _moves(term: Term) -> bool:
    """Whether it is a position that index variables change."""
    return isinstance(term, Choose) or (isinstance(term, Size) and varies(term.poly))


def _may_wrap(term: Term) -> bool:
    """Whether an unsigned value is not yet taken modulo 2^bits; positions are claimed to fit."""
    if term.type.kind != "int" or term.type.signed or term.type.bits is None:
        return False
    if isinstance(term, Num):
        return not 0 <= term.value < 2**term.type.bits
    return isinstance(term, Call) and term.function in WRAPPING


def _by_position(found: Sequence[Conjunction], scope: Scope, *sides: Term) -> bool:
    variables = {name for name, _ in scope.ranges} | scope.sizes
    if any(isinstance(side, Choose) and side.type.kind == "int" for side in sides):  # a chosen position
        return all(any(poly.symbols() & variables for poly in conjunction) for conjunction in found)
    return all(poly.symbols() & variables for conjunction in found for poly in conjunction)


def _cut_alike(name: str, found: Sequence[Conjunction]) -> bool:
    """Whether conditions hold for a negative value of a symbol just where they do for 0: n > 0, n <= 1."""
    for poly in (poly for conjunction in found for poly in conjunction if name in poly.symbols()):
        rest = poly.substitute({name: 0}).constant
        factor = (poly.coefficient(name) or Poly.of(0)).constant
        if rest is None or not factor or (factor < 0) != (rest >= 0):
            return False
    return True


def _relation(operator: str, difference: Poly) -> tuple[Conjunction, ...]:
    """left OP right, where difference = right - left."""
    match operator:
        case "less":
            return ((difference - 1,),)
        case "less_equal":
            return ((difference,),)
        case "equal":
            return ((difference, -difference),)
    return ((difference - 1,), (-difference - 1,))


def _identity(operator: str, arguments: tuple[Term, ...]) -> Term | None:
    """x + 0, x * 1 and their kin, where one side is the whole."""

    def is_number(term: Term, value: int) -> bool:
        return isinstance(term, Num) and term.value == value

    match operator, arguments:
        case "add", (left, right):
            return right if is_number(left, 0) else left if is_number(right, 0) else None
        case (("sub" | "left_shift" | "right_shift"), (left, right)) if is_number(right, 0):
            return left
        case "mul", (left, right):
            return right if is_number(left, 1) else left if is_number(right, 1) else None
        case (("div" | "floor_div"), (left, right)) if is_number(right, 1):
            return left
    return None


def _quotient(division: FloorDiv) -> Poly:
    return Poly(((((division, 1),), 1),))
