"""Changes of the variables that a term sums over, each equal for all values: one form for equal sums.

    sum(v < E; [v = e] t(v))                        = [0 <= e < E] t(e)                       solved
    sum(v < E; [a <= v <= b] t(v))                  = sum(u < b - a + 1; t(a + u))            shifted
    sum(v < E, l < B; t(v * B + l))                 = sum(u < E * B; t(u))                    joined

    sum(v < E * B; t(v // B, v % B))                = sum(v < E, l < B; t(v, l))              parted
    sum(v < E; [v * B <= e < v * B + B] t(v))       = [0 <= e // B < E] t(e // B)             found

    sum(v < E; [B divides v - e] t(v))              = sum(u < ceil(E / B); [v < E] t(v)),     strided
                                                      v = e mod B + B * u
    sum(v < E; t(-v))                               = sum(v < E; t(v - E + 1))                ascending

Those of the second group are what cutting an axis into blocks comes to, the last block perhaps not full;
those of the third, what transposed convolutions are.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tensmith.formula.bounds import Ranges
from tensmith.formula.expr import fresh
from tensmith.formula.poly import FloorDiv, Poly, floor_div
from tensmith.formula.terms import ReadAtom, Term, map_polys, polys, rename, symbols


def solved(term: Term, ranges: Ranges) -> Term | None:
    """Without a variable that guards fix."""
    return _fixed(term, 1, 1)


def found(term: Term, ranges: Ranges) -> Term | None:
    """Without a variable that numbers the only block in which something lies."""
    return _fixed(term, 2, _LARGEST)


# Blocks larger than that are none.
_LARGEST = 1 << 31


def _fixed(term: Term, least: int, most: int) -> Term | None:
    """[e - v * B >= 0][v * B + B - 1 - e >= 0] puts v = e // B, for B from `least` to `most`."""
    for guard in term.guards:
        for name, extent in term.bound:
            variable, size = Poly.symbol(name), -(guard.coefficient(name) or Poly.of(0))
            if not least <= (size.constant or 0) <= most or size - 1 - guard not in term.guards:
                continue
            rest = tuple(item for item in term.bound if item[0] != name)
            guards = (term.guards - {guard, size - 1 - guard}) | {variable, extent - 1 - variable}
            value = floor_div(guard + variable * size, size)
            return rename(replace(term, bound=rest, guards=guards), {name: value})
    return None


def shifted(term: Term, ranges: Ranges) -> Term | None:
    """With a variable counted from the bounds that guards give it, where they leave a fixed number of values.

    A number that depends on an index stays a guard: triangles have no simpler form.
    """
    for name, extent in term.bound:
        variable = Poly.symbol(name)
        lows = [Poly.of(0), *(variable - g for g in term.guards if g.coefficient(name) == 1)]
        highs = [extent - 1, *(g + variable for g in term.guards if g.coefficient(name) == -1)]
        for low in lows:
            for high in highs:
                width = high - low + 1
                if (low == 0 and high == extent - 1) or width.symbols() & ranges.extents.keys():
                    continue
                if all(map(ranges.never_negative, (low, extent - 1 - high, width))):
                    guards = term.guards - {variable - low, high - variable}
                    bound = tuple((n, width if n == name else e) for n, e in term.bound)
                    return _substituted(replace(term, bound=bound, guards=guards), name, variable + low)
    return None


def _substituted(term: Term, name: str, value: Poly) -> Term:
    """With another value of a variable, of which there are as many."""
    return map_polys(term, lambda poly: poly.substitute({name: value}))


def joined(term: Term, ranges: Ranges) -> Term | None:
    """With one variable for two that stand together everywhere, as block * size + place."""
    for place, size in term.bound:
        for block, count in term.bound:
            if place == block or not all(map(ranges.never_negative, (size, count))):
                continue
            if (size.symbols() | count.symbols()) & ranges.extents.keys():
                continue
            rest = tuple(item for item in term.bound if item[0] not in (place, block))
            if any(block in poly.symbols() and place not in poly.symbols() for poly in polys(term)):
                continue
            whole = fresh()
            apart = Poly.symbol(whole) - Poly.symbol(block) * size
            changed = rename(replace(term, bound=((whole, count * size), *rest)), {place: apart})
            if block not in symbols(changed):
                return changed
    return None


def parted(term: Term, ranges: Ranges) -> Term | None:
    """With a variable that is divided by a part of its extent in two, the largest part first."""
    for division in sorted(_divisions(term), key=_largest_first):
        for name, extent in term.bound:
            if division.top != Poly.symbol(name):
                continue
            size, count = division.bottom, floor_div(extent, division.bottom)
            if count * size != extent or not all(map(ranges.never_negative, (size, count))):
                continue
            if (size.symbols() | count.symbols()) & ranges.extents.keys():
                continue
            block, place = fresh(), fresh()
            rest = tuple(item for item in term.bound if item[0] != name)
            changed = replace(term, bound=((block, count), (place, size), *rest))
            return rename(changed, {name: Poly.symbol(block) * size + Poly.symbol(place)})
    return None


def strided(term: Term, ranges: Ranges) -> Term | None:
    """With a variable that counts what a guard leaves: B * (d // B) - d >= 0 says that B divides d."""
    for divides, division in _remainders(term):
        top, size = division.top, division.bottom
        cycle = size.constant or 0
        for name, extent in term.bound if cycle > 1 else ():
            variable, count = Poly.symbol(name), (top.coefficient(name) or Poly.of(0)).constant or 0
            if math.gcd(count, cycle) > 1 or not ranges.never_negative(extent):
                continue
            start = (variable * count - top) * pow(count, -1, cycle)
            number = fresh()
            value = start - floor_div(start, size) * size + Poly.symbol(number) * size
            guards = (term.guards - {divides}) | {extent - 1 - variable}
            numbers = floor_div(extent + size - 1, size)
            rest = tuple(item for item in term.bound if item[0] != name)
            changed = replace(term, bound=((number, numbers), *rest), guards=guards)
            return _substituted(changed, name, value)
    return None


def _remainders(term: Term) -> list[tuple[Poly, FloorDiv]]:
    """Guards of the form B * (d // B) - d, each with its division."""
    found = ((guard, division) for guard in term.guards for division in guard.divisions())
    held = ((g, d) for g, d in found if g == floor_div(d.top, d.bottom) * d.bottom - d.top)
    return sorted(held, key=lambda pair: str(pair[0]))


def ascending(term: Term, ranges: Ranges) -> Term | None:
    """With a variable counted down, where the first tensor that it is a subscript of is read backwards."""
    for name, extent in term.bound:
        if extent.symbols() & ranges.extents.keys():
            continue
        steps = sorted(
            (atom.tensor, axis, step.constant)
            for atom, _ in term.factors
            if isinstance(atom, ReadAtom)
            for axis, index in enumerate(atom.indices)
            if (step := index.coefficient(name)) is not None and step.constant
        )
        if steps and all(step < 0 for tensor, axis, step in steps if (tensor, axis) == steps[0][:2]):
            return _substituted(term, name, extent - 1 - Poly.symbol(name))
    return None


def _largest_first(division: FloorDiv) -> tuple[int, int, str]:
    """By degree, then by factor."""
    degree = max((sum(power for _, power in monomial) for monomial, _ in division.bottom.terms), default=0)
    return -degree, -(division.bottom.constant or 0), str(division)


def _divisions(term: Term) -> set[FloorDiv]:
    """Every division in a term."""
    return {division for poly in polys(term) for division in poly.divisions()}
