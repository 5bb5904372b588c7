"""Positions and sizes that are divided round down in every target, where what is divided is negative too."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness_targets import TARGETS

from tensmith.lifting.emit import EMITTERS
from tensmith.lifting.pipeline import lift_file

SOURCE = """
def tail(a: list[float], m: int, n: int) -> float:
    s = 0.0
    for i in range(m - n // 2):
        s += a[i]
    return s


def half(a: list[float], n: int) -> float:
    return a[n // 2]


def average(k: list[int]) -> int:
    s = 0
    for v in k:
        s += v
    return s // len(k)


def wrapped(k: list[int], b: list[float]) -> list[int]:
    return [v % (len(b) + 1) for v in k]
"""
STEPS = """
double every(int n, int k, const double *a)
{ double s = 0; for (int i = 0; i < n; i += k) s += a[i]; return s; }
void over(int n, unsigned char x, const unsigned char *b, unsigned char *o)
{ for (int i = 0; i < n; i++) o[i] = x / b[i]; }
double every_asked(int n, int k, const double *a, int asked)
{ double s = 0; if (asked > 0) for (int i = 0; i < n; i += k) s += a[i]; return s; }
"""
A = np.array([1.0, 2.0, 4.0, 8.0, 16.0])

pytestmark = pytest.mark.xdist_group("traced")


def loaded(path: Path, text: str) -> dict[str, dict[str, Any]]:
    """Target -> function -> what calls it."""
    path.write_text(text)
    found: dict[str, dict[str, Any]] = {}
    for target, kind in TARGETS.items():
        own = path.parent / target
        own.mkdir()
        results = lift_file(path, targets=(target,), output=own, run=False)
        kind.prepare([result.name for result in results], own)
        found[target] = {result.name: kind(result.work.lifted, own) for result in results}
    return found


@pytest.fixture(scope="module")
def called(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What calls the functions of Python."""
    return loaded(tmp_path_factory.mktemp("floor") / "floor.py", SOURCE)


@pytest.fixture(scope="module")
def stepping(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What calls the functions of C."""
    pytest.importorskip("clang.cindex", reason="libclang is not installed")
    return loaded(tmp_path_factory.mktemp("steps") / "steps.c", STEPS)


@pytest.mark.parametrize("target", TARGETS)
def test_a_negative_number_is_divided_downwards(target: str, called: dict[str, Any]) -> None:
    tail, half = called[target]["tail"], called[target]["half"]
    for m, n in ((3, -1), (3, -2), (2, -3), (3, 1), (0, 0), (-5, 3)):
        (found,) = tail({"a": A, "m": m, "n": n})
        assert found == A[: max(0, m - n // 2)].sum(), (m, n)
    assert half({"a": A, "n": 5})[0] == 4.0
    if TARGETS[target].guards:
        with pytest.raises(ValueError, match=r"n // 2|requirement"):
            half({"a": A[:3], "n": -1})


@pytest.mark.parametrize("target", TARGETS)
def test_integers_are_divided_by_lengths(target: str, called: dict[str, Any]) -> None:
    average, wrapped = called[target]["average"], called[target]["wrapped"]
    assert average({"k": np.array([3, -4, 9, -9])})[0] == -1
    np.testing.assert_array_equal(wrapped({"k": np.array([3, -4, 9]), "b": A[:1]})[0], [1, 0, 1])
    if TARGETS[target].guards:
        with pytest.raises(ValueError, match=r"len\(k\) != 0|requirement"):
            average({"k": np.array([], np.int64)})


@pytest.mark.parametrize("target", TARGETS)
def test_a_step_of_0_is_refused_where_it_is_taken(target: str, stepping: dict[str, Any]) -> None:
    every, asked = stepping[target]["every"], stepping[target]["every_asked"]
    assert every({"n": 5, "k": 2, "a": A})[0] == 21.0
    assert asked({"n": 5, "k": 2, "a": A, "asked": 1})[0] == 21.0
    assert asked({"n": 5, "k": 0, "a": A, "asked": 0})[0] == 0.0
    if TARGETS[target].guards:
        with pytest.raises(ValueError, match=r"k >= 1|requirement"):
            every({"n": 5, "k": 0, "a": A})
        with pytest.raises(ValueError, match=r"k >= 1 where|requirement"):
            asked({"n": 5, "k": 0, "a": A, "asked": 1})


@pytest.mark.parametrize("target", TARGETS)
def test_one_byte_is_divided_by_many(target: str, stepping: dict[str, Any]) -> None:
    given = {"n": 3, "x": 200, "b": np.array([7, 200, 201], np.uint8), "o": np.zeros(3, np.uint8)}
    np.testing.assert_array_equal(stepping[target]["over"](given)[0], [28, 1, 0])


class Truncating(np.ndarray):
    """Integers whose // rounds towards zero, as MLX's did."""

    def __floordiv__(self, other: Any) -> Any:
        down = np.asarray(self) // np.asarray(other)
        back = (down * other != self) & (down < 0)
        return (down + back).astype(self.dtype).view(Truncating)


@pytest.mark.parametrize("kind", [np.ndarray, Truncating])
def test_mlx_divides_alike_however_its_division_rounds(kind: type[np.ndarray[Any, Any]]) -> None:
    number = np.arange(-128, 128, dtype=np.int8)
    a, b = (x.reshape(-1) for x in np.meshgrid(number, number[number != 0]))
    a, b = a[~((a == -128) & (b == -1))], b[~((a == -128) & (b == -1))]
    towards_0 = np.trunc(a / b.astype(float)).astype(np.int8)
    names: dict[str, Any] = {}
    for helper in ("_quotient", "_floor"):
        exec(textwrap.dedent(EMITTERS.get("mlx").helper_texts[helper]), names)
    np.testing.assert_array_equal(names["_quotient"](a.view(kind), b), towards_0)
    np.testing.assert_array_equal(names["_floor"](a.view(kind), b), np.asarray(a) // b)


def test_mlx_divides_what_may_be_negative_by_a_helper(tmp_path: Path) -> None:
    path = tmp_path / "floor.py"
    path.write_text(SOURCE)
    (result,) = lift_file(path, "average", targets=("mlx",), run=False)
    assert b"_floor(" in result.emitted["mlx"]["average.py"]
