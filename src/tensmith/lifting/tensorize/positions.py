"""Positions and sizes as values: polynomials over index variables, and masks where they are not negative."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tensmith.formula.poly import Atom, FloorDiv, Monomial, Poly
from tensmith.formula.types import I64, MachineType
from tensmith.lifting.summary import length_of
from tensmith.lifting.tensorize.build import Tensor

if TYPE_CHECKING:
    from tensmith.lifting.tensorize.lower import Lowering

# Element types whose wrapping arithmetic gives the same polynomial, where its value fits.
_WIDE = ("i32", "i64")


def value(lowering: Lowering, poly: Poly, dtype: str) -> Tensor:
    """The polynomial at every position."""
    build = lowering.build
    inner = dtype if dtype in _WIDE else "i64"
    total: Tensor | None = None
    for monomial, coefficient in reversed(poly.terms):
        term = _monomial(lowering, monomial, abs(coefficient), inner)
        if total is None:
            total = term if coefficient > 0 else build.elementwise("neg", term)
        else:
            total = build.elementwise("add" if coefficient > 0 else "sub", total, term)
    return build.cast(total or build.constant(0, inner), dtype)


def _monomial(lowering: Lowering, monomial: Monomial, coefficient: int, dtype: str) -> Tensor:
    """coefficient * atom * atom * ..."""
    build = lowering.build
    factors = [_atom(lowering, atom, dtype) for atom, power in monomial for _ in range(power)]
    if coefficient != 1 or not factors:
        factors.insert(0, build.constant(coefficient, dtype))
    product = factors[0]
    for factor in factors[1:]:
        product = build.elementwise("mul", product, factor)
    return product


def _atom(lowering: Lowering, atom: Atom, dtype: str) -> Tensor:
    build = lowering.build
    if isinstance(atom, FloorDiv):
        lowering.regrouped |= _may_overflow(lowering, atom.top)
        top, bottom = (value(lowering, poly, dtype) for poly in (atom.top, atom.bottom))
        rest = build.elementwise("mod", top, bottom)
        return build.elementwise("div", build.elementwise("sub", top, rest), bottom)
    if atom in build.extents:
        return build.cast(build.positions(build.extents[atom], (atom,)), dtype)
    if length_of(atom) is not None:
        return build.size(lowering.sizes.extent(Poly.symbol(atom)), dtype)
    if any(atom == size.symbol for size in lowering.sizes.all):
        return build.size(Poly.symbol(atom), dtype)
    return build.cast(build.scalar(atom, _argument(lowering, atom)), dtype)


def _argument(lowering: Lowering, name: str) -> MachineType:
    """The type of a scalar parameter or field."""
    type_ = dict(lowering.summary.function.fields).get(name, I64)
    assert isinstance(type_, MachineType), "an array is no position"
    return type_


def mask(lowering: Lowering, conditions: Sequence[Poly]) -> Tensor:
    """Whether every polynomial is >= 0."""
    build = lowering.build
    found: Tensor | None = None
    for poly in conditions:
        op, above, below = _sides(lowering, poly)
        sides = value(lowering, above, "i64"), value(lowering, below, "i64")
        holds = build.elementwise(op, *sides, dtype="bool")
        found = holds if found is None else build.elementwise("and", found, holds)
    return found or build.constant(True, "bool")


def _sides(lowering: Lowering, poly: Poly) -> tuple[str, Poly, Poly]:
    """An op that compares two polynomials where poly >= 0 is asked: an argument that may be as large as 64
    bits allow, and all else; or what is added and what is taken away, where nothing overflows but sums of
    several such arguments: that these do not is stated."""
    wide = [symbol for symbol in sorted(poly.symbols()) if _is_wide(lowering, symbol)]
    factor = poly.coefficient(wide[0]) if len(wide) == 1 else None
    if factor is None or factor.constant not in (1, -1):
        lowering.regrouped |= _may_overflow(lowering, poly)
        above = Poly.from_terms({m: c for m, c in poly.terms if c > 0})
        return "greater_or_equal", above, above - poly
    argument = Poly.symbol(wide[0])
    above, below = (argument, argument - poly) if factor.constant == 1 else (poly + argument, argument)
    if poly.evaluate(dict.fromkeys(poly.symbols(), 0)) != -1:
        return "greater_or_equal", above, below
    return "greater", *((above, below - 1) if factor.constant == 1 else (above + 1, below))


def _may_overflow(lowering: Lowering, poly: Poly) -> bool:
    """Whether a polynomial has products of sizes, or arguments that may be as large as 64 bits allow."""
    products = any(sum(power for _, power in monomial) > 1 for monomial, _ in poly.terms)
    return products or any(_is_wide(lowering, symbol) for symbol in poly.symbols())


def _is_wide(lowering: Lowering, symbol: str) -> bool:
    """Whether a symbol is neither a position nor a size, and may be about as large as 64 bits allow."""
    placed = symbol in lowering.build.extents or length_of(symbol) is not None
    if placed or any(symbol == size.symbol for size in lowering.sizes.all):
        return False
    return (_argument(lowering, symbol).bits or 64) == 64
