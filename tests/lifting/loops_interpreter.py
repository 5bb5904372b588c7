"""Runs a function of the loop language, element by element, with the arithmetic of the machine.

The meaning of `tensmith.lifting.loops` in executable form, for tests: slow, strict, independent of the lift.
Integers are Python's, wrapped to their bits where the source language wraps them (signed results as gcc
-fwrapv does; unsigned ones only by the `Cast` the front end must write); floats are NumPy scalars of their
precision. What the source language leaves undefined (a subscript outside an array, a division by zero, an
unset variable) raises `Undefined`; a loop that does not end raises `Endless`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensmith.formula.arith import FUNCTIONS
from tensmith.formula.expr import Call, Expr, Num, Read, SourcePosition
from tensmith.formula.functions import ELEMENTARY
from tensmith.formula.types import MachineType
from tensmith.lifting.loops import (
    Allocate,
    Append,
    Array,
    Assign,
    Declare,
    Function,
    If,
    Length,
    Load,
    Loop,
    Return,
    Statement,
    Store,
    Struct,
)


class Undefined(Exception):
    """The source language gives this execution no meaning."""

    def __init__(self, what: str, position: SourcePosition) -> None:
        super().__init__(f"{position}: {what}")


class Endless(Exception):
    """More iterations than the limit."""


@dataclass
class Memory:
    """An array: `data` flat in row-major order with extents, or lists in lists (`extents` None).

    shape: what a nested array of no rows was made with, so that its other lengths are still known.
    """

    type: Array
    data: list[Any]
    extents: tuple[int, ...] | None = None
    shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What came out: the return value (a list for arrays), and every array parameter's content afterwards.

    Flat arrays are flat lists, nested ones nested lists; a struct's array field is under "s.x".
    """

    value: Any
    arrays: Mapping[str, list[Any]]


def run(function: Function, arguments: Sequence[Any], limit: int = 1_000_000) -> Outcome:
    """Call the function; arguments in parameter order, never changed. Arrays: sequences or arrays, of any
    nesting for flat memory (a matrix is flattened), of the right one for nested. Structs: mappings."""
    machine = Machine(function, limit)
    for parameter, argument in zip(function.parameters, arguments, strict=True):
        if isinstance(parameter.type, Struct):
            for name, kind in parameter.type.fields:
                machine.bind(f"{parameter.name}.{name}", kind, argument[name])
        else:
            machine.bind(parameter.name, parameter.type, argument)
    value = machine.block(function.body)
    held = [name for name in machine.arrays if name in machine.entry]
    return Outcome(value, {name: machine.arrays[name].data for name in held})


def agreements(before: Function, after: Function, calls: Iterable[Sequence[Any]]) -> int:
    """Of how many calls the first function has an outcome; AssertionError where the second has another."""
    compared = 0
    for arguments in calls:
        try:
            expected = run(before, arguments)
        except Undefined:
            continue
        assert run(after, arguments) == expected, arguments
        compared += 1
    return compared


class Machine:
    """The state of one call."""

    def __init__(self, function: Function, limit: int) -> None:
        self.python = function.language == "python"
        self.scalars: dict[str, Any] = {}
        self.types: dict[str, MachineType] = {}
        self.arrays: dict[str, Memory] = {}
        self.entry: set[str] = set()
        self.left = limit

    def bind(self, name: str, kind: MachineType | Array, argument: Any) -> None:
        if isinstance(kind, MachineType):
            self.types[name] = kind
            self.scalars[name] = held(argument, kind)
            return
        self.entry.add(name)
        if kind.memory == "nested":
            shape = tuple(argument.shape) if isinstance(argument, np.ndarray) else ()
            self.arrays[name] = Memory(kind, nested(argument, kind, kind.rank), None, shape)
            return
        extents = tuple(0 if e is None else int(self.value(e)) for e in kind.extents)
        flat = [held(element, kind.element) for element in np.asarray(argument).reshape(-1).tolist()]
        self.arrays[name] = Memory(kind, flat, extents)

    # Statements.

    def block(self, statements: Sequence[Statement]) -> Any:
        """Run statements; the value of a `Return` at the end, else None."""
        value = None
        for statement in statements:
            value = self.run(statement)
        return value

    def run(self, statement: Statement) -> Any:
        match statement:
            case Declare(name, kind, value, _):
                self.types[name] = kind
                self.scalars[name] = None if value is None else self.typed(value, kind)
            case Assign(name, value, position):
                if name not in self.types:
                    raise Undefined(f"{name} is not declared", position)
                self.scalars[name] = self.typed(value, self.types[name])
            case Allocate(name, kind, extents, fill, position):
                sizes = [int(self.value(extent)) for extent in extents]
                if min(sizes) < 0 and not self.python:
                    raise Undefined(f"{name} would have {sizes} elements", position)
                self.allocate(name, kind, [max(0, size) for size in sizes], fill)
            case Store(name, indices, value, position):
                memory = self.arrays[name]
                place = [int(self.value(index)) for index in indices]
                stored = self.typed(value, memory.type.element)
                row, at = self.find(name, place, position)
                row[at] = stored
            case Append(name, value, _):
                memory = self.arrays[name]
                if isinstance(value, str):
                    memory.data.append(copied(self.arrays[value].data))
                else:
                    memory.data.append(self.typed(value, memory.type.element))
            case If(condition, then, otherwise, _):
                self.block(then if self.truth(condition) else otherwise)
            case Loop(condition, body, _, _):
                while self.truth(condition):
                    self.left -= 1
                    if self.left < 0:
                        raise Endless(str(statement.position))
                    self.block(body)
            case Return(value, _):
                return copied(self.arrays[value].data) if isinstance(value, str) else self.value(value)
        return None

    def allocate(self, name: str, kind: Array, extents: list[int], fill: Expr | None) -> None:
        value = None if fill is None else self.typed(fill, kind.element)
        if kind.memory == "flat":
            self.arrays[name] = Memory(kind, [value] * math.prod(extents), tuple(extents))
            return
        data: Any = value
        for extent in reversed(extents):
            data = [copied(data) for _ in range(extent)]
        self.arrays[name] = Memory(kind, data, None, tuple(extents))

    def find(self, name: str, place: list[int], position: SourcePosition) -> tuple[list[Any], int]:
        """The list and the subscript in it that an element lies at."""
        memory = self.arrays[name]
        if len(place) != memory.type.rank:
            raise Undefined(f"{name} has rank {memory.type.rank}, not {len(place)}", position)
        row, at = memory.data, 0
        if memory.extents is not None:
            for axis, index in enumerate(place):
                if axis and not 0 <= index < memory.extents[axis]:
                    raise Undefined(f"{name}{place} lies outside", position)
                at = at * memory.extents[axis] + index if axis else index
        else:
            for index in place[:-1]:
                if not 0 <= index < len(row):
                    raise Undefined(f"{name}{place} lies outside", position)
                row = row[index]
            at = place[-1]
        if not 0 <= at < len(row):
            raise Undefined(f"{name}{place} lies outside", position)
        return row, at

    # Expressions.

    def truth(self, condition: Expr) -> bool:
        value = self.value(condition)
        assert isinstance(value, bool), condition
        return value

    def typed(self, expression: Expr, kind: MachineType) -> Any:
        """A value that is stored must have the type of its place, and lie in its range."""
        assert expression.type == kind, (expression, kind)
        value = self.value(expression)
        assert kind.kind != "int" or kind.bits is None or value == wrapped(value, kind), (expression, value)
        return value

    def value(self, expression: Expr) -> Any:
        position = expression.position
        match expression:
            case Num(value, kind):
                return held(value, kind)
            case Read(name, _, kind):
                if self.scalars.get(name) is None:
                    raise Undefined(f"{name} is not set", position)
                assert self.types[name] == kind, (name, self.types[name], kind)
                return self.scalars[name]
            case Load(name, indices, kind):
                assert self.arrays[name].type.element == kind, (name, kind)
                row, at = self.find(name, [int(self.value(index)) for index in indices], position)
                if row[at] is None:
                    raise Undefined(f"an element of {name} is not set", position)
                return row[at]
            case Length(name, axis, row=row):
                memory = self.arrays[name]
                for depth, index in enumerate(row):
                    if not 0 <= self.value(index) < self.length(memory, depth, position):
                        raise Undefined(f"{name} has no such row", position)
                return self.length(self.arrays[name], axis, position)
            case Call("cast", (inner,), kind):
                return converted(self.value(inner), kind, position)
            case Call("where", (condition, then, otherwise)):  # the side not chosen is not looked at
                return self.value(then if self.truth(condition) else otherwise)
            case Call(operator, arguments, kind):
                values = [self.value(argument) for argument in arguments]
                return self.apply(operator, values, kind, position)

    def length(self, memory: Memory, axis: int, position: SourcePosition) -> int:
        if memory.extents is not None:
            return memory.extents[axis] if axis else len(memory.data) // math.prod(memory.extents[1:] or (1,))
        rows: Any = memory.data
        for _ in range(axis):
            if not rows:
                if len(memory.shape) > axis:
                    return memory.shape[axis]
                raise Undefined("the length of a row of an array without rows", position)
            rows = rows[0]
        return len(rows)

    def apply(self, operator: str, values: list[Any], kind: MachineType, position: SourcePosition) -> Any:
        with np.errstate(all="ignore"):
            if isinstance(values[0], np.floating):
                return self.floating(operator, values, kind, position)
            if operator in COMPARISONS:
                return bool(COMPARISONS[operator](*values))
            if operator in LOGIC:
                assert all(isinstance(value, bool) for value in values), (operator, values)
                return bool(LOGIC[operator](*values))
            result = integer(operator, values, kind, position)
        # Signed overflow is undefined in C; gcc -fwrapv, which tests compile with, wraps it.
        return wrapped(result, kind) if kind.kind == "int" and kind.signed else result

    def floating(self, operator: str, values: list[Any], kind: MachineType, position: SourcePosition) -> Any:
        if operator in COMPARISONS:
            return bool(COMPARISONS[operator](*values))
        if self.python and operator in ("div", "floor_div", "mod") and values[1] == 0:
            raise Undefined("division by zero", position)
        result = FLOATS[operator](*values)
        return type(values[0])(result) if kind.kind == "float" else result


def integer(operator: str, values: list[int], kind: MachineType, position: SourcePosition) -> int:
    """An operator on mathematical integers."""
    if operator in ("div", "fmod", "floor_div", "mod"):
        a, b = values
        if b == 0:
            raise Undefined("division by zero", position)
        if operator == "floor_div":
            return a // b
        if operator == "mod":
            return a % b
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        if quotient != wrapped(quotient, kind):
            raise Undefined("the quotient has no place in its type", position)
        return quotient if operator == "div" else a - b * quotient
    if operator in ("left_shift", "right_shift") and (
        values[1] < 0 or (kind.bits is not None and values[1] >= kind.bits)
    ):
        raise Undefined(f"a shift by {values[1]}", position)
    if operator == "pow" and values[1] < 0:
        raise Undefined("an integer to a negative power", position)
    return int(INTEGERS[operator](*values))


def held(value: Any, kind: MachineType) -> Any:
    """A Python or NumPy value as the machine holds it; it must fit its type."""
    if kind.kind == "bool":
        return bool(value)
    if kind.kind == "float":
        return np.float32(value) if kind.bits == 32 else np.float64(value)
    assert int(value) == value and wrapped(int(value), kind) == value, (value, kind)
    return int(value)


def converted(value: Any, kind: MachineType, position: SourcePosition) -> Any:
    """A cast."""
    if kind.kind == "bool":
        return bool(value != 0)
    if kind.kind == "float":
        with np.errstate(all="ignore"):
            return np.float32(value) if kind.bits == 32 else np.float64(value)
    if isinstance(value, np.floating):
        if not np.isfinite(value) or int(value) != wrapped(int(value), kind):
            raise Undefined(f"{value} has no place in {kind}", position)
        return int(value)
    return wrapped(int(value), kind)


def wrapped(value: int, kind: MachineType) -> int:
    """An integer modulo 2^bits, in the range of the type."""
    if kind.bits is None:
        return value
    value &= (1 << kind.bits) - 1
    return value - (1 << kind.bits) if kind.signed and value >> (kind.bits - 1) else value


def nested(argument: Any, kind: Array, rank: int) -> list[Any]:
    if rank == 1:
        return [held(element, kind.element) for element in argument]
    return [nested(row, kind, rank - 1) for row in argument]


def copied(data: Any) -> Any:
    return [copied(part) for part in data] if isinstance(data, list) else data


Operation = Callable[..., Any]

COMPARISONS: dict[str, Operation] = {
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
}
LOGIC: dict[str, Operation] = {
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "not": lambda a: not a,
}
INTEGERS: dict[str, Operation] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a: -a,
    "abs": abs,
    "minimum": min,
    "maximum": max,
    "pow": lambda a, b: a**b,
    "left_shift": lambda a, b: a << b,
    "right_shift": lambda a, b: a >> b,
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
    "bitwise_not": lambda a: ~a,
}
FLOATS: dict[str, Operation] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "neg": lambda a: -a,
    "abs": abs,
    "minimum": np.fmin,
    "maximum": np.fmax,
    "pow": np.power,
    "floor_div": np.floor_divide,
    "mod": np.mod,
    "fmod": np.fmod,
    **{name: FUNCTIONS[name] for name in (*ELEMENTARY, "floor", "ceil", "round")},
}
