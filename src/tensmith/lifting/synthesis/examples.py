"""Exact values: terms and functions of the loop language on small random inputs, floats as fractions.

The examples only steer the search. What the source leaves undefined (a subscript outside, a division by zero)
raises `Undefined`; so does what would take too long.
"""

from __future__ import annotations

import itertools
import math
import operator
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias

from tensmith.formula.expr import Call, Choose, Num, Read, Reduce, Size
from tensmith.formula.functions import JOINS
from tensmith.formula.poly import Poly
from tensmith.formula.types import MachineType
from tensmith.lifting import loops
from tensmith.lifting.summary import Summary, Term, first

Value: TypeAlias = Any  # an int, a bool or a Fraction
_LONGEST = 10_000  # statements of one run
_MOST = 10_000  # inputs that are drawn


class Undefined(Exception):
    """An input for which the source has no meaning, or a long one."""


def _truncated(a: Value, b: Value) -> int:
    return int(Fraction(a) / b)


def _analytic(function: Callable[[float], float]) -> Callable[[Value], Fraction]:
    """One exact value for each exact argument, so that equal arguments have equal values."""
    return lambda value: Fraction(function(float(value)))


OPERATORS: Mapping[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "neg": operator.neg,
    "abs": abs,
    "minimum": min,
    "maximum": max,
    "div": lambda a, b: Fraction(a) / b,
    "fmod": lambda a, b: a - b * _truncated(a, b),
    "floor_div": operator.floordiv,
    "mod": operator.mod,
    "less": operator.lt,
    "less_equal": operator.le,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "and": lambda a, b: bool(a and b),
    "or": lambda a, b: bool(a or b),
    "not": operator.not_,
    "where": lambda condition, a, b: a if condition else b,
    "exp": _analytic(math.exp),
    "log": _analytic(math.log),
    "sqrt": _analytic(math.sqrt),
    "tanh": _analytic(math.tanh),
}


def meaning(operator: str, type_: MachineType) -> Callable[..., Any]:
    """What an operator makes of values, as one of a type: integers are divided toward 0."""
    return _truncated if operator == "div" and type_.kind == "int" else OPERATORS[operator]


FAULTS = (TypeError, ValueError, ArithmeticError, KeyError, Undefined)


def cast(value: Value, type_: MachineType) -> Value:
    """A conversion as the loop language has it."""
    if type_.kind == "float":
        return Fraction(value)
    if type_.kind == "bool":
        return value != 0
    whole = int(value)
    if type_.bits is None:
        return whole
    low = -(2 ** (type_.bits - 1)) if type_.signed else 0
    return (whole - low) % 2**type_.bits + low


def constant(value: Fraction | int | float | bool, type_: MachineType) -> Value:
    """A literal."""
    return Fraction(value) if type_.kind == "float" else bool(value) if type_.kind == "bool" else int(value)


def chosen(type_: MachineType, chance: random.Random, likely: Sequence[Value] = ()) -> Value:
    """A random value of a type; now and then one of the `likely`, or one next to it."""
    if type_.kind == "bool":
        return chance.random() < 0.5
    near = [value for value in likely if type_.kind == "float" or value == int(value)]
    if near and chance.random() < 0.3:
        value = chance.choice(near) + chance.choice((-1, 0, 0, 1))
    else:
        value = Fraction(chance.randrange(-36, 37), 4) if type_.kind == "float" else chance.randrange(-9, 41)
    return cast(abs(value) if type_.kind == "int" and not type_.signed else value, type_)


# Terms


@dataclass
class ExampleWorld:
    """The arguments of one call. With a `chance`, what is not known yet is drawn when it is asked for;
    `natural` names are numbers of iterations or elements, at least `least`."""

    names: dict[str, Value] = field(default_factory=dict)
    elements: dict[tuple[Any, ...], Value] = field(default_factory=dict)
    chance: random.Random | None = None
    natural: frozenset[str] = frozenset()
    least: int = 0

    def value(self, term: Term, bound: Mapping[str, int]) -> Value:
        """What a term is worth; bound: index variables."""
        match term:
            case Num(value, type_):
                return constant(value, type_)
            case Size(poly, _):
                return self.number(poly, bound)
            case Read(name, (), type_):
                return cast(self.named(name, bound, type_), type_)
            case Read(array, indices, type_):
                return self.element(array, tuple(self.number(poly, bound) for poly in indices), type_)
            case Call("where", (condition, a, b), _):
                return self.value(a if self.value(condition, bound) else b, bound)
            case Call("cast", (inner,), type_):
                return cast(self.value(inner, bound), type_)
            case Call(name, parts, type_):
                return meaning(name, type_)(*(self.value(part, bound) for part in parts))
            case Reduce(kind, var, extent, body):
                found, join = self.value(first(term), bound), OPERATORS[JOINS[kind]]
                for k in range(self.number(extent, bound)):
                    found = join(found, self.value(body, {**bound, var: k}))
                return found
            case Choose(conditions, then, otherwise, _):
                chosen = all(self.number(poly, bound) >= 0 for poly in conditions)
                return self.value(then if chosen else otherwise, bound)
        raise Undefined

    def number(self, poly: Poly, bound: Mapping[str, int]) -> int:
        """What a polynomial is worth."""
        return int(poly.evaluate({name: self.named(name, bound) for name in poly.symbols()}))

    def named(self, name: str, bound: Mapping[str, int], type_: MachineType | None = None) -> Value:
        """A scalar."""
        if name in bound:
            return bound[name]
        if name not in self.names and self.chance is not None:
            if type_ is None or name in self.natural:
                self.names[name] = self.least + self.chance.randrange(4)
            else:
                self.names[name] = chosen(type_, self.chance)
        return self.names[name]

    def element(self, array: str, at: tuple[Value, ...], type_: MachineType) -> Value:
        """An array's element."""
        key = (array, *at)
        if key not in self.elements and self.chance is not None and min(at, default=0) >= 0:
            self.elements[key] = chosen(type_, self.chance)
        return self.elements[key]


# Functions


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

    def _append(self, array: str, value: loops.Expr | str) -> None:
        end = self.lengths[array][0]
        if isinstance(value, str):
            self.arrays[array].update({(end, *at): held for at, held in self.arrays[value].items()})
            self.lengths[array] = [end, *self.lengths[value]]
        else:
            self.arrays[array][end,] = self.value(value)
        self.lengths[array][0] = end + 1

    def _inside(self, array: str, indices: Sequence[loops.Expr]) -> tuple[Value, ...]:
        at = tuple(map(self.value, indices))
        if not all(0 <= index < length for index, length in zip(at, self.lengths[array])):
            raise Undefined
        return at

    def value(self, expression: loops.Expr) -> Value:
        """The value of an expression."""
        match expression:
            case loops.Constant(value, type_):
                return constant(value, type_)
            case loops.Variable(name):
                return self.scalars[name]
            case loops.Load(array, indices):
                return self.arrays[array][self._inside(array, indices)]
            case loops.Length(array, axis):
                return self.lengths[array][axis]
            case loops.ScalarCast(value, type_):
                return cast(self.value(value), type_)
            case loops.Apply("where", (condition, a, b)):
                return self.value(a if self.value(condition) else b)
            case loops.Apply(name, arguments, type_):
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
