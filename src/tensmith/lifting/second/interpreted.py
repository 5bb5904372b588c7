"""Python functions called in a confined process: a source's own, cut out of its file, or emitted NumPy."""

from __future__ import annotations

import ast
import copy
import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tensmith.formula.types import MachineType
from tensmith.lifting.assumptions import Excuse, excused
from tensmith.lifting.loops import Array, Function, Struct, element_of
from tensmith.lifting.second.process import Process, ProcessGone
from tensmith.lifting.second.values import CallResult, Divided, Faulty, Meaningless, dtype
from tensmith.lifting.source.python.module import Module, parse_module, read_text
from tensmith.lifting.summarize.finish import assumed

_SECONDS = 20.0  # by the clock
# Exceptions, and what of the things that a lift assumes excludes them.
_EXCUSED = {
    "AssertionError": Excuse.ASSERTION,
    "ValueError": Excuse.DOMAIN,
    "OverflowError": Excuse.OVERFLOW,
    "ZeroDivisionError": Excuse.DIVISION,
    "Complex": Excuse.COMPLEX,
}
# A power that is no real number ends the call: behind it, abs and others would make it one again. So does a
# float that becomes a whole number of more than 64 bits: behind it, a float may hold it again.
_CHECKED = """
class Complex(Exception):
    pass
def {name}(base, exponent):
    found = base ** exponent
    if isinstance(found, complex):
        raise Complex("a power that is no real number")
    return found
def {name}_(whole):
    if type(whole) is int and not -2**63 <= whole < 2**63:
        raise OverflowError("a whole number of more than 64 bits")
    return whole
"""
_WHOLE = frozenset({"int", "round", "floor", "ceil", "trunc"})
_NUMPY = str(Path(np.__file__).parent.parent)


class Raised(Exception):
    """A call ended with an exception: its class by name, and what it says."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind, self.text = kind, text


class Interpreter:
    """A process that holds Python texts and calls their functions; started anew where a call has ended it."""

    def __init__(self, numpy: bool) -> None:
        self.wanted = {"modules": ["numpy"], "path": [_NUMPY]} if numpy else {}
        self.texts: dict[str, str] = {}
        self.process: Process | None = None
        self.ready = False
        self.held: set[str] = set()

    def start(self) -> Process:
        """The process; the first time, it is not waited for."""
        if self.process is None:
            self.process, self.ready = Process(self.wanted, _SECONDS), False
            self.held.clear()
        return self.process

    def add(self, space: str, text: str) -> None:
        """A text whose functions are called by the name of their space."""
        self.texts[space] = text

    def call(
        self, space: str, name: str, arguments: Sequence[Any], rounding: int = 0
    ) -> tuple[Any, list[Any]]:
        """Value and arguments after a call. Raises Raised, and ProcessGone where the process is gone."""
        try:
            process = self.start()
            if not self.ready:
                process.line()
                self.ready = True
            if space not in self.held:
                self.ask(process, {"space": space, "text": self.texts[space]})
                self.held.add(space)
            first: dict[int, int] = {}
            same = []
            for place, value in enumerate(arguments):
                if (one := first.setdefault(id(value), place)) != place and isinstance(
                    value, list | np.ndarray
                ):
                    same.append((place, one))
            given = [_packed(value) for value in arguments]
            request = {"space": space, "name": name, "arguments": given, "same": same, "rounding": rounding}
            answer = self.ask(process, request)
        except ProcessGone as gone:
            self.process = None
            raise ProcessGone(gone.crashed and self.ready) from gone  # no call has crashed what never started
        return _unpacked(answer["value"]), [_unpacked(part) for part in answer["arguments"]]

    def ask(self, process: Process, request: Mapping[str, Any]) -> Any:
        process.write((json.dumps(request) + "\n").encode())
        answer = process.line()
        if "error" in answer:
            raise Raised(answer["error"], answer["text"])
        return answer


def _packed(value: Any) -> Any:
    """See `cell.packed`; structs as their fields, NumPy's scalars as arrays are."""
    if isinstance(value, dict):
        return {"fields": {name: _packed(part) for name, part in value.items()}}
    if isinstance(value, np.ndarray):
        array = np.ascontiguousarray(value).reshape(value.shape)
        return {"dtype": array.dtype.str, "shape": list(array.shape), "bytes": array.tobytes().hex()}
    return value.item() if isinstance(value, np.generic) else value


class Foreign:
    """A result that is neither a number nor an array."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __repr__(self) -> str:
        return f"a {self.kind}"


def _strange(value: Any) -> Iterator[Foreign]:
    """What is no number in a result."""
    if isinstance(value, Foreign):
        yield value
    elif isinstance(value, list):
        for part in value:
            yield from _strange(part)


def _unpacked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unpacked(part) for part in value]
    if isinstance(value, dict) and "kind" in value:
        return Foreign(str(value["kind"]))
    if isinstance(value, dict):
        if np.dtype(value["dtype"]).hasobject:
            return Foreign("array of objects")
        data = np.frombuffer(bytes.fromhex(value["bytes"]), value["dtype"])
        return data.reshape(value["shape"]).copy()
    return value


# The source


class Interpreted:
    """The functions of a Python file, each cut out with its helpers, constants and imports."""

    def __init__(self, path: Path, functions: Sequence[Function]) -> None:
        self.module = parse_module(read_text(path), str(path))
        self.functions = {function.name: function for function in functions}

    @functools.cached_property
    def interpreter(self) -> Interpreter:
        return Interpreter("numpy" in {home.partition(".")[0] for home in self.module.imports.values()})

    def __getitem__(self, name: str) -> InterpretedFunction:
        """A function to be called."""
        text = cut(self.module, name)
        self.interpreter.add(name, text)
        arguments = self.module.functions[name].args
        named = [*arguments.posonlyargs, *arguments.args]
        uses = "numpy" in text
        arrays = frozenset(each.arg for each in named if _is_array(each.annotation, uses))
        return InterpretedFunction(self.interpreter, self.functions[name], arrays)


def _is_array(annotation: ast.expr | None, uses: bool) -> bool:
    """Whether a parameter is a NumPy array and no list: as its annotation says, else where NumPy is used."""
    if annotation is None:
        return uses
    words = set(re.findall(r"\w+", ast.unparse(annotation)))
    return not words & {"list", "List", "Sequence", "tuple"} or bool(words & {"ndarray", "NDArray"})


def cut(module: Module, name: str) -> str:
    """A function with what it reaches: helpers, constants and imports, as text."""
    needed: dict[str, ast.stmt] = {}
    waiting: list[tuple[str, ast.AST]] = [(name, module.functions[name])]
    imports = ["import math"]
    while waiting:
        known, node = waiting.pop()
        if known in needed:
            continue
        if isinstance(node, ast.expr):
            needed[known] = ast.Assign([ast.Name(known, ast.Store())], node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            needed[known] = copy.deepcopy(node)  # it is changed, and others ask for its annotations
        for part in ast.walk(node):
            if isinstance(part, ast.Name):
                for table in (module.functions, module.constants):
                    if part.id in table and part.id not in needed:
                        waiting.append((part.id, table[part.id]))
    power = "power"
    while any(power in ast.dump(node) for node in needed.values()):
        power += "_"
    for node in needed.values():
        _unannotated(node)
    used = {part.id for node in needed.values() for part in ast.walk(node) if isinstance(part, ast.Name)}
    imports += [_import(local, home) for local, home in module.imports.items() if local in used]
    # Constants before functions, in the order of the file.
    order = sorted(needed, key=lambda key: (key in module.functions, _line(module, key)))
    body = [ast.fix_missing_locations(_Checking(power).visit(needed[key])) for key in order]
    future = "from __future__ import annotations"
    texts = [future, *filter(None, imports), _CHECKED.format(name=power), *map(ast.unparse, body)]
    return "\n".join(texts) + "\n"


class _Checking(ast.NodeTransformer):
    """Powers as calls of a function that raises where Python has a complex number; what makes whole numbers
    of floats inside calls of one that raises where they are out of bounds."""

    def __init__(self, name: str) -> None:
        self.name = name

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        return self.call(node.left, node.right) if isinstance(node.op, ast.Pow) else node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "pow" and len(node.args) == 2:
            return self.call(*node.args)
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        return ast.Call(ast.Name(f"{self.name}_", ast.Load()), [node], []) if called in _WHOLE else node

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        """The statement as it is, and a look at what it left."""
        self.generic_visit(node)
        if not isinstance(node.op, ast.Pow):
            return [node]
        left = ast.parse(ast.unparse(node.target), mode="eval").body
        return [node, ast.Expr(self.call(left, ast.Constant(1)))]

    def call(self, base: ast.expr, exponent: ast.expr) -> ast.expr:
        return ast.Call(ast.Name(self.name, ast.Load()), [base, exponent], [])


def _line(module: Module, name: str) -> int:
    return (module.functions.get(name) or module.constants[name]).lineno


def _import(local: str, home: str) -> str:
    """An import of math or NumPy; no other module is needed by what is lifted."""
    parent, _, name = home.rpartition(".")
    if home.partition(".")[0] not in ("math", "numpy"):
        return ""
    return (
        f"import {home} as {local}"
        if home in ("math", "numpy")
        else f"from {parent} import {name} as {local}"
    )


def _unannotated(node: ast.AST) -> None:
    """Takes annotations, defaults and decorators off: they are computed where a function is defined."""
    for part in ast.walk(node):
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
            part.decorator_list = []
            part.returns = None
        elif isinstance(part, ast.arg):
            part.annotation = None


class InterpretedFunction:
    """One function of a Python source; see `SourceFunction`. Lists go in, arrays where it uses NumPy."""

    by = "Python"

    def __init__(self, interpreter: Interpreter, function: Function, arrays: frozenset[str]) -> None:
        self.interpreter, self.function, self.arrays = interpreter, function, arrays
        self.excuses = excused(assumed(function))

    def __call__(self, arguments: Mapping[str, Any], like: Any = None, rounding: int = 0) -> CallResult:
        listed: dict[int, Any] = {}

        def given(name: str) -> Any:
            value = arguments[name]
            if isinstance(value, np.ndarray) and name not in self.arrays:
                return listed.setdefault(id(value), value.tolist())
            return value

        passed = [given(parameter.name) for parameter in self.function.parameters]
        name = self.function.name
        try:
            value, after = self.interpreter.call(name, name, passed, rounding)
        except Raised as raised:
            raise self.meaning(raised) from raised
        kinds = dict(self.function.fields)
        returns = self.function.returned.values()
        found = {
            parameter.name: self.array(one, kinds[parameter.name])
            for parameter, one in zip(self.function.parameters, after)
            if isinstance(parameter.type, Array)
        }
        assert not any(isinstance(parameter.type, Struct) for parameter in self.function.parameters)
        if len(returns) > 1:
            return CallResult(
                [self.array(part, kind) for part, kind in zip(value, returns, strict=True)], found
            )
        return CallResult(next((self.array(value, kind) for kind in returns), None), found)

    def ambiguous(self, arguments: Mapping[str, Any], like: Any, outcome: CallResult) -> bool:
        """Python allows one outcome."""
        return False

    def meaning(self, raised: Raised) -> Exception:
        """Whether an exception is one that the lift assumes away."""
        if raised.kind == "ZeroDivisionError" and "integer" in raised.text:
            return Divided()
        if raised.kind == "MemoryError" or _EXCUSED.get(raised.kind) in self.excuses:
            return Meaningless()
        return Faulty(f"it raises {raised}")

    def array(self, value: Any, kind: MachineType | Array) -> Any:
        """A result in its inferred type; integers beyond 64 bits are excluded by what a lift states."""
        element = dtype(element_of(kind))
        strange = next(_strange(value), None)
        if strange is not None or value is None:
            raise Faulty(f"it gives {strange!r}")
        try:
            found = np.asarray(value)
            if found.size and found.dtype.kind not in "biuf":
                raise Meaningless if found.dtype == object else Faulty(f"it gives {value!r}")
            if element.kind in "iu" and found.dtype.kind == "f" and found.size:
                raise Faulty(f"it gives floats, {value!r}")
            if (
                isinstance(value, np.ndarray)
                and value.ndim
                and found.dtype.kind.replace("u", "i") != element.kind.replace("u", "i")
            ):
                raise Faulty(f"it gives an array of {found.dtype}")
            return found.astype(element)
        except (OverflowError, ValueError) as error:
            raise Meaningless from error


# The program


def emitted_function(
    interpreter: Interpreter, function: Function, files: Mapping[str, bytes]
) -> Callable[[Mapping[str, Any]], list[Any]]:
    """A lifted function as NumPy code: what is held against the source. A call raises Raised, ValueError by
    kind where a requirement is not met."""
    name, space = function.name, f"lifted {function.name}"
    interpreter.add(space, files[f"{name}.py"].decode())

    def run(arguments: Mapping[str, Any]) -> list[Any]:
        given = [arguments[parameter.name] for parameter in function.parameters]
        value, _ = interpreter.call(space, name, given)
        return value if isinstance(value, list) else [value]

    return run
