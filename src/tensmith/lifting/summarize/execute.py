"""Symbolic execution of the loop language: statements over a state of terms."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import product

from tensmith.formula.expr import Call, Choose, Expr, Num, Read, Reduce, Size, SourcePosition, fresh
from tensmith.formula.functions import DIVISIONS
from tensmith.formula.poly import Poly
from tensmith.formula.types import BOOL, I64, MachineType
from tensmith.formula.walk import walk
from tensmith.lifting import loops
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.summarize.algebra import SizeAlgebra
from tensmith.lifting.summarize.chosen import ChosenPlaces, placed, read_at_entry
from tensmith.lifting.summarize.constants import literal, number, unknown
from tensmith.lifting.summarize.grids import as_it_lies, row_major, split
from tensmith.lifting.summarize.liveness import Live
from tensmith.lifting.summarize.logic import TRUE
from tensmith.lifting.summarize.memory import Contents, StoredBox
from tensmith.lifting.summarize.merge import Merge
from tensmith.lifting.summarize.plan import DerivationPlan, cut_alike
from tensmith.lifting.summarize.scope import Conjunction, Scope
from tensmith.lifting.summarize.state import (
    Access,
    Divisor,
    Lookup,
    PendingLoop,
    State,
    undefined,
    undefined_name,
)
from tensmith.lifting.summarize.substitution import index, is_open, symbols, varies
from tensmith.lifting.summarize.unrolled import summed
from tensmith.lifting.summary import Term, length_symbol, looked_up

# Guess: (variable, its value after one iteration, counter, its first value) -> closed form at the counter.
Guess = Callable[[str, Term, str, Term], "Term | None"]
_MOST_IN_TABLE = 32


@dataclass
class Execution:
    """One run over a function under a plan. What it meets on the way is collected for the summary."""

    function: loops.Function
    plan: DerivationPlan
    live: Mapping[str, Live]
    guess: Guess | None
    together: bool = True  # whether variables that each sum a share of one sum are seen as that
    types: dict[str, MachineType] = field(default_factory=dict)
    arrays: dict[str, loops.Array] = field(default_factory=dict)
    extents: list[Poly] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)
    divisors: list[Divisor] = field(default_factory=list)
    lookups: list[Lookup] = field(default_factory=list)
    looked_up: set[str] = field(default_factory=set)
    found: list[PendingLoop] = field(default_factory=list)
    locals: dict[str, tuple[Poly, ...]] = field(default_factory=dict)
    scouting: int = 0

    def __post_init__(self) -> None:
        self.algebra = SizeAlgebra(self.plan.symbols, self.plan.alone, frozenset(self.plan.raw))
        self.raw = self.plan.raw

    # Running

    def run(self) -> tuple[State, list[Expr | str]]:
        """The state at the end, and the values that are returned."""
        state = self.entry()
        self.block(self.function.body, state, Scope(self.plan.never_negative))
        return state, [last.value for last in self.function.body if isinstance(last, loops.Return)]

    def entry(self) -> State:
        """The state in which the function begins."""
        state = State({}, {})
        for name, type_ in self.function.fields:
            if isinstance(type_, MachineType):
                self.types[name] = type_
                state.scalars[name] = Read(name, (), type_)
            else:
                self.arrays[name] = type_
                state.arrays[name] = Contents(name, type_.element, type_.rank, name)
        return state

    def block(self, body: Sequence[loops.Statement], state: State, scope: Scope) -> None:
        """Run statements in order; the state changes."""
        for statement in body:
            self._statement(statement, state, scope)

    def _statement(self, statement: loops.Statement, state: State, scope: Scope) -> None:
        match statement:
            case loops.Declare(name, type_, value):
                self.types[name] = type_
                state.scalars[name] = (
                    undefined(name, type_) if value is None else self.evaluate(value, state, scope)
                )
            case loops.Assign(name, value):
                state.scalars[name] = self.evaluate(value, state, scope)
            case loops.Allocate():
                self._allocate(statement, state, scope)
            case loops.Store(array, indices, value, position):
                term = self.evaluate(value, state, scope)
                if self.scouting:
                    return
                at = tuple(self._subscript(part, state, scope, array, stored=True) for part in indices)
                at = self._on_grid(array, at, scope, position, stored=True)
                box = StoredBox((), (), at, term, (), position)
                state.arrays[array] = state.arrays[array].written(box, scope)
            case loops.Append(array, value, position):
                self._append(array, value, state, scope, position)
            case loops.If():
                self._branch(statement, state, scope)
            case loops.Loop():
                from tensmith.lifting.summarize.loop import run_loop

                run_loop(self, statement, state, scope)
            case loops.Return():
                pass

    def _allocate(self, statement: loops.Allocate, state: State, scope: Scope) -> None:
        name, type_ = statement.name, statement.type
        self.arrays[name] = type_
        fill = None if statement.fill is None else self.evaluate(statement.fill, state, scope)
        state.arrays[name] = Contents(name, type_.element, type_.rank, "", (), fill)
        extents = []
        for axis in range(type_.rank):
            term = (
                self.evaluate(statement.extents[axis], state, scope)
                if axis < len(statement.extents)
                else number(0, I64)
            )
            found = self.algebra.poly(term)
            poly = self.position_of(term, scope, statement.position) if found is None else found
            poly = self.extent(poly, scope)
            if (
                self.function.language != "python" or statement.natural
            ):  # where a negative length is no empty list
                self.algebra.used(scope, poly)
                self.algebra.claim(poly)
            extents.append(poly)
            self.types[length_symbol(name, axis)] = I64
            state.scalars[length_symbol(name, axis)] = index(poly, I64)
        self.locals[name] = tuple(extents)

    def _append(
        self, array: str, value: Expr | str, state: State, scope: Scope, position: SourcePosition
    ) -> None:
        length = length_symbol(array, 0)
        held = state.scalars[length]
        if not self.scouting:
            end = self.position_of(held, scope, position)
            contents = state.arrays[array]
            if isinstance(value, str):
                box = self._row(end, value, state, scope, position)
            else:
                box = StoredBox((), (), (end,), self.evaluate(value, state, scope), (), position)
            state.arrays[array] = contents.written(box, scope)
        if isinstance(value, str):
            for axis in range(self.arrays[value].rank):
                state.scalars[length_symbol(array, axis + 1)] = state.scalars[length_symbol(value, axis)]
        state.scalars[length] = self.algebra.apply("add", (held, number(1, I64)), I64, scope)

    def _row(self, end: Poly, row: str, state: State, scope: Scope, position: SourcePosition) -> StoredBox:
        rank = self.arrays[row].rank
        extents = [
            self.position_of(state.scalars[length_symbol(row, axis)], scope, position) for axis in range(rank)
        ]
        names = tuple(fresh("j") for _ in range(rank))
        inside = scope.binding(*zip(names, extents))
        at = tuple(map(Poly.symbol, names))
        value = state.arrays[row].read(at, inside, position)
        return StoredBox(names, tuple(extents), (end, *at), value, (), position)

    def _branch(self, statement: loops.If, state: State, scope: Scope) -> None:
        condition = self.evaluate(statement.condition, state, scope)
        then_scope, else_scope = self.branches(condition, scope)
        ends = []
        for body, inside in ((statement.then, then_scope), (statement.otherwise, else_scope)):
            end = state.copy()
            for name, contents in end.arrays.items():
                end.arrays[name] = replace(contents, kept=len(contents.boxes))
            with self.algebra.inside(inside):
                self.block(body, end, inside)
            ends.append(end)
        Merge(self, condition, scope, statement.position).into(state, *ends)

    def branches(self, condition: Term, scope: Scope) -> tuple[Scope, Scope]:
        """What is known where a condition holds, and where it does not."""
        holds, fails = (scope.knowing(self._known(condition, side, scope)) for side in (True, False))
        return holds.after(condition, True), fails.after(condition, False)

    def _known(self, condition: Term, holds: bool, scope: Scope) -> Conjunction:
        """Positions that are >= 0 where a condition holds, or where it does not."""
        found = (self.algebra.positional if holds else self.algebra.negated)(condition, scope)
        if found is not None:
            first, *others = [case for case in found if not any(map(scope.refutes, case))] or [()]
            return tuple(poly for poly in first if all(poly in case for case in others))
        match condition:
            case Call("not", (inner,)):
                return self._known(inner, not holds, scope)
            case Call("and" | "or" as word, parts) if (word == "and") == holds:
                return tuple(poly for part in parts for poly in self._known(part, holds, scope))
        return ()

    # Expressions

    def evaluate(self, expression: Expr, state: State, scope: Scope) -> Term:
        """The value of an expression in a state."""
        match expression:
            case Num(value, type_):
                return literal(value, type_)
            case Read(name, _, type_):
                return state.scalars.get(name) or undefined(name, type_)
            case loops.Length(array, axis, type_, row=row):
                if row and not self.scouting:
                    at = (self._subscript(part, state, scope, array, stored=False) for part in row)
                    self.accesses.append(Access(scope, expression.position, array, tuple(at), False))
                length = self.length(array, axis, state)
                if isinstance(length, Poly):
                    return Size(length, type_)
                return self.algebra.cast(length, type_, scope)
            case loops.Load(_, indices, type_):
                if self.scouting:
                    return unknown(type_)
                return self._element(
                    expression, [self.evaluate(i, state, scope) for i in indices], state, scope
                )
            case Call("cast", (value,), type_):
                return self.algebra.cast(self.evaluate(value, state, scope), type_, scope)
            case Call("where", (condition, then, otherwise), type_):
                chosen = self.evaluate(condition, state, scope)
                then_scope, else_scope = self.branches(chosen, scope)
                with self.algebra.inside(then_scope):
                    a = self.evaluate(then, state, then_scope)
                with self.algebra.inside(else_scope):
                    b = self.evaluate(otherwise, state, else_scope)
                return self.algebra.select(chosen, a, b, scope)
            case Call(operator, arguments, type_):
                terms = [self.evaluate(argument, state, scope) for argument in arguments]
                if operator in DIVISIONS and type_.kind == "int" and not self.scouting:
                    self.divisors.append(Divisor(scope, expression.position, terms[1]))
                total = (
                    summed(terms[0], terms[1], scope) if self.algebra.shares and operator == "add" else None
                )
                return total or self.algebra.apply(operator, terms, type_, scope)
        raise TypeError(f"not an expression: {expression!r}")

    def length(self, array: str, axis: int, state: State) -> Term | Poly:
        """The length of an array: what a local one has grown to, or a size."""
        symbol = length_symbol(array, axis)
        return state.scalars.get(symbol) or self.plan.symbols.get(symbol) or Poly.symbol(symbol)

    def _element(self, load: loops.Load, terms: Sequence[Term], state: State, scope: Scope) -> Term:
        """An element; where subscripts are chosen by position and are no gather, a choice of elements."""
        found = self._chosen_element(load, terms, state, scope)
        if found is not None:
            return found
        for axis, term in enumerate(terms):
            if isinstance(term, Choose):

                def chosen(value: Term, inside: Scope, axis: int = axis) -> Term:
                    return self._element(load, [*terms[:axis], value, *terms[axis + 1 :]], state, inside)

                then = chosen(term.then, scope.knowing(term.conditions))
                only = len(term.conditions) == 1
                rest = scope.knowing((-term.conditions[0] - 1,)) if only else scope
                return scope.choice([(term.conditions, then)], chosen(term.otherwise, rest))
        if any(self.algebra.aside().poly(term) is None for term in terms):
            if load.array in self.locals and not state.arrays[load.array].base:
                return self._in_table(load, terms, state, scope)
            if any(map(_reads_elements, terms)):
                return self._look_up(load, terms, state, scope)
        claims = len(self.algebra.claims)
        at = tuple(self.position_of(term, scope, load.position, load.array) for term in terms)
        scope = scope.knowing(claimed for claimed, _ in self.algebra.claims[claims:])
        at = self._on_grid(load.array, at, scope, load.position, stored=False)
        try:
            return state.arrays[load.array].read(at, scope, load.position)
        except Refusal:
            if load.array in self.locals and not state.arrays[load.array].base:
                with suppress(Refusal):  # a remainder, which stays inside by itself
                    if any(poly.divisions() for poly in at):
                        return self._in_table(load, terms, state, scope)
            raise

    def _chosen_element(
        self, load: loops.Load, terms: Sequence[Term], state: State, scope: Scope
    ) -> Term | None:
        """An element at subscripts that are chosen by position, of what parameters held at entry; None where
        it is made of others, or the subscripts have no bounds."""
        if any(map(_is_data, terms)):
            return None
        places = ChosenPlaces(self.algebra, scope)
        at = [places.poly(term) for term in terms]
        if not places.ranges:
            return None
        inside, accesses = scope.binding(*places.ranges), len(self.accesses)
        with suppress(Refusal):
            if None not in at:
                known = tuple(poly for poly in at if poly is not None)
                on_grid = self._on_grid(load.array, known, inside, load.position, stored=False)
                value = state.arrays[load.array].read(on_grid, inside, load.position)
                if read_at_entry(value, self.function.arrays):
                    return placed(value, places.values)
        del self.accesses[accesses:]
        return None

    def _in_table(self, load: loops.Load, terms: Sequence[Term], state: State, scope: Scope) -> Term:
        """An element of a local array where data says: a choice among all that it has."""
        sizes = [extent.constant or 0 for extent in self.locals[load.array]]
        if not 0 < math.prod(sizes) <= _MOST_IN_TABLE:
            reason = (
                f"where '{load.array}' is read depends on data: it would have to be a parameter, or a table"
            )
            raise Refusal(f"{reason} of at most {_MOST_IN_TABLE} elements", load.position)
        places = [*product(*map(range, sizes))]
        found: Term | None = None
        for place in reversed(places):
            value = state.arrays[load.array].read(tuple(map(Poly.of, place)), scope, load.position)
            if found is None:
                found = value
                continue
            holds: Term = TRUE
            for term, at in zip(terms, place, strict=True):
                here = self.algebra.apply("equal", [term, number(at, term.type)], BOOL, scope)
                holds = self.algebra.apply("and", [holds, here], BOOL, scope)
            found = self.algebra.select(holds, value, found, scope)
        assert found is not None
        return found

    def _look_up(self, load: loops.Load, terms: Sequence[Term], state: State, scope: Scope) -> Term:
        """An element where data says, of an array that is as it was at entry; of rows, what is no data stays
        inside whatever that is."""
        contents = state.arrays[load.array]
        if contents.base != load.array or contents.boxes or load.array not in self.function.arrays:
            stores = (part for part in loops.statements(self.function.body) if isinstance(part, loops.Store))
            if any((store.array, store.indices) == (load.array, load.indices) for store in stores):
                raise Refusal(
                    f"which element of '{load.array}' this changes depends on data, as in a histogram; go "
                    f"through '{load.array}', and for each element through all data for what belongs to it",
                    load.position,
                )
            raise Refusal(
                f"where '{load.array}' is read depends on data, not on loop counters and sizes alone, and it "
                "is not as it came in; read from a parameter that nothing is written to before",
                load.position,
            )
        for term in terms:
            if any("@" in name for name in symbols(term)):
                self.position_of(term, scope, load.position, load.array)
        self.looked_up.add(load.array)
        type_ = self.function.arrays[load.array]
        if type_.memory == "flat" and self.plan.grids[load.array].strides != as_it_lies(type_):
            raise Refusal(f"'{load.array}' is read where data says, and along several axes", load.position)
        if rows := self.rows(load.array):
            return self._look_up_in_rows(load, terms, rows, scope)
        found = looked_up(load.array, terms, load.type)
        self.lookups.append(Lookup(scope, load.position, found))
        if len(terms) > 1:
            at, inside = [], scope
            for axis, term in enumerate(terms):
                poly, length = self.algebra.poly(term), self.length(load.array, axis, state)
                if poly is None and isinstance(length, Poly):
                    name = fresh("k")
                    poly, inside = Poly.symbol(name), inside.binding((name, length))
                at.append(self.position_of(term, scope, load.position, load.array) if poly is None else poly)
            self.accesses.append(Access(inside, load.position, load.array, tuple(at), False))
        return found

    def _look_up_in_rows(
        self, load: loops.Load, terms: Sequence[Term], rows: Sequence[Poly], scope: Scope
    ) -> Term:
        """An element of C's t[n][m]: at -1, where none is, if what data says lies in another row."""
        place, inside, held = self.algebra.cast(terms[0], I64, scope), [], []
        for term, extent in zip(terms[1:], rows, strict=True):
            size, at = Size(extent, I64), self.algebra.cast(term, I64, scope)
            if self.algebra.poly(at) is None:
                held.append(self.algebra.apply("less_equal", [number(0, I64), at], BOOL, scope))
                held.append(self.algebra.apply("less", [at, size], BOOL, scope))
            else:
                inside.append((self.position_of(term, scope, load.position, load.array), extent))
            place = self.algebra.apply("mul", [place, size], I64, scope)
            place = self.algebra.apply("add", [place, at], I64, scope)
        for condition in held:
            place = self.algebra.select(condition, place, number(-1, I64), scope)
        found = looked_up(load.array, (place,), load.type)
        self.lookups.append(Lookup(scope, load.position, found, tuple(inside)))
        return found

    def rows(self, array: str) -> tuple[Poly, ...]:
        """How long the rows of a parameter's flat memory are by its type, the outermost first."""
        type_, scope, found = self.function.arrays[array], Scope(self.plan.never_negative), []
        for extent in type_.extents[1:] if type_.memory == "flat" else ():
            assert extent is not None, "rows of flat memory have a size"
            term = self.evaluate(extent, self.entry(), scope)
            found.append(self.position_of(term, scope, self.function.position))
        return tuple(found)

    def in_memory(self, array: str, at: tuple[Poly, ...]) -> tuple[Poly, ...]:
        """Subscripts in rows as that in memory which is seen as one axis; others as they are."""
        grid = self.plan.grids.get(array)
        if grid is None or len(grid.strides) != 1 or len(at) == 1:
            return at
        strides = row_major(self.rows(array))
        return (sum((stride * each for stride, each in zip(strides, at, strict=True)), Poly.of(0)),)

    def _subscript(self, part: Expr, state: State, scope: Scope, array: str, stored: bool) -> Poly:
        return self.position_of(self.evaluate(part, state, scope), scope, part.position, array, stored)

    def _on_grid(
        self, array: str, at: tuple[Poly, ...], scope: Scope, position: SourcePosition, stored: bool
    ) -> tuple[Poly, ...]:
        """Subscripts of the grid; the access is kept for what it requires."""
        self.accesses.append(Access(scope, position, array, at, stored))
        grid, at = self.plan.grids.get(array), self.in_memory(array, at)
        if grid is None or not grid.strides or len(at) == len(grid.strides):
            return at
        return split(at[0], grid.strides, scope)

    # Positions

    def position_of(
        self, term: Term, scope: Scope, position: SourcePosition, array: str = "", stored: bool = False
    ) -> Poly:
        """An integer term as a polynomial of counters and sizes. Raises Refusal where it is data."""
        poly = self.algebra.poly(term)
        if poly is not None and (self.scouting or not is_open(poly)):
            if not isinstance(term, Size):
                self.algebra.used(scope, poly)
            return poly
        what = f"where '{array}' is {'written' if stored else 'read'}" if array else "an extent"
        if not _is_data(term):
            within = self.algebra.steady if stored or not array else self.algebra.divided
            divided = within(term, scope)
            if divided is not None:
                return divided
        if array and not _is_data(term):
            if stored:
                how = "chosen, or divided, from loop counters"
                advice = "write every element in order, and read where it comes from"
            elif any(map(self._divides, walk(term))):
                how = "a quotient or remainder of what may be negative, or by what may be 0 or negative"
                advice = "divide what is 0 or more, by a number or a size that is above 0"
            else:
                how = "chosen by more than loop counters, or computed by more than + - * and quotients"
                advice = "read an element in each branch, in place of choosing its position there"
            raise Refusal(f"{what} is {how}; {advice}", position)
        if stored:
            advice = "which elements it writes can then not be known; write every element in order instead"
        else:
            advice = "let it be computed from loop counters and sizes by + - * alone"
        raise Refusal(f"{what} depends on data, not on loop counters and sizes alone; {advice}", position)

    def _divides(self, part: Expr) -> bool:
        """Whether it is a division that is no polynomial."""
        return (
            isinstance(part, Call) and part.function in DIVISIONS and self.algebra.aside().poly(part) is None
        )

    def extent(self, poly: Poly, scope: Scope, cut: bool = False) -> Poly:
        """A number of iterations or elements, in size symbols; it is kept for the plan. cut: it is the same
        where parameters are taken for their sizes."""
        raw = poly.substitute(self.raw)
        if not cut and not any(cut_alike(raw, size.poly) for size in self.plan.sizes):
            self.algebra.used(scope, poly)
        if raw.constant is None and not varies(raw):
            self.extents.append(raw)
            return self.plan.opaque.get(raw, poly)
        return poly


def _is_data(term: Term) -> bool:
    """Whether elements, what folds make of them, floats, or what variables hold at a loop's head are in a
    term."""
    parts = list(walk(term))
    read = (isinstance(p, Reduce) or (isinstance(p, Read) and p.indices) for p in parts)
    floats = (p.type.kind == "float" for p in parts)
    return any((*read, *floats)) or any("@" in name or undefined_name(name) for name in symbols(term))


def _reads_elements(term: Term) -> bool:
    """Whether elements of arrays are among what a term is made of."""
    return any(isinstance(part, Read) and part.indices for part in walk(term))
