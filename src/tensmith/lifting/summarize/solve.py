"""Closed forms of what a loop changes: from one iteration on names for the state at its start, to all.

v' = v op e(t) is a fold, v' = e(t) the value one iteration earlier; `stores` does the same for elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tensmith.formula.expr import Call, Choose, Read, Reduce, Size, fresh
from tensmith.formula.poly import Poly
from tensmith.formula.types import BOOL, MachineType
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.summarize.constants import number
from tensmith.lifting.summarize.iteration import Iteration, derived
from tensmith.lifting.summarize.liveness import Live
from tensmith.lifting.summarize.memory import Contents, StoredBox
from tensmith.lifting.summarize.place import ExtremumPlaces
from tensmith.lifting.summarize.reasons import in_vain
from tensmith.lifting.summarize.recurrence import Recurrence, RecurrenceStep
from tensmith.lifting.summarize.scope import Scope
from tensmith.lifting.summarize.state import PendingLoop, undefined
from tensmith.lifting.summarize.stores import Stores
from tensmith.lifting.summarize.substitution import index, substitute, symbols
from tensmith.lifting.summarize.unrolled import (
    continued,
    continued_box,
    rolled,
    rolled_boxes,
    shared,
    since,
    total_of,
)
from tensmith.lifting.summary import LoopFacts, Term, first, length_of

_ZERO = Poly.of(0)


class Solver:
    """The end of one loop."""

    def __init__(self, iteration: Iteration, live: Live, closed: Mapping[str, Term]) -> None:
        self.iteration, self.live = iteration, live
        self.scalars: dict[str, Term | None] = dict(closed)
        self.stores = Stores(iteration, self.resolve, self._fold)

    # Leaving the loop

    def leave(self, scalars: Sequence[str], arrays: Sequence[str], mark: int) -> None:
        """Put the state after the loop into `entry`, and note the facts."""
        carried = [name for name in arrays if self._is_carried(name)]
        facts = self._facts(scalars, carried)
        for n in range(mark, len(self.iteration.run.found)):
            self.iteration.run.found[n] = self._resolved_facts(self.iteration.run.found[n])
        after: dict[str, Term] = {}
        exit_ = self._exit()
        at_exit = {self.iteration.counter: exit_}
        for name in scalars:
            if self._array_of(name) not in self.live.after and name not in self.scalars:
                continue
            after[name] = substitute(self.scalar(name), at_exit)
        states = {name: self._contents_after(name, at_exit, exit_) for name in carried}
        for name in scalars:
            if name in after:
                self.iteration.entry.scalars[name] = after[name]
            else:
                self.iteration.entry.scalars.pop(name, None)
        self.iteration.entry.arrays.update(states)
        self.iteration.run.found.append(facts)

    def _exit(self) -> Poly:
        """max(0, trips) as a polynomial."""
        if self.iteration.outer.proves(self.iteration.trips):
            return self.iteration.trips
        if self.iteration.trips.constant is not None:
            return _ZERO
        return Poly.symbol(fresh("exit"))

    def _array_of(self, name: str) -> str:
        return (length_of(name) or (name,))[0]

    def _is_carried(self, name: str) -> bool:
        """Whether what the loop writes to the array is read in a later iteration, or after it."""
        if name not in self.iteration.entry.arrays:
            return False
        if self.iteration.end.arrays[name].base != name + self.iteration.suffix:
            return name in self.live.after
        return name in self.live.after or self._mentioned(name + self.iteration.suffix)

    def _mentioned(self, placeholder: str) -> bool:
        terms = [*self.iteration.end.scalars.values()]
        terms += [box.value for contents in self.iteration.end.arrays.values() for box in contents.boxes]
        return any(placeholder in symbols(term) for term in terms)

    def _contents_after(self, name: str, at_exit: dict[str, Poly], exit_: Poly) -> Contents:
        contents = self.iteration.entry.arrays[name]
        if self.iteration.end.arrays[name].base != name + self.iteration.suffix:
            raise Refusal(
                f"'{name}' is made anew in each iteration but used after the loop",
                self.iteration.loop.position,
            )
        for box in self._boxes(name):
            box = box.substituted(at_exit)
            extents = tuple(self.iteration.trips if extent == exit_ else extent for extent in box.extents)
            scope = self.iteration.outer.binding(*zip(box.indices, extents))
            where = tuple(poly for poly in box.where if not scope.proves(poly))
            if any(scope.refutes(poly) for poly in where):
                continue
            box = replace(box, extents=extents, where=where)
            before = contents.boxes[-1] if len(contents.boxes) > contents.kept else None
            whole = None if before is None else continued_box(before, box, self.iteration.outer)
            if whole is None:
                contents = contents.written(box, self.iteration.outer)
            else:
                contents = replace(contents, boxes=(*contents.boxes[:-1], whole))
        return contents

    def _boxes(self, name: str) -> list[StoredBox]:
        """What the loop has written to an array before iteration `counter`."""
        return rolled_boxes([self.stores.box(name, n) for n in self.stores.order(name)])

    def _facts(self, scalars: Sequence[str], arrays: Sequence[str]) -> PendingLoop:
        live = [
            n for n in scalars if self._array_of(n) in self.live.head and n in self.iteration.entry.scalars
        ]
        closed = {name: self.scalar(name) for name in live}
        run = self.iteration.run
        share = shared(closed, self.iteration.t) if run.together else None
        if share is not None:
            name, term = share
            closed[name] = self.scalars[name] = term
            run.algebra.shares.append(substitute(total_of(term), {self.iteration.counter: self._exit()}))
        written = {name: tuple(box.written for box in self._boxes(name)) for name in arrays}
        outer = tuple(name for name, _ in self.iteration.outer.ranges)
        facts = LoopFacts(
            self.iteration.loop.label, self.iteration.counter, outer, self.iteration.trips, closed, written
        )
        return PendingLoop(self.iteration.head, self.iteration.loop.position, facts)

    def _resolved_facts(self, found: PendingLoop) -> PendingLoop:
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
        return derived(self.scalars, name, lambda: self._closed_scalar(name), lambda: self._carried(name))

    def _closed_scalar(self, name: str) -> Term:
        own = name + self.iteration.suffix
        after = self.iteration.end.scalars[name]
        start = self.iteration.entry.scalars.get(name) or undefined(name, after.type)
        if own not in symbols(after):
            before = substitute(
                self.resolve(after, self.iteration.inside), {self.iteration.counter: self.iteration.t - 1}
            )
            if length_of(name) is not None:
                return self._row_length(name, before)
            return self.iteration.head.choice([((self.iteration.t - 1,), before)], start)
        step = Recurrence(own, start, self.iteration.run.algebra, self.iteration.inside).step(after)
        if step is not None:
            return self._fold(step, start, self.iteration.inside, self.iteration.t)
        place = ExtremumPlaces(
            self.iteration, self.scalar, lambda term: self.resolve(term, self.iteration.inside)
        ).of(name, start)
        if place is not None:
            return place
        reason = in_vain(name, own, after)
        if reason is not None:
            raise Refusal(reason, self.iteration.loop.position)
        if self.iteration.run.guess is not None:
            guessed = self.iteration.run.guess(
                own, self.resolve_others(after, own), self.iteration.counter, start
            )
            if guessed is not None:
                return guessed
        raise self._carried(name)

    def _row_length(self, name: str, before: Term) -> Term:
        if self.iteration.counter in symbols(before):
            raise Refusal(
                f"the rows appended to '{self._array_of(name)}' are not of equal length; "
                "let every row have the same length",
                self.iteration.loop.position,
            )
        return before

    def resolve_others(self, term: Term, own: str) -> Term:
        """`resolve`, but for one name that stays."""
        name = own.removesuffix(self.iteration.suffix)
        self.scalars[name] = Read(own, (), term.type)
        try:
            return self.resolve(term, self.iteration.inside)
        finally:
            self.scalars[name] = None

    def _fold(self, step: RecurrenceStep, start: Term, scope: Scope, extent: Poly) -> Term:
        """The fold of the step over the first `extent` iterations."""
        algebra = self.iteration.run.algebra
        if step.term is None:
            return start
        var = fresh("k")
        body = substitute(self.resolve(step.term, scope), {self.iteration.counter: Poly.symbol(var)})
        zero = number(0, step.type)
        first = algebra.cast(start, step.type, self.iteration.outer) if step.once is None else zero
        fold = rolled(Reduce(step.kind, var, extent, body, step.type, start=first))
        made: Term = continued(fold, scope)
        if made == fold:
            made = since(fold, algebra.shares, scope) or made
        positive = Call("less", (zero, made), BOOL)
        if step.once is not None:
            return algebra.select(positive, step.once, start, self.iteration.outer)
        if step.truth is not None:
            return algebra.cast(positive, step.truth, self.iteration.outer)
        return made if step.wrap is None else algebra.cast(made, step.wrap, self.iteration.outer)

    def _carried(self, name: str) -> Refusal:
        return Refusal(
            f"'{name}' depends on its value in the iteration before in a way that is no sum, product, "
            "maximum, minimum or running sum; split the loop, or write the recurrence as one of these",
            self.iteration.loop.position,
        )

    # Resolving

    def resolve(self, term: Term, scope: Scope) -> Term:
        """The term in iteration `counter` in terms of the state before the loop."""
        if not any(self.iteration.suffix in name for name in symbols(term)):
            return term
        algebra = self.iteration.run.algebra
        match term:
            case Read(name, ()) if name.endswith(self.iteration.suffix):
                return self.scalar(name.removesuffix(self.iteration.suffix))
            case Read(array, indices, _) if array.endswith(self.iteration.suffix):
                return self.stores.read(array.removesuffix(self.iteration.suffix), indices, scope)
            case Size(poly, type_):
                return self._position(poly, type_, scope)
            case Call("where", (condition, then, otherwise), _):
                chosen = self.resolve(condition, scope)
                then_scope, else_scope = self.iteration.run.branches(chosen, scope)
                a, b = self.resolve(then, then_scope), self.resolve(otherwise, else_scope)
                return algebra.select(chosen, a, b, scope)
            case Call("cast", (value,), type_):
                return algebra.cast(self.resolve(value, scope), type_, scope)
            case Call(operator, arguments, type_):
                return algebra.apply(operator, [self.resolve(a, scope) for a in arguments], type_, scope)
            case Reduce(_, var, extent, body):
                inner = self.resolve(body, scope.binding((var, extent)))
                return replace(term, body=inner, start=self.resolve(first(term), scope))
            case Choose(conditions, then, otherwise, _):
                made = [(conditions, self.resolve(then, scope.knowing(conditions)))]
                return scope.choice(made, self.resolve(otherwise, scope))
        return term

    def _position(self, poly: Poly, type_: MachineType, scope: Scope) -> Term:
        """A position that names a variable at the loop's head: its closed form put in its place."""
        algebra = self.iteration.run.algebra
        for symbol in poly.symbols():
            if symbol.endswith(self.iteration.suffix):
                held = self.scalar(symbol.removesuffix(self.iteration.suffix))
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
                    raise self._carried(symbol.removesuffix(self.iteration.suffix))
        return index(poly, type_)
