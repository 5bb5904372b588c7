"""The state of a symbolic execution: scalars as nodes, arrays as layers of writes over what they held."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tensmith.formula.poly import Poly
from tensmith.lifting.conditions import operators
from tensmith.lifting.conditions.nodes import Arena, ProofTerm, monomials, walk
from tensmith.lifting.conditions.world import Malformed, ProofWorld, Scope
from tensmith.lifting.summary import Written

At: TypeAlias = tuple[ProofTerm, ...]
_MOST_CASES = 12


@dataclass(frozen=True)
class WrittenElement:
    """One element written. width: of the rows of flat memory, in which a place is a row and a column."""

    at: At
    value: ProofTerm
    guard: ProofTerm
    width: ProofTerm | None = None


@dataclass(frozen=True)
class BoxClaim:
    """A claim of a summary: `written` with its outer symbols looked up in `scope`."""

    written: Written
    scope: Scope
    guard: ProofTerm


@dataclass(frozen=True)
class CopiedRow:
    """A copy of another array as the element `row` of the first axis."""

    row: ProofTerm
    content: Content
    guard: ProofTerm


Layer: TypeAlias = WrittenElement | BoxClaim | CopiedRow


@dataclass(frozen=True)
class Content:
    """An array's elements: layers, later ones over earlier ones, over `base`, a function of subscripts."""

    base: Callable[[At], ProofTerm]
    layers: tuple[Layer, ...] = ()

    def having(self, *layers: Layer) -> Content:
        """This with more layers on top."""
        return replace(self, layers=(*self.layers, *layers))


@dataclass(frozen=True)
class Held:
    """A scalar variable; not `defined` where some path leaves it unset."""

    value: ProofTerm
    defined: bool = True


@dataclass(frozen=True)
class ProofState:
    """scalars and arrays by name; lengths: the extents of local arrays."""

    scalars: Mapping[str, Held] = field(default_factory=dict)
    arrays: Mapping[str, Content] = field(default_factory=dict)
    lengths: Mapping[str, At] = field(default_factory=dict)

    def scalar(self, name: str, held: Held) -> ProofState:
        """This with a scalar set."""
        return replace(self, scalars={**self.scalars, name: held})

    def array(self, name: str, content: Content, lengths: At | None = None) -> ProofState:
        """This with an array set."""
        state = replace(self, arrays={**self.arrays, name: content})
        return state if lengths is None else replace(state, lengths={**self.lengths, name: lengths})

    def within(self, outer: ProofState) -> ProofState:
        """This without what `outer` does not have: names declared in between."""
        return ProofState(
            {name: held for name, held in self.scalars.items() if name in outer.scalars},
            {name: content for name, content in self.arrays.items() if name in outer.arrays},
            {name: at for name, at in self.lengths.items() if name in outer.lengths},
        )


def claimed_content(world: ProofWorld, base: Callable[[At], ProofTerm], parts: Iterable[Written]) -> Content:
    """An array that begins as `base` after what a summary says was written to it."""
    return Content(base).having(*(BoxClaim(part, world.scope, world.arena.true) for part in parts))


def select(world: ProofWorld, content: Content, at: At) -> ProofTerm:
    """The element at subscripts."""
    pending: list[tuple[ProofTerm, ProofTerm]] = []
    value: ProofTerm | None = None
    for layer in reversed(content.layers):
        hit, found = reach(world, layer, at)
        if hit is world.arena.false:
            continue
        if hit is world.arena.true:
            value = found()
            break
        pending.append((hit, found()))
    if value is None:
        value = content.base(at)
    for hit, written in reversed(pending):
        if written.sort != value.sort:
            raise Malformed("a written value does not have the type of its array")
        value = world.folds.choose(hit, written, value)
    return value


def reach(world: ProofWorld, layer: Layer, at: At) -> tuple[ProofTerm, Callable[[], ProofTerm]]:
    """Whether a layer writes the element at subscripts, and the value it writes there."""
    arena = world.arena
    match layer:
        case WrittenElement(where, value, guard, width):
            _same_rank(where, at)
            return arena.all([guard, *_same_place(arena, zip(at, where), width)]), lambda: value
        case CopiedRow(row, content, guard):
            return arena.all([guard, arena.eq(at[0], row)]), lambda: select(world, content, at[1:])
        case BoxClaim(written, scope, guard):
            inside, found = solve(world, written, scope, at)
            return arena.all([guard, inside]), lambda: world.term(written.value, found)
    raise TypeError(layer)


def _same_place(
    arena: Arena, pairs: Iterable[tuple[ProofTerm, ProofTerm]], width: ProofTerm | None
) -> Iterator[ProofTerm]:
    """What makes subscripts equal; of a row and a column that one place was divided into, their sum is: no
    column reaches the width of a row."""
    left = list(pairs)
    if width is not None and len(left) > 1:
        (row, first), (x, place) = left[-2:]
        above = dict(monomials(first))
        for part in (node for node in walk((place,)) if node.op == "app" and node.args[0] == "fdiv"):
            _, whole, divisor = part.args
            across = arena.mul(part, width)
            if divisor is width and above.get((part,)) == 1 and place is arena.sub(whole, across):
                rows = arena.sub(row, arena.sub(first, part))
                left[-2:] = [(arena.add(x, arena.mul(width, rows)), whole)]
                break
    return itertools.starmap(arena.eq, left)


def cases(
    world: ProofWorld, content: Content, shared: int, at: At
) -> Iterator[tuple[At, Content, tuple[ProofTerm, ...]]]:
    """Subscripts, content and conditions that together are all elements: the elements, rows and columns that
    layers above the first `shared` write by themselves, and arbitrary elements outside of these."""
    arena = world.arena
    places: dict[tuple[ProofTerm | None, ...], ProofTerm | None] = {}
    rest = list(content.layers[:shared])
    for layer in content.layers[shared:]:
        place = _fixed(world, layer, len(at))
        if any(place):
            places[place] = layer.width if isinstance(layer, WrittenElement) else None
        else:
            rest.append(layer)
    if len(places) > _MOST_CASES:
        yield at, content, ()
        return
    apart = []
    for place, width in places.items():
        yield tuple(fixed or x for fixed, x in zip(place, at)), content, ()
        given = [(x, fixed) for x, fixed in zip(at, place) if fixed is not None]
        apart.append(arena.negate(arena.all(_same_place(arena, given, width))))
    yield at, replace(content, layers=tuple(rest)), tuple(apart)


def _fixed(world: ProofWorld, layer: Layer, rank: int) -> tuple[ProofTerm | None, ...]:
    """The subscripts that do not vary in what a layer writes."""
    match layer:
        case WrittenElement(at):
            return at
        case CopiedRow(row, _, _):
            return (row, *(None,) * (rank - 1))
        case BoxClaim(written, scope, _):
            return tuple(
                None if place.symbols() & set(written.indices) else world.poly(place, scope)
                for place in written.at
            )


def written(world: ProofWorld, layers: Iterable[Layer], at: At) -> ProofTerm:
    """Whether some layer writes the element at subscripts."""
    return world.arena.any(reach(world, layer, at)[0] for layer in layers)


def solve(world: ProofWorld, written: Written, scope: Scope, at: At) -> tuple[ProofTerm, Scope]:
    """Whether subscripts are among the written ones, and the index variables there."""
    _same_rank(written.at, at)
    arena = world.arena
    found: dict[str, ProofTerm] = dict(scope)
    equations = []
    unsolved = set(written.indices)
    for place, subscript in zip(written.at, at):
        inside = sorted(place.symbols() & unsolved)
        factor = place.coefficient(inside[0]) if len(inside) == 1 else None
        if factor is None or not factor.constant:
            equations.append((place, subscript))
            continue
        name, step = inside[0], factor.constant
        offset = world.poly(place.substitute({name: 0}), found)
        ahead = arena.scale(arena.sub(subscript, offset), 1 if step > 0 else -1)
        found[name] = operators.quotient_of(arena, "fdiv", ahead, arena.number(abs(step), "Int"))
        if abs(step) != 1:  # it lies on a step
            equations.append((place, subscript))
        unsolved.discard(name)
    if unsolved:
        raise Malformed(f"the elements written at {written.at} do not determine {sorted(unsolved)}")
    conditions = [arena.eq(world.poly(place, found), subscript) for place, subscript in equations]
    for name, extent in zip(written.indices, written.extents, strict=True):
        conditions += [
            arena.ge(found[name], world.zero),
            arena.gt(world.poly(extent, found), found[name]),
        ]
    conditions.append(world.at_least(written.where, found))
    return arena.all(conditions), found


def _same_rank(places: tuple[Poly, ...] | At, at: At) -> None:
    if len(places) != len(at):
        raise Malformed(f"{len(places)} subscripts where there are {len(at)} axes")


def merge(
    world: ProofWorld, condition: ProofTerm, before: ProofState, then: ProofState, otherwise: ProofState
) -> ProofState:
    """The state after a branch: what each side wrote, under its condition."""
    arena = world.arena
    against = arena.negate(condition)
    scalars = {}
    for name in before.scalars:
        a, b = then.scalars[name], otherwise.scalars[name]
        value = arena.ite(condition, a.value, b.value) if a.value.sort == b.value.sort else a.value
        scalars[name] = Held(value, a.defined and b.defined)
    arrays = {}
    for name, content in before.arrays.items():
        done = len(content.layers)
        sides = ((condition, then), (against, otherwise))
        if any(side.arrays[name].base is not content.base for _, side in sides):
            raise Malformed(f"a branch makes '{name}' anew")
        new = [
            replace(layer, guard=arena.all([guard, layer.guard]))
            for guard, side in sides
            for layer in side.arrays[name].layers[done:]
        ]
        arrays[name] = content.having(*new)
    lengths = {
        name: tuple(map(lambda a, b: arena.ite(condition, a, b), then.lengths[name], otherwise.lengths[name]))
        for name in before.lengths
    }
    return ProofState(scalars, arrays, lengths)
