"""Symbolic execution of a function under the invariants of a summary, collecting what must be proved.

Straight-line code is executed; a loop is entered (initiation), run once from an arbitrary iteration
(preservation), and left (exit). Every access is inside its array, every integer divisor is not 0, every
scalar is set before it is read. Nothing is believed but the facts of `ProofWorld`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from tensmith.formula.expr import Call, Expr, Num, Read, SourcePosition
from tensmith.formula.functions import DIVISIONS
from tensmith.formula.types import I64, MachineType
from tensmith.lifting import loops
from tensmith.lifting.conditions import operators
from tensmith.lifting.conditions.memory import ArrayMemory, memory_of
from tensmith.lifting.conditions.nodes import ProofTerm, Sort
from tensmith.lifting.conditions.operators import sort_of
from tensmith.lifting.conditions.state import (
    At,
    BoxClaim,
    Content,
    CopiedRow,
    Held,
    ProofState,
    WrittenElement,
    cases,
    merge,
    select,
    written,
)
from tensmith.lifting.conditions.world import Malformed, ProofWorld, Scope, is_data
from tensmith.lifting.summary import LoopFacts, length_symbol, no_zero, there
from tensmith.verify.obligation import Kind


@dataclass(frozen=True)
class Goal:
    """One thing to prove: hypotheses => claim."""

    kind: Kind
    subject: str
    loop: str
    position: SourcePosition
    hypotheses: tuple[ProofTerm, ...]
    claim: ProofTerm


@dataclass
class Executor:
    """Runs a function once; `goals` grows. counters, inside: indices and labels of the loops around it."""

    world: ProofWorld
    goals: list[Goal] = field(default_factory=list)
    memories: dict[str, ArrayMemory] = field(default_factory=dict)
    counters: dict[str, ProofTerm] = field(default_factory=dict)
    inside: list[str] = field(default_factory=list)
    path: list[ProofTerm] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    returned: list[tuple[Held | Content, At | None]] = field(default_factory=list)
    _fresh: int = 0

    def __post_init__(self) -> None:
        self.facts = {facts.label: facts for facts in self.world.summary.loops}

    # Bookkeeping

    @contextmanager
    def under(self, *conditions: ProofTerm) -> Iterator[None]:
        """Goals inside hold only where the conditions do."""
        self.path += conditions
        yield
        del self.path[len(self.path) - len(conditions) :]

    def demand(self, kind: Kind, subject: str, position: SourcePosition, claim: ProofTerm) -> None:
        """Something to prove here; what holds by its form is kept too."""
        loop = self.inside[-1] if self.inside else ""
        self.goals.append(Goal(kind, subject, loop, position, tuple(self.path), claim))

    def unknown(self, name: str, sort: Sort) -> ProofTerm:
        """A value of which nothing is known."""
        self._fresh += 1
        return self.world.arena.symbol(f"any.{self._fresh}.{name}", sort)

    def places(self, rank: int) -> At:
        """Arbitrary integers where the subscripts of an element may stand."""
        return tuple(self.world.arena.symbol(f"y{axis}", "Int") for axis in range(rank))

    @property
    def scope(self) -> Scope:
        """Sizes, integer parameters and counters by name."""
        return {**self.world.scope, **self.counters}

    # Entry

    def entry(self) -> ProofState:
        """Parameters hold their arguments."""
        state = ProofState({name: Held(node) for name, (node, _) in self.world.scalars.items()})
        for name, kind in self.world.arrays.items():
            self.memories[name] = memory_of(self.world, name, kind, None)
            state = state.array(name, Content(self.entry_of(name)))
        return state

    def entry_of(self, name: str) -> Callable[[At], ProofTerm]:
        """A parameter array's elements at entry."""
        return lambda at: self.world.read(name, at)

    # Statements

    def block(self, statements: Sequence[loops.Statement], state: ProofState) -> ProofState:
        """The state after statements."""
        for statement in statements:
            state = self.statement(statement, state)
        return state

    def statement(self, statement: loops.Statement, state: ProofState) -> ProofState:
        """The state after one statement."""
        arena = self.world.arena
        match statement:
            case loops.Declare(name, type_, None, _):
                return state.scalar(name, Held(self.unknown(name, sort_of(type_)), False))
            case loops.Declare(name, _, value, _) if value is not None:
                return state.scalar(name, Held(self.value(value, state)))
            case loops.Assign(name, value, position):
                if name not in state.scalars:
                    raise Malformed(f"{position}: '{name}' is not declared")
                return state.scalar(name, Held(self.value(value, state)))
            case loops.Allocate():
                return self._allocate(statement, state)
            case loops.Store(array, indices, value, position):
                written = self.value(value, state)
                at = self._unwrapped(indices, self._values(indices, state))
                at = self._inside(array, at, position, state)
                layer = WrittenElement(at, written, arena.true, self.memories[array].width)
                return state.array(array, state.arrays[array].having(layer))
            case loops.Append(array, value, position):
                return self._append(array, value, position, state)
            case loops.If(condition, then, otherwise, _):
                holds = self.value(condition, state)
                with self.under(holds):
                    first = self.block(then, state).within(state)
                with self.under(arena.negate(holds)):
                    second = self.block(otherwise, state).within(state)
                return merge(self.world, holds, state, first, second)
            case loops.Loop():
                return self._loop(statement, state)
            case loops.Return(value, _):
                if isinstance(value, str):
                    self.returned.append((state.arrays[value], self._lengths(value, state)))
                else:
                    self.returned.append((Held(self.value(value, state)), None))
        return state

    def _allocate(self, made: loops.Allocate, state: ProofState) -> ProofState:
        arena, type_ = self.world.arena, made.type.element
        extents = tuple(arena.positive_part(self.value(extent, state)) for extent in made.extents)
        if len(extents) != made.type.rank:
            raise Malformed(f"{made.position}: the array '{made.name}' has other axes than extents")
        if made.fill is not None:
            fill = self.value(made.fill, state)
            content = Content(lambda at: fill)
        else:
            self._fresh += 1
            name = f"any.{self._fresh}.{made.name}"
            content = Content(lambda at: arena.app(name, sort_of(type_), at))
        self.memories[made.name] = memory_of(self.world, made.name, made.type, extents)
        return state.array(made.name, content, extents)

    def _append(
        self, array: str, value: Expr | str, position: SourcePosition, state: ProofState
    ) -> ProofState:
        arena = self.world.arena
        content, lengths = state.arrays[array], state.lengths[array]
        end = lengths[0]
        if isinstance(value, str):
            row, inner = state.arrays[value], self._lengths(value, state)
            first = arena.eq(end, self.world.zero)
            same = arena.all(map(arena.eq, lengths[1:], inner))
            self.demand("shape", f"a row of {array}", position, arena.any([first, same]))
            content = content.having(CopiedRow(end, row, arena.true))
        else:
            inner = ()
            content = content.having(WrittenElement((end,), self.value(value, state), arena.true))
        return state.array(array, content, (arena.shift(end, 1), *inner))

    def _lengths(self, array: str, state: ProofState) -> At:
        if array in state.lengths:
            return state.lengths[array]
        rank = self.world.arrays[array].rank
        return tuple(self.world.length(array, axis) for axis in range(rank))

    # Loops

    def _loop(self, loop: loops.Loop, before: ProofState) -> ProofState:
        facts = self._facts(loop)
        arena, world = self.world.arena, self.world
        trips = world.poly(facts.trips, self.scope)
        last = arena.positive_part(trips)
        counter = arena.symbol(f"at.{facts.counter}", "Int", natural=True)
        invariant = _Invariant(self, facts, before, _changed(loop.body))
        self.inside.append(loop.label)
        self._compare("initiation", loop.position, before, before, invariant.at(world.zero), invariant)

        outer, known = dict(self.counters), len(arena.known)
        self.counters[facts.counter] = counter
        inside = arena.claim(arena.shift(trips, -1), counter)
        if counter in world.ranges:
            raise Malformed(f"{loop.position}: the loop {loop.label} has the counter of another one")
        world.ranges[counter], world.counted[counter] = inside, loop.label
        arena.assume(arena.sub(arena.shift(trips, -1), counter))
        start = invariant.at(counter)
        with self.under(inside):
            holds = self.value(loop.condition, start)
            self.demand("exit", "goes on", loop.position, holds)
            end = self.block(loop.body, start).within(before)
            following = invariant.at(arena.shift(counter, 1))
            self._compare("preservation", loop.position, start, end, following, invariant)
        arena.forget(known)
        self.counters = outer
        after = invariant.at(last)
        self.demand("exit", "ends", loop.position, arena.negate(self.value(loop.condition, after)))
        self.inside.pop()
        return after

    def _facts(self, loop: loops.Loop) -> LoopFacts:
        facts = self.facts.get(loop.label)
        if facts is None:
            raise Malformed(f"{loop.position}: the summary says nothing of the loop {loop.label}")
        if facts.outer != tuple(self.counters) or facts.counter in self.scope:
            raise Malformed(f"{loop.position}: the counters of the loop {loop.label} are not those around it")
        self.seen.add(loop.label)
        return facts

    def _compare(
        self,
        kind: Kind,
        position: SourcePosition,
        start: ProofState,
        reached: ProofState,
        claimed: ProofState,
        invariant: _Invariant,
    ) -> None:
        """Demands that the state reached from `start` is the claimed one, in all that the loop changes."""
        arena = self.world.arena
        for name in invariant.scalars:
            held, closed = reached.scalars[name], claimed.scalars[name]
            if held.value.sort != closed.value.sort:
                raise Malformed(f"the closed form of '{name}' does not have its type")
            equal = arena.eq(held.value, closed.value) if held.defined else arena.false
            self.demand(kind, name, position, equal)
        for name in invariant.arrays:
            content, expected = reached.arrays[name], claimed.arrays[name]
            shared = len(start.arrays[name].layers)
            every = self.world.subscripts(self.memories[name].rank)
            for at, part, apart in cases(self.world, content, shared, every):
                lengths = claimed.lengths.get(name, ())
                inside = arena.below(at, lengths)
                with self.under(*inside, *self.memories[name].proper(self.world, at), *apart):
                    a, b = select(self.world, part, at), select(self.world, expected, at)
                    self.demand(kind, f"{name}[]", position, arena.eq(a, b))
            lengths = claimed.lengths.get(name, ())
            proper = [arena.all(arena.below(every, lengths)), *self.memories[name].proper(self.world, every)]
            if any(part is not arena.true for part in proper):
                claims = expected.layers[len(invariant.before.arrays[name].layers) :]
                with self.under(written(self.world, claims, every)):
                    self.demand(kind, f"{name}[]", position, arena.all(proper))
        for name in invariant.grown:
            pairs = list(zip(reached.lengths[name], claimed.lengths[name]))
            none = arena.eq(pairs[0][0], self.world.zero)
            for axis, (a, b) in enumerate(pairs):
                equal = arena.eq(a, b)
                # An array without rows has rows of any length.
                claim = arena.any([none, equal]) if axis else equal
                self.demand(kind, f"length {axis} of {name}", position, claim)

    # Expressions

    def value(self, expression: Expr, state: ProofState) -> ProofTerm:
        """The value of an expression; what it needs to be defined is demanded."""
        arena = self.world.arena
        match expression:
            case Num(value, type_):
                return operators.constant(arena, value, type_)
            case Read(name):
                held = state.scalars.get(name)
                if held is None:
                    raise Malformed(f"{expression.position}: '{name}' is not declared")
                if not held.defined:
                    self.demand("definedness", f"{name} is set", expression.position, arena.false)
                return held.value
            case loops.Load(array, indices):
                at, position = self._values(indices, state), expression.position
                if self._is_there(array, at, position):
                    types = [index.type for index in indices]
                    at, types = self._along_memory(array, at, types, position)
                    at = self.world.wrapped(array, at, types)
                else:
                    at = self._inside(array, self._unwrapped(indices, at), position, state)
                return select(self.world, state.arrays[array], at)
            case loops.Length(array, axis, row=row):
                if row:
                    self._row_is_there(array, row, expression.position, state)
                return self._lengths(array, state)[axis]
            case Call("where", (condition, then, otherwise)):
                holds = self.value(condition, state)
                with self.under(holds):
                    a = self.value(then, state)
                with self.under(arena.negate(holds)):
                    b = self.value(otherwise, state)
                return arena.ite(holds, a, b)
            case Call("cast", (value,), type_):
                node = self.value(value, state)
                return operators.cast(arena, node, value.type, type_, operators.fits(value))
            case Call(operator, arguments, type_):
                nodes = [self.value(argument, state) for argument in arguments]
                if operator in DIVISIONS and nodes[1].sort == "Int":
                    self._divides(nodes[1], expression.position)
                return operators.apply(arena, operator, nodes, type_)
        raise Malformed(f"{expression!r} is no expression")

    def _divides(self, divisor: ProofTerm, position: SourcePosition) -> None:
        """An integer divisor is not 0: by what is known, and where it is made of an element by conversions,
        by what a requirement says of that on its line."""
        arena, read, known = self.world.arena, divisor, list[ProofTerm]()
        while read.op == "app" and read.args[0].startswith("wrap."):
            read = read.args[1]
        if read.op == "app" and read.args[0].startswith("in."):
            said = no_zero(read.args[0][3:], position.line)
            if any(each.text == said for each in self.world.summary.requires):
                known.append(arena.negate(arena.eq(read, self.world.zero)))
        with self.under(*known):
            divisor = self.world.folds.written_out(divisor)
            claim = arena.negate(arena.eq(divisor, self.world.zero))
            self.demand("definedness", "divisor is not 0", position, claim)

    def _row_is_there(
        self, array: str, row: tuple[Expr, ...], position: SourcePosition, state: ProofState
    ) -> None:
        """The first subscripts of elements are demanded to be inside."""
        nodes = self._values(row, state)
        memory = self.memories[array]
        extents = state.lengths.get(array, memory.extents)
        if extents is None:
            raise Malformed(f"{position}: the flat memory of '{array}' has no rows")
        inside = replace(memory, extents=extents[: len(row)]).inside(self.world, nodes)
        self.demand("bounds", array, position, inside)

    def _values(self, indices: Sequence[Expr], state: ProofState) -> At:
        return tuple(self.value(index, state) for index in indices)

    def _is_there(self, array: str, nodes: At, position: SourcePosition) -> bool:
        """Whether an element whose subscripts are data is required to be there, in an array of one axis or
        of rows."""
        asked = any(each.text == there(array, position) for each in self.world.summary.requires)
        plain = array in self.world.arrays and len(self.memories[array].strides) < 2
        return asked and plain and any(map(is_data, nodes))

    def _along_memory(
        self, array: str, nodes: At, types: list[MachineType], position: SourcePosition
    ) -> tuple[At, list[MachineType]]:
        """Subscripts in rows of flat memory as its only one. The later ones are demanded to be in their rows;
        where data says, none is there if they are not: -1."""
        arena, memory = self.world.arena, self.memories[array]
        if memory.extents is not None or len(nodes) == 1:
            return nodes, types
        nodes = tuple(map(self.world.as_index, nodes, types))
        place = memory.flat(self.world, nodes)
        for node, in_row in zip(nodes[1:], memory.in_rows(self.world, nodes), strict=True):
            if not is_data(node):
                self.demand("bounds", array, position, arena.all(in_row))
                continue
            for claim in in_row:
                place = arena.ite(claim, place, arena.number(-1, "Int"))
        return (place,), [I64]

    def _unwrapped(self, indices: Sequence[Expr], nodes: At) -> At:
        """Subscripts of 64 bits without wraps: modulo 2^64 they are the source's. Those that lie inside are
        below 2^63, as memory has fewer bytes, and so are the source's themselves."""
        wide = (index.type.bits == 64 for index in indices)
        return tuple(
            operators.unwrapped(self.world.arena, node, 64) if fits else node
            for node, fits in zip(nodes, wide, strict=True)
        )

    def _inside(self, array: str, nodes: At, position: SourcePosition, state: ProofState) -> At:
        """Grid subscripts of an element, demanded to be inside."""
        memory = self.memories[array]
        if array in state.lengths and memory.extents is not None:
            memory = replace(memory, extents=state.lengths[array])
        digits, same = memory.digits(self.world, nodes)
        rows = memory.in_rows(self.world, nodes) if len(digits) < len(nodes) else ()
        parts = [same, memory.inside(self.world, digits), *(part for pair in rows for part in pair)]
        inside = self.world.arena.all(parts)
        self.demand("bounds", array, position, inside)
        return digits


class _Invariant:
    """A loop's claimed state as a function of the iteration. A scalar it changes and of which nothing is
    claimed, or that is not set before the loop, has an unknown value at the start of every iteration."""

    def __init__(
        self,
        executor: Executor,
        facts: LoopFacts,
        before: ProofState,
        changed: _Changed,
    ) -> None:
        self.executor, self.facts, self.before = executor, facts, before
        assigned, stored = changed.scalars, changed.arrays
        alive = sorted(assigned & before.scalars.keys())
        self.scalars = [n for n in alive if n in facts.scalars and before.scalars[n].defined]
        self.lost = [n for n in alive if n not in self.scalars]
        self.arrays = sorted((stored | facts.arrays.keys()) & before.arrays.keys())
        self.grown = sorted(changed.grown & before.lengths.keys())

    def at(self, iteration: ProofTerm) -> ProofState:
        """The state at the start of an iteration."""
        executor, facts, arena = self.executor, self.facts, self.executor.world.arena
        scope = {**executor.scope, facts.counter: iteration}
        state = self.before
        for name in self.scalars:
            state = state.scalar(name, Held(executor.world.term(facts.scalars[name], scope)))
        for name in self.lost:
            sort = self.before.scalars[name].value.sort
            state = state.scalar(name, Held(executor.unknown(name, sort), False))
        for name in self.arrays:
            boxes = (BoxClaim(written, scope, arena.true) for written in facts.arrays.get(name, ()))
            state = state.array(name, state.arrays[name].having(*boxes))
        for name in self.grown:
            claims = [
                facts.scalars.get(length_symbol(name, axis)) for axis in range(len(state.lengths[name]))
            ]
            lengths = tuple(
                executor.unknown(name, "Int") if claim is None else executor.world.term(claim, scope)
                for claim in claims
            )
            state = state.array(name, state.arrays[name], lengths)
        return state


@dataclass
class _Changed:
    """What statements may change: scalars, array elements, and lengths of arrays."""

    scalars: set[str] = field(default_factory=set)
    arrays: set[str] = field(default_factory=set)
    grown: set[str] = field(default_factory=set)


def _changed(body: Sequence[loops.Statement]) -> _Changed:
    found = _Changed()
    for statement in loops.statements(body):
        match statement:
            case loops.Declare(name) | loops.Assign(name):
                found.scalars.add(name)
            case loops.Store(name):
                found.arrays.add(name)
            case loops.Allocate(name) | loops.Append(name):
                found.arrays.add(name)
                found.grown.add(name)
    return found
