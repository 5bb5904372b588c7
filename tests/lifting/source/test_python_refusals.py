"""What the Python front end refuses: with the place, what stands in the way, and what to change."""

from __future__ import annotations

import re
import time

import pytest

from tensmith.errors import TensmithError, UsageError
from tensmith.formula.types import F64
from tensmith.lifting.loops import Array, Function
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.python import arithmetic
from tensmith.lifting.source.python.read import read_python, read_python_source

# Body of f(a, b, n) -> line and column of the refusal, and a word of its reason.
REFUSED = {
    "a break": ("for i in range(n):\n  n = n + i\n  if a[i] > 0:\n   break\nreturn n", (5, 4), "break"),
    "a return in a loop": ("for i in range(n):\n  n += i\n  if a[i]:\n   return n\nreturn n", (5, 4), "loop"),
    "a loop's else": ("for i in range(n):\n  a[i] = 0\n else:\n  n = 0\nreturn n", (5, 3), "else"),
    "raise": ("if n < 0:\n  raise ValueError\nreturn n", (3, 3), "raise"),
    "values on some paths": ("if n < 0:\n  return 1\na[0] = 1", (1, 1), "every path"),
    "one value in a tuple": ("return (n + a[0],)", (2, 2), "fewer than two values"),
    "a string": ("return 'x'", (2, 9), "str"),
    "None": ("x = None\n return n", (2, 6), "None"),
    "whole arrays": ("import_ = 1\n c = a + b\n return a[0] + b[0]", (3, 6), "wholes"),
    "a slice's step": ("return sum(a[1::n])", (2, 15), "step of a slice"),
    "a written slice": ("a[:] = b\n return a[0] + b[0]", (2, 4), "slice"),
    "a filter": ("return [x for x in a if x]", (2, 26), "filter"),
    "a step that is no literal": ("for i in range(0, n, a[0]):\n  n = 0\nreturn n", (2, 11), "step"),
    "rows that are one list": ("c = [[0] * n] * n\n return c", (2, 6), "one list"),
    "a row appended twice": (
        "r = [0] * n\n c = []\n for i in range(n):\n  c.append(r)\n return c",
        (5, 12),
        "more than once",
    ),
    "a row changed after it was appended": (
        "c = []\n for i in range(n):\n  r = [0] * n\n  c.append(r)\n  r[0] = 1\n return c",
        (6, 3),
        "shared",
    ),
    "a row of another list": ("c = []\n for r in a:\n  c.append(r)\n return a[0][0]", (4, 12), "shared"),
    "a list rebound in a branch": (
        "c = a\n if n > 0:\n  c = b\n c[0] = a[0] + b[0]",
        (4, 3),
        "another list",
    ),
    "an argument lengthened": ("a.append(n)", (2, 11), "length"),
    "a list that grows while it is run over": (
        "c = [n]\n for x in c:\n  c.append(x)\n return c",
        (3, 2),
        "grow",
    ),
    "an unknown call": ("return frobnicate(n)", (2, 9), "not known"),
    "an unknown name": ("return n + missing", (2, 13), "missing"),
    "a variable without a value": ("n = t\n t = 1\n return n", (2, 6), "before"),
    "is": ("return 1 if n is 3 else 2", (2, 14), "compare"),
    "a float as a subscript": ("return a[n / 2]", (2, 11), "integer"),
    "a number as a list": ("for x in n + 1:\n  a[0] = x", (2, 11), ""),
    "del": ("del a[0]", (2, 2), "del"),
    "a walrus": ("return (m := n)", (2, 10), "assignment inside"),
    "a nested function": ("def g(): pass\n return n", (2, 2), "inside a function"),
    "matrix product": ("return a[0] @ b[0]", (2, 9), "loops"),
    "a float in an integer's place": ("x = 1.5\n return a[x]", (3, 11), "integer"),
    "a while that sums": ("while sum(a) < n:\n  a[0] = 1", (2, 2), "condition of a while"),
    "a generator elsewhere": ("return list(x for x in a)", (2, 13), "generator"),
    "an unpacked argument": ("return max(*a)", (2, 13), "unpacked"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_say_where_and_what(name):
    body, place, word = REFUSED[name]
    (found,) = read_python_source(
        f"def f(a, b, n):\n {body.replace(chr(10) + 'r', chr(10) + ' r')}\n", "f.py"
    )
    assert isinstance(found, Refusal), found
    assert word in found.reason and ";" in found.reason, found.reason
    assert (found.position.line, found.position.column) == place, (found.position, found.reason)
    assert found.function == "f"


SIGNATURES = {
    "async def f(n): return n": "async",
    "def f(*a): return a[0]": "name every parameter",
    "def f(n, *, m): return n": "keyword-only",
    "def f(n: str): return n": "str",
    "def f(n: dict[int, int]): return n": "dict",
    "@cached\ndef f(n): return n": "decorator",
    "def f(n):\n yield n": "generator",
    "def f(n): return f(n - 1)": "calls itself",
    "def g(n): return f(n)\ndef f(n): return g(n)": "calls itself",
    "def g(a, n):\n a[0] = n\n return n\ndef f(a, n): return a[0] + g(a, n)": "larger expression",
    "def g(n):\n return n\ndef f(n): return g(n, n)": "arguments",
    "import numpy as np\ndef f(n): return np.zeros(n, dtype=complex)": "complex",
    "import numpy as np\ndef f(n: np.float16): return n": "float16",
}


@pytest.mark.parametrize("text", SIGNATURES)
def test_functions_that_are_refused_whole(text):
    found = read_python_source(text, "f.py", "f")[0]
    assert isinstance(found, Refusal), found
    assert SIGNATURES[text] in found.reason, found.reason


def test_one_refusal_leaves_the_other_functions():
    found = read_python_source("def f(x):\n return eval(x)\n\ndef g(x: int):\n return x\n", "f.py")
    assert isinstance(found[0], Refusal) and isinstance(found[1], Function)


def test_a_fault_of_ours_refuses_one_function(monkeypatch):
    monkeypatch.setattr(arithmetic, "binary", {}.__getitem__)
    found = read_python_source("def f(x: int):\n return x + 1\n\ndef g(x: int):\n return x\n", "f.py")
    assert isinstance(found[0], Refusal) and "the fault is ours" in found[0].reason
    assert (found[0].function, found[0].position.line) == ("f", 1)
    assert isinstance(found[1], Function)


def test_methods_are_refused_in_their_place():
    text = "class A:\n def m(self): return 1\n\ndef f(x):\n return x\n\nclass B:\n def m(self): return 1\n"
    found = read_python_source(text, "f.py")
    assert [entry.function if isinstance(entry, Refusal) else entry.name for entry in found] == [
        "A.m",
        "f",
        "B.m",
    ]
    assert isinstance(found[0], Refusal) and "method" in found[0].reason


def test_a_file_without_functions_is_an_error():
    with pytest.raises(TensmithError, match=r"f\.py:1:1: there is no function"):
        read_python_source("x = 1\n", "f.py")


def test_types_come_from_annotations_and_from_use():
    text = """
import numpy as np
from numpy.typing import NDArray
def f(a: NDArray[np.float32], b, c: list[list[float]], d, n, h: float, k, q, r: "list[int]"):
    s = 0
    for i in range(n):
        s += a[i] * b[i] + c[i][0] + h
        s += d[i][n] % 2 + k // 2 + q / n + r[i]
    return s
"""
    (found,) = read_python_source(text, "f.py")
    assert isinstance(found, Function)
    types = {
        parameter.name: str(getattr(parameter.type, "element", parameter.type))
        for parameter in found.parameters
    }
    assert types == {
        "a": "f32", "b": "f64", "c": "f64", "d": "int", "n": "int", "h": "f64", "k": "int", "q": "f64",
        "r": "int",
    }  # fmt: skip
    ranks = [p.type.rank for p in found.parameters if isinstance(p.type, Array)]
    assert ranks == [1, 1, 2, 2, 1]


def test_lists_that_are_only_read_promise_not_to_be_written():
    (found,) = read_python_source("def f(a, b, n):\n for i in range(n):\n  a[i] = b[i]\n", "f.py")
    assert isinstance(found, Function)
    assert [p.type.written for p in found.parameters if isinstance(p.type, Array)] == [True, False]


def test_what_is_assumed_is_noted():
    text = "def f(a: list[list[float]], b: list[float]):\n assert b[0] > 1\n a[0][0] = 1 / b[0] + len(a[0])\n"
    (found,) = read_python_source(text, "f.py")
    assert isinstance(found, Function)
    noted = " ".join(found.noted)
    assert "equal length" in noted and "not zero" in noted and "assertion at 2:2" in noted
    assert "a is no other argument" in noted


def test_a_file_that_is_no_python_is_an_error_with_its_place(tmp_path):
    for name, content, place in (
        ("syntax", b"def f(:\n", ":1:7:"),
        ("indent", b"def f():\nreturn 1\n", ":2:"),
        ("latin", b"# \xe9\nx = '\xff'", ":1:"),
        ("null", b"x = 1\0", ":1:"),
        ("large", b"#" * (10 << 20), ":1:1:"),
        ("deep", b"x = " + b"(" * 5000 + b")" * 5000, ":1:"),
        ("signs", b"x = 1\ny = " + b"-" * 50000 + b"1", ":"),
    ):
        path = tmp_path / f"{name}.py"
        path.write_bytes(content)
        began = time.process_time()
        with pytest.raises(TensmithError, match=re.escape(place)):
            read_python(path)
        assert time.process_time() - began < 30
    with pytest.raises(TensmithError, match=r"missing\.py"):
        read_python(tmp_path / "missing.py")


@pytest.mark.parametrize(
    "text",
    [
        "def f(x):\n return " + "+".join("x" for _ in range(3000)),
        "def f(a):\n return a" + "[0]" * 150,
        "def f(x):\n" + "".join(f"{' ' * n}for i in range(x):\n" for n in range(1, 61)) + " " * 62 + "x = 1",
        "def f(x):\n" + "".join(f" if x > {n}:\n  x = {n}\n" for n in range(3000)) + " return x",
        "def f(x):\n for i in range(3):\n"
        + "".join(f"  if x > {n}:\n   if x == {n}:\n    continue\n   x = {n}\n" for n in range(40))
        + " return x",
        "".join(f"def g{n}(x):\n return g{n + 1}(x) + g{n + 1}(x)\n" for n in range(60))
        + "def g60(x): return x\ndef f(x): return g0(x)",
        "def f(x):\n return " + "-".join(f"(x if x > {n} else 1)" for n in range(300)),
        "def f(x):\n return ((((x ** 16) ** 16) ** 16) ** 16) ** 16",
    ],
    ids=["sum", "subscripts", "nest", "branches", "jumps", "helpers", "choices", "powers"],
)  # fmt: skip
def test_adversarial_sources_end_soon(text):
    began = time.process_time()
    try:
        found = read_python_source(text, "f.py", "f")
    except TensmithError:
        found = []
    assert time.process_time() - began < 30
    assert all(isinstance(entry, Function | Refusal) for entry in found)


def test_nothing_of_the_file_is_run(tmp_path):
    marker = tmp_path / "ran"
    write = f"open({str(marker)!r}, 'w')"
    text = f"{write}\n@print\ndef f(x={write}):\n return x\ndef g(x: int): return x\n"
    read_python_source(text, "f.py")
    assert not marker.exists()


def test_a_function_that_is_not_there_is_a_usage_error():
    with pytest.raises(UsageError, match=r"no function 'h'.*f"):
        read_python_source("def f(x): return x", "f.py", "h")


def test_scalars_keep_their_types():
    (found,) = read_python_source("def f(n: int, x: float, c: bool): return n if c else x", "f.py")
    assert isinstance(found, Function) and found.returns == F64


CIRCLE = """\
def fill(x, a):
    a[0] = x
def dot(a, x):
    return fill(x, a) if x else dot(x, a)
def total(v: list[float]):
    s = 0.0
    for i in range(len(v)):
        s += v[i]
    return s
"""


def test_lists_that_hold_themselves_by_recursion_are_refused_where_they_do() -> None:
    found = {each.name: each for each in read_python_source(CIRCLE, "x.py") if isinstance(each, Function)}
    assert "total" in found and "dot" not in found
