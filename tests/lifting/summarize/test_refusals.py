"""What cannot be summarised is refused with its place, the reason and what to change."""

from __future__ import annotations

from pathlib import Path

import pytest

from lifting.summarize.build import add, c, flat, function, load, loop, mul, op, store, v
from tensmith.formula.expr import Call, SourcePosition
from tensmith.formula.types import BOOL, I32
from tensmith.lifting.loops import Assign, Declare, Function, Loop, Return
from tensmith.lifting.pipeline import read_source
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.summarize import summarize

ZERO = c(0)


def scatter() -> Function:
    body = store("a", load("b", v("i")), c(1))
    return function({"a": flat(), "b": flat(), "n": I32}, *loop("i", ZERO, v("n"), body))


def neighbour() -> Function:
    before = load("a", op("sub", v("i"), c(1)))
    return function(
        {"a": flat(), "n": I32}, *loop("i", c(1), v("n"), store("a", v("i"), mul(before, before)))
    )


def squares() -> Function:
    body = Assign("s", mul(v("s"), v("s")))
    return function(
        {"n": I32}, Declare("s", I32, c(2)), *loop("i", ZERO, v("n"), body), Return(v("s")), returns=I32
    )


def data_bound() -> Function:
    return function({"a": flat(), "b": flat()}, *loop("i", ZERO, load("b", ZERO), store("a", v("i"), c(1))))


def endless() -> Function:
    condition = Call("less", (v("x"), c(3)), BOOL)
    return function(
        {"a": flat(), "x": I32}, Loop(condition, (store("a", ZERO, c(1)),), "w@1:1", SourcePosition(1, 1))
    )


def overlapping() -> Function:
    at = add(v("i"), v("j"))
    inner = loop("j", ZERO, v("n"), store("a", at, load("b", v("j"))), line=2)
    return function({"a": flat(), "b": flat(), "n": I32}, *loop("i", ZERO, v("n"), *inner))


def nothing() -> Function:
    return function({"n": I32}, *loop("i", ZERO, v("n"), Assign("i", v("i"))))


def product_divisor() -> Function:
    quotient = op("div", c(1), mul(load("a", v("i")), load("a", v("i"))))
    return function({"a": flat(), "n": I32}, *loop("i", ZERO, v("n"), store("a", v("i"), quotient)))


def unset() -> Function:
    return function({"n": I32}, Declare("x", I32, None), Return(v("x")), returns=I32)


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (scatter, "depends on data"),
        (neighbour, "earlier iteration"),
        (squares, "'s' depends on its value in the iteration before"),
        (data_bound, "number of iterations"),
        (endless, "number of iterations"),
        (overlapping, "same element"),
        (nothing, "no result|number of iterations"),
        (product_divisor, "divisor is not 0"),
        (unset, "'x' may be read before it has a value"),
    ],
)
def test_refused_with_a_reason_and_advice(made: object, reason: str) -> None:
    with pytest.raises(Refusal, match=reason) as refusal:
        summarize(made())  # type: ignore[operator]
    assert refusal.value.function == "f"
    assert any(mark in refusal.value.reason for mark in (";", ":"))


def written(path: Path, text: str) -> Function:
    path.write_text(text)
    (found,) = read_source(path)
    assert isinstance(found, Function)
    return found


ROWS = """def f(x: list[list[float]], k: int):
    s = 0.0
    for i in range(len(x)):
        for j in range(len(x[0])):
            s += {}
    return s
"""


@pytest.mark.parametrize(
    ("read", "reason"),
    [
        ("x[i + 1][j]", "i + 1 may reach len(x), where"),
        ("x[i][j + 1]", "j + 1 may reach len(x[0]), where"),
        ("x[i][j] * x[i][j + 2]", "j + 2 may reach len(x[0]) + 1, where"),
    ],
)
def test_a_subscript_that_leaves_a_list_is_named(tmp_path: Path, read: str, reason: str) -> None:
    with pytest.raises(Refusal) as refusal:
        summarize(written(tmp_path / "f.py", ROWS.format(read)))
    assert reason in refusal.value.reason and refusal.value.position.line == 5


GROWN = """def f(x: list[list[float]], k: int):
    r = [x[i][:] for i in range(len(x))]
    s = 0.0
    for p in range(len(x)):
        for q in range(len(x[0])):
            {}
    return s
"""


@pytest.mark.parametrize(
    ("read", "reason"),
    [
        ("s += r[p][q - 1]", "of 'r' stays inside the array cannot be shown: q - 1 may be negative;"),
        ("r[p][q] = r[p][q - 1] + 1.0", "q - 1 may be negative;"),
        ("s += r[p][q + 1]", "read that has no value: r[p][q + 1] is outside the array, or"),
        ("s += x[p][q] * r[p][k]", "read that has no value: r[p][k] is outside the array, or"),
    ],
)
def test_a_subscript_that_leaves_a_list_of_appended_rows_is_named(
    tmp_path: Path, read: str, reason: str
) -> None:
    with pytest.raises(Refusal) as refusal:
        summarize(written(tmp_path / "f.py", GROWN.format(read)))
    assert reason in refusal.value.reason and refusal.value.position.line == 6


def test_where_rows_end_is_said_by_the_parameters_of_the_source(tmp_path: Path) -> None:
    text = "void f(int h, int w, double y[h][w]) {\n"
    text += "    for (int i = 0; i < h; i++) for (int j = 0; j <= w; j++) y[i][j] = 0;\n}\n"
    with pytest.raises(Refusal, match="j may reach w, where"):
        summarize(written(tmp_path / "f.c", text))


def test_a_list_is_asked_to_be_as_long_as_a_test_says_where_it_cannot_be_longer_than_itself(
    tmp_path: Path,
) -> None:
    text = "def f(x: list[float], k: int):\n    s = 0.0\n    for i in range(len(x)):\n"
    text += "        if i < k:\n            s += x[i + 3]\n    return s\n"
    asked = summarize(written(tmp_path / "f.py", text)).requires
    assert [each.text for each in asked] == ["len(x) >= k + 3"]
