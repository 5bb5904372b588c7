"""Nasty Python functions: each is refused by name, or answers as CPython does at boundary inputs.

Mutants of the front end's own tables and checks show that these cases would notice.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import nasty
import pytest

from tensmith.lifting.source.python import arithmetic as python_arithmetic
from tensmith.lifting.source.python import expressions as python_expressions
from tensmith.lifting.source.python import infer_calls as python_infer_calls
from tensmith.lifting.source.python import kinds as python_kinds
from tensmith.lifting.source.python import names as python_names
from tensmith.lifting.source.python import statements as python_statements
from tensmith.lifting.source.python.scope import PythonScope

CASES = nasty.cases(Path(__file__).parent / "samples" / "nasty.txt")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_refused_by_name_or_equal_to_python(case: nasty.Case) -> None:
    assert not case.judge()


def test_there_are_enough() -> None:
    assert sum(case.expected[0] == "!" for case in CASES) > 150
    assert sum(case.expected[0] == "=" for case in CASES) > 150
    assert len({case.text for case in CASES}) == len(CASES)


# A mutant is an attribute or an entry of a table, what it becomes, and a word of the cases that notice.
def nothing(*_: object, **__: object) -> None:
    """A check that was dropped."""


MUTANTS: dict[str, tuple[object, object, object, str]] = {
    "+ for -": (python_expressions._BINARY, ast.Sub, "add", "n - -n"),
    "* for +": (python_expressions._BINARY, ast.Add, "mul", "n - 2 * m|m = [1, 2]|s = s + i"),
    "<= for <": (python_expressions._COMPARISONS, ast.Lt, "less_equal", "x < y <= z"),
    "< for >": (python_expressions._COMPARISONS, ast.Gt, "less", "(x > y) - (x < y)"),
    "== for !=": (python_expressions._COMPARISONS, ast.NotEq, "equal", "x != x"),
    "<< for >>": (python_expressions._BITWISE, ast.RShift, "left_shift", "n >> 2"),
    "& for |": (python_expressions._BITWISE, ast.BitOr, "bitwise_and", "~n | 3"),
    "ceil for floor": (python_names.ROUNDINGS, "math.floor", "ceil", "math.floor(x)"),
    "floor for int": (python_names.ROUNDINGS, "int", "floor", "return int(x)"),
    "cos for sin": (python_names.FLOAT_OPERATORS, "numpy.sin", "cos", "np.sin(x)"),
    "ones for zeros": (python_names.FILLS, "numpy.zeros", 1, "np.zeros(n)"),
    "any keyword": (python_names, "check_arguments", nothing, "default=0|axis=0"),
    "uint8 is int8": (python_kinds.DTYPES, "uint8", python_kinds.DTYPES["int8"], "return a[0] - a[1]"),
    "narrow sums": (python_infer_calls, "_sum", lambda kind, _: kind, "return np.sum(a)"),
    "expressions unread": (PythonScope, "check_visited", nothing, "sum(range(n), n, 3)"),
    "globals for locals": (PythonScope, "is_local", lambda *_: False, "x = 5|len: int"),
    "rows untouched": (PythonScope, "touch", nothing, "r = a[0]"),
    "no counting from the end": (python_arithmetic, "counts_back", lambda _: False, "return a[-2]"),
    "division by 0": (python_expressions, "divisor_raises", nothing, "1.0 / x|1.0 / 0"),
    "bare powers": (
        python_expressions,
        "raised",
        lambda scope, base, exponent, where: python_expressions.arithmetic.power(base, exponent, where),
        "x ** 0.5",
    ),
    "shifts by anything": (python_expressions, "_shift_raises", nothing, "n >> -1|n << k"),
    "asserts unread": (python_statements, "assertion", nothing, "assert"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    home, key, value, words = MUTANTS[name]
    if isinstance(home, dict):
        monkeypatch.setitem(home, key, value)
    else:
        assert isinstance(key, str)
        monkeypatch.setattr(home, key, value)
    near = [case for case in CASES if any(word in case.text for word in words.split("|"))]
    assert any(_wrong(case.judge) for case in near), f"{len(near)} cases accept it"


def _wrong(judge: Callable[[], str]) -> bool:
    try:
        return bool(judge())
    except Exception:
        return True
