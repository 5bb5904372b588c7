"""Functions of the loop language in few words, for tests of what is derived from them."""

from __future__ import annotations

from collections.abc import Sequence

from tensmith.formula.expr import NOWHERE, Call, Expr, Num, Read, SourcePosition, variable
from tensmith.formula.types import BOOL, I32, MachineType
from tensmith.lifting.loops import Array, Assign, Declare, Function, Load, Loop, Parameter, Statement, Store


def v(name: str, type: MachineType = I32) -> Read:
    return variable(name, type)


def c(value: int | float, type: MachineType = I32) -> Num:
    return Num(value, type)


def load(array: str, *at: Expr, type: MachineType = I32) -> Load:
    return Load(array, at, type, NOWHERE)


def op(operator: str, *arguments: Expr, type: MachineType | None = None) -> Call:
    return Call(operator, arguments, type or arguments[0].type, NOWHERE)


def add(a: Expr, b: Expr) -> Call:
    return op("add", a, b)


def mul(a: Expr, b: Expr) -> Call:
    return op("mul", a, b)


def less(a: Expr, b: Expr) -> Call:
    return Call("less", (a, b), BOOL)


def loop(name: str, first: Expr, bound: Expr, *body: Statement, line: int = 1) -> tuple[Statement, ...]:
    """for (int name = first; name < bound; name++) body"""
    step = Assign(name, add(v(name), c(1)))
    return (
        Declare(name, I32, first),
        Loop(less(v(name), bound), (*body, step), f"{name}@{line}:1", SourcePosition(line, 1)),
    )


def function(
    parameters: dict[str, MachineType | Array], *body: Statement, returns: MachineType | Array | None = None
) -> Function:
    given = tuple(Parameter(name, type_) for name, type_ in parameters.items())
    return Function("f", given, returns, body, "c", "f.c")


def flat(element: MachineType = I32, *extents: Expr) -> Array:
    return Array(element, 1 + len(extents), "flat", (None, *extents))


def nested(element: MachineType = I32, rank: int = 1) -> Array:
    return Array(element, rank, "nested", (None,) * rank)


def store(array: str, at: Sequence[Expr] | Expr, value: Expr) -> Store:
    return Store(array, tuple(at) if isinstance(at, (tuple, list)) else (at,), value, SourcePosition(9, 9))
