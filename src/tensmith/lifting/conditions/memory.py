"""Where array elements lie: flat memory seen through strides, and what keeps a subscript inside.

A flat subscript e is written as digits, e = sum(strides[k] * digit[k]), by polynomial division, which is an
identity; that 0 <= digit[k] < strides[k-1] / strides[k] is an obligation, and makes the digits unique.
Whether e is below a length is then compared digit by digit, so that no product of sizes reaches a solver.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from tensmith.lifting.conditions.nodes import Arena, ProofTerm, monomials
from tensmith.lifting.conditions.state import At
from tensmith.lifting.conditions.world import Malformed, ProofWorld
from tensmith.lifting.loops import Array


@dataclass(frozen=True)
class ArrayMemory:
    """An array as subscripts see it. strides: of flat memory seen as more axes, else (); declared: strides of
    the source's own subscripts where its type says more than one; limits: digits of lengths below which an
    element lies inside (any one suffices), each where a condition holds; extents: lengths by axis where each
    axis has its own."""

    strides: At
    declared: At
    ratios: At
    limits: tuple[tuple[ProofTerm, At], ...]
    extents: tuple[ProofTerm, ...] | None

    @property
    def rank(self) -> int:
        """The number of subscripts of an element."""
        return len(self.strides) if self.extents is None else len(self.extents)

    @property
    def width(self) -> ProofTerm | None:
        """The elements of a row of flat memory: below it lies every last subscript."""
        return self.strides[-2] if len(self.strides) > 1 else None

    def digits(self, world: ProofWorld, indices: At) -> tuple[At, ProofTerm]:
        """The subscripts of an element from the source's, and what makes them equal."""
        arena = world.arena
        if self.extents is not None:
            if len(indices) != len(self.extents):
                raise Malformed(f"{len(indices)} subscripts where there are {len(self.extents)} axes")
            return indices, arena.true
        if self.declared == self.strides and len(indices) == len(self.strides):
            return indices, arena.true
        return self.split(world, self.flat(world, indices))

    def flat(self, world: ProofWorld, indices: At) -> ProofTerm:
        """The place in elements that the source's subscripts say."""
        arena, flat = world.arena, world.zero
        for index, stride in zip(indices, self.declared, strict=True):
            flat = arena.add(flat, arena.mul(index, stride))
        return flat

    def in_rows(self, world: ProofWorld, indices: At) -> Iterator[tuple[ProofTerm, ProofTerm]]:
        """Of each of the source's subscripts but the first whether it is not below its row, and not above."""
        arena = world.arena
        for (outer, inner), index in zip(itertools.pairwise(self.declared), indices[1:], strict=True):
            size = exact_quotient(arena, outer, inner, "an array")
            yield arena.ge(index, world.zero), arena.gt(size, index)

    def split(self, world: ProofWorld, flat: ProofTerm) -> tuple[At, ProofTerm]:
        """The subscripts of a place counted in elements."""
        flat, same = world.written_by_sizes(flat, self.strides)
        digits = divided(world.arena, flat, self.strides)
        if len(digits) > 1 and _runs_over(world.arena, digits[-1], self.strides[-2]):
            digits = (*digits[:-2], *_in_rows(world.arena, digits[-2], digits[-1], self.strides[-2]))
        return digits, same

    def inside(self, world: ProofWorld, digits: At) -> ProofTerm:
        """Whether an element with these subscripts exists."""
        arena = world.arena
        parts = [arena.claim(digit, world.zero) for digit in digits]
        if self.extents is not None:
            return arena.all([*parts, *arena.below(digits, self.extents)])
        parts += self.proper(world, digits)
        below = (arena.all([holds, _before(world, digits, limit)]) for holds, limit in self.limits)
        parts.append(arena.any(below))
        return arena.all(parts)

    def proper(self, world: ProofWorld, digits: At) -> list[ProofTerm]:
        """What holds of the subscripts of any element: used of arbitrary ones."""
        return world.arena.below(digits[1:], self.ratios)


def _before(world: ProofWorld, digits: At, limit: At) -> ProofTerm:
    """Whether the place of `digits` lies below the place of `limit`, given that digits are proper.

    d0 < l0 suffices where the limit's other digits are >= 0 together; where d0 = l0 the rest decides.
    """
    arena = world.arena
    if len(digits) == 1:
        return arena.claim(arena.shift(limit[0], -1), digits[0])
    rest = [arena.claim(digit, world.zero) for digit in limit[1:]]
    below = arena.all([arena.claim(arena.shift(limit[0], -1), digits[0]), *rest])
    equal = arena.all([arena.eq(digits[0], limit[0]), _before(world, digits[1:], limit[1:])])
    return arena.any([below, equal])


def memory_of(world: ProofWorld, name: str, kind: Array, extents: At | None) -> ArrayMemory:
    """The memory of a parameter (extents None) or of a local array."""
    arena = world.arena
    grid = world.summary.grids.get(name)
    strides = tuple(world.poly(stride, world.scope) for stride in grid.strides) if grid else ()
    if (kind.memory == "nested" or extents is not None) and len(strides) < 2:
        own = extents or tuple(world.length(name, axis) for axis in range(kind.rank))
        return ArrayMemory((), (), (), (), own)
    sizes = extents or _declared(world, kind)
    declared = _row_major(arena, sizes[1:])
    if not strides:
        strides = declared
    if strides[-1].constant != 1:
        raise Malformed(f"the strides of '{name}' do not end in 1")
    ratios = tuple(exact_quotient(arena, a, b, name) for a, b in itertools.pairwise(strides))
    limits: list[tuple[ProofTerm, At]] = []
    if len(strides) == 1 and extents is None:
        limits.append((arena.true, (world.length(name, 0),)))
    if sizes[0] is not None:
        total = arena.mul(sizes[0], declared[0])
        limits.append((arena.true, divided(arena, total, strides)))
    for requirement in world.summary.requires:
        if requirement.kind == "length" and requirement.array == name and requirement.poly is not None:
            # Stated over parameters, used where the sizes of their names equal them.
            symbols = sorted(requirement.poly.symbols())
            pairs = [(world.scope[s], world.stated[s]) for s in symbols if s in world.scope]
            length = arena.mul(world.poly(requirement.poly, world.scope), declared[requirement.axis])
            length, same = world.written_by_sizes(length, strides)
            holds = arena.all([world.where(requirement), same, *(arena.eq(a, b) for a, b in pairs)])
            limits.append((holds, divided(arena, length, strides)))
    return ArrayMemory(strides, declared, ratios, tuple(limits), None)


def _declared(world: ProofWorld, kind: Array) -> tuple[ProofTerm | None, ...]:
    """The extents that the source's type gives: constants and parameters."""
    return tuple(None if extent is None else world.entry(extent) for extent in kind.extents)


def _row_major(arena: Arena, inner: tuple[ProofTerm | None, ...]) -> At:
    """The strides of extents, the outermost being left out."""
    strides = [arena.number(1, "Int")]
    for extent in reversed(inner):
        if extent is None:
            raise Malformed("an inner extent of flat memory is not known")
        strides.insert(0, arena.mul(extent, strides[0]))
    return tuple(strides)


def exact_quotient(arena: Arena, top: ProofTerm, bottom: ProofTerm, name: str) -> ProofTerm:
    """top / bottom where bottom divides it."""
    quotient, rest = _long_division(arena, top, bottom)
    if rest.constant != 0:
        raise Malformed(f"the strides of '{name}' are no multiples of each other")
    return quotient


def divided(arena: Arena, flat: ProofTerm, strides: At) -> At:
    """Digits of a flat subscript: among those that polynomial division gives, the ones that look proper."""
    digits = []
    for position, stride in enumerate(strides[:-1]):
        quotient, rest = _long_division(arena, flat, stride)
        if not arena.never_negative(rest):
            if arena.never_negative(arena.shift(arena.scale(rest, -1), -1)):
                quotient, rest = arena.shift(quotient, -1), arena.add(rest, stride)
        elif position < len(strides) - 1 and arena.never_negative(arena.sub(rest, stride)):
            quotient, rest = arena.shift(quotient, 1), arena.sub(rest, stride)
        digits.append(quotient)
        flat = rest
    return _carried(arena, [*digits, flat], strides)


def _carried(arena: Arena, digits: list[ProofTerm], strides: At) -> At:
    """The digits, constant ones between 0 and a constant ratio of their strides."""
    for k in reversed(range(1, len(digits))):
        ratio, digit = _long_division(arena, strides[k - 1], strides[k])[0].constant, digits[k].constant
        if ratio and digit is not None:
            digits[k - 1] = arena.shift(digits[k - 1], int(digit // ratio))
            digits[k] = arena.number(digit % ratio, "Int")
    return tuple(digits)


def _runs_over(arena: Arena, digit: ProofTerm, stride: ProofTerm) -> bool:
    """Whether a last digit is a counter that runs over whole rows: below a multiple of the stride."""
    if digit.op != "symbol":
        return False
    for known in arena.known:
        bound = arena.shift(arena.add(known, digit), 1)
        if known.op == "poly" and ((digit,), -1) in monomials(known):
            quotient, rest = _long_division(arena, bound, stride)
            if rest.constant == 0 and quotient.constant is None:
                return True
    return False


def _in_rows(arena: Arena, row: ProofTerm, column: ProofTerm, stride: ProofTerm) -> At:
    """A row and a column with the whole rows that the column holds added to the row."""
    rows = arena.app("fdiv", "Int", (column, stride))
    return arena.add(row, rows), arena.sub(column, arena.mul(rows, stride))


def _long_division(arena: Arena, top: ProofTerm, bottom: ProofTerm) -> tuple[ProofTerm, ProofTerm]:
    """(q, r), top = q * bottom + r, by the leading monomial of `bottom`; constants are divided with floor."""
    lead, factor = max(monomials(bottom), key=lambda item: (len(item[0]), [a.number for a in item[0]]))
    quotient, rest = arena.number(0, "Int"), top
    for _ in range(len(monomials(top)) * 4 + 4):
        for atoms, coefficient in monomials(rest):
            left = _without(atoms, lead)
            if left is not None and (coefficient % factor == 0 or not atoms):
                share = coefficient // factor
                if share:
                    break
        else:
            break
        part = arena.poly({left: share}, "Int")
        quotient = arena.add(quotient, part)
        rest = arena.sub(rest, arena.mul(part, bottom))
    return quotient, rest


def _without(atoms: tuple[ProofTerm, ...], lead: tuple[ProofTerm, ...]) -> tuple[ProofTerm, ...] | None:
    left = list(atoms)
    for atom in lead:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)
