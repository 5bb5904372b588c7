"""Integer polynomials over named sizes and index variables: the arithmetic of shapes and subscripts.

A `Poly` is kept in one canonical form, so two equal polynomials are the same value. Division and remainder
by a non-unit are atoms of their own (`FloorDiv`), simplified where the ranges given prove it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, TypeAlias, Union

from tensmith.errors import ProgramError

Atom: TypeAlias = Union[str, "FloorDiv"]
Monomial: TypeAlias = tuple[tuple[Atom, int], ...]
Dim: TypeAlias = Union[int, "Poly"]


def _atom_key(atom: Atom) -> tuple[int, str]:
    return (0, atom) if isinstance(atom, str) else (1, str(atom))


@lru_cache(maxsize=65536)
def _monomial_key(monomial: Monomial) -> list[tuple[tuple[int, str], int]]:
    return [(_atom_key(atom), power) for atom, power in monomial]


def _term_key(term: tuple[Monomial, int]) -> list[tuple[tuple[int, str], int]]:
    return _monomial_key(term[0])


@lru_cache(maxsize=65536)
def _multiply(left: Monomial, right: Monomial) -> Monomial:
    powers: dict[Atom, int] = dict(left)
    for atom, power in right:
        powers[atom] = powers.get(atom, 0) + power
    return tuple(sorted(powers.items(), key=lambda item: _atom_key(item[0])))


@dataclass(frozen=True, eq=False)
class Poly:
    """A polynomial with integer coefficients: a sorted tuple of (monomial, coefficient) pairs, none zero."""

    terms: tuple[tuple[Monomial, int], ...]

    def __init__(self, terms: tuple[tuple[Monomial, int], ...]) -> None:
        self.__dict__["terms"] = terms  # as a dataclass does, at half the price

    # Construction

    @staticmethod
    def of(value: Dim) -> Poly:
        """The polynomial of an integer, or `value` itself."""
        return value if isinstance(value, Poly) else _constant(int(value))

    @staticmethod
    def symbol(name: str) -> Poly:
        """The polynomial that is one variable."""
        return Poly(((((name, 1),), 1),))

    @staticmethod
    def from_terms(terms: Mapping[Monomial, int]) -> Poly:
        """The polynomial of a monomial -> coefficient table."""
        kept = [term for term in terms.items() if term[1]]
        if len(kept) > 1:
            kept.sort(key=_term_key)
        return Poly(tuple(kept))

    # Reading

    @property
    def constant(self) -> int | None:
        """The value if this is a constant, else None."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and not self.terms[0][0]:
            return self.terms[0][1]
        return None

    @property
    def atom(self) -> Atom | None:
        """The variable or division that this is, else None."""
        if len(self.terms) == 1 and self.terms[0][1] == 1 and len(self.terms[0][0]) == 1:
            atom, power = self.terms[0][0][0]
            return atom if power == 1 else None
        return None

    def divisions(self) -> list[FloorDiv]:
        """The divisions that are atoms of this, each once."""
        atoms = (atom for monomial, _ in self.terms for atom, _ in monomial)
        return list(dict.fromkeys(atom for atom in atoms if not isinstance(atom, str)))

    def symbols(self) -> frozenset[str]:
        """Names of every variable, those inside divisions included."""
        known: frozenset[str] | None = self.__dict__.get("_symbols")
        if known is None:
            found: set[str] = set()
            for monomial, _ in self.terms:
                for atom, _ in monomial:
                    if isinstance(atom, str):
                        found.add(atom)
                    else:
                        found |= atom.symbols()
            known = self.__dict__["_symbols"] = frozenset(found)
        return known

    def coefficient(self, name: str) -> Poly | None:
        """The factor c in `c * name + rest` where neither contains `name`; None if not of that form."""
        factor: dict[Monomial, int] = {}
        for monomial, coefficient in self.terms:
            inside = [atom for atom, _ in monomial if not isinstance(atom, str) and name in atom.symbols()]
            if inside:
                return None
            powers = dict(monomial)
            power = powers.pop(name, 0)
            if power > 1:
                return None
            if power == 1:
                factor[tuple(powers.items())] = coefficient
        return Poly.from_terms(factor)

    def substitute(self, values: Mapping[str, Dim]) -> Poly:
        """This polynomial with variables replaced."""
        if not values or self.symbols().isdisjoint(values):
            return self
        table: dict[Monomial, int] = {}
        for monomial, coefficient in self.terms:
            if not monomial:
                table[monomial] = table.get(monomial, 0) + coefficient
                continue
            atom, power = monomial[0]
            if power == 1 and len(monomial) == 1 and isinstance(atom, str):
                for found, count in Poly.of(values[atom]).terms if atom in values else ((monomial, 1),):
                    table[found] = table.get(found, 0) + coefficient * count
                continue
            kept = tuple((a, p) for a, p in monomial if isinstance(a, str) and a not in values)
            product = Poly(((kept, coefficient),))
            for atom, power in monomial if len(kept) < len(monomial) else ():
                if isinstance(atom, str):
                    if atom not in values:
                        continue
                    base = Poly.of(values[atom])
                else:
                    base = floor_div(atom.top.substitute(values), atom.bottom.substitute(values))
                for _ in range(power):
                    product = product * base
            for found, count in product.terms:
                table[found] = table.get(found, 0) + count
        return Poly.from_terms(table)

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """The number (or array, if `values` holds arrays) this polynomial takes.

        ProgramError where a number is divided by 0; of arrays, what has no quotient is 0.
        """
        result: Any = 0
        for monomial, coefficient in self.terms:
            product: Any = coefficient
            for atom, power in monomial:
                if isinstance(atom, str):
                    base = values[atom]
                else:
                    top, bottom = atom.top.evaluate(values), atom.bottom.evaluate(values)
                    if isinstance(top, int) and isinstance(bottom, int) and bottom == 0:
                        raise ProgramError(f"{atom} divides by 0")
                    base = top // bottom
                product = product * base**power
            result = result + product
        return result

    # Arithmetic

    def __add__(self, other: Dim) -> Poly:
        more = Poly.of(other).terms
        if not more:
            return self
        terms = dict(self.terms)
        for monomial, coefficient in more:
            terms[monomial] = terms.get(monomial, 0) + coefficient
        return Poly.from_terms(terms)

    def __neg__(self) -> Poly:
        return Poly(tuple((monomial, -coefficient) for monomial, coefficient in self.terms))

    def __sub__(self, other: Dim) -> Poly:
        less = Poly.of(other).terms
        if not less:
            return self
        terms = dict(self.terms)
        for monomial, coefficient in less:
            terms[monomial] = terms.get(monomial, 0) - coefficient
        return Poly.from_terms(terms)

    def __rsub__(self, other: Dim) -> Poly:
        return Poly.of(other) - self

    def __mul__(self, other: Dim) -> Poly:
        more = Poly.of(other)
        for one, factor in ((self, more.constant), (more, self.constant)):
            if factor is not None:
                return one if factor == 1 else Poly(tuple((m, factor * c) for m, c in one.terms if factor))
        terms: dict[Monomial, int] = {}
        for left, a in self.terms:
            for right, b in more.terms:
                monomial = _multiply(left, right)
                terms[monomial] = terms.get(monomial, 0) + a * b
        return Poly.from_terms(terms)

    def __floordiv__(self, other: Dim) -> Poly:
        return floor_div(self, Poly.of(other))

    def __rfloordiv__(self, other: Dim) -> Poly:
        return floor_div(Poly.of(other), self)

    def __mod__(self, other: Dim) -> Poly:
        return self - floor_div(self, Poly.of(other)) * other

    __radd__ = __add__
    __rmul__ = __mul__

    # Identity

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int):
            return self.constant == other
        return isinstance(other, Poly) and self.terms == other.terms

    def __hash__(self) -> int:
        known: int | None = self.__dict__.get("_hash")
        if known is None:
            constant = self.constant
            known = self.__dict__["_hash"] = hash(self.terms if constant is None else constant)
        return known

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        parts: list[str] = []
        for monomial, coefficient in reversed(self.terms):
            factors = "*".join(str(atom) if power == 1 else f"{atom}**{power}" for atom, power in monomial)
            size = abs(coefficient)
            body = factors if factors and size == 1 else f"{size}*{factors}" if factors else str(size)
            sign = " - " if coefficient < 0 else " + "
            parts.append(body if not parts and coefficient > 0 else f"-{body}" if not parts else sign + body)
        return "".join(parts) or "0"

    __repr__ = __str__


@dataclass(frozen=True)
class FloorDiv:
    """The atom floor(top / bottom); a bottom that is a number is positive, one that is 0 has no quotient."""

    top: Poly
    bottom: Poly

    def symbols(self) -> frozenset[str]:
        """Names of every variable inside."""
        return self.top.symbols() | self.bottom.symbols()

    def __str__(self) -> str:
        return f"(({self.top}) // ({self.bottom}))"


@lru_cache(maxsize=4096)
def _constant(value: int) -> Poly:
    return Poly((((), value),) if value else ())


def _divide_monomial(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    powers = dict(monomial)
    for atom, power in divisor:
        left = powers.get(atom, 0) - power
        if left < 0:
            return None
        powers[atom] = left
    return tuple((atom, power) for atom, power in powers.items() if power)


def floor_div(top: Poly, bottom: Poly) -> Poly:
    """floor(top / bottom); the parts of `top` that `bottom` divides come out of the division.

    ProgramError for a divisor that is the number 0.
    """
    divisor = bottom.constant
    if divisor == 0:
        raise ProgramError(f"({top}) // 0 is no size and no position")
    if divisor is not None and divisor < 0:
        return floor_div(-top, -bottom)
    if divisor == 1:
        return top
    if top.constant is not None and divisor:
        return _constant(top.constant // divisor)
    quotient, rest = split_multiple(top, bottom)
    if not rest.terms:
        return quotient
    if rest.constant is not None and divisor and 0 <= rest.constant < divisor:
        return quotient
    return quotient + Poly(((((FloorDiv(rest, bottom), 1),), 1),))


def split_multiple(top: Poly, bottom: Poly) -> tuple[Poly, Poly]:
    """(q, r) with top = q * bottom + r, r free of the multiples that are seen term by term."""
    if len(bottom.terms) != 1:
        for scale in (1, -1):
            if (top - bottom * scale).terms == ():
                return _constant(scale), _constant(0)
        return _constant(0), top
    divisor, scale = bottom.terms[0]
    quotient: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, coefficient in top.terms:
        reduced = _divide_monomial(monomial, divisor)
        if reduced is None:
            rest[monomial] = coefficient
            continue
        quotient[reduced] = quotient.get(reduced, 0) + coefficient // scale
        if coefficient % scale:
            rest[monomial] = coefficient % scale
    return Poly.from_terms(quotient), Poly.from_terms(rest)


def long_division(top: Poly, bottom: Poly) -> tuple[Poly, Poly]:
    """(q, r) with top = q * bottom + r, r without multiples of the leading term of `bottom`; 0 if it can."""
    lead, scale = max(bottom.terms, key=_grade)
    quotient, rest = _constant(0), top
    while True:
        for monomial, coefficient in rest.terms:
            reduced = _divide_monomial(monomial, lead)
            if reduced is not None and abs(coefficient) >= abs(scale):
                share = Poly(((reduced, coefficient // scale),))
                quotient, rest = quotient + share, rest - share * bottom
                break
        else:
            return quotient, rest


def _grade(term: tuple[Monomial, int]) -> tuple[int, list[tuple[str, int]]]:
    """Total degree, then the powers by atom: an order that products keep."""
    monomial = term[0]
    return sum(p for _, p in monomial), sorted(((str(a), p) for a, p in monomial), reverse=True)


def simplify_dim(value: Dim) -> Dim:
    """A plain int where the polynomial is constant."""
    if isinstance(value, Poly):
        constant = value.constant
        return value if constant is None else constant
    return int(value)


def product(dims: Iterable[Dim]) -> Dim:
    """The product of dimensions, 1 for none."""
    result: Dim = 1
    for dim in dims:
        result = result * dim
    return simplify_dim(result)


def map_divisions(poly: Poly, simplify: Callable[[FloorDiv], Poly]) -> Poly:
    """`poly` with each division atom replaced by what `simplify` makes of it."""
    if not poly.divisions():
        return poly
    result = _constant(0)
    for monomial, coefficient in poly.terms:
        term = _constant(coefficient)
        for atom, power in monomial:
            base = Poly.symbol(atom) if isinstance(atom, str) else simplify(atom)
            for _ in range(power):
                term = term * base
        result = result + term
    return result
