"""Polynomials and views as Python text that every Python target shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensmith.formula.poly import Poly, product
from tensmith.lifting.emit.expression import ATOM, PRODUCT, SUM, ExpressionText
from tensmith.lifting.lifted import ArrayView


def poly(value: Poly, names: Mapping[str, str]) -> ExpressionText:
    """A polynomial over Python integers, as n * m + 2; `names`: symbol -> Python name."""
    parts: list[str] = []
    level = ATOM
    for monomial, coefficient in reversed(value.terms):
        factors = []
        for atom, power in monomial:
            if isinstance(atom, str):
                code = names[atom]
            else:
                top, bottom = poly(atom.top, names), poly(atom.bottom, names)
                code = f"({top.within(PRODUCT)} // {bottom.atom})"
            factors += [code] * power
        if abs(coefficient) != 1 or not factors:
            factors.insert(0, str(abs(coefficient)))
        sign = ("-" if coefficient < 0 else "") if not parts else " - " if coefficient < 0 else " + "
        parts.append(sign + " * ".join(factors))
        level = PRODUCT if len(factors) > 1 or coefficient < 0 else ATOM
    if not parts:
        return ExpressionText("0")
    return ExpressionText("".join(parts), SUM if len(parts) > 1 else level)


def extents(shape: Sequence[Poly], names: Mapping[str, str]) -> str:
    """A shape as a tuple."""
    items = [poly(extent, names).code for extent in shape]
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"


def run_of(view: ArrayView, names: Mapping[str, str]) -> str:
    """The subscript of an unbroken run: [a:b]."""
    return f"[{_slice(view.offset[0], 1, Poly.of(product(view.shape)), names)}]"


def basic(view: ArrayView, names: Mapping[str, str]) -> tuple[str, tuple[int, ...]] | None:
    """(subscripts, axes of the result as axes of the view) where slices and numbers can say it.

    That is: each view axis moves forward along one array axis by a constant step, no two along the same.
    """
    items, order = [], []
    for offset, row in zip(view.offset, view.steps):
        moving = [axis for axis, step in enumerate(row) if step != 0]
        if not moving:
            items.append(poly(offset, names).code)
            continue
        (axis, *more) = moving
        step = row[axis].constant
        if more or step is None or step < 0 or axis in order:
            return None
        order.append(axis)
        items.append(_slice(offset, step, view.shape[axis], names))
    if sorted(order) != list(range(len(view.shape))):
        return None
    return ", ".join(items), tuple(order)


def _slice(offset: Poly, step: int, extent: Poly, names: Mapping[str, str]) -> str:
    """begin:end:step. The end may lie behind the array's, where Python stops."""
    begin = "" if offset == 0 else poly(offset, names).code
    end = poly(offset + extent * step, names).code
    return f"{begin}:{end}" + (f":{step}" if step != 1 else "")


def grid(view: ArrayView, names: Mapping[str, str], arange: str) -> str:
    """Subscripts of every element, one array an axis that broadcasts; arange: "np.arange({})"."""
    rank = len(view.shape)
    rows = []
    for offset, row in zip(view.offset, view.steps):
        terms = []
        for axis, step in enumerate(row):
            if step == 0:
                continue
            index = ", ".join(":" if a == axis else "None" for a in range(rank))
            code = arange.format(poly(view.shape[axis], names).code)
            code = code if rank == 1 else f"{code}[{index}]"
            terms.append(code if step == 1 else f"{poly(step, names).within(PRODUCT)} * {code}")
        if offset != 0 or not terms:
            terms.insert(0, poly(offset, names).code)
        rows.append(" + ".join(terms))
    return ", ".join(rows)
