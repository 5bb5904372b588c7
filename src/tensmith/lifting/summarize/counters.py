"""What a loop's body changes and by how much, over the syntax alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensmith.formula.expr import Call, Expr, Num, Read, is_cast, uncast
from tensmith.lifting import loops
from tensmith.lifting.summary import length_of, length_symbol


@dataclass(frozen=True)
class Changes:
    """What a loop's body changes: scalars (lengths of growing arrays among them) and arrays."""

    scalars: tuple[str, ...]
    arrays: tuple[str, ...]


def changes(body: Sequence[loops.Statement], ranks: dict[str, int]) -> Changes:
    """See `Changes`. ranks: of the arrays known so far."""
    scalars: dict[str, None] = {}
    arrays: dict[str, None] = {}
    for statement in loops.statements(body):
        match statement:
            case loops.Declare(name) | loops.Assign(name):
                scalars[name] = None
            case loops.Store(array):
                arrays[array] = None
            case loops.Allocate(name, type_):
                arrays[name] = None
                scalars.update((length_symbol(name, axis), None) for axis in range(type_.rank))
            case loops.Append(array, value):
                arrays[array] = None
                axes = ranks.get(array, 1) if isinstance(value, str) else 1
                scalars.update((length_symbol(array, axis), None) for axis in range(axes))
    return Changes(tuple(scalars), tuple(arrays))


def steps(statement: loops.Statement, name: str) -> list[int | None]:
    """How a statement changes a variable: the constant it adds, None for any other change."""
    length = length_of(name)
    match statement:
        case loops.Assign(other, value) if other == name:
            return [_constant_step(value, name)]
        case loops.Declare(other) if other == name:
            return [None]
        case loops.Append(array) if length == (array, 0):
            return [1]
        case loops.Append(array, str()) | loops.Allocate(array) if length and length[0] == array:
            return [None]
    return []


def _constant_step(value: Expr, name: str) -> int | None:
    match uncast(value, _of_integers):
        case Call(("add" | "sub") as operator, (left, right)):
            match uncast(left, _of_integers), uncast(right, _of_integers):
                case Read(other), Num(int(step)) if other == name:
                    return int(step) if operator == "add" else -int(step)
                case Num(int(step)), Read(other) if other == name and operator == "add":
                    return int(step)
    return None


def _of_integers(cast: Call) -> bool:
    """Whether a conversion is of integers; that a counter fits its type is proved later."""
    return cast.type.kind == cast.args[0].type.kind == "int"


def from_memory(statement: loops.Statement, name: str) -> bool:
    """Whether a statement puts an array's element into the variable, or what is not an integer."""
    return (
        isinstance(statement, (loops.Assign, loops.Declare))
        and statement.name == name
        and any(map(_is_data, loops.nodes(statement.value)))
    )


def _is_data(part: object) -> bool:
    return isinstance(part, loops.Load) or (is_cast(part) and part.args[0].type.kind == "float")
