"""A Python file as the front end sees it: its functions, constants and imports. Nothing of it is run."""

from __future__ import annotations

import ast
import builtins
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tensmith.errors import TensmithError
from tensmith.lifting.loops import Position

MOST_BYTES = 1 << 20
_LIBRARIES = {"math": "math", "numpy": "numpy", "np": "numpy"}


class SourceError(TensmithError):
    """A file cannot be read as a program of its language."""


@dataclass(frozen=True)
class Module:
    """functions: the last definition of every top-level name, in order; constants: names bound exactly once
    to an expression; imports: local name -> dotted name ("np" -> "numpy", "sqrt" -> "math.sqrt"); methods of
    top-level classes by "Class.method"."""

    file: str
    functions: Mapping[str, ast.FunctionDef | ast.AsyncFunctionDef]
    constants: Mapping[str, ast.expr] = field(default_factory=dict)
    imports: Mapping[str, str] = field(default_factory=dict)
    methods: Mapping[str, ast.AST] = field(default_factory=dict)

    def callee(self, node: ast.expr) -> str | None:
        """What a called expression names: "def f" of this file, "math.sqrt", "numpy.zeros", "len"."""
        if isinstance(node, ast.Name):
            if node.id in self.functions:
                return f"def {node.id}"
            if node.id in self.imports:
                return self.imports[node.id]
            return node.id if hasattr(builtins, node.id) and node.id not in self.constants else None
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            home = self.library(node.value.id)
            return f"{home}.{node.attr}" if home else None
        return None

    def library(self, name: str) -> str | None:
        """ "numpy" for np; math and numpy are known even where the import is out of sight."""
        if name in self.functions or name in self.constants:
            return None
        return self.imports.get(name, _LIBRARIES.get(name))


def place(node: ast.AST) -> Position:
    """Where a node stands, counted from 1."""
    return Position(getattr(node, "lineno", 0), getattr(node, "col_offset", -1) + 1)


def read_text(path: Path) -> str:
    """A source file's text; SourceError if it is missing, too large or not text."""
    if path.exists() and not path.is_file():
        raise SourceError(f"{path} is not a file; give the path of a Python source")
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror}; check the path") from error
    if len(data) > MOST_BYTES:
        raise SourceError(
            f"{path}:1:1: the file has more than {MOST_BYTES >> 20} MiB; lift a file of the loops alone"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SourceError(f"{path}:{line}:1: the file is not UTF-8 text; save it as UTF-8") from error


def parse_module(text: str, file: str) -> Module:
    """The functions, constants and imports of a text; SourceError with line:column if it is no Python."""
    tree = _parse(text, file)
    functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
    constants: dict[str, ast.expr] = {}
    imports: dict[str, str] = {}
    bound: dict[str, int] = {}
    for node in tree.body:
        for name in _binds(node):
            bound[name] = bound.get(name, 0) + 1
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                functions.pop(node.name, None)
                functions[node.name] = node
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                constants[name] = value
            case ast.Import(names=names):
                imports |= {
                    alias.asname or alias.name.partition(".")[0]: alias.name
                    if alias.asname
                    else alias.name.partition(".")[0]
                    for alias in names
                }
            case ast.ImportFrom(module=home, names=names, level=0):
                imports |= {alias.asname or alias.name: f"{home}.{alias.name}" for alias in names}
    outside = {name for function in functions.values() for name in _globals(function)}
    constants = {name: value for name, value in constants.items() if bound[name] == 1 and name not in outside}
    methods = {
        f"{node.name}.{inner.name}": inner
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        for inner in node.body
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    return Module(file, functions, constants, imports, methods)


def _parse(text: str, file: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the user's strings, not ours to print
            return ast.parse(text, filename=file)
    except SyntaxError as error:
        raise SourceError(
            f"{file}:{error.lineno or 1}:{error.offset or 1}: {error.msg}; correct the source"
        ) from error
    except (RecursionError, MemoryError) as error:
        raise SourceError(
            f"{file}:{_deepest_line(text)}:1: the expressions are nested too deeply; split them"
        ) from error
    except ValueError as error:
        raise SourceError(f"{file}:1:1: {error}; correct the source") from error


def _deepest_line(text: str) -> int:
    """The line with the most brackets: where nesting went too far, most likely."""
    lines = text.splitlines() or [""]
    return 1 + max(range(len(lines)), key=lambda n: sum(map(lines[n].count, "([{-~+")))


def _binds(node: ast.stmt) -> Iterator[str]:
    """Names a top-level statement binds, those in its blocks included, functions' insides not."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
        return
    stack: list[ast.AST] = [node]
    while stack:
        inner = stack.pop()
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, (ast.Store, ast.Del)):
            yield inner.id
        elif isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield inner.name
            continue
        stack.extend(ast.iter_child_nodes(inner))


def _globals(function: ast.AST) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Global):
            yield from node.names
