"""Arrays as what was written to them: boxes of elements over a base, and reading through them.

A box is normal when each axis is a number, or one index variable (times a step) plus an offset, and no
variable serves two axes: then an element determines the indices that wrote it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tensmith.formula.expr import NOWHERE, Read, SourcePosition
from tensmith.formula.poly import Poly, long_division
from tensmith.formula.types import MachineType
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.summarize.scope import Conjunction, Scope
from tensmith.lifting.summarize.substitution import substitute
from tensmith.lifting.summary import Term, Written

_ZERO = Poly.of(0)


class NoValue(Refusal):
    """An element of a local array is read where nothing was written."""

    def __init__(self, array: str, position: SourcePosition, read: str = "it") -> None:
        super().__init__(
            f"an element of '{array}' is read that has no value: {read} is outside the array, or nothing "
            "was written to it before; give the array first values",
            position,
        )
        self.array = array


@dataclass(frozen=True)
class StoredBox:
    """What one store wrote: as `summary.Written`, with the place in the source."""

    indices: tuple[str, ...]
    extents: tuple[Poly, ...]
    at: tuple[Poly, ...]
    value: Term
    where: Conjunction = ()
    position: SourcePosition = NOWHERE

    @property
    def ranges(self) -> tuple[tuple[str, Poly], ...]:
        """The index variables with their extents."""
        return tuple(zip(self.indices, self.extents))

    @property
    def written(self) -> Written:
        """Without the place."""
        return Written(self.indices, self.extents, self.at, self.value, self.where)

    def substituted(self, values: dict[str, Poly]) -> StoredBox:
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
    element: MachineType
    rank: int
    base: str
    boxes: tuple[StoredBox, ...] = ()
    fill: Term | None = None
    kept: int = field(default=0, compare=False)

    def written(self, box: StoredBox, scope: Scope) -> Contents:
        """The state after a store; boxes that it covers are gone."""
        kept = [old for n, old in enumerate(self.boxes) if n < self.kept or not covers(box, old, scope)]
        return replace(self, boxes=(*kept, box))

    def read(self, at: tuple[Poly, ...], scope: Scope, position: SourcePosition) -> Term:
        """The element `at`."""
        return lookup(self.boxes, at, scope, position, self.below)

    def below(self, at: tuple[Poly, ...], scope: Scope, position: SourcePosition) -> Term:
        """The element `at` where no box wrote it."""
        if self.base:
            return Read(self.base, at, self.element)
        if self.fill is None:
            raise NoValue(self.name, position)
        return self.fill


Below = Callable[[tuple[Poly, ...], Scope, SourcePosition], Term]


def lookup(
    boxes: Sequence[StoredBox],
    at: tuple[Poly, ...],
    scope: Scope,
    position: SourcePosition,
    below: Below,
    value_of: Callable[[StoredBox], Term] = lambda box: box.value,
) -> Term:
    """The element `at` through boxes, newest first: a choice by position where several may match."""
    found: list[tuple[Conjunction, Term]] = []
    around = scope
    for box in reversed(boxes):
        met = meet(box, at, scope, position)
        if met is None:
            continue
        values, conditions = met
        value = substitute(value_of(box), values)
        if not conditions:
            return around.choice(found, value)
        found.append((conditions, value))
        if len(conditions) == 1:
            scope = scope.knowing((-conditions[0] - 1,))
    return around.choice(found, below(at, scope, position))


def meet(
    box: StoredBox, at: Sequence[Poly], scope: Scope, position: SourcePosition = NOWHERE
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
        quotient, rest = long_division(distance, step)
        if rest.terms:
            if _never_divides(distance, step.constant) or _beyond(box, name, distance, step.constant, scope):
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


def _beyond(box: StoredBox, name: str, distance: Poly, step: int, scope: Scope) -> bool:
    """Whether a distance from a box's first element is past its last one, or before it."""
    last = (dict(box.ranges)[name] - 1) * step
    low, high = (Poly.of(0), last) if step > 0 else (last, Poly.of(0))
    return scope.proves(distance - high - 1) or scope.proves(low - distance - 1)


def _never_divides(poly: Poly, divisor: int) -> bool:
    """Whether no values of the symbols make the polynomial a multiple of the divisor."""
    common = math.gcd(divisor, *(coefficient for monomial, coefficient in poly.terms if monomial))
    return dict(poly.terms).get((), 0) % common != 0


def covers(new: StoredBox, old: StoredBox, scope: Scope) -> bool:
    """Whether everything that `old` wrote is written again by `new`."""
    met = meet_or_none(new, old.at, scope.binding(*old.ranges).knowing(old.where))
    return met is not None and not met[1]


def meet_or_none(
    box: StoredBox, at: Sequence[Poly], scope: Scope
) -> tuple[dict[str, Poly], Conjunction] | None:
    """`meet`, None also where it cannot say."""
    try:
        return meet(box, at, scope)
    except Refusal:
        return None


def apart(box: StoredBox, at: Sequence[Poly], scope: Scope) -> bool:
    """Whether the box surely never wrote the element `at`."""
    try:
        return meet(box, at, scope) is None
    except Refusal:
        return False
