"""Arrays as what was written to them: boxes of elements over a base, and reading through them.

A box is normal when each axis is a number, or one index variable (times a step) plus an offset, and no
variable serves two axes: then an element determines the indices that wrote it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from tensmith.formula.expr import fresh
from tensmith.formula.poly import Div, Poly, floor_div, map_divisions
from tensmith.lifting.loops import NOWHERE, Position, Scalar
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.summarize.algebra import Conjunction, cases, index, mapped, substitute
from tensmith.lifting.summarize.scope import Scope
from tensmith.lifting.terms import Read, Term

_ZERO = Poly.of(0)


@dataclass(frozen=True)
class Box:
    """What one store wrote: as `summary.Written`, with the place in the source."""

    indices: tuple[str, ...]
    extents: tuple[Poly, ...]
    at: tuple[Poly, ...]
    value: Term
    where: Conjunction = ()
    position: Position = NOWHERE

    @property
    def ranges(self) -> tuple[tuple[str, Poly], ...]:
        """The index variables with their extents."""
        return tuple(zip(self.indices, self.extents))

    def substituted(self, values: dict[str, Poly]) -> Box:
        """The box with outer variables replaced."""
        if not values:
            return self
        return replace(
            self,
            extents=tuple(extent.substitute(values) for extent in self.extents),
            at=tuple(axis.substitute(values) for axis in self.at),
            value=substitute(self.value, values),
            where=tuple(poly.substitute(values) for poly in self.where),
        )


@dataclass(frozen=True)
class Contents:
    """An array's state: boxes, later ones over earlier ones, over a base.

    base: the name to read where nothing was written (a parameter, or the array at a loop's head); "" is a
    local array whose elements are `fill` (None: undefined). The first `kept` boxes may not be dropped.
    """

    name: str
    element: Scalar
    rank: int
    base: str
    boxes: tuple[Box, ...] = ()
    fill: Term | None = None
    kept: int = field(default=0, compare=False)

    def written(self, box: Box, scope: Scope) -> Contents:
        """The state after a store; boxes that it covers are gone."""
        kept = [old for n, old in enumerate(self.boxes) if n < self.kept or not covers(box, old, scope)]
        return replace(self, boxes=(*kept, box))

    def read(self, at: tuple[Poly, ...], scope: Scope, position: Position) -> Term:
        """The element `at`."""
        return lookup(self.boxes, at, scope, position, self.below)

    def below(self, at: tuple[Poly, ...], scope: Scope, position: Position) -> Term:
        """The element `at` where no box wrote it."""
        if self.base:
            return Read(self.base, tuple(index(poly, _SUBSCRIPT) for poly in at), self.element)
        if self.fill is None:
            raise Refusal(
                f"an element of '{self.name}' is read that has no value: it is outside the array, or nothing "
                "was written to it before; give the array first values",
                position,
            )
        return self.fill


_SUBSCRIPT = Scalar("int", 64)
Below = Callable[[tuple[Poly, ...], Scope, Position], Term]
ValueOf = Callable[[Box, Scope], Term]


def lookup(
    boxes: Sequence[Box],
    at: tuple[Poly, ...],
    scope: Scope,
    position: Position,
    below: Below,
    value_of: ValueOf | None = None,
) -> Term:
    """The element `at` through boxes, newest first: a choice by position where several may match."""
    found: list[tuple[Conjunction, Term]] = []
    around = scope
    for box in reversed(boxes):
        met = meet(box, at, scope, position)
        if met is None:
            continue
        values, conditions = met
        inside = scope.knowing(conditions)
        value = substitute(value_of(box, inside) if value_of else box.value, values)
        if not conditions:
            return cases(found, value, around)
        found.append((conditions, value))
        if len(conditions) == 1:
            scope = scope.knowing((-conditions[0] - 1,))
    return cases(found, below(at, scope, position), around)


def meet(
    box: Box, at: Sequence[Poly], scope: Scope, position: Position = NOWHERE
) -> tuple[dict[str, Poly], Conjunction] | None:
    """The indices at which a normal box wrote the element `at`, and what must still hold; None: never."""
    values: dict[str, Poly] = {}
    conditions: list[Poly] = []
    names = frozenset(box.indices)
    for axis, subscript in zip(box.at, at, strict=True):
        mine = [name for name in box.indices if name in axis.symbols()]
        if not mine:
            distance = subscript - axis
            if scope.refutes(distance) or scope.refutes(-distance):
                return None
            conditions += [distance, -distance]
            continue
        (name,) = mine
        step = axis.coefficient(name)
        assert step is not None and step.constant
        distance = subscript - axis.substitute({name: _ZERO})
        quotient = exact_quotient(distance, step.constant)
        if quotient is None:
            if _never_divides(distance, step.constant):
                return None
            raise Refusal(
                f"which elements a store with steps of {abs(step.constant)} wrote depends on a remainder; "
                "let all loops that touch the array take the same steps",
                position,
            )
        values[name] = quotient
    assert values.keys() == names, "a box in which an index variable serves no axis"
    conditions += values.values()
    conditions += [extent.substitute(values) - 1 - values[name] for name, extent in box.ranges]
    conditions += [poly.substitute(values) for poly in box.where]
    left = []
    for condition in dict.fromkeys(conditions):
        decided = scope.decides(condition)
        if decided is False:
            return None
        if decided is None:
            left.append(condition)
    return values, tuple(left)


def exact_quotient(poly: Poly, divisor: int) -> Poly | None:
    """poly / divisor where that divides every coefficient."""
    if any(coefficient % divisor for _, coefficient in poly.terms):
        return None
    return Poly.from_terms({monomial: coefficient // divisor for monomial, coefficient in poly.terms})


def _never_divides(poly: Poly, divisor: int) -> bool:
    """Whether no values of the symbols make the polynomial a multiple of the divisor."""
    common = math.gcd(divisor, *(coefficient for monomial, coefficient in poly.terms if monomial))
    return dict(poly.terms).get((), 0) % common != 0


def covers(new: Box, old: Box, scope: Scope) -> bool:
    """Whether everything that `old` wrote is written again by `new`."""
    met = meet_or_none(new, old.at, scope.binding(*old.ranges).knowing(old.where))
    return met is not None and not met[1]


def meet_or_none(box: Box, at: Sequence[Poly], scope: Scope) -> tuple[dict[str, Poly], Conjunction] | None:
    """`meet`, None also where it cannot say."""
    try:
        return meet(box, at, scope)
    except Refusal:
        return None


def apart(box: Box, at: Sequence[Poly], scope: Scope) -> bool:
    """Whether the box surely never wrote the element `at`."""
    try:
        return meet(box, at, scope) is None
    except Refusal:
        return False


@dataclass(frozen=True)
class Normal:
    """A normal box without its value, and old index variables (and quotients of them) in terms of the new."""

    box: Box
    values: dict[str, Poly]
    quotients: dict[Div, Poly] = field(default_factory=dict)

    def change(self, poly: Poly) -> Poly:
        """A polynomial over the old index variables in terms of the new ones."""
        if self.quotients:
            poly = map_divisions(poly, lambda d: self.quotients.get(d) or floor_div(d.top, d.bottom))
        return poly.substitute(self.values)

    def put(self, term: Term) -> Term:
        """A term over the old index variables in terms of the new ones."""
        if not self.values:
            return term
        taken = {name for poly in self.values.values() for name in poly.symbols()}
        return mapped(term, self.change, frozenset(taken | set(self.box.indices)))


def normal(box: Box, scope: Scope) -> Normal:
    """The same elements as a normal box over the rectangular hull, the rest in `where`.

    scope is that around the box. Raises Refusal where two indices may write one element.
    """
    inside = scope.fixed().binding(*box.ranges)
    free, done = list(box.indices), {}
    indices: list[str] = []
    extents: list[Poly] = []
    at: list[Poly] = []
    where: list[Poly] = list(box.where)
    owner = _owners(box)
    for axis, poly in enumerate(box.at):
        name = owner.get(axis)
        others = [other for other in box.indices if other != name and other in poly.symbols()]
        if name is None and not others:
            at.append(poly)
            continue
        if name is not None and not others:
            extent = dict(box.ranges)[name]
            hull = _hull(extent, extent.symbols() & set(box.indices), inside, box)
            if hull != extent:
                where.append(extent - 1 - Poly.symbol(name))
            indices.append(name)
            extents.append(hull)
            at.append(poly)
            continue
        low, high = inside.lower(poly), inside.upper(poly)
        if low is None or high is None:
            raise _unclear(box)
        new = fresh("i")
        indices.append(new)
        extents.append(high - low + 1)
        at.append(Poly.symbol(new) + low)
        if name is None:  # a diagonal: the axis repeats an index that another axis has
            where += [poly - at[-1], at[-1] - poly]
            continue
        step = poly.coefficient(name)
        if step is None or step.constant not in (1, -1):
            raise _unclear(box)
        done[name] = (at[-1] - poly.substitute({name: _ZERO})) * step.constant
        where += [Poly.symbol(name), dict(box.ranges)[name] - 1 - Poly.symbol(name)]
    if set(owner.values()) != set(free):
        raise _unclear(box)
    values = _solved(done)
    frame = scope.binding(*zip(indices, extents))
    left: list[Poly] = []
    for poly in dict.fromkeys(poly.substitute(values) for poly in where):
        if not frame.knowing(left).proves(poly):
            left.append(poly)
    made = replace(box, indices=tuple(indices), extents=tuple(extents), at=tuple(at), where=tuple(left))
    return Normal(made, values)


def _owners(box: Box) -> dict[int, str]:
    """axis -> the index variable that it determines: alone in its axis first, then the innermost one left."""
    names = set(box.indices)
    owner: dict[int, str] = {}
    pending = {axis: poly.symbols() & names for axis, poly in enumerate(box.at)}
    while pending:
        ready = [axis for axis, mine in pending.items() if len(mine - set(owner.values())) <= 1]
        if not ready:
            raise _unclear(box)
        ready.sort(key=lambda axis: (len(pending[axis]), axis))
        axis = ready[0]
        mine = pending.pop(axis) - set(owner.values())
        if mine:
            (name,) = mine
            factor = box.at[axis].coefficient(name)
            if factor is None or not factor.constant:
                raise _unclear(box)
            owner[axis] = name
    return owner


def _hull(extent: Poly, inner: Iterable[str], inside: Scope, box: Box) -> Poly:
    if not inner:
        return extent
    found = inside.upper(extent)
    if found is None:
        raise _unclear(box)
    return found


def _solved(values: dict[str, Poly]) -> dict[str, Poly]:
    """Values that name one another, each in terms of what is left."""
    for _ in values:
        values = {name: poly.substitute(values) for name, poly in values.items()}
    return values


def _unclear(box: Box) -> Refusal:
    return Refusal(
        "two iterations may store to the same element, and which one is last is not clear; "
        "let each loop counter select one subscript of its own",
        box.position,
    )
