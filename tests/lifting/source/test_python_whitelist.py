"""Every node and field of Python's syntax, and every argument of a known function, is read or refused."""

from __future__ import annotations

import ast
import builtins
import contextlib
import importlib
import inspect
import math

import numpy as np
import pytest

from tensmith.lifting.loops import Function
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.python import calls as python_calls
from tensmith.lifting.source.python import iteration as python_iteration
from tensmith.lifting.source.python import names as python_names
from tensmith.lifting.source.python.kinds import DTYPES
from tensmith.lifting.source.python.read import read_python_source
from tensmith.lifting.source.python.scope import EXPRESSIONS
from tensmith.lifting.source.python.whitelist import EMPTY, READ, REFUSED, SKIPPED, admit

# Node classes of newer versions than the oldest that is supported, so that they are judged on every one.
NEWER = {
    "TryStar": ("body", "handlers", "orelse", "finalbody"),  # 3.11
    "TypeAlias": ("name", "type_params", "value"),  # 3.12
    "TypeVar": ("name", "bound", "default_value"),
    "ParamSpec": ("name", "default_value"),
    "TypeVarTuple": ("name", "default_value"),
    "TemplateStr": ("values",),  # 3.14
    "Interpolation": ("value", "str", "conversion", "format_spec"),
}
ABSTRACT = "AST mod stmt expr expr_context boolop operator unaryop cmpop excepthandler pattern type_ignore "
ABSTRACT += "type_param slice"


def syntax() -> dict[str, tuple[str, ...]]:
    """Every concrete node class of the running Python, and of newer ones, with its fields."""
    found = dict(NEWER)
    for name, kind in vars(ast).items():
        public = isinstance(kind, type) and issubclass(kind, ast.AST) and not name.startswith("_")
        if public and name not in ABSTRACT.split():
            found[name] = kind._fields
    return found


@pytest.mark.parametrize("name", syntax())
def test_every_node_and_field_has_a_verdict(name: str) -> None:
    assert name in READ or name in REFUSED
    for field in syntax()[name] if name in READ else ():
        empty = field in EMPTY or (name, field) in EMPTY
        skipped = field in SKIPPED or (name, field) in SKIPPED
        assert (field in READ[name].split()) + empty + skipped == 1


def test_only_the_function_that_is_lifted_is_read_and_refused() -> None:
    assert READ.keys() & REFUSED.keys() == {"FunctionDef"}


def test_fields_that_are_listed_exist() -> None:
    known = {**syntax(), "FunctionDef": (*ast.FunctionDef._fields, "type_params")}
    assert all(set(fields.split()) <= set(known[name]) for name, fields in READ.items())
    for field in (*SKIPPED, *EMPTY):
        held = [known[field[0]]] if isinstance(field, tuple) else known.values()
        assert any((field[1] if isinstance(field, tuple) else field) in fields for fields in held)


def test_refusals_say_what_to_do() -> None:
    assert all(";" in sentence for sentence in (*REFUSED.values(), *EMPTY.values()))


def test_what_is_lowered_is_listed_as_read() -> None:
    assert {kind.__name__ for kind in EXPRESSIONS} <= READ.keys() - REFUSED.keys()


class Novel(ast.expr):
    """An expression that a later Python has."""

    _fields = ("value",)


def function(text: str) -> ast.FunctionDef:
    found = ast.parse(text).body[0]
    assert isinstance(found, ast.FunctionDef)
    return found


def test_nodes_nobody_knows_are_refused() -> None:
    tree = function("def f(n):\n    return n + n\n")
    tree.body[0].value = ast.copy_location(Novel(ast.Name("n", ast.Load())), tree.body[0].value)
    with pytest.raises(Refusal, match="Novel is not known here") as found:
        admit(tree)
    assert (found.value.position.line, found.value.position.column) == (2, 12)


def test_fields_nobody_knows_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ast.BinOp, "_fields", (*ast.BinOp._fields, "rounding"))
    with pytest.raises(Refusal, match="rounding is not known here"):
        admit(function("def f(n):\n    return n + n\n"))


def test_fields_that_must_be_empty_are_checked() -> None:
    tree = function("def f(n):\n    return [n for n in n]\n")
    tree.body[0].value.generators[0].is_async = 1
    with pytest.raises(Refusal, match="async"):
        admit(tree)


def test_expressions_that_no_handler_reads_are_refused() -> None:
    for text, place in (
        ("def f(n: int):\n    return n\n    n + 1\n", "3:5"),
        ("def f(n: int):\n    return sum(range(n), n, n)\n", "2:29"),
        ("def f(n: int):\n    if n > 0:\n        return 1\n    else:\n        return 2\n    n + 1\n", "6:5"),
    ):
        (found,) = read_python_source(text, "f.py")
        assert isinstance(found, Refusal) and "never reached" in found.reason
        assert str(found.position) == place


KNOWN = sorted({*python_calls._CALLS, *python_iteration._SOURCES})
UFUNC = ("out", "where", "casting", "order", "dtype", "subok", "signature", "axis", "keepdims", "initial")


def named(called: str) -> object:
    home, _, name = called.rpartition(".")
    space = {"": builtins, "math": math, "numpy": np}.get(home) or importlib.import_module(home)
    return getattr(space, name)


def arguments(called: str) -> list[str]:
    """The named arguments of a function, as Python or NumPy declares them, and some that nothing has."""
    what = named(called)
    found = [
        "nobody",
        *(UFUNC if called.startswith("numpy.") else ("start", "key", "default", "strict", "base")),
    ]
    with contextlib.suppress(TypeError, ValueError):  # some have none to show
        found += inspect.signature(what).parameters  # type: ignore[arg-type]
    return [name for name in dict.fromkeys(found) if name.isidentifier()]


@pytest.mark.parametrize("called", KNOWN)
def test_every_named_argument_is_read_or_refused(called: str) -> None:
    assert callable(named(called))
    for name in arguments(called):
        if name in python_names.KEYWORDS.get(called, ()):
            continue
        loop = called in python_iteration._SOURCES
        call = f"{called}(a, {name}=None)"
        body = f"for _ in {call}: pass" if loop else f"return {call}"
        (found,) = read_python_source(
            f"import copy, math, numpy\ndef f(a: list[float], n: int):\n    {body}\n", "f.py"
        )
        assert isinstance(found, Refusal) and ";" in found.reason, f"{call} is taken"


@pytest.mark.parametrize("called", python_names.KEYWORDS)
def test_named_arguments_that_are_read_exist(called: str) -> None:
    known = arguments(called)
    assert set(python_names.KEYWORDS[called]) <= set(known)


# Every name of these libraries that is not in a table.
OTHERS = {
    "": [name for name in dir(builtins) if callable(getattr(builtins, name)) and name[0].islower()],
    "math": [name for name in dir(math) if not name.startswith("_")],
    "numpy": [name for name in np.__all__ if callable(getattr(np, name))],
}


@pytest.mark.parametrize("home", OTHERS)
def test_every_other_function_is_refused_by_name(home: str) -> None:
    for name in OTHERS[home]:
        called = f"{home}.{name}".lstrip(".")
        if called in KNOWN or (home == "math" and not callable(getattr(math, name))):
            continue
        text = f"import math, numpy\ndef f(x: float):\n    return {called}(x)\n"
        (found,) = read_python_source(text, "f.py")
        if isinstance(found, Function):
            assert home == "numpy" and name in DTYPES, f"{called} is taken"
        else:
            assert called in found.reason or name in found.reason


# What is read of an array beside its elements, and what is called.
ATTRIBUTES = ("shape", "size", "ndim")
METHODS = ("append", "copy", "sum")


@pytest.mark.parametrize("home", [list, np.ndarray, int, float])
def test_every_other_method_and_attribute_is_refused_by_name(home: type) -> None:
    note = {list: "list[float]", np.ndarray: "NDArray[numpy.float64]"}.get(home, home.__name__)
    head = f"import numpy\nfrom numpy.typing import NDArray\ndef f(a: {note}):\n"
    for name in dir(home):
        for use, known in ((f"a.{name}", ATTRIBUTES), (f"a.{name}()", METHODS)):
            (found,) = read_python_source(f"{head}    return {use}\n", "f.py")
            assert name in known or isinstance(found, Refusal), f"{use} is taken"
