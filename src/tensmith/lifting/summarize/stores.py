"""What a loop's stores have written before an iteration: boxes, accumulations into elements, scans.

A store whose element moves with the counter writes a box over the iterations; one that stays is an
accumulation into the element; one that reads its neighbour written an iteration earlier is a scan. What is
read of the state at an iteration's start is found in what the iterations before wrote, else in the state
before the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tensmith.formula.expr import Read, SourcePosition, fresh, rebuilt
from tensmith.formula.poly import Poly
from tensmith.formula.types import I64
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.summarize.constants import number
from tensmith.lifting.summarize.grids import unswept
from tensmith.lifting.summarize.iteration import Circle, Iteration, derived
from tensmith.lifting.summarize.memory import StoredBox, apart, lookup, meet_or_none
from tensmith.lifting.summarize.normal import NormalBox, normal
from tensmith.lifting.summarize.reasons import in_vain
from tensmith.lifting.summarize.recurrence import Recurrence, RecurrenceStep
from tensmith.lifting.summarize.scope import Scope
from tensmith.lifting.summarize.substitution import is_open, substitute, symbols
from tensmith.lifting.summary import Term

_NOTHING = number(0, I64)


@dataclass(frozen=True)
class StorePlace:
    """Where a store of the body writes over all earlier iterations: its normal box without the value.

    moves: each iteration writes elements of its own, those of iteration `var`; else the same ones again.
    active: polynomials in `var` that must be >= 0 for the iteration to write a fixed element.
    """

    body: StoredBox
    normal: NormalBox
    moves: bool
    var: str
    active: tuple[Poly, ...] = ()


@dataclass
class Stores:
    """The stores of one loop's body, each known by its array and its number there.

    resolve: a term of the iteration in terms of the state before the loop; fold: that of a step from a start
    over so many iterations.
    """

    iteration: Iteration
    resolve: Callable[[Term, Scope], Term]
    fold: Callable[[RecurrenceStep, Term, Scope, Poly], Term]

    def __post_init__(self) -> None:
        self.places: dict[tuple[str, int], StorePlace] = {}
        self.values: dict[tuple[str, int], Term | None] = {}
        self.orders: dict[str, list[int]] = {}

    def place(self, name: str, n: int) -> StorePlace:
        """Where the n-th store to an array has written before iteration `counter`."""
        if (name, n) not in self.places:
            self.places[name, n] = self._place(self.iteration.end.arrays[name].boxes[n])
        return self.places[name, n]

    def _place(self, body: StoredBox) -> StorePlace:
        polys = (*body.at, *body.extents, *body.where)
        if any(map(is_open, polys)):
            raise Refusal(
                "which element is written depends on a variable that is not linear in the loop counters; "
                "compute the subscript from the counters",
                body.position,
            )
        var = fresh("i")
        moved = replace(body, value=_NOTHING).substituted({self.iteration.counter: Poly.symbol(var)})
        if any(self.iteration.counter in poly.symbols() for poly in body.at):
            swept = self._swept(moved, var)
            if swept is not None:
                return StorePlace(body, swept, True, var)
            box = replace(moved, indices=(var, *moved.indices), extents=(self.iteration.t, *moved.extents))
            return StorePlace(body, normal(box, self.iteration.head), True, var)
        return self._still(body, moved, var)

    def _swept(self, moved: StoredBox, var: str) -> NormalBox | None:
        """A store whose counter runs over whole rows, as a box with an index an axis."""
        divisions = {d for poly in moved.at for d in poly.divisions() if d.top == Poly.symbol(var)}
        if not divisions or moved.indices:
            return None
        found = unswept(divisions, self.iteration.trips, lambda: fresh("i"))
        if found is None:
            return None
        ranges, counter, quotients = found
        indices, extents = zip(*ranges)
        swept = NormalBox(moved, {var: counter}, quotients)
        box = replace(
            moved,
            indices=indices,
            extents=extents,
            at=tuple(map(swept.change, moved.at)),
            where=(*map(swept.change, moved.where), self.iteration.t - 1 - counter),
        )
        return replace(swept, box=box)

    def _still(self, body: StoredBox, moved: StoredBox, var: str) -> StorePlace:
        """A store to the same elements in every iteration."""
        inside = self.iteration.head.fixed().binding((var, self.iteration.t))
        active = [poly for poly in moved.where if var in poly.symbols()]
        where = [poly for poly in moved.where if var not in poly.symbols()]
        extents = []
        for name, extent in moved.ranges:
            if var not in extent.symbols():
                extents.append(extent)
                continue
            highest = None if extent.symbols() & set(moved.indices) else inside.upper(extent)
            if highest is None:
                raise Refusal(
                    "how far the inner loop's stores reach is not clear; bound it by the counters",
                    body.position,
                )
            extents.append(highest)
            active.append(extent - 1 - Poly.symbol(name))
        box = replace(moved, extents=tuple(extents), where=tuple(where))
        return StorePlace(body, NormalBox(box, {}), False, var, tuple(active))

    def box(self, name: str, n: int) -> StoredBox:
        """What the n-th store has written before iteration `counter`, with its value."""
        return replace(self._reached(name, n), value=self.value(name, n))

    def _reached(self, name: str, n: int) -> StoredBox:
        """The elements that the n-th store has written before iteration `counter`, without their value."""
        place = self.place(name, n)
        box = place.normal.box
        if place.moves or self._accumulates(name, n):
            return box
        return replace(box, where=(*box.where, self.iteration.t - 1))

    def value(self, name: str, n: int) -> Term:
        """The value in terms of the normal box's indices and `counter`."""

        def derive() -> Term:
            place = self.place(name, n)
            return self._moving(name, place) if place.moves else self._accumulated(name, n, place)

        def carried() -> Refusal:
            return self._loop_carried(name, self.iteration.end.arrays[name].boxes[n])

        return derived(self.values, (name, n), derive, carried)

    def _moving(self, name: str, place: StorePlace) -> Term:
        body = place.body
        scope = self.iteration.inside.binding(*body.ranges).knowing(body.where)
        try:
            value = self.resolve(body.value, scope)
        except (Circle, Refusal) as problem:
            scanned = self._scan(name, body, scope)
            if scanned is None:
                raise problem
            value = scanned
        value = substitute(value, {self.iteration.counter: Poly.symbol(place.var)})
        return place.normal.put(value)

    def _scan(self, name: str, body: StoredBox, scope: Scope) -> Term | None:
        """element(t) = element(t - 1) op e(t): a fold over the iterations up to this one."""
        own = f"{name}[]{self.iteration.suffix}"
        before = tuple(poly.substitute({self.iteration.counter: self.iteration.t - 1}) for poly in body.at)
        held = self._naming(body.value, name, before, own)
        if own not in symbols(held) or any(self.iteration.counter in poly.symbols() for poly in body.where):
            return None
        first = tuple(poly.substitute({self.iteration.counter: Poly.of(-1)}) for poly in body.at)
        start = self.iteration.entry.arrays[name].read(first, scope, body.position)
        step = Recurrence(own, start, self.iteration.run.algebra, scope).step(held)
        return None if step is None else self.fold(step, start, scope, self.iteration.t + 1)

    def _accumulates(self, name: str, n: int) -> bool:
        place = self.place(name, n)
        own = name + self.iteration.suffix
        return bool(place.active) or own in symbols(self._naming(place.body.value, name, place.body.at, own))

    def _naming(self, term: Term, name: str, at: tuple[Poly, ...], own: str) -> Term:
        """The term with the array's element `at` of the iteration's start under the name `own`."""
        array = name + self.iteration.suffix

        def inner(part: Term) -> Term:
            if isinstance(part, Read) and (part.tensor, part.indices) == (array, at):
                return Read(own, (), part.type)
            return rebuilt(part, inner, lambda poly: poly)

        return inner(term)

    def _accumulated(self, name: str, n: int, place: StorePlace) -> Term:
        """A store that stays: an accumulation into its elements, or the last iteration's value."""
        body = place.body
        start = self._first(name, n, place)
        own = f"{name}[]{self.iteration.suffix}"
        value = self._naming(body.value, name, body.at, own)
        scope = self.iteration.inside.binding(*body.ranges).knowing(body.where)
        if place.active:
            scope = self._elements(place)
            value = scope.choice([(self._active(place), value)], Read(own, (), value.type))
        elif own not in symbols(value):
            return substitute(self.resolve(value, scope), {self.iteration.counter: self.iteration.t - 1})
        step = Recurrence(own, start, self.iteration.run.algebra, scope).step(value)
        if step is None:
            raise Circle
        return self.fold(step, start, scope, self.iteration.t)

    def _elements(self, place: StorePlace) -> Scope:
        """An iteration, and any element that a store that stays reaches in whichever iteration."""
        hull = place.normal.box
        ranges = [
            (name, extent.substitute({self.iteration.counter: self.iteration.trips}))
            for name, extent in hull.ranges
        ]
        return self.iteration.inside.binding(*ranges).knowing(hull.where)

    def _active(self, place: StorePlace) -> tuple[Poly, ...]:
        """What must be >= 0 for this iteration to write the element."""
        return tuple(poly.substitute({place.var: self.iteration.t}) for poly in place.active)

    def _first(self, name: str, n: int, place: StorePlace) -> Term:
        """What the elements of a store that stays hold before it first touches them.

        Another store of the loop may have written them, if only once and in an earlier iteration than any in
        which this one is active.
        """
        body, hull = place.body, place.normal.box
        frame = self.iteration.head.binding(*hull.ranges).knowing(hull.where)
        later = self._elements(place).knowing(self._active(place))
        boxes: dict[int, StoredBox] = {}
        for other in range(len(self.iteration.end.arrays[name].boxes)):
            before = self.place(name, other)
            box = before.normal.box
            if other == n or apart(box, body.at, frame):
                continue
            met = meet_or_none(box, body.at, frame)
            if met is None or not before.moves:
                raise self._loop_carried(name, body)
            iteration = before.normal.values.get(before.var, Poly.symbol(before.var)).substitute(met[0])
            if not later.proves(self.iteration.t - 1 - iteration):
                raise self._loop_carried(name, body)
            boxes[other] = box
        return self._found(name, boxes, body.at, frame, body.position)

    def order(self, name: str) -> list[int]:
        """The stores to an array such that later ones are over earlier ones for all iterations together."""
        if name not in self.orders:
            order: list[int] = []
            for n in range(len(self.iteration.end.arrays[name].boxes)):
                slot = len(order)
                for k in reversed(range(len(order))):
                    if not self._later_apart(name, order[k], n, 1):
                        if not self._later_apart(name, n, order[k], 0):
                            raise self._loop_carried(name, self.iteration.end.arrays[name].boxes[n])
                        slot = k
                order.insert(slot, n)
            self.orders[name] = order
        return self.orders[name]

    def _later_apart(self, name: str, first: int, second: int, ahead: int) -> bool:
        """Whether `first`, from `ahead` iterations later on, never writes what `second` writes."""
        boxes = self.iteration.end.arrays[name].boxes
        more = fresh("i")
        later = boxes[first].substituted(
            {self.iteration.counter: self.iteration.t + Poly.symbol(more) + ahead}
        )
        scope = self.iteration.inside.binding(
            (more, self.iteration.trips - ahead - self.iteration.t), *boxes[second].ranges
        )
        return apart(replace(later, value=_NOTHING), boxes[second].at, scope.knowing(boxes[second].where))

    def _loop_carried(self, name: str, box: StoredBox) -> Refusal:
        reason = in_vain(name, name + self.iteration.suffix, box.value)
        return Refusal(
            reason
            or f"what is stored to '{name}' depends on what an earlier iteration stored, and is no sum, "
            "product, maximum, minimum or running sum; write to a second array, or split the loop",
            box.position,
        )

    def read(self, name: str, at: tuple[Poly, ...], scope: Scope) -> Term:
        """An element of an array at the start of iteration `counter`."""
        boxes = {n: self._reached(name, n) for n in self.order(name)}
        return self._found(name, boxes, at, scope, self.iteration.loop.position)

    def _found(
        self,
        name: str,
        boxes: Mapping[int, StoredBox],
        at: tuple[Poly, ...],
        scope: Scope,
        position: SourcePosition,
    ) -> Term:
        """An element through boxes of stores, by their numbers, or as it was before the loop."""
        numbers = {id(box): n for n, box in boxes.items()}
        return lookup(
            list(boxes.values()),
            at,
            scope,
            position,
            self.iteration.entry.arrays[name].read,
            lambda box: self.value(name, numbers[id(box)]),
        )
