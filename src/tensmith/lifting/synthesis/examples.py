"""Exact values of terms on small random inputs, floats as fractions; they only steer the search.

What has no value (a subscript outside, a division by zero) raises one of FAULTS.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias

from tensmith.formula.expr import Call, Choose, Num, Read, Reduce, Size
from tensmith.formula.functions import JOINS
from tensmith.formula.poly import Poly
from tensmith.formula.types import MachineType
from tensmith.lifting.summarize.constants import EXACT, truncated
from tensmith.lifting.summary import Term, first

Value: TypeAlias = Any  # an int, a bool or a Fraction


class Undefined(Exception):
    """An input for which the source has no meaning, or a long one."""


def _analytic(function: Callable[[float], float]) -> Callable[[Value], Fraction]:
    """One exact value for each exact argument, so that equal arguments have equal values."""
    return lambda value: Fraction(function(float(value)))


OPERATORS: Mapping[str, Callable[..., Any]] = EXACT | {
    "div": lambda a, b: Fraction(a) / b,
    "where": lambda condition, a, b: a if condition else b,
    "exp": _analytic(math.exp),
    "log": _analytic(math.log),
    "sqrt": _analytic(math.sqrt),
    "tanh": _analytic(math.tanh),
}


def meaning(operator: str, type_: MachineType) -> Callable[..., Any]:
    """What an operator makes of values, as one of a type: integers are divided toward 0."""
    return truncated if operator == "div" and type_.kind == "int" else OPERATORS[operator]


FAULTS = (TypeError, ValueError, ArithmeticError, KeyError, Undefined)


def cast(value: Value, type_: MachineType) -> Value:
    """A conversion as the loop language has it."""
    if type_.kind == "float":
        return Fraction(value)
    if type_.kind == "bool":
        return value != 0
    return type_.wrapped(int(value))


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
            case Call("element", (Read(array), *subscripts), type_):
                return self.element(array, tuple(int(self.value(each, bound)) for each in subscripts), type_)
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
