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
        top, bottom = (value(lowering, poly, dtype) for poly in (atom.top, atom.bottom))
        rest = build.elementwise("mod", top, bottom)
        return build.elementwise("div", build.elementwise("sub", top, rest), bottom)
    if atom in build.extents:
        return build.cast(build.positions(build.extents[atom], (atom,)), dtype)
    if length_of(atom) is not None:
        return build.size(lowering.sizes.extent(Poly.symbol(atom)), dtype)
    if any(atom == size.symbol for size in lowering.sizes.all):
        return build.size(Poly.symbol(atom), dtype)
    type_ = dict(lowering.summary.function.fields).get(atom, I64)
    assert isinstance(type_, MachineType), "an array is no position"
    return build.cast(build.scalar(atom, type_), dtype)


def mask(lowering: Lowering, conditions: Sequence[Poly]) -> Tensor:
    """Whether every polynomial is >= 0; written as positive part >= negative part."""
    build = lowering.build
    found: Tensor | None = None
    for poly in conditions:
        above = Poly.from_terms({m: c for m, c in poly.terms if c > 0})
        below = Poly.from_terms({m: -c for m, c in poly.terms if c < 0})
        sides = value(lowering, above, "i64"), value(lowering, below, "i64")
        holds = build.elementwise("greater_or_equal", *sides, dtype="bool")
        found = holds if found is None else build.elementwise("and", found, holds)
    return found or build.constant(True, "bool")
