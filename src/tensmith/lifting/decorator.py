"""`@tensmith.lift(to="torch")`: a Python function that runs as a proved tensor program."""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
import types
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from tensmith.errors import TensmithError
from tensmith.lifting.loops import Position
from tensmith.lifting.refusal import Refusal

if TYPE_CHECKING:
    from tensmith.lifting.source.python_kinds import AnyKind
    from tensmith.lifting.source.python_module import Module

Function = TypeVar("Function", bound=Callable[..., Any])
_SMALL = (bool, int, float)


class LiftWarning(UserWarning):
    """A function runs as it was written, because it could not be lifted."""


@overload
def lift(function: Function, /) -> Function: ...
@overload
def lift(*, to: str = "numpy") -> Callable[[Function], Function]: ...


def lift(function: Any = None, /, *, to: str = "numpy") -> Any:
    """Runs a function of loops as a proved tensor program in another framework.

    The function is lifted at its first call, for the kinds of arguments it is called with then (numbers,
    lists of numbers, NumPy arrays; annotations stay). What it returns are the target's arrays: the return
    value, or, where the function writes to its arguments, the written arrays in parameter order followed by
    the return value. Arguments are never modified.

    A call that a guard refuses, and a function that cannot be lifted, run as written, with one warning
    (LiftWarning) that names the reason; arguments are then modified as the function does. Helpers and
    constants of the module are taken as they are at the first call.
    """
    if function is None:
        return functools.partial(lift, to=to)
    lifted = _Lifted(function, to)

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        return lifted(*arguments, **named)

    return call


class _Lifted:
    """A decorated function: one lifted form for each combination of kinds of arguments."""

    def __init__(self, function: Callable[..., Any], to: str) -> None:
        self.function, self.to = function, to
        self.signature = inspect.signature(function)
        self.forms: dict[tuple[Any, ...], Callable[..., Any] | None] = {}
        self.warned = False

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        bound = self.signature.bind(*arguments, **named)
        bound.apply_defaults()
        given = bound.arguments
        try:
            kinds = {name: kind_of(value, name) for name, value in given.items()}
            key = tuple(kinds.values())
            if key not in self.forms:
                self.forms[key] = None  # what failed once is not tried again
                self.forms[key] = self.lift(kinds)
            form = self.forms[key]
            if form is not None:
                return form(*given.values())
        except (TensmithError, ValueError, TypeError, ImportError) as error:
            self.warn(error)
        return self.function(*arguments, **named)

    def warn(self, error: Exception) -> None:
        if self.warned:
            return
        self.warned = True
        name = getattr(self.function, "__qualname__", "the function")
        where = f" at {error.position}" if isinstance(error, Refusal) and error.position.line else ""
        warnings.warn(f"{name} runs as written: {error}{where}", LiftWarning, stacklevel=4)

    def lift(self, kinds: Mapping[str, AnyKind]) -> Callable[..., Any]:
        """The lifted form for arguments of these kinds."""
        from tensmith.lifting.road import lift_function
        from tensmith.lifting.running import load
        from tensmith.lifting.source.python import read_function

        module = module_of(self.function)
        name = self.function.__name__
        node = module.functions[name]
        annotated = {argument.arg for argument in node.args.args if argument.annotation is not None}
        given = {parameter: kind for parameter, kind in kinds.items() if parameter not in annotated}
        result = lift_function(read_function(module, name, given), (self.to,))
        if not result.proved or result.work.lifted is None:
            raise Refusal(result.reason, Position(result.line, result.column), name)
        for note in result.notes:
            warnings.warn(f"{name}: {note}", LiftWarning, stacklevel=4)
        return load(self.to, result.work.lifted, result.emitted[self.to])


def kind_of(value: Any, name: str) -> AnyKind:
    """The kind of an argument; Refusal if it is neither a number nor a list or array of numbers."""
    from tensmith.lifting.source.python_kinds import DTYPES, PY_BOOL, PY_FLOAT, PY_INT, ArrayKind, Kind

    if isinstance(value, np.generic | np.ndarray):
        dtype = value.dtype.name
        if dtype not in DTYPES:
            raise Refusal(f"{name} holds {dtype}; pass int, float or bool of 8 to 64 bits")
        return ArrayKind(DTYPES[dtype], value.ndim, True) if value.ndim else DTYPES[dtype]
    if isinstance(value, bool):
        return PY_BOOL
    if isinstance(value, int | float):
        return PY_INT if isinstance(value, int) else PY_FLOAT
    if isinstance(value, list | tuple):
        if not value:
            return ArrayKind(PY_FLOAT, 1)
        first = kind_of(value[0], name)
        element = first if isinstance(first, Kind) else first.element
        scalars = isinstance(first, Kind)
        if any(isinstance(part, float) if scalars else kind_of(part, name) != first for part in value):
            element = PY_FLOAT
        return ArrayKind(element, 1 if isinstance(first, Kind) else first.rank + 1)
    raise Refusal(f"{name} is a {type(value).__name__}; pass numbers, or lists or arrays of them")


def module_of(function: Callable[..., Any]) -> Module:
    """A function's source with the helpers, constants and imports that it reaches, as they are now."""
    from tensmith.lifting.source.python_module import Module

    functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
    constants: dict[str, ast.expr] = {}
    imports: dict[str, str] = {}
    waiting = [function]
    file = inspect.getsourcefile(function) or "<source>"
    while waiting:
        current = waiting.pop()
        node = _definition(current)
        functions[node.name] = node
        space = {**getattr(current, "__globals__", {}), **inspect.getclosurevars(current).nonlocals}
        for name in {part.id for part in ast.walk(node) if isinstance(part, ast.Name)} & space.keys():
            value = inspect.unwrap(space[name]) if callable(space[name]) else space[name]
            if isinstance(value, types.ModuleType):
                imports[name] = value.__name__
            elif isinstance(value, types.FunctionType) and value.__module__ == current.__module__:
                if value.__name__ not in functions:
                    waiting.append(value)
            elif isinstance(value, types.BuiltinFunctionType | types.FunctionType | np.ufunc):
                imports[name] = f"{getattr(value, '__module__', None) or 'numpy'}.{value.__name__}"
            elif (constant := _literal(value, node)) is not None:
                constants[name] = constant
    return Module(file, functions, constants, imports)


def _definition(function: Callable[..., Any]) -> ast.FunctionDef | ast.AsyncFunctionDef:
    """The function's own syntax tree, with the line numbers of its file."""
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError) as error:
        name = getattr(function, "__name__", "the function")
        raise Refusal(f"the source of {name} cannot be read ({error}); define it in a file") from error
    node = tree.body[0]
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        raise Refusal("only functions made by def can be lifted; write a def")
    ast.increment_lineno(tree, first - 1)
    return node


def _literal(value: Any, node: ast.AST) -> ast.expr | None:
    """A global's value as a literal."""
    if isinstance(value, _SMALL):
        return ast.copy_location(ast.Constant(value), node)
    if isinstance(value, list | tuple) and value and len(value) <= 256:
        parts = [_literal(part, node) for part in value]
        if all(part is not None for part in parts):
            return ast.copy_location(ast.List([p for p in parts if p is not None], ast.Load()), node)
    return None
