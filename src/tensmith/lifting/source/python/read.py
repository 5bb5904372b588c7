"""Python files and functions to the loop language, through `ast` alone: nothing of a file is ever run.

Lists, lists of lists and NumPy arrays taken element by element; `for` over range, lists, slices, zip,
enumerate, reversed; `while`; comprehensions; scalar functions of math and numpy; helpers of the same file,
put in where they are called. Anything else is refused with its place and what to change.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

from tensmith.errors import UsageError, our_fault
from tensmith.formula.expr import Call, is_cast
from tensmith.formula.functions import WRAPPING
from tensmith.formula.types import I32, INT, MachineType
from tensmith.lifting import assumptions, loops
from tensmith.lifting.limit import Deadline
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.file import SourceError
from tensmith.lifting.source.python.arithmetic import convert
from tensmith.lifting.source.python.comprehensions import copy
from tensmith.lifting.source.python.inline import plain_function
from tensmith.lifting.source.python.kinds import AnyKind, ArrayKind, NumberKind
from tensmith.lifting.source.python.module import Module, parse_module, place, read_text
from tensmith.lifting.source.python.scope import (
    ArrayRef,
    Code,
    Local,
    PythonFrame,
    PythonScope,
    ScalarValue,
    Value,
)
from tensmith.lifting.source.python.statements import block

_SECONDS = 4.0  # of processor time for one file


def read_python(path: Path) -> list[loops.Function | Refusal]:
    """Every function of a file, in order; TensmithError with line:column for a file that is no Python."""
    return read_python_source(read_text(path), str(path))


def read_python_source(text: str, file: str, function: str | None = None) -> list[loops.Function | Refusal]:
    """Every function of a source text, or the one named. `file` is what messages call it."""
    module = parse_module(text, file)
    if function is not None and function not in module.functions:
        known = ", ".join(module.functions) or "none"
        raise UsageError(f"{file} has no function '{function}'; its functions: {known}")
    deadline = Deadline.within(_SECONDS)
    if function is not None:
        return [read_function(module, function, deadline=deadline)]
    found = [read_function(module, name, deadline=deadline) for name in module.functions]
    method = "a method is not lifted: write a function of arrays and numbers"
    found += [Refusal(method, place(node), name) for name, node in module.methods.items()]
    if not found:
        raise SourceError(f"{file}:1:1: there is no function in it; nothing can be lifted")
    return sorted(found, key=lambda entry: entry.position.line)


def read_function(
    module: Module, name: str, given: Mapping[str, AnyKind] | None = None, deadline: Deadline | None = None
) -> loops.Function | Refusal:
    """One function of a module; `given`: kinds of arguments that are known, over annotations and use."""
    node = module.functions[name]
    try:
        return _lower(module, node, dict(given or {}), deadline or Deadline.within(_SECONDS))
    except Refusal as refusal:
        where = refusal.position if refusal.position.line else place(node)
        return Refusal(refusal.reason, where, name)
    except RecursionError:
        return Refusal("the function is nested too deeply; split it", place(node), name)
    except Exception as error:
        return Refusal(our_fault(error), place(node), name)


def _lower(
    module: Module,
    node: ast.FunctionDef | ast.AsyncFunctionDef,
    given: dict[str, AnyKind],
    deadline: Deadline,
) -> loops.Function:
    function = plain_function(module, node)
    code = Code.of(module, function, given)
    scope = PythonScope(module, deadline)
    frame = PythonFrame(code)
    scope.frames.append(frame)
    scope.used |= {argument.arg for argument in (*function.args.posonlyargs, *function.args.args)}
    _bind_parameters(scope, frame, code)
    found = block(scope, code.body)
    scope.check_visited(code)
    returns = _finish(scope, found, function)
    if function.args.defaults:
        scope.note(assumptions.DEFAULTS())
    written = loops.writes(scope.statements)
    parameters = []
    for argument in (*function.args.posonlyargs, *function.args.args):
        kind = code.types.parameters[argument.arg]
        shape = kind.scalar if isinstance(kind, NumberKind) else kind.array(argument.arg in written)
        parameters.append(loops.Parameter(argument.arg, shape, place(argument)))
    _state_distinct(scope, code, written)
    _state_types(scope, code)
    return loops.Function(
        function.name,
        tuple(parameters),
        returns,
        tuple(scope.statements),
        "python",
        module.file,
        place(function),
        tuple(scope.noted),
    )


def _bind_parameters(scope: PythonScope, frame: PythonFrame, code: Code) -> None:
    for name, kind in code.types.parameters.items():
        if not isinstance(kind, NumberKind):
            frame.names[name] = ArrayRef(name, kind)
            continue
        local = Local(name, kind)
        if name not in code.rebound:
            scope.steady.add(name)
        elif code.types.variables[name] != kind:  # the name holds something wider later
            variable = code.types.variables[name]
            if isinstance(variable, NumberKind) and variable.scalar == kind.scalar:
                local = Local(name, variable)
            elif isinstance(variable, NumberKind):
                where = place(code.function)
                local = scope.variable(name, variable, convert(local.at(where), variable, where), where)
        frame.names[name] = local


def _finish(
    scope: PythonScope, found: Value | tuple[Value, ...] | None, function: ast.FunctionDef
) -> MachineType | loops.Array | tuple[MachineType | loops.Array, ...] | None:
    """The `Return`s at the end, and their types."""
    if isinstance(found, tuple):
        return tuple(_returned(scope, each, function) for each in found)
    return None if found is None else _returned(scope, found, function)


def _returned(scope: PythonScope, found: Value, function: ast.FunctionDef) -> MachineType | loops.Array:
    where = place(function.body[-1])
    if isinstance(found, ScalarValue):
        scope.emit(loops.Return(found.expr, where))
        return found.expr.type
    if found.prefix:
        found = copy(scope, found, "row", found.kind, function.body[-1])
    scope.emit(loops.Return(found.name, where))
    return found.kind.array()


def _state_distinct(scope: PythonScope, code: Code, written: set[str]) -> None:
    """What is written must be no other parameter, and no other row, under a second name."""
    arrays = {name: kind for name, kind in code.types.parameters.items() if isinstance(kind, ArrayKind)}
    for name, kind in arrays.items():
        if name in written and len(arrays) > 1:
            scope.note(assumptions.OTHER_NAME(name))
        if name in written and kind.rank > 1 and not kind.numpy:
            scope.note(assumptions.ONE_LIST(name))


def _state_types(scope: PythonScope, code: Code) -> None:
    """What NumPy does to a value that does not fit its type, and what arrays without a type hold."""
    if any(map(_narrows, loops.nodes(scope.statements))):
        scope.note(assumptions.NARROWED())
    if _may_overflow(scope.statements):
        scope.note(assumptions.SIGNED_32())
    for name, kind in code.types.parameters.items():
        if isinstance(kind, ArrayKind) and kind.taken:
            scope.note(
                assumptions.ELEMENTS(name, "int64" if kind.element.scalar.kind == "int" else kind.element)
            )


def _may_overflow(part: object) -> bool:
    """Whether 32 bits are computed in that are not then cut to fewer."""
    found = list(loops.nodes(part))
    cut = {id(node.args[0]) for node in found if is_cast(node) and (node.type.bits or 64) < 32}
    computed = [node for node in found if isinstance(node, Call) and node.function in (*WRAPPING, "abs")]
    return any(node.type == I32 and id(node) not in cut for node in computed)


def _narrows(node: object) -> bool:
    """Whether an unbounded integer is cut to a machine type."""
    return is_cast(node) and node.args[0].type == INT and node.type.kind == "int"
