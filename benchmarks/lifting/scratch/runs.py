"""Exact runs of functions of the loop language, on small random inputs."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensmith.formula.expr import Call, Expr, Num, Read
from tensmith.formula.types import MachineType
from tensmith.lifting import loops
from tensmith.lifting.summary import Summary
from tensmith.lifting.synthesis.examples import (
    FAULTS,
    ExampleWorld,
    Undefined,
    Value,
    cast,
    chosen,
    constant,
    meaning,
)

_LONGEST = 10_000  # statements of one run
_MOST = 10_000  # inputs that are drawn


@dataclass
class ExampleRun:
    """One call of a function; arrays are tables from subscripts to values, with their lengths."""

    scalars: dict[str, Value]
    arrays: dict[str, dict[tuple[Any, ...], Value]]
    lengths: dict[str, list[int]]
    left: int = _LONGEST

    def block(self, body: Sequence[loops.Statement]) -> Any:
        """Run statements; the returned value, or the name of a returned array."""
        result = None
        for statement in body:
            self.left -= 1
            if self.left < 0:
                raise Undefined
            result = self._statement(statement)
        return result

    def _statement(self, statement: loops.Statement) -> Any:
        match statement:
            case loops.Declare(name, _, value) | loops.Assign(name, value):
                if value is None:
                    self.scalars.pop(name, None)
                else:
                    self.scalars[name] = self.value(value)
            case loops.Allocate(name, type_, extents, fill):
                self.lengths[name] = [int(self.value(extent)) for extent in extents] or [0] * type_.rank
                places = itertools.product(*map(range, self.lengths[name])) if fill is not None else ()
                self.arrays[name] = {at: self.value(fill) for at in places} if fill is not None else {}
            case loops.Store(array, indices, value):
                self.arrays[array][self._inside(array, indices)] = self.value(value)
            case loops.Append(array, value):
                self._append(array, value)
            case loops.If(condition, then, otherwise):
                self.block(then if self.value(condition) else otherwise)
            case loops.Loop(condition, body):
                while self.value(condition):
                    self.block(body)
            case loops.Return(value):
                return value if isinstance(value, str) else self.value(value)
        return None

    def _append(self, array: str, value: Expr | str) -> None:
        end = self.lengths[array][0]
        if isinstance(value, str):
            self.arrays[array].update({(end, *at): held for at, held in self.arrays[value].items()})
            self.lengths[array] = [end, *self.lengths[value]]
        else:
            self.arrays[array][end,] = self.value(value)
        self.lengths[array][0] = end + 1

    def _inside(self, array: str, indices: Sequence[Expr]) -> tuple[Value, ...]:
        at = tuple(map(self.value, indices))
        if not all(0 <= index < length for index, length in zip(at, self.lengths[array])):
            raise Undefined
        return at

    def value(self, expression: Expr) -> Value:
        """The value of an expression."""
        match expression:
            case Num(value, type_):
                return constant(value, type_)
            case Read(name):
                return self.scalars[name]
            case loops.Load(array, indices):
                return self.arrays[array][self._inside(array, indices)]
            case loops.Length(array, axis):
                return self.lengths[array][axis]
            case Call("cast", (value,), type_):
                return cast(self.value(value), type_)
            case Call("where", (condition, a, b)):
                return self.value(a if self.value(condition) else b)
            case Call(name, arguments, type_):
                return meaning(name, type_)(*map(self.value, arguments))
        raise Undefined


@dataclass(frozen=True)
class Example:
    """An input as `World` holds it, and what the function made of it: element by element, () for a scalar."""

    world: ExampleWorld
    output: Mapping[tuple[Any, ...], Value]


def examples(
    summary: Summary, likely: Sequence[Value], chance: random.Random, given: Mapping[str, Value] | None = None
) -> Iterator[Example]:
    """Runs of the function on random inputs that meet the summary's requirements; given: values of scalars.

    Ends where such inputs do not come up.
    """
    for _ in range(_MOST):
        try:
            found = _example(summary, likely, chance, given or {})
        except FAULTS:
            continue
        if found is not None:
            yield found


def _example(
    summary: Summary, likely: Sequence[Value], chance: random.Random, given: Mapping[str, Value]
) -> Example | None:
    function = summary.function
    polys = [requirement.poly for requirement in summary.requires if requirement.poly is not None]
    sizes = {name for poly in (*polys, *(size.poly for size in summary.sizes)) for name in poly.symbols()}
    names: dict[str, Value] = {}
    for name, type_ in function.fields:
        if isinstance(type_, MachineType):
            random_one = chance.randrange(4) if name in sizes else chosen(type_, chance, likely)
            names[name] = random_one if name in sizes else given.get(name, random_one)
        else:
            names.update({f"len({name}, {axis})": chance.randrange(1, 4) for axis in range(type_.rank)})
    for requirement in summary.requires:
        if requirement.poly is not None and requirement.kind in ("at_least", "equal"):
            value = requirement.poly.evaluate(names)
            if value < 0 or (requirement.kind == "equal" and value):
                return None
        elif requirement.poly is not None and requirement.kind == "length":
            key = f"len({requirement.array}, {requirement.axis})"
            names[key] = max(names[key], requirement.poly.evaluate(names))
    world, arrays, lengths = ExampleWorld(names), {}, {}
    for name, type_ in function.fields:
        if isinstance(type_, loops.Array):
            lengths[name] = [int(names[f"len({name}, {axis})"]) for axis in range(type_.rank)]
            places = itertools.product(*map(range, lengths[name]))
            arrays[name] = {at: chosen(type_.element, chance, likely) for at in places}
            world.elements.update({(name, *at): value for at, value in arrays[name].items()})
    scalars = {name: names[name] for name, type_ in function.fields if isinstance(type_, MachineType)}
    for size in summary.sizes:
        names[size.symbol] = max(0, size.poly.evaluate(names))
    run = ExampleRun(scalars, {name: dict(held) for name, held in arrays.items()}, lengths)
    returned = run.block(function.body)
    if isinstance(returned, str):
        return Example(world, run.arrays[returned])
    if returned is not None:
        return Example(world, {(): returned})
    return Example(world, run.arrays[summary.results[0].name])
