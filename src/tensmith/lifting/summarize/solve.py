"""Closed forms of what a loop changes: from one iteration on names for the state at its start, to all.

Scalars: v' = v op e(t) is a fold, v' = e(t) the value one iteration earlier. Array elements: a store that
moves with the counter writes a box over the iterations; one that stays is an accumulation into the element;
one that reads its neighbour written an iteration earlier is a scan. What is read of the state at an
iteration's start is found in what the iterations before wrote, else in the state before the loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tensmith.formula.expr import fresh
from tensmith.formula.poly import Div, Poly
from tensmith.lifting.loops import I64, Loop, Scalar
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.summarize.algebra import cases, index, number, substitute, symbols
from tensmith.lifting.summarize.grids import unswept
from tensmith.lifting.summarize.liveness import Live
from tensmith.lifting.summarize.memory import Box, Contents, Normal, apart, lookup, meet_or_none, normal
from tensmith.lifting.summarize.recurrence import Recurrence, Step
from tensmith.lifting.summarize.scope import Scope
from tensmith.lifting.summary import LoopFacts, Written
from tensmith.lifting.terms import Argument, Cases, Fold, Index, Op, Read, Term, rebuild

if TYPE_CHECKING:
    from tensmith.lifting.summarize.execute import Execution, Found, State

_ZERO = Poly.of(0)
_NOTHING = number(0, I64)


class Circle(Exception):
    """A value was asked for while it was being derived."""


@dataclass(frozen=True)
class Place:
    """Where a store of the body writes over all earlier iterations: its normal box without the value.

    moves: each iteration writes elements of its own, those of iteration `var`; else the same ones again.
    active: polynomials in `var` that must be >= 0 for the iteration to write a fixed element.
    """

    body: Box
    normal: Normal
    moves: bool
    var: str
    active: tuple[Poly, ...] = ()


class Solver:
    """The end of one loop; `end` is the state after an iteration that began with names for the state."""

    def __init__(
        self,
        run: Execution,
        loop: Loop,
        live: Live,
        counter: str,
        trips: Poly,
        outer: Scope,
        entry: State,
        end: State,
        closed: Mapping[str, Term],
    ) -> None:
        self.run, self.loop, self.live, self.counter, self.trips = run, loop, live, counter, trips
        self.outer, self.entry, self.end = outer, entry, end
        self.t = Poly.symbol(counter)
        self.inside = outer.binding((counter, trips))
        self.head = replace(outer, sizes=outer.sizes | {counter})
        if outer.proves(trips):
            self.head = self.head.knowing((trips - self.t,))
        self.suffix = f"@{loop.label}"
        self.scalars: dict[str, Term | None] = dict(closed)
        self.places: dict[tuple[str, int], Place] = {}
        self.values: dict[tuple[str, int], Term | None] = {}
        self.orders: dict[str, list[int]] = {}

    # Leaving the loop

    def leave(self, scalars: Sequence[str], arrays: Sequence[str], mark: int) -> None:
        """Put the state after the loop into `entry`, and note the facts."""
        carried = [name for name in arrays if self._is_carried(name)]
        facts = self._facts(scalars, carried)
        for n in range(mark, len(self.run.found)):
            self.run.found[n] = self._resolved_facts(self.run.found[n])
        after: dict[str, Term] = {}
        exit_ = self._exit()
        at_exit = {self.counter: exit_}
        for name in scalars:
            if self._array_of(name) not in self.live.after and name not in self.scalars:
                continue
            after[name] = substitute(self.scalar(name), at_exit)
        states = {name: self._contents_after(name, at_exit, exit_) for name in carried}
        for name in scalars:
            if name in after:
                self.entry.scalars[name] = after[name]
            else:
                self.entry.scalars.pop(name, None)
        self.entry.arrays.update(states)
        self.run.found.append(facts)

    def _exit(self) -> Poly:
        """max(0, trips) as a polynomial."""
        if self.outer.proves(self.trips):
            return self.trips
        if self.trips.constant is not None:
            return _ZERO
        return Poly.symbol(fresh("exit"))

    def _array_of(self, name: str) -> str:
        return name[4:].rsplit(",", 1)[0] if name.startswith("len(") else name

    def _is_carried(self, name: str) -> bool:
        """Whether what the loop writes to the array is read in a later iteration, or after it."""
        if name not in self.entry.arrays:
            return False
        if self.end.arrays[name].base != name + self.suffix:
            return name in self.live.after
        return name in self.live.after or self._mentioned(name + self.suffix)

    def _mentioned(self, placeholder: str) -> bool:
        terms = [*self.end.scalars.values()]
        terms += [box.value for contents in self.end.arrays.values() for box in contents.boxes]
        return any(placeholder in symbols(term) for term in terms)

    def _contents_after(self, name: str, at_exit: dict[str, Poly], exit_: Poly) -> Contents:
        contents = self.entry.arrays[name]
        if self.end.arrays[name].base != name + self.suffix:
            raise Refusal(
                f"'{name}' is made anew in each iteration but used after the loop", self.loop.position
            )
        for n in self._order(name):
            box = self.box(name, n).substituted(at_exit)
            extents = tuple(self.trips if extent == exit_ else extent for extent in box.extents)
            scope = self.outer.binding(*zip(box.indices, extents))
            where = tuple(poly for poly in box.where if not scope.proves(poly))
            if any(scope.refutes(poly) for poly in where):
                continue
            contents = contents.written(replace(box, extents=extents, where=where), self.outer)
        return contents

    def _facts(self, scalars: Sequence[str], arrays: Sequence[str]) -> Found:
        from tensmith.lifting.summarize.execute import Found

        live = [n for n in scalars if self._array_of(n) in self.live.head and n in self.entry.scalars]
        closed = {name: self.scalar(name) for name in live}
        written = {name: tuple(_written(self.box(name, n)) for n in self._order(name)) for name in arrays}
        outer = tuple(name for name, _ in self.outer.ranges)
        facts = LoopFacts(self.loop.label, self.counter, outer, self.trips, closed, written)
        return Found(facts, self.head, self.loop.position)

    def _resolved_facts(self, found: Found) -> Found:
        """An inner loop's facts, in terms of the state before this loop."""
        facts, scope = found.facts, found.scope
        arrays = {
            name: tuple(
                replace(
                    w, value=self.resolve(w.value, scope.binding(*zip(w.indices, w.extents)).knowing(w.where))
                )
                for w in boxes
            )
            for name, boxes in facts.arrays.items()
        }
        scalars = {name: self.resolve(term, scope) for name, term in facts.scalars.items()}
        return replace(found, facts=replace(facts, scalars=scalars, arrays=arrays))

    # Scalars

    def scalar(self, name: str) -> Term:
        """What a variable holds at the start of iteration `counter`."""
        if name in self.scalars:
            known = self.scalars[name]
            if known is None:
                raise Circle(name)
            return known
        self.scalars[name] = None
        try:
            self.scalars[name] = made = self._closed_scalar(name)
        except Circle as circle:
            raise self._carried(name) from circle
        except BaseException:
            del self.scalars[name]
            raise
        return made

    def _closed_scalar(self, name: str) -> Term:
        own = name + self.suffix
        after = self.end.scalars[name]
        start = self.entry.scalars.get(name) or Argument("undefined " + name, after.type)
        if own not in symbols(after):
            before = substitute(self.resolve(after, self.inside), {self.counter: self.t - 1})
            if name.startswith("len("):
                return self._row_length(name, before)
            return cases([((self.t - 1,), before)], start, self.head)
        step = Recurrence(own, start, self.run.algebra, self.inside).step(after)
        if step is not None:
            return self._fold(step, start, self.inside)
        if self.run.guess is not None:
            guessed = self.run.guess(own, self.resolve_others(after, own), self.counter, start)
            if guessed is not None:
                return guessed
        raise self._carried(name)

    def _row_length(self, name: str, before: Term) -> Term:
        if self.counter in symbols(before):
            raise Refusal(
                f"the rows appended to '{self._array_of(name)}' are not of equal length; "
                "let every row have the same length",
                self.loop.position,
            )
        return before

    def resolve_others(self, term: Term, own: str) -> Term:
        """`resolve`, but for one name that stays."""
        self.scalars[own.removesuffix(self.suffix)] = kept = Argument(own, term.type)
        try:
            return self.resolve(term, self.inside)
        finally:
            assert kept
            self.scalars[own.removesuffix(self.suffix)] = None

    def _fold(self, step: Step, start: Term, scope: Scope, extent: Poly | None = None) -> Term:
        """The fold of the step over the iterations before `counter` (or the first `extent`)."""
        algebra = self.run.algebra
        if step.term is None:
            return start
        var = fresh("k")
        body = substitute(self.resolve(step.term, scope), {self.counter: Poly.symbol(var)})
        first = algebra.cast(start, step.type, self.outer)
        made: Term = Fold(step.kind, var, self.t if extent is None else extent, body, first, step.type)
        return made if step.wrap is None else algebra.cast(made, step.wrap, self.outer)

    def _carried(self, name: str) -> Refusal:
        return Refusal(
            f"'{name}' depends on its value in the iteration before in a way that is no sum, product, "
            "maximum, minimum or running sum; split the loop, or write the recurrence as one of these",
            self.loop.position,
        )

    # Arrays

    def place(self, name: str, n: int) -> Place:
        """Where the n-th store to an array has written before iteration `counter`."""
        if (name, n) not in self.places:
            self.places[name, n] = self._place(self.end.arrays[name].boxes[n])
        return self.places[name, n]

    def _place(self, body: Box) -> Place:
        polys = (*body.at, *body.extents, *body.where)
        if any("@" in symbol for poly in polys for symbol in poly.symbols()):
            raise Refusal(
                "which element is written depends on a variable that is not linear in the loop counters; "
                "compute the subscript from the counters",
                body.position,
            )
        var = fresh("i")
        moved = replace(body, value=_NOTHING).substituted({self.counter: Poly.symbol(var)})
        if any(self.counter in poly.symbols() for poly in body.at):
            swept = self._swept(moved, var)
            if swept is not None:
                return Place(body, swept, True, var)
            box = replace(moved, indices=(var, *moved.indices), extents=(self.t, *moved.extents))
            return Place(body, normal(box, self.head), True, var)
        return self._still(body, moved, var)

    def _swept(self, moved: Box, var: str) -> Normal | None:
        """A store whose counter runs over whole rows, as a box with an index an axis."""
        divisions = {
            atom
            for poly in moved.at
            for monomial, _ in poly.terms
            for atom, _ in monomial
            if isinstance(atom, Div) and atom.top == Poly.symbol(var)
        }
        if not divisions or moved.indices:
            return None
        found = unswept(divisions, self.trips, lambda: fresh("i"))
        if found is None:
            return None
        ranges, counter, quotients = found
        indices, extents = zip(*ranges)
        swept = Normal(moved, {var: counter}, quotients)
        box = replace(
            moved,
            indices=indices,
            extents=extents,
            at=tuple(map(swept.change, moved.at)),
            where=(*map(swept.change, moved.where), self.t - 1 - counter),
        )
        return replace(swept, box=box)

    def _still(self, body: Box, moved: Box, var: str) -> Place:
        """A store to the same elements in every iteration."""
        inside = self.head.fixed().binding((var, self.t))
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
        return Place(body, Normal(box, {}), False, var, tuple(active))

    def box(self, name: str, n: int) -> Box:
        """What the n-th store has written before iteration `counter`, with its value."""
        place = self.place(name, n)
        box = replace(place.normal.box, value=self.value(name, n))
        if not place.moves and not self._accumulates(name, n):
            box = replace(box, where=(*box.where, self.t - 1))
        return box

    def value(self, name: str, n: int) -> Term:
        """The value in terms of the normal box's indices and `counter`."""
        key = (name, n)
        if key in self.values:
            known = self.values[key]
            if known is None:
                raise Circle(name)
            return known
        self.values[key] = None
        try:
            place = self.place(name, n)
            made = self._moving(name, place) if place.moves else self._accumulated(name, n, place)
        except Circle as circle:
            del self.values[key]
            raise self._loop_carried(name, self.end.arrays[name].boxes[n]) from circle
        except BaseException:
            del self.values[key]
            raise
        self.values[key] = made
        return made

    def _moving(self, name: str, place: Place) -> Term:
        body = place.body
        scope = self.inside.binding(*body.ranges).knowing(body.where)
        try:
            value = self.resolve(body.value, scope)
        except (Circle, Refusal) as problem:
            scanned = self._scan(name, body, scope)
            if scanned is None:
                raise problem
            value = scanned
        value = substitute(value, {self.counter: Poly.symbol(place.var)})
        return place.normal.put(value)

    def _scan(self, name: str, body: Box, scope: Scope) -> Term | None:
        """element(t) = element(t - 1) op e(t): a fold over the iterations up to this one."""
        own = f"{name}[]{self.suffix}"
        before = tuple(poly.substitute({self.counter: self.t - 1}) for poly in body.at)
        held = self._naming(body.value, name, before, own)
        if own not in symbols(held) or any(self.counter in poly.symbols() for poly in body.where):
            return None
        first = tuple(poly.substitute({self.counter: Poly.of(-1)}) for poly in body.at)
        start = self.entry.arrays[name].read(first, scope, body.position)
        step = Recurrence(own, start, self.run.algebra, scope).step(held)
        return None if step is None else self._fold(step, start, scope, self.t + 1)

    def _accumulates(self, name: str, n: int) -> bool:
        place = self.place(name, n)
        own = name + self.suffix
        return bool(place.active) or own in symbols(self._naming(place.body.value, name, place.body.at, own))

    def _naming(self, term: Term, name: str, at: tuple[Poly, ...], own: str) -> Term:
        """The term with the array's element `at` of the iteration's start under the name `own`."""
        array, algebra = name + self.suffix, self.run.algebra

        def inner(part: Term) -> Term:
            if (
                isinstance(part, Read)
                and part.array == array
                and tuple(map(algebra.poly, part.indices)) == at
            ):
                return Argument(own, part.type)
            return rebuild(part, inner, lambda poly: poly)

        return inner(term)

    def _accumulated(self, name: str, n: int, place: Place) -> Term:
        """A store that stays: an accumulation into its elements, or the last iteration's value."""
        body = place.body
        start = self._first(name, n, place)
        own = f"{name}[]{self.suffix}"
        value = self._naming(body.value, name, body.at, own)
        scope = self.inside.binding(*body.ranges).knowing(body.where)
        if place.active:
            scope = self._elements(place)
            value = cases([(self._active(place), value)], Argument(own, value.type), scope)
        elif own not in symbols(value):
            return substitute(self.resolve(value, scope), {self.counter: self.t - 1})
        step = Recurrence(own, start, self.run.algebra, scope).step(value)
        if step is None:
            raise Circle(name)
        return self._fold(step, start, scope)

    def _elements(self, place: Place) -> Scope:
        """An iteration, and any element that a store that stays reaches in whichever iteration."""
        hull = place.normal.box
        ranges = [(name, extent.substitute({self.counter: self.trips})) for name, extent in hull.ranges]
        return self.inside.binding(*ranges).knowing(hull.where)

    def _active(self, place: Place) -> tuple[Poly, ...]:
        """What must be >= 0 for this iteration to write the element."""
        return tuple(poly.substitute({place.var: self.t}) for poly in place.active)

    def _first(self, name: str, n: int, place: Place) -> Term:
        """What the elements of a store that stays hold before it first touches them.

        Another store of the loop may have written them, if only once and in an earlier iteration than any in
        which this one is active.
        """
        body, hull = place.body, place.normal.box
        frame = self.head.binding(*hull.ranges).knowing(hull.where)
        later = self._elements(place).knowing(self._active(place))
        boxes: list[Box] = []
        numbers: list[int] = []
        for other in range(len(self.end.arrays[name].boxes)):
            before = self.place(name, other)
            box = before.normal.box
            if other == n or apart(box, body.at, frame):
                continue
            met = meet_or_none(box, body.at, frame)
            if met is None or not before.moves:
                raise self._loop_carried(name, body)
            iteration = before.normal.values.get(before.var, Poly.symbol(before.var)).substitute(met[0])
            if not later.proves(self.t - 1 - iteration):
                raise self._loop_carried(name, body)
            boxes.append(box)
            numbers.append(other)
        return lookup(
            boxes,
            body.at,
            frame,
            body.position,
            self.entry.arrays[name].read,
            lambda box, _: self.value(name, numbers[next(k for k, kept in enumerate(boxes) if kept is box)]),
        )

    def _order(self, name: str) -> list[int]:
        """The stores to an array such that later ones are over earlier ones for all iterations together."""
        if name not in self.orders:
            order: list[int] = []
            for n in range(len(self.end.arrays[name].boxes)):
                slot = len(order)
                for k in reversed(range(len(order))):
                    if not self._later_apart(name, order[k], n, 1):
                        if not self._later_apart(name, n, order[k], 0):
                            raise self._loop_carried(name, self.end.arrays[name].boxes[n])
                        slot = k
                order.insert(slot, n)
            self.orders[name] = order
        return self.orders[name]

    def _later_apart(self, name: str, first: int, second: int, ahead: int) -> bool:
        """Whether `first`, from `ahead` iterations later on, never writes what `second` writes."""
        boxes = self.end.arrays[name].boxes
        more = fresh("i")
        later = boxes[first].substituted({self.counter: self.t + Poly.symbol(more) + ahead})
        scope = self.inside.binding((more, self.trips - ahead - self.t), *boxes[second].ranges)
        return apart(replace(later, value=_NOTHING), boxes[second].at, scope.knowing(boxes[second].where))

    def _loop_carried(self, name: str, box: Box) -> Refusal:
        return Refusal(
            f"what is stored to '{name}' depends on what an earlier iteration stored, and is no sum, "
            "product, maximum, minimum or running sum; write to a second array, or split the loop",
            box.position,
        )

    # Resolving

    def resolve(self, term: Term, scope: Scope) -> Term:
        """The term in iteration `counter` in terms of the state before the loop."""
        if not any(self.suffix in name for name in symbols(term)):
            return term
        algebra = self.run.algebra
        match term:
            case Argument(name) if name.endswith(self.suffix):
                return self.scalar(name.removesuffix(self.suffix))
            case Read(array, indices, _) if array.endswith(self.suffix):
                return self._read(
                    array.removesuffix(self.suffix), tuple(map(self._subscript, indices)), scope
                )
            case Index(poly, type_):
                return self._position(poly, type_, scope)
            case Op("select", (condition, then, otherwise), _):
                chosen = self.resolve(condition, scope)
                then_scope, else_scope = self.run.branches(chosen, scope)
                a, b = self.resolve(then, then_scope), self.resolve(otherwise, else_scope)
                return algebra.select(chosen, a, b, scope)
            case Op("cast", (value,), type_):
                return algebra.cast(self.resolve(value, scope), type_, scope)
            case Op(operator, arguments, type_):
                return algebra.apply(operator, [self.resolve(a, scope) for a in arguments], type_, scope)
            case Fold(kind, var, extent, body, start, type_):
                inner = self.resolve(body, scope.binding((var, extent)))
                return Fold(kind, var, extent, inner, self.resolve(start, scope), type_)
            case Cases(found, otherwise, _):
                made = [
                    (conditions, self.resolve(value, scope.knowing(conditions)))
                    for conditions, value in found
                ]
                return cases(made, self.resolve(otherwise, scope), scope)
        return term

    def _subscript(self, term: Term) -> Poly:
        poly = self.run.algebra.poly(term)
        assert poly is not None
        return poly

    def _position(self, poly: Poly, type_: Scalar, scope: Scope) -> Term:
        """A position that names a variable at the loop's head: its closed form put in its place."""
        algebra = self.run.algebra
        for symbol in poly.symbols():
            if symbol.endswith(self.suffix):
                held = self.scalar(symbol.removesuffix(self.suffix))
                closed, factor = algebra.poly(held), poly.coefficient(symbol)
                if closed is not None:
                    poly = poly.substitute({symbol: closed})
                elif factor is not None:
                    rest = self._position(poly.substitute({symbol: 0}), type_, scope)
                    product = algebra.apply(
                        "mul", (index(factor, type_), algebra.cast(held, type_, scope)), type_, scope
                    )
                    return algebra.apply("add", (product, rest), type_, scope)
                else:
                    raise self._carried(symbol.removesuffix(self.suffix))
        return index(poly, type_)

    def _read(self, name: str, at: tuple[Poly, ...], scope: Scope) -> Term:
        """An element of an array at the start of iteration `counter`."""
        boxes = {}
        for n in self._order(name):
            place = self.place(name, n)
            box = place.normal.box
            if not place.moves and not self._accumulates(name, n):
                box = replace(box, where=(*box.where, self.t - 1))
            boxes[n] = box
        numbers = {id(box): n for n, box in boxes.items()}
        return lookup(
            list(boxes.values()),
            at,
            scope,
            self.loop.position,
            self.entry.arrays[name].read,
            lambda box, _: self.value(name, numbers[id(box)]),
        )


def _written(box: Box) -> Written:
    return Written(box.indices, box.extents, box.at, box.value, box.where)
