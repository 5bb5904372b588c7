"""A Python file as the front end sees it: its functions, constants and imports. Nothing of it is run."""

from __future__ import annotations

import ast
import builtins
import contextlib
import copy
import math
import typing
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tensmith.formula.expr import SourcePosition
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.file import SourceError, source_bytes

MOST_BYTES = 1 << 20
_LIBRARIES = {"math": "math", "numpy": "numpy", "np": "numpy"}
_TYPES = ("typing", "numpy", "collections", "builtins", "typing_extensions")
_STARS = {"math": tuple(vars(math)), "numpy": tuple(np.__all__), "typing": tuple(typing.__all__)}


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
    opaque: frozenset[str] = frozenset()  # names that mean what nobody can tell from here
    starred: bool = False  # a star import may give any name that the file does not bind another meaning

    def callee(self, node: ast.expr) -> str | None:
        """What a called expression names: "def f" of this file, "math.sqrt", "numpy.zeros", "len"."""
        if isinstance(node, ast.Name):
            if node.id in self.opaque:
                return None
            if node.id in self.functions:
                return f"def {node.id}"
            if node.id in self.imports:
                return self.imports[node.id]
            own = node.id in self.constants or self.starred
            return node.id if hasattr(builtins, node.id) and not own else None
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            home = self.library(node.value.id)
            return f"{home}.{node.attr}" if home else None
        return None

    def check_type(self, node: ast.expr) -> None:
        """Refuses a type written with a name that the file gives a meaning of its own."""
        for part in ast.walk(node):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                with contextlib.suppress(SyntaxError, ValueError, RecursionError):
                    self.check_type(ast.copy_location(ast.parse(part.value, mode="eval").body, part))
            if not isinstance(part, ast.Name):
                continue
            home = self.imports.get(part.id, "typing").partition(".")[0]
            if part.id in self.opaque | self.functions.keys() | self.constants.keys() or home not in _TYPES:
                raise Refusal(
                    f"{part.id} is no type that is known here; write numbers, lists or arrays", place(node)
                )

    def meant(self, node: ast.expr) -> ast.expr:
        """A type, written with the names that its own have where they are imported from."""
        return _Origins(self.imports).visit(copy.deepcopy(node))  # type: ignore[no-any-return]

    def library(self, name: str) -> str | None:
        """ "numpy" for np; math and numpy are known even where the import is out of sight."""
        if name in self.functions or name in self.constants or name in self.opaque:
            return None
        return self.imports.get(name, None if self.starred else _LIBRARIES.get(name))


class _Origins(ast.NodeTransformer):
    """Puts what names are imported from in their place."""

    def __init__(self, imports: Mapping[str, str]) -> None:
        self.imports = imports

    def visit_Name(self, node: ast.Name) -> ast.AST:
        origin = ast.parse(self.imports.get(node.id, node.id), mode="eval").body
        return ast.copy_location(origin, node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return node


def place(node: ast.AST) -> SourcePosition:
    """Where a node stands, counted from 1."""
    return SourcePosition(getattr(node, "lineno", 0), getattr(node, "col_offset", -1) + 1)


def dotted(node: ast.expr) -> list[ast.expr]:
    """a.b.c, a.b and a, for a.b.c."""
    found = [node]
    while isinstance(found[-1], ast.Attribute):
        found.append(found[-1].value)
    return found


def read_text(path: Path) -> str:
    """A source file's text; SourceError if it is missing, too large or not text."""
    data = source_bytes(path, MOST_BYTES)
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
    ways: dict[str, set[str]] = {}  # how a name gets its meaning
    for node in tree.body:
        for name, way in _binds(node):
            ways.setdefault(name, set()).add(way)
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                functions.pop(node.name, None)
                functions[node.name] = node
                ways[node.name] = ways[node.name] - {_at(node)} | {"def"}
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                constants[name] = value
    starred = False
    for part in outside_functions(tree):
        if isinstance(part, ast.Import | ast.ImportFrom):
            found, star = _imported(part)
            imports |= found
            starred |= star
    known = functions.keys() | constants.keys() | imports.keys()
    opaque = {name for name, found in ways.items() if len(found) > 1 or name not in known} | set(
        _rewritten(tree)
    )
    methods = {
        f"{node.name}.{inner.name}": inner
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        for inner in node.body
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    constants = {name: value for name, value in constants.items() if name not in opaque}
    return Module(file, functions, constants, imports, methods, frozenset(opaque), starred)


def _imported(node: ast.Import | ast.ImportFrom) -> tuple[dict[str, str], bool]:
    """Local name -> dotted name, and whether a star imports names that are not known."""
    if isinstance(node, ast.Import):
        return {
            alias.asname or alias.name.partition(".")[0]: alias.name
            if alias.asname
            else alias.name.partition(".")[0]
            for alias in node.names
        }, False
    if node.level:
        return {}, any(alias.name == "*" for alias in node.names)
    if node.names[0].name == "*":
        names = _STARS.get(node.module or "", ())
        return {name: f"{node.module}.{name}" for name in names}, not names
    return {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}, False


def _parse(text: str, file: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the user's strings, not ours to print
            tree = ast.parse(text, filename=file)
            compile(tree, file, "exec", dont_inherit=True)  # finds what only scopes show; runs nothing
            return tree
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


def outside_functions(*nodes: ast.AST) -> Iterator[ast.AST]:
    """The nodes and every one inside, those inside of functions and classes left out."""
    stack = list(nodes)
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            stack.extend(ast.iter_child_nodes(node))


def _at(node: ast.AST) -> str:
    return f"at {place(node)}"


def _binds(statement: ast.stmt) -> Iterator[tuple[str, str]]:
    """Names a top-level statement binds, those in its blocks included, functions' insides not; and how: by an
    import of something, or at a place."""
    for node in outside_functions(statement):
        yield from _bound(node)


def _bound(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Names that a node by itself binds, and how."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
            yield name, _at(node)
        case (
            ast.FunctionDef(name=str(name))
            | ast.AsyncFunctionDef(name=str(name))
            | ast.ClassDef(name=str(name))
            | ast.ExceptHandler(name=str(name))
            | ast.MatchAs(name=str(name))
            | ast.MatchStar(name=str(name))
            | ast.MatchMapping(rest=str(name))
        ):
            yield name, _at(node)
        case ast.Import() | ast.ImportFrom():
            found, _ = _imported(node)
            names = {alias.asname or alias.name.partition(".")[0] for alias in node.names} - {"*"}
            for name in names | found.keys():
                yield name, f"import {found.get(name, _at(node))}"


def _changeable(node: ast.AST) -> bool:
    """Whether an expression makes something that can be written later; calls of numbers' functions do not."""
    match node:
        case ast.Call(func=ast.Name(id="float" | "int" | "bool" | "abs" | "round")):
            return False
        case ast.Call(func=ast.Attribute(value=ast.Name(id="math"))):
            return False
        case ast.Call(func=ast.Attribute(value=ast.Name(id="np" | "numpy"), attr=name)) if (
            name in _OF_NUMBERS
        ):
            return False
    return isinstance(
        node, ast.Call | ast.List | ast.ListComp | ast.Dict | ast.DictComp | ast.Set | ast.SetComp
    )


# NumPy's functions that make a number of numbers.
_OF_NUMBERS = ("sqrt", "exp", "log", "sin", "cos", "float32", "float64", "int32", "int64")
_USES = frozenset((
    "len", "sum", "min", "max", "any", "all", "zip", "enumerate", "range", "reversed", "tuple", "list",
    "print",
))  # fmt: skip


def _rewritten(tree: ast.Module) -> Iterator[str]:
    """Global names whose meaning or contents a function or statement may change: `global`, np.sqrt = ...,
    and lists of the file that are written, or handed to what may write them."""
    uses = _Uses(tree)
    for node in ast.iter_child_nodes(tree):
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name), *_], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ) if any(map(_changeable, ast.walk(value))):
                if uses.handed_out(name, _depth(value), isinstance(value, ast.Call)):
                    yield name
    for node in ast.walk(tree):
        match node:
            case ast.Global(names=names):
                yield from names
            case ast.Subscript(value=base, ctx=context) | ast.Attribute(value=base, ctx=context):
                while isinstance(base, ast.Subscript | ast.Attribute):
                    base = base.value
                if isinstance(base, ast.Name) and not isinstance(context, ast.Load):
                    yield base.id


def _depth(node: ast.expr) -> float:
    """How many subscripts lead to the numbers of lists that are written out; inf where nobody can tell."""
    match node:
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Dict(values=parts):
            return 1 + max(map(_depth, parts), default=0)
        case ast.ListComp(elt=part):
            return 1 + _depth(part)
        case ast.BinOp(left, _, right):
            return max(_depth(left), _depth(right))
        case ast.Call(ast.Attribute(ast.Name("np" | "numpy"), "array"), [ast.List() as listed]):
            return _depth(listed)
        case ast.Call(ast.Attribute(ast.Name("np" | "numpy"), "zeros" | "ones" | "full"), [shape, *_]):
            if isinstance(shape, ast.Tuple):
                return len(shape.elts)
            return 1 if isinstance(shape, ast.Constant) and isinstance(shape.value, int) else math.inf
    return math.inf if any(map(_changeable, ast.walk(node))) else 0


class _Uses:
    """Where the names of a file are read or grown (+=), whatever they mean there."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.around = {inner: node for node in ast.walk(tree) for inner in ast.iter_child_nodes(node)}
        self.reads: dict[str, list[ast.AST]] = {}
        self.seen: set[tuple[str, float, ast.AST]] = set()
        for node, around in self.around.items():
            if isinstance(node, ast.Name) and (
                isinstance(node.ctx, ast.Load) or isinstance(around, ast.AugAssign)
            ):
                self.reads.setdefault(node.id, []).append(node)
        self.own = {name for statement in tree.body for name, _ in _binds(statement)}
        bound = Counter(name for node in self.around for name, _ in _bound(node))
        self.helpers = {
            node.name: node
            for node in tree.body
            if isinstance(node, ast.FunctionDef) and bound[node.name] == 1 and not node.decorator_list
        }

    def handed_out(self, name: str, depth: float, views: bool) -> bool:
        """Whether lists by this name, or rows of them, come where they may be written. views: slices are no
        copies."""
        self.seen.clear()
        return self._handed_out(name, depth, views, self.tree)

    def _handed_out(self, name: str, depth: float, views: bool, within: ast.AST) -> bool:
        if (name, depth, within) in self.seen:
            return False
        self.seen.add((name, depth, within))
        reads = (node for node in self.reads.get(name, ()) if within in self._above(node))
        return any(self._hands_out(node, depth, views) for node in reads)

    def _above(self, node: ast.AST) -> Iterator[ast.AST]:
        while node is not self.tree:
            node = self.around[node]
            yield node

    def _hands_out(self, node: ast.AST, depth: float, views: bool) -> bool:
        inside, copied = depth, False
        while isinstance(up := self.around[node], ast.Subscript) and up.value is node:
            if not isinstance(up.ctx, ast.Load):
                return True
            parts = up.slice.elts if isinstance(up.slice, ast.Tuple) else [up.slice]
            count = sum(not isinstance(part, ast.Slice) for part in parts)
            copied |= inside == 1 and count == 0 and not views
            node, inside = up, inside - count
        if inside <= 0 or copied:
            return False
        match up:
            case ast.Compare():
                return False
            case ast.Call(func=ast.Name(id=name), args=args) if name in self.helpers and node in args:
                return self._reaches_parameter(self.helpers[name], args, node, inside, views)
            case ast.Call(ast.Attribute(ast.Name("np" | "numpy"), "array"), [only], []) if only is node:
                return False
            case ast.Call(func=ast.Name(id=name), args=args) if (
                name in _USES and name not in self.own and node in args
            ):
                if inside <= 1 or name in ("len", "print"):
                    return False
                target = _item_of(up, self.around[up], node)
                return target is None or self._reaches(target, inside - 1, views)
            case ast.For(iter=source, target=target) | ast.comprehension(iter=source, target=target) if (
                source is node
            ):
                return self._reaches(target, inside - 1, views)
            case ast.Assign(targets=[target]) if inside < depth:
                return self._reaches(target, inside, views)
        return True

    def _reaches(self, target: ast.expr, depth: float, views: bool) -> bool:
        """Whether what a target is bound to, lists of that depth, comes where it may be written."""
        match target:
            case ast.expr() if depth <= 0:
                return False
            case ast.Name(id=name) if depth < math.inf and (scope := self._scope(target)):
                return self._handed_out(name, depth, views, scope)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return any(self._reaches(part, depth - 1, views) for part in parts)
        return True

    def _reaches_parameter(
        self, helper: ast.FunctionDef, given: list[ast.expr], argument: ast.AST, depth: float, views: bool
    ) -> bool:
        """Whether what a function of the file is given in one place comes where it may be written."""
        names = [parameter.arg for parameter in (*helper.args.posonlyargs, *helper.args.args)]
        own: dict[ast.AST, str] = dict(zip(given, names))
        if argument not in own or any(isinstance(each, ast.Starred) for each in given):
            return True
        return self._handed_out(own[argument], depth, views, helper)

    def _scope(self, target: ast.Name) -> ast.AST | None:
        """Where a name that is bound there may be read; None for an attribute of a class."""
        for node in self._above(target):
            match node:
                case ast.ClassDef():
                    return None
                case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                    return node
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    named = (
                        each.names for each in ast.walk(node) if isinstance(each, ast.Global | ast.Nonlocal)
                    )
                    return self.tree if any(target.id in names for names in named) else node
        return self.tree


def _item_of(call: ast.Call, around: ast.AST, argument: ast.AST) -> ast.expr | None:
    """What a loop over enumerate(), zip() or reversed() binds to the items of an argument; None elsewhere."""
    if not isinstance(around, ast.For | ast.comprehension) or around.iter is not call:
        return None
    match call.func, around.target:
        case ast.Name(id="reversed"), target:
            return target
        case ast.Name(id="enumerate"), ast.Tuple(elts=[_, target]) if argument is call.args[0]:
            return target
        case ast.Name(id="zip"), ast.Tuple(elts=targets) if len(targets) == len(call.args):
            return next((t for t, own in zip(targets, call.args) if own is argument), None)
    return None


def local_names(function: ast.FunctionDef) -> frozenset[str]:
    """The parameters and every name that a statement assigns; comprehensions keep their own."""
    found = {argument.arg for argument in ast.walk(function.args) if isinstance(argument, ast.arg)}
    stack: list[ast.AST] = list(function.body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        if not isinstance(node, ast.comprehension):
            stack.extend(ast.iter_child_nodes(node))
    return frozenset(found)
