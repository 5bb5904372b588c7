"""Windows that a loop clips to what is there, `for j in range(max(0, i - 1), min(n, i + 2))`, as loops over
the whole window that test each place.

The places at which the body runs, and their order, stay: those from the greatest of some starts up to the
least of some ends are those from one of these starts up to one of these ends at which the others hold. No
signed integer is computed that may overflow where the source has none that does.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import product

from tensmith.formula.expr import Call, Expr, Num, Read
from tensmith.formula.poly import Poly
from tensmith.formula.types import BOOL, INT
from tensmith.lifting.loops import (
    Assign,
    Declare,
    Function,
    If,
    Load,
    Loop,
    Statement,
    declares,
    nodes,
    reads,
    writes,
)
from tensmith.lifting.source.extremes import Extreme, parts

# The most parts of an expression that is followed through variables.
_LARGEST = 64
# Any signed type has a number that is so much less than 0.
_LITTLE = 127


def with_whole_windows(function: Function) -> Function:
    """The function with every such loop over its whole window."""
    return replace(function, body=tuple(_block(function.body, _Known())))


@dataclass(frozen=True)
class _Known:
    """values: what scalars hold, by name, of what nothing changed since. moving: what the loops around
    change; natural: those of it that count up from 0 or more."""

    values: Mapping[str, Expr] = field(default_factory=dict)
    moving: frozenset[str] = frozenset()
    natural: frozenset[str] = frozenset()

    def without(self, changed: frozenset[str]) -> _Known:
        """What is left of it where something changes."""
        values = {n: value for n, value in self.values.items() if not changed & {n, *reads(value)}}
        return replace(self, values=values)

    def inside(self, loop: Loop) -> _Known:
        """What is known at the start of every iteration."""
        changed, counts = _changed(loop), frozenset[str]()
        match loop.body[-1:]:
            case (Assign(name, Call("add", (Read(counted), Num(1)))),) if (
                name == counted and name not in _changed(loop.body[:-1])
            ):
                start = self.values.get(name)
                counts = frozenset({name} if isinstance(start, Num) and start.value >= 0 else ())
        return replace(
            self.without(changed), moving=self.moving | changed, natural=self.natural - changed | counts
        )

    def after(self, statement: Statement) -> _Known:
        """What is known behind a statement."""
        found = self.without(_changed(statement))
        match statement:
            case Declare(name, _, Expr() as value) | Assign(name, value):
                value = self.expanded(value)
            case If(condition, (Assign(name, then),), (Assign(other, otherwise),)) if name == other:
                value = self.expanded(Call("where", (condition, then, otherwise), then.type))
            case If(condition, (Assign(name, then),), ()) if name in self.values:
                value = self.expanded(Call("where", (condition, then, Read(name, (), then.type)), then.type))
            case _:
                return found
        small = sum(1 for _ in nodes(value)) <= _LARGEST
        if small and value.type.kind == "int" and name not in reads(value) and not _loads(value):
            found = replace(found, values={**found.values, name: value})
        return found

    def expanded(self, expression: Expr) -> Expr:
        """An expression with what its scalars hold in their places."""
        match expression:
            case Read(name):
                return self.values.get(name, expression)
            case Call(_, args):
                return replace(expression, args=tuple(map(self.expanded, args)))
        return expression


def _block(body: Sequence[Statement], known: _Known) -> Iterator[Statement]:
    """Statements in order, those inside others too."""
    for statement in body:
        match statement:
            case If(_, then, otherwise):
                sides = tuple(tuple(_block(side, known)) for side in (then, otherwise))
                yield replace(statement, then=sides[0], otherwise=sides[1])
            case Loop(_, inside):
                loop = replace(statement, body=tuple(_block(inside, known.inside(statement))))
                clipped = _clipped(loop, known)
                yield from [loop] if clipped is None else clipped.whole(known.moving)
            case _:
                yield statement
        known = known.after(statement)


@dataclass(frozen=True)
class _Clipped:
    """A loop whose counter goes up by one from the greatest of `starts` while it holds all of `ends`,
    comparisons of one kind; nothing in it changes these."""

    loop: Loop
    counter: Read
    starts: tuple[Expr, ...]
    ends: tuple[Call, ...]

    def whole(self, moving: frozenset[str]) -> Iterator[Statement]:
        """The same from one start to one end: those that move alike with the loops around."""
        alike = [
            (start, end)
            for start, end in product(self.starts, self.ends)
            if reads(start) & moving == reads(end.args[1]) & moving
        ]
        if not alike:
            yield self.loop
            return
        start, end = max(alike, key=lambda pair: bool(reads(pair[0]) & moving))
        where, name = self.loop.position, self.counter.tensor
        tests = [
            *(
                Call("less_equal", (other, self.counter), BOOL, where)
                for other in self.starts
                if other != start
            ),
            *(other for other in self.ends if other != end),
        ]
        inside = reduce(lambda first, second: Call("and", (first, second), BOOL, where), tests)
        *body, step = self.loop.body
        yield Assign(name, start, where)
        yield replace(self.loop, condition=end, body=(If(inside, tuple(body), (), where), step))
        yield Assign(name, self._left(), where)

    def _left(self) -> Expr:
        """What the counter is behind the loop."""

        def call(function: str, first: Expr, second: Expr) -> Expr:
            return Call(function, (first, second), self.counter.type, self.loop.position)

        start = reduce(lambda a, b: call("maximum", a, b), self.starts)
        end = reduce(lambda a, b: call("minimum", a, b), (end.args[1] for end in self.ends))
        if self.ends[0].function == "less_equal":
            end = call("add", end, Num(1, self.counter.type))
        return call("maximum", start, end)


def _clipped(loop: Loop, known: _Known) -> _Clipped | None:
    """A loop that several starts or ends clip; None of any other."""
    tests, changed = list(_tests(loop.condition)), _changed(loop)
    match tests, loop.body[-1:]:
        case [Call(_, (Read(name, ()) as counter, _)), *_], (
            Assign(counted, Call("add", (Read() as stepped, Num(1)))),
        ) if name == counted and stepped == counter:
            pass
        case _:
            return None
    same = all(test.args[0] == counter and test.function == tests[0].function for test in tests)
    whole = counter.type.kind == "int" and counter.type.signed
    if not (same and whole) or name not in known.values or name in _changed(loop.body[:-1]):
        return None
    chooses, steady = partial(_chooses, known=known), known.without(changed)
    starts = parts(known.values[name], "maximum", chooses)
    bounds = (part for test in tests for part in parts(steady.expanded(test.args[1]), "minimum", chooses))
    ends = tuple(replace(tests[0], args=(counter, bound)) for bound in dict.fromkeys(bounds))
    read = reads((starts, tuple(end.args[1] for end in ends)))
    if len(starts) + len(ends) < 3 or read & changed or _loads((starts, ends)):
        return None
    return _Clipped(loop, counter, starts, ends)


def _tests(condition: Expr) -> Iterator[Call]:
    """The comparisons that all hold where a condition does; none where it is no conjunction of such."""
    match condition:
        case Call("less" | "less_equal", (Read(), _)):
            yield condition
        case Call("and", (first, second)):
            both = [*_tests(first)], [*_tests(second)]
            yield from both[0] + both[1] if all(both) else ()


def _chooses(choice: Call, extreme: Extreme, known: _Known) -> bool:
    """Whether `where(c, a, b)` is the greatest, or the least, of both, and both fit its type.

    It asks for e <= 0. Where e is d = a - b, or d + 1, the lesser one is chosen; where it is -d, or 1 - d,
    the greater one.
    """
    condition, then, otherwise = choice.args
    match condition:
        case Call("less" | "less_equal" as relation, (first, second)):
            a, b, x, y = map(_poly, (first, second, then, otherwise))
        case _:
            return False
    if a is None or b is None or x is None or y is None:
        return False
    sign = 1 if extreme == "minimum" else -1
    room = a - b + (1 if relation == "less" else 0) - sign * (x - y)
    return room.constant in (0, 1) and (
        choice.type == INT or all(_fits(value, (a, b), sign, known.natural) for value in (x, y))
    )


def _fits(value: Poly, asked: Sequence[Poly], sign: int, natural: frozenset[str]) -> bool:
    """Whether a value that is not chosen is known to fit its type: it lies between the chosen one and one
    that the source computes, or is what a counter from 0 on becomes next, or little less."""
    between = (sign * (other - value) for other in asked)
    behind = (Poly.symbol(name) + 1 - value for name in value.symbols() & natural)
    return any(_within(gap, math.inf) for gap in between) or any(_within(gap, _LITTLE) for gap in behind)


def _within(gap: Poly, most: float) -> bool:
    """Whether it is a number from 0 to the most."""
    return gap.constant is not None and 0 <= gap.constant <= most


def _poly(expression: Expr) -> Poly | None:
    """An integer as a polynomial of scalars; None of what else it may be."""
    match expression:
        case Num(value, type_) if type_.kind == "int":
            return Poly.of(int(value))
        case Read(name, (), type_) if type_.kind == "int":
            return Poly.symbol(name)
        case Call("add" | "sub" | "mul" as function, (first, second), type_) if type_.signed:
            a, b = _poly(first), _poly(second)
            return None if a is None or b is None else getattr(operator, function)(a, b)
    return None


def _changed(part: object) -> frozenset[str]:
    """What a part of a function declares or changes."""
    return frozenset(writes(part) | declares(part))


def _loads(part: object) -> bool:
    return any(isinstance(node, Load) for node in nodes(part))
