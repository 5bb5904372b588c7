"""`@tensmith.lift(to="torch")`: a Python function that runs as a proved tensor program."""

from __future__ import annotations

import ast
import builtins
import collections.abc
import contextlib
import functools
import inspect
import os
import textwrap
import threading
import types
import typing
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np
import numpy.typing

from tensmith.errors import TensmithError, UsageError, first_line, nearest
from tensmith.formula.expr import SourcePosition
from tensmith.lifting.loops import Array
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.runnable import RUNNABLE

if TYPE_CHECKING:
    from tensmith.lifting.source.python.kinds import AnyKind, ArrayKind, NumberKind
    from tensmith.lifting.source.python.module import Module

Function = TypeVar("Function", bound=Callable[..., Any])
# Threads lift one after another: solvers and parsers hold what is one in a process. A process that was forked
# while one of them did has a lock of its own, which nobody holds.
_LIFTING = threading.RLock()


def _unlocked() -> None:
    global _LIFTING
    _LIFTING = threading.RLock()


os.register_at_fork(after_in_child=_unlocked)
_SMALL = (bool, int, float)
_TYPING = (typing, collections.abc, np, numpy.typing)  # whose names stand in annotations


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
    what it returns, a tuple's values one by one. Arguments are never modified.

    A call that a guard refuses, or in which the target fails, and a function that cannot be lifted, run as
    written, with one warning (LiftWarning) for each combination of kinds of arguments, which names the
    reason; arguments are then modified as the function does. So do calls whose integers might not fit in 64
    bits, those in which a number, on the way or in the end, is not finite where Python may raise or do
    otherwise, and those that write to what has a second name among the arguments.
    Helpers and constants of the module are taken as they are at the first call. UsageError for what is no
    function, or a target that does not run from Python.
    """
    if to not in RUNNABLE:
        raise UsageError(f"'{to}' is no target that runs from Python{nearest(to, RUNNABLE)}")
    if function is None:
        return functools.partial(lift, to=to)
    if not callable(function):
        raise UsageError(
            f"tensmith.lift takes a Python function, not {type(function).__name__}; files are lifted by "
            "the command tensmith lift FILE --to TARGET"
        )
    try:
        lifted = _Lifted(function, to)
    except ValueError as error:  # builtin types have no signature
        raise UsageError(f"{function!r} has no Python source; lift a function made by def") from error
    return _wrapper(function, lifted)


def _wrapper(function: Callable[..., Any], lifted: _Lifted) -> Callable[..., Any]:
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
        self.warned: set[tuple[Any, ...]] = set()  # the kinds of arguments of which a reason was given

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        bound = self.signature.bind(*arguments, **named)
        bound.apply_defaults()
        given = bound.arguments
        key: tuple[Any, ...] = ()
        try:
            kinds = {name: kind_of(value, name) for name, value in given.items()}
            frozen = frozenset(name for name, value in given.items() if isinstance(value, tuple))
            key = (*kinds.values(), frozen)
            with _LIFTING if key not in self.forms else contextlib.nullcontext():
                if key not in self.forms:
                    try:
                        self.forms[key] = self.lift(kinds, frozen)
                    except Exception:
                        self.forms[key] = None  # what failed once is not tried again; what was stopped is
                        raise
            form = self.forms[key]
            if form is not None:
                return form(*given.values())
        except LiftWarning:  # where warnings are errors
            raise
        except Exception as error:  # compilers, frameworks and memory fail in any way
            self.warn(error, key)
        return self.function(*arguments, **named)

    def warn(self, error: Exception, key: tuple[Any, ...]) -> None:
        if key in self.warned:
            return
        self.warned.add(key)
        name = getattr(self.function, "__qualname__", "the function")
        where = ""
        if isinstance(error, Refusal) and error.position.line:
            file = getattr(getattr(_plain(self.function), "__code__", None), "co_filename", "")
            where = f" at {Path(file).name}:{error.position}"
        warnings.warn(f"{name} runs as written: {reason_of(error)}{where}", LiftWarning, stacklevel=4)

    def lift(self, kinds: Mapping[str, AnyKind], frozen: frozenset[str]) -> Callable[..., Any]:
        """The lifted form for arguments of these kinds; `frozen` are tuples, which nothing may write to."""
        from tensmith.lifting.exactness import exact
        from tensmith.lifting.pipeline import lift_function
        from tensmith.lifting.running import load
        from tensmith.lifting.source.python.read import read_function

        module = module_of(self.function)
        name, node = next(iter(module.functions.items()))  # the function itself
        parameters = (*node.args.posonlyargs, *node.args.args)
        annotated = {argument.arg for argument in parameters if argument.annotation is not None}
        given = {
            name: kind for name, kind in kinds.items() if name not in annotated or not _element(kind).weak
        }
        found = read_function(module, name, given)
        for parameter in () if isinstance(found, Refusal) else found.parameters:
            if parameter.name in frozen and isinstance(parameter.type, Array) and parameter.type.written:
                raise Refusal(f"{parameter.name} is a tuple and is written; pass a list", parameter.position)
        result = lift_function(found, (self.to,))
        if not result.proved or result.work.lifted is None:
            raise Refusal(result.reason, SourcePosition(result.line, result.column), name)
        for note in result.notes:
            warnings.warn(f"{name}: {note}", LiftWarning, stacklevel=4)
        form = load(self.to, result.work.lifted, result.emitted[self.to])
        return exact(form, result.work.lifted, self.to)


def reason_of(error: Exception) -> str:
    """What an error in a lift says; its kind, too, where nothing of ours raised it."""
    told = isinstance(error, TensmithError | ValueError)
    return str(error) if told else f"{type(error).__name__}: {first_line(error)}"


def lifted_form(function: Callable[..., Any], named: Mapping[str, Any], to: str) -> Callable[..., Any]:
    """A function's lifted form for arguments of these kinds, by position; Refusal if there is none."""
    kinds = {name: kind_of(value, name) for name, value in named.items()}
    with _LIFTING:
        return _Lifted(function, to).lift(kinds, frozenset())


def kind_of(value: Any, name: str) -> AnyKind:
    """The kind of an argument; Refusal if it is neither a number nor a list or array of numbers."""
    from tensmith.lifting.source.python.kinds import DTYPES, PY_BOOL, PY_FLOAT, PY_INT, ArrayKind

    if isinstance(value, np.generic) or type(value) is np.ndarray:
        dtype = value.dtype.name
        if dtype not in DTYPES:
            raise Refusal(f"{name} holds {dtype}; pass int, float or bool of 8 to 64 bits")
        if isinstance(value, np.generic):
            return DTYPES[dtype]
        if value.ndim == 0:
            raise Refusal(f"{name} is an array without axes, which may be written; pass a number")
        return ArrayKind(DTYPES[dtype], value.ndim, True)
    own = {bool: PY_BOOL, int: PY_INT, float: PY_FLOAT}
    if type(value) in own:
        return own[type(value)]
    if type(value) in (list, tuple):
        return _kind_of_list(value, name) if value else ArrayKind(PY_FLOAT, 1)
    raise Refusal(f"{name} is a {type(value).__name__}; pass numbers, or lists or arrays of them")


def _kind_of_list(values: Sequence[Any], name: str) -> ArrayKind:
    """Of Python's numbers, the widest; of NumPy's, and of rows of them, the one kind that all have."""
    from tensmith.lifting.source.python.kinds import PY_BOOL, PY_FLOAT, PY_INT, ArrayKind

    types = set(map(type, values))
    for python, kind in ((float, PY_FLOAT), (int, PY_INT), (bool, PY_BOOL)):
        if python in types and types <= {bool, int, float}:
            return ArrayKind(kind, 1)
    kinds = {kind_of(part, name) for part in values}
    first = kinds.pop()
    if not kinds:
        rank = first.rank if isinstance(first, ArrayKind) else 0
        return ArrayKind(_element(first), rank + 1)
    if all(isinstance(kind, ArrayKind) and kind.element.weak for kind in (first, *kinds)):
        ranks = {kind.rank for kind in (first, *kinds) if isinstance(kind, ArrayKind)}
        if len(ranks) == 1:
            return ArrayKind(PY_FLOAT, ranks.pop() + 1)
    raise Refusal(f"{name} mixes kinds of elements; pass numbers of one type, or rows of them")


def _element(kind: AnyKind) -> NumberKind:
    """The kind of the numbers, which are NumPy's own where it is not weak."""
    from tensmith.lifting.source.python.kinds import ArrayKind

    return kind.element if isinstance(kind, ArrayKind) else kind


_CALL = _wrapper(len, None).__code__  # type: ignore[arg-type]


def module_of(function: Callable[..., Any]) -> Module:
    """A function's source with the helpers, constants and imports that it reaches, as they are now."""
    from tensmith.lifting.source.python.module import Module

    found = reached(function)
    file = inspect.getsourcefile(_plain(function)) or "<source>"
    return Module(file, found.functions, found.constants, found.imports, opaque=frozenset(found.opaque))


def reached(function: Callable[..., Any]) -> Surroundings:
    """What the names in a function and its helpers mean now."""
    found = Surroundings()
    waiting = [_plain(function)]
    while waiting:
        current = waiting.pop()
        node = _definition(current)
        found.functions[node.name] = node
        space = {**getattr(current, "__globals__", {}), **inspect.getclosurevars(current).nonlocals}
        for name in sorted({part.id for part in ast.walk(node) if isinstance(part, ast.Name)} & space.keys()):
            if found.values.setdefault(name, space[name]) is not space[name]:
                found.opaque.add(name)  # two functions mean different things by it
            helper = found.add(name, space[name], node, current.__module__)
            if helper is not None and helper.__code__.co_name not in found.functions:
                waiting.append(helper)
    return found


@dataclass
class Surroundings:
    """What names mean in a function and its helpers; opaque: those of which that cannot be told."""

    functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = field(default_factory=dict)
    constants: dict[str, ast.expr] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)
    opaque: set[str] = field(default_factory=set)
    values: dict[str, Any] = field(default_factory=dict)

    def add(self, name: str, value: Any, node: ast.AST, home: str) -> types.FunctionType | None:
        """Enters one name; the function it stands for, where that is a helper of the same module."""
        value = _plain(value)
        if isinstance(value, types.ModuleType):
            self.imports[name] = value.__name__
        elif isinstance(value, types.FunctionType) and value.__module__ == home:
            if hasattr(value, "__wrapped__"):
                raise Refusal(f"a wrapper changes what {name} does; call the function inside")
            if value.__code__.co_name == name:
                return value
            self.opaque.add(name)
        elif isinstance(value, types.BuiltinFunctionType | types.FunctionType | np.ufunc):
            self.imports[name] = f"{getattr(value, '__module__', None) or 'numpy'}.{value.__name__}"
        elif (constant := _literal(value, node)) is not None:
            self.constants[name] = constant
        elif known := _known_types(value):
            self.imports[name] = next((each for each in known if each.endswith(f".{name}")), known[0])
        elif value is not getattr(builtins, name, None):
            self.opaque.add(name)
        return None


def _plain(value: Any) -> Any:
    """The function inside of what `lift` or numba made of it; other wrappers do what they like."""
    ours = getattr(value, "__code__", None) is _CALL or type(value).__module__.partition(".")[0] == "numba"
    return inspect.unwrap(value) if ours and callable(value) else value


def _definition(function: Callable[..., Any]) -> ast.FunctionDef | ast.AsyncFunctionDef:
    """The function's own syntax tree, with the line numbers of its file."""
    if inspect.isbuiltin(function) or inspect.isclass(function):
        raise Refusal("only functions made by def can be lifted; write a def")
    if not isinstance(function, types.FunctionType) or hasattr(function, "__wrapped__"):
        raise Refusal("a wrapper changes what the function does; lift the function inside")
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
    """A global's value as a literal, a number of NumPy as one of its type."""
    found: ast.expr
    if type(value) in _SMALL:  # NumPy's float64 is a float, and divides by 0
        found = ast.Constant(value)
    elif isinstance(value, np.generic) and _has_a_kind(value):
        kind = ast.Attribute(ast.Name("numpy", ast.Load()), value.dtype.name, ast.Load())
        found = ast.Call(kind, [ast.Constant(value.item())], [])
    elif isinstance(value, list | tuple) and 0 < len(value) <= 256 and _has_a_kind(list(value)):
        parts = [part for each in value if (part := _literal(each, node)) is not None]
        if len(parts) < len(value):
            return None
        found = ast.List(parts, ast.Load())
    else:
        return None
    for made in ast.walk(found):
        ast.copy_location(made, node)
    return found


def _known_types(value: Any) -> list[str]:
    """What a type is called where types come from."""
    return [
        f"{source.__name__}.{name}"
        for source in _TYPING
        for name, meant in vars(source).items()
        if meant is value and not name.startswith("_")
    ]


def _has_a_kind(value: Any) -> bool:
    """Whether a value is a number, or consists of numbers of one kind."""
    with contextlib.suppress(Refusal):
        return bool(kind_of(value, ""))
    return False
