"""A function of the loop language as text: one statement a line, after its source line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tensmith.formula.expr import SourcePosition
from tensmith.formula.types import MachineType
from tensmith.lifting import loops
from tensmith.lifting.text import text


def print_function(function: loops.Function) -> str:
    """The function, line numbers of the source on the left; ends with a newline."""
    parameters = ", ".join(f"{p.name}: {type_text(p.type)}" for p in function.parameters)
    arrow = "" if function.returns is None else f" -> {type_text(function.returns)}"
    lines = [numbered(function.position, f"function {function.name}({parameters}){arrow}")]
    lines.extend(block(function.body, 1))
    lines.extend(f"{'':>5}  note: {note}" for note in function.noted)
    return "\n".join(lines) + "\n"


def type_text(kind: MachineType | loops.Array | loops.Struct) -> str:
    """ "i32", "f64[]", "const f64[][m]", "nested u8[][]", "struct point {x: f32, y: f32}"."""
    if isinstance(kind, MachineType):
        return kind
    if isinstance(kind, loops.Struct):
        fields = ", ".join(f"{name}: {type_text(part)}" for name, part in kind.fields)
        return f"struct {kind.name} {{{fields}}}"
    axes = "".join(f"[{'' if extent is None else text(extent)}]" for extent in kind.extents)
    memory = "nested " if kind.memory == "nested" else ""
    return f"{'' if kind.written else 'const '}{memory}{kind.element}{axes}"


def numbered(position: SourcePosition, line: str) -> str:
    return f"{position.line or '':>5}  {line}"


def block(statements: Sequence[loops.Statement], depth: int) -> Iterator[str]:
    """The lines of statements, indented."""
    margin = "  " * depth
    for statement in statements:
        match statement:
            case loops.If(condition, then, otherwise, position):
                yield numbered(position, f"{margin}if {text(condition)}:")
                yield from block(then, depth + 1)
                if otherwise:
                    yield numbered(position, f"{margin}else:")
                    yield from block(otherwise, depth + 1)
            case loops.Loop(condition, body, label, position):
                yield numbered(position, f"{margin}while {text(condition)}:  # {label}")
                yield from block(body, depth + 1)
            case _:
                yield numbered(statement.position, margin + simple(statement))


def simple(statement: loops.Statement) -> str:
    """A statement without blocks."""
    match statement:
        case loops.Declare(name, kind, value, _):
            return f"{name}: {kind}" + ("" if value is None else f" = {text(value)}")
        case loops.Allocate(name, kind, extents, fill, _):
            shape = ", ".join(map(text, extents))
            memory = "nested " if kind.memory == "nested" else ""
            filled = "" if fill is None else f" = {text(fill)}"
            return f"{name}: {memory}array({shape}) of {kind.element}{filled}"
        case loops.Assign(name, value, _):
            return f"{name} = {text(value)}"
        case loops.Store(array, indices, value, _):
            return f"{array}[{', '.join(map(text, indices))}] = {text(value)}"
        case loops.Append(array, value, _):
            return f"append {value if isinstance(value, str) else text(value)} to {array}"
        case loops.Return(value, _):
            return f"return {value if isinstance(value, str) else text(value)}"
    raise TypeError(statement)
