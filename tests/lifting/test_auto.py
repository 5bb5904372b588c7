"""`--to auto`: what runs here, on inputs that meet the requirements."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from corpus import KERNELS

from tensmith.errors import EngineError, UsageError
from tensmith.lifting import auto
from tensmith.lifting.auto import choose, parse_sizes, sample
from tensmith.lifting.pipeline import emitter_of, lift_file, lift_function
from tensmith.lifting.running import load
from tensmith.lifting.source.python.read import read_python_source

GEMV = """
def gemv(m: int, n: int, a: list[list[float]], x: list[float]):
    y = []
    for i in range(m):
        total = 0.0
        for j in range(n):
            total += a[i][j] * x[j]
        y.append(total)
    return y

def shift(a: list[float], b: list[float], n: int):
    for i in range(n):
        b[i] = a[i + 1]

def between(a: list[float], n: int, m: int):
    total = 0.0
    for i in range(n):
        total += a[i]
    for i in range(m):
        total += a[i]
    return [total for i in range(n - m)]
"""


def lifted(name):
    (found,) = read_python_source(GEMV, "f.py", name)
    result = lift_function(found, ())
    assert result.proved, result.reason
    return result.work.lifted


def test_sizes_are_read_and_refused():
    assert parse_sizes("n=10, a=2x3") == {"n": (10,), "a": (2, 3)} and parse_sizes("") == {}
    for text in ("n", "n=", "n=x", "n=-1", "=3x", "n=\N{SUPERSCRIPT TWO}", f"n={'9' * 5000}"):
        with pytest.raises(UsageError, match="--sizes"):
            parse_sizes(text)


def test_inputs_meet_the_requirements():
    m, n, a, x = sample(lifted("gemv"), {"m": (7,), "n": (5,)})
    assert (m, n) == (7, 5) and a.shape[0] >= 7 and a.shape[1] >= 5 and x.shape[0] >= 5
    a, b, n = sample(lifted("shift"), {"a": (10,)})
    assert n == 1000 and len(a) == 1001 and len(b) == 1000
    assert np.shape(sample(lifted("gemv"), {"m": (7,), "n": (5,)})[2]) == (7, 5)
    with pytest.raises(UsageError, match="no parameter"):
        sample(lifted("gemv"), {"k": (1,)})
    with pytest.raises(UsageError, match="extents"):
        sample(lifted("gemv"), {"a": (1,)})
    with pytest.raises(UsageError, match="elements"):
        sample(lifted("gemv"), {"m": (10**5,), "n": (10**5,)})


def test_a_compiler_that_is_not_there_fails_c_alone(monkeypatch):
    monkeypatch.setattr(auto, "CANDIDATES", ("numpy", "c"))
    monkeypatch.setattr(auto, "_SECONDS", 0.01)
    monkeypatch.setenv("CC", "no-such-compiler")
    choice, files = choose(lifted("gemv"), {"m": (20,), "n": (20,)})
    (c,) = (row for row in choice.to_json() if row["target"] == "c")
    assert set(files) == {"numpy"} and "CC is 'no-such-compiler'" in json.dumps(c)


def test_a_nan_agrees_with_a_nan():
    assert auto._agree([np.array([np.nan, 1.0])], [np.array([np.nan, 1.0])])
    assert not auto._agree([np.array([np.nan, 1.0])], [np.array([0.0, 1.0])])


def test_the_fastest_comes_first(monkeypatch):
    monkeypatch.setattr(auto, "CANDIDATES", ("numpy", "onnx", "tpc"))
    monkeypatch.setattr(auto, "_SECONDS", 0.01)
    choice, files = choose(lifted("gemv"), {"m": (20,), "n": (20,)})
    rows = choice.to_json()
    assert {row["target"] for row in rows} == {"numpy", "onnx", "tpc"}
    assert choice.best in ("numpy", "onnx") and choice.best in files
    assert rows[0]["ratio"] == 1 and rows[1]["ratio"] >= 1
    assert rows[2]["ms"] is None and rows[2]["note"] == "not installed"


@pytest.mark.parametrize("target", ["numpy", "c", "onnx"])
def test_what_was_emitted_can_be_called(target):
    if target == "c" and shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    program = lifted("gemv")
    function = load(target, program, emitter_of(target).emit(program).files)
    a, x = np.arange(6.0).reshape(2, 3), np.ones(3)
    np.testing.assert_allclose(function(2, 3, a, x), [3, 12])
    assert np.shape(function(0, 3, a, x)) == (0,)
    program = lifted("shift")
    function = load(target, program, emitter_of(target).emit(program).files)
    b = np.zeros(4)
    np.testing.assert_array_equal(function(np.arange(4.0), b, 3), [1, 2, 3, 0])
    assert not b.any()
    if target != "onnx":
        with pytest.raises(ValueError, match="requires"):
            function(np.arange(4.0), b, 4)


@pytest.mark.parametrize("target", ["numpy", "c", "onnx"])
def test_a_returned_array_has_room_where_counts_are_below_0(target):
    if target == "c" and shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    program = lifted("between")
    function = load(target, program, emitter_of(target).emit(program).files)
    np.testing.assert_array_equal(function(np.ones(3), -1, -3), [0, 0])


@pytest.mark.parametrize("target", ["numpy", "torch", "c", "onnx"])
def test_a_struct_is_passed_to_every_target(target, tmp_path, monkeypatch):
    if target == "c" and shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    monkeypatch.setattr(auto, "CANDIDATES", (target,))
    monkeypatch.setattr(auto, "_SECONDS", 0.01)
    (tmp_path / "f.c").write_text(
        "struct s { int n; float *x; };\n"
        "float f(struct s *s) { float t = 0; for (int i = 0; i < s->n; i++) t += s->x[i]; return t; }"
    )
    (result,) = lift_file(tmp_path / "f.c", targets=(), run=False)
    choice, _ = choose(result.work.lifted, {"s.n": (20,)})
    assert choice.best == target and choice.shapes == {"s.n": (), "s.x": (20,)}


def test_what_cannot_run_here_is_said():
    with pytest.raises(EngineError, match="gemmini cannot run here"):
        load("gemmini", lifted("gemv"), {})


def test_strides_are_as_long_as_they_must_be():
    (result,) = lift_file(KERNELS / "c" / "llama.c", "transformer_part1", targets=(), run=False)
    lifted = result.work.lifted
    assert lifted is not None
    named = dict(zip((p.name for p in lifted.function.parameters), sample(lifted, {"head_size": (7,)})))
    assert named["stride"] >= named["head_size"] * (named["head"] + 1)
    assert len(named["keys"]) >= named["tokens"] * named["stride"] - named["stride"] + named["head_size"]
