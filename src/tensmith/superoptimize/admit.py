"""The text of a function, admitted node by node before any of it runs.

What is admitted can compute with NumPy's functions, with plain numbers and with helpers of the same file,
and nothing else: no imports, no attributes with an underscore in front, no names but those listed. So tracing
does no more than what is written down here, whoever wrote the file; and nothing that a function reads can
change behind its back.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import inspect
import math
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tensmith.errors import UsageError
from tensmith.gate import WORDS, read_text
from tensmith.superoptimize.meanings import MEANINGS, METHODS
from tensmith.superoptimize.trace import NotTraceable, TracedArray

_BUILTINS = (
    "abs", "bool", "enumerate", "float", "int", "len", "list", "max", "min", "reversed", "round", "sum",
    "tuple", "zip", "ValueError", "TypeError",
)  # fmt: skip
_STATEMENTS = (
    ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Expr, ast.For, ast.If, ast.Pass, ast.Raise,
    ast.Break, ast.Continue,
)  # fmt: skip
_EXPRESSIONS = (
    ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.IfExp, ast.Call, ast.Name, ast.Attribute,
    ast.Constant, ast.Tuple, ast.List, ast.ListComp, ast.GeneratorExp, ast.Subscript, ast.Slice, ast.Starred,
    ast.keyword, ast.JoinedStr, ast.FormattedValue, ast.comprehension, ast.operator, ast.unaryop, ast.cmpop,
    ast.boolop,
    ast.expr_context,
)  # fmt: skip
# What arrays are asked besides the methods that are traced.
_ATTRIBUTES = {"shape", "dtype", "ndim", "size", "T", "append"} | METHODS.keys()
# What makes arrays out of plain numbers.
_MAKERS = (
    np.zeros, np.ones, np.full, np.eye, np.identity, np.arange, np.linspace, np.tri, np.meshgrid, np.array,
    np.asarray, np.ascontiguousarray,
)  # fmt: skip
_KEPT_AS = frozenset({"asarray", "ascontiguousarray"})
_MOST_TURNS = 2000
_MOST_ELEMENTS = 1 << 27


class NotDefinedYet(NotTraceable):
    """What a function reads may stand further below, and be there when it is called."""


@dataclass(frozen=True)
class AdmittedFunction:
    """A function whose text was admitted: `traced` runs on traced arrays, `plain` on NumPy's.

    reads: names of plain numbers, helpers and builtins -> what they were.
    """

    name: str
    parameters: tuple[str, ...]
    traced: Callable[..., Any]
    plain: Callable[..., Any]
    reads: Mapping[str, Any] = field(default_factory=dict)


def admit(function: Callable[..., Any]) -> AdmittedFunction:
    """A function of a running program; NotTraceable says what in it is not admitted."""
    if not isinstance(function, types.FunctionType) or hasattr(function, "__wrapped__"):
        raise NotTraceable("only functions made by def are optimized, and no wrappers of them")
    found: dict[str, ast.FunctionDef] = {}
    space: dict[str, Any] = {}
    around = _cells(function)
    waiting = [function]
    while waiting:
        current = waiting.pop()
        node = _definition(current)
        found[node.name] = node
        own = _cells(current)
        if any(around.get(name) is not cell for name, cell in own.items()):
            raise NotTraceable(f"its helper '{node.name}' reads what is local to another function")
        outside = {**current.__globals__, **{name: cell.cell_contents for name, cell in own.items()}}
        for name in read_outside(node) & outside.keys():
            value = outside[name]
            if space.setdefault(name, value) is not value:
                raise NotTraceable(f"'{name}' is one thing to it and another to its helper")
            if isinstance(value, types.FunctionType) and value.__module__ == function.__module__:
                if not hasattr(value, "__wrapped__") and value.__code__.co_name != name:
                    raise NotTraceable(f"it calls '{value.__code__.co_name}' by another name")
                if name not in found:
                    waiting.append(value)
    return _admitted(next(iter(found)), found, space, function)


def admit_file(file: Path, name: str) -> AdmittedFunction:
    """A function of a file, none of which is run but what is admitted. UsageError if there is no such one."""
    try:
        tree = ast.parse(read_text(file, WORDS))
    except (SyntaxError, ValueError, RecursionError) as error:
        raise UsageError(f"{file} is no Python that can be read: {error}") from error
    functions, meant = _functions(tree)
    if name not in functions:
        known = ", ".join(functions) or "none"
        raise UsageError(f"{file} has no function '{name}'; its functions: {known}")
    space = _constants(tree)
    wanted, waiting = {name: functions[name]}, [name]
    while waiting:
        current = waiting.pop()
        if functions[current] is not meant.get(current):
            raise NotTraceable(f"the file gives '{current}' another meaning than its def")
        for other in read_outside(functions[current]) & functions.keys():
            if other not in wanted:
                wanted[other] = functions[other]
                waiting.append(other)
    for node in wanted.values():
        for made in node.decorator_list:
            called = ast.unparse(made.func if isinstance(made, ast.Call) else made)
            if called.rpartition(".")[2] not in ("optimize", "lift"):
                raise NotTraceable(f"a decorator changes what '{node.name}' does")
    return _admitted(name, wanted, space, None)


def _functions(tree: ast.Module) -> tuple[dict[str, ast.FunctionDef], dict[str, ast.FunctionDef]]:
    """The functions of a file by name, the last ones; and those whose names mean nothing else at its end."""
    functions: dict[str, ast.FunctionDef] = {}
    meant: dict[str, ast.FunctionDef] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            functions[node.name] = meant[node.name] = node
        else:
            _forget(meant, node)
    for name in _rebound(tree):
        meant.pop(name, None)
    return functions, meant


def _cells(function: types.FunctionType) -> dict[str, types.CellType]:
    """What a function reads of the functions around it, by name; NotTraceable where that is not there yet."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
    for name, cell in cells.items():
        try:
            cell.cell_contents  # noqa: B018 - for its error
        except ValueError as error:
            raise _undefined(name, "") from error
    return cells


def _undefined(name: str, where: str) -> NotDefinedYet:
    return NotDefinedYet(f"it reads '{name}'{where}, which has no value yet; define it above")


def _definition(function: types.FunctionType) -> ast.FunctionDef:
    if hasattr(function, "__wrapped__"):
        raise NotTraceable(f"a decorator changes what '{function.__name__}' does")
    try:
        node = ast.parse(inspect.cleandoc("\n" + inspect.getsource(function))).body[0]
        ast.increment_lineno(node, function.__code__.co_firstlineno - 1)
    except (OSError, TypeError, SyntaxError) as error:
        raise NotTraceable(f"the source of {function.__name__} cannot be read ({error})") from error
    if not isinstance(node, ast.FunctionDef):
        raise NotTraceable("only functions made by def are optimized")
    return node


def read_outside(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The names that a function reads, but for its own; those of comprehensions may be outside, too."""
    return {part.id for part in _inside(node) if isinstance(part, ast.Name)} - _own(node)


def _own(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The names of a function's parameters and variables, without those of comprehensions."""
    inner = {
        id(part)
        for each in _inside(node)
        if isinstance(each, ast.comprehension)
        for part in ast.walk(each.target)
    }
    stored = (part for part in _inside(node) if isinstance(part, ast.Name) and not _loads(part))
    parameters = (*node.args.posonlyargs, *node.args.args)
    return {part.id for part in stored if id(part) not in inner} | {each.arg for each in parameters}


def _constants(tree: ast.Module) -> dict[str, Any]:
    """A file's own numbers, and what it imports of NumPy and math."""
    space: dict[str, Any] = {}
    homes = {"numpy": np, "math": math}
    for node in tree.body:
        _forget(space, node)
        match node:
            case ast.Import(names):
                for alias in names:
                    meant = alias.name if alias.asname else alias.name.partition(".")[0]
                    if meant in homes:
                        space[alias.asname or meant] = homes[meant]
            case ast.ImportFrom(module="numpy" | "math" as home, names=names):
                given = {
                    alias.asname or alias.name: getattr(homes[home], alias.name, None) for alias in names
                }
                space |= {name: value for name, value in given.items() if _is_ours(value)}
            case ast.Assign([ast.Name(name)], value):
                with contextlib.suppress(ValueError, TypeError, SyntaxError, MemoryError):
                    space[name] = ast.literal_eval(value)
    return {name: value for name, value in space.items() if name not in _rebound(tree)}


def _rebound(tree: ast.Module) -> set[str]:
    """The names of a file to which its functions give other meanings when they run."""
    return {name for part in ast.walk(tree) if isinstance(part, ast.Global) for name in part.names}


def _forget(space: dict[str, Any], node: ast.stmt) -> None:
    """Takes out of what names mean those to which a statement of a file may give another meaning."""
    for name in _bound(node):
        if name == "*":
            space.clear()
        space.pop(name, None)


def _bound(node: ast.stmt) -> Iterator[str]:
    """The names that a statement of a file may give a meaning; "*": nobody knows which."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
        return
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and not _loads(part):
            yield part.id
        elif isinstance(part, ast.alias):
            yield part.asname or part.name.partition(".")[0]
        else:  # functions and classes, what an except catches, what a case matches
            named = (getattr(part, field, None) for field in ("name", "rest"))
            yield from (name for name in named if isinstance(name, str))


def _admitted(
    name: str, found: Mapping[str, ast.FunctionDef], space: Mapping[str, Any], original: Any
) -> AdmittedFunction:
    for node in found.values():
        _check(node, found, space, running=original is not None)
        node.decorator_list, node.returns = [], None
        for argument in ast.walk(node):
            if isinstance(argument, ast.arg):
                argument.annotation = None
    tree = ast.fix_missing_locations(ast.Module([*found.values()], []))
    code = compile(tree, f"<{name}, admitted>", "exec")
    outside = set[str]().union(*map(read_outside, found.values()))
    reads = {each: space[each] for each in outside & space.keys()}
    spaces: list[dict[str, Any]] = []
    for traced in (True, False):
        # NumPy itself imports by the builtins of who calls it; the text cannot name what is not listed.
        safe = {word: getattr(builtins, word) for word in (*_BUILTINS, "__import__")} | {"range": _range}
        given = {word: value for word, value in reads.items() if word not in found}
        if traced:
            given = {word: _TracedNumpy() if value is np else value for word, value in given.items()}
        spaces.append({"__builtins__": safe, **given})
        exec(code, spaces[-1])
    arguments = found[name].args
    parameters = tuple(argument.arg for argument in (*arguments.posonlyargs, *arguments.args))
    reads |= builtins_among(outside - {*found, *space})
    return AdmittedFunction(name, parameters, spaces[0][name], original or spaces[1][name], reads)


def builtins_among(names: set[str]) -> dict[str, Any]:
    """The builtins of these names."""
    return {name: value for name, value in vars(builtins).items() if name in names}


class _TracedNumpy:
    """NumPy, but that what already is a traced array is left as it is."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(np, name)
        if name not in _KEPT_AS:
            return value

        def kept(x: Any, *arguments: Any, **named: Any) -> Any:
            if isinstance(x, TracedArray) and x.weak:
                raise NotTraceable("it makes an array of a Python number; pass an np.float64")
            as_it_is = isinstance(x, TracedArray) and not (arguments or named)
            return x if as_it_is else value(x, *arguments, **named)

        return kept


def _range(*bounds: int) -> range:
    found = range(*bounds)
    if len(found) > _MOST_TURNS:
        raise NotTraceable(f"a loop has over {_MOST_TURNS} turns; `tensmith lift` reads loops as such")
    return found


def _check(root: ast.FunctionDef, found: Mapping[str, Any], space: Mapping[str, Any], running: bool) -> None:
    """NotTraceable at the first node that is not admitted; running: of a program whose names are known."""
    arguments = root.args
    if arguments.vararg or arguments.kwarg or arguments.kwonlyargs:
        raise NotTraceable("it has parameters by * or **")
    if any(not isinstance(default, ast.Constant) for default in arguments.defaults):
        raise NotTraceable("it has defaults that are no plain numbers")
    local = {argument.arg for argument in (*arguments.posonlyargs, *arguments.args)}
    local |= {part.id for part in ast.walk(root) if isinstance(part, ast.Name) and not _loads(part)}
    if hiding := sorted(local & read_outside(root) & {*found, *space}):
        raise NotTraceable(f"'{hiding[0]}' is a name of a comprehension and one outside; rename the one")
    for node in _inside(root):
        where = f" in line {node.lineno}" if hasattr(node, "lineno") else ""
        if not isinstance(node, (*_STATEMENTS, *_EXPRESSIONS)):
            raise NotTraceable(f"'{type(node).__name__.lower()}'{where} is not traced")
        if isinstance(node, ast.Subscript | ast.Attribute) and not _loads(node):
            raise NotTraceable(f"it writes to an array or an object{where}; make a new array")
        if isinstance(node, ast.Compare) and not _tells_none(node):
            raise NotTraceable(f"'is'{where} asks for more than values; compare these")
        if isinstance(node, ast.Constant) and isinstance(node.value, bytes | complex):
            raise NotTraceable(f"'{node.value!r}'{where} is no real number")
        if isinstance(node, ast.Name) and _loads(node) and node.id not in local:
            if running and node.id not in {*found, *space} and not hasattr(builtins, node.id):
                raise _undefined(node.id, where)
            _check_name(node.id, found, space, where)
        if isinstance(node, ast.Attribute):
            _check_attribute(node, local, space, where)


def _tells_none(node: ast.Compare) -> bool:
    """Whether a comparison asks nothing of what is the same object but whether it is None."""
    sides = (node.left, *node.comparators)
    return all(
        any(isinstance(side, ast.Constant) and side.value is None for side in sides[place : place + 2])
        for place, op in enumerate(node.ops)
        if isinstance(op, ast.Is | ast.IsNot)
    )


def _inside(root: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.AST]:
    """All that a function does; annotations and decorators are not run."""
    waiting: list[ast.AST] = [*root.body]
    while waiting:
        node = waiting.pop(0)
        yield node
        for name, value in ast.iter_fields(node):
            parts = value if isinstance(value, list) else [value]
            waiting += [part for part in parts if isinstance(part, ast.AST) and name != "annotation"]


def _loads(node: ast.Name | ast.Subscript | ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Load)


def _check_name(name: str, found: Mapping[str, Any], space: Mapping[str, Any], where: str) -> None:
    if name in found or (name not in space and (name in _BUILTINS or name == "range")):
        return
    value = space.get(name)
    if value in (np, math) if isinstance(value, types.ModuleType) else _is_ours(value):
        return
    kind = type(value).__name__ if name in space else "not known"
    raise NotTraceable(f"it reads '{name}' ({kind}){where}, which may change; pass it as an argument")


def _is_ours(value: Any) -> bool:
    """Whether a value is a plain number, an element type, or a function that is known here."""
    if isinstance(value, bool | int | float | str):
        return True
    if isinstance(value, tuple):
        return all(map(_is_ours, value))
    if isinstance(value, type):
        return issubclass(value, np.generic)
    try:
        return value in MEANINGS or value in _MAKERS or value in vars(math).values()
    except (TypeError, ValueError):
        return False


def _check_attribute(node: ast.Attribute, local: set[str], space: Mapping[str, Any], where: str) -> None:
    if node.attr.startswith("_"):
        raise NotTraceable(f"it reads the attribute '{node.attr}'{where}")
    chain = [node.attr]
    base: ast.expr = node.value
    while isinstance(base, ast.Attribute):
        chain.append(base.attr)
        base = base.value
    if (
        not isinstance(base, ast.Name)
        or base.id in local
        or not isinstance(space.get(base.id), types.ModuleType)
    ):
        if node.attr not in _ATTRIBUTES:
            raise NotTraceable(f"it uses the attribute '{node.attr}'{where}, which is not known here")
        return
    value = space[base.id]
    for part in reversed(chain):
        value = getattr(value, part, None)
    of_ufunc = node.attr in ("reduce", "outer") or value in (np.newaxis, np.linalg)
    if not (_is_ours(value) or of_ufunc):
        spelled = ".".join((base.id, *reversed(chain)))
        raise NotTraceable(f"it calls '{spelled}'{where}, which is not known here")


def bounded(shape: tuple[int, ...]) -> bool:
    """Whether an array is small enough to be traced with."""
    return math.prod(shape) <= _MOST_ELEMENTS
