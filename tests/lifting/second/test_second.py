"""The second reader: what the front ends misread, its own language tells."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lifting.harness_native import compilers
from tensmith.lifting.loops import Function
from tensmith.lifting.pipeline import lift_file, read_source
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.second import SecondReader
from tensmith.lifting.second.checked import Checked
from tensmith.lifting.second.inputs import Draw, DrawPlan, Sampler
from tensmith.lifting.second.interpreted import Interpreter, Raised
from tensmith.lifting.second.judge import CallableLift, Difference, LiftJudge
from tensmith.lifting.second.process import ProcessGone
from tensmith.lifting.summarize import summarize
from tensmith.lifting.tensorize import tensorize

needs_compilers = pytest.mark.skipif(not compilers(), reason="gcc and g++ are not installed")

# A source, and what a front end took it for: as real front ends once did.
MISREAD = {
    "a ?: b lost its condition": (
        "f.c",
        "int f(int n, const int *a) { int s = 0; for (int i = 0; i < n; i++) s += a[i] ?: 7; return s; }",
        "int f(int n, const int *a) { int s = 0; for (int i = 0; i < n; i++) s += 7; return s; }",
    ),
    "a bit-field of a local struct lost its width": (
        "f.c",
        "struct b { unsigned x : 3; }; long f(int n, const unsigned *a) { struct b t; long s = 0; "
        "for (int i = 0; i < n; i++) { t.x = a[i]; s += t.x; } return s; }",
        "struct b { unsigned x; }; long f(int n, const unsigned *a) { struct b t; long s = 0; "
        "for (int i = 0; i < n; i++) { t.x = a[i]; s += t.x; } return s; }",
    ),
    "a return before the loop was lost": (
        "f.c",
        "float f(int N, const float *X, int incX) { float r = 0; int ix = 0; if (incX <= 0) return 1; "
        "for (int i = 0; i < N; i++) { r += X[ix]; ix += incX; } return r; }",
        "float f(int N, const float *X, int incX) { float r = 0; int ix = 0; if (incX <= 0) return 0; "
        "for (int i = 0; i < N; i++) { r += X[ix]; ix += incX; } return r; }",
    ),
    "what an assertion does was lost": (
        "f.c",
        "#include <assert.h>\nint f(int n, const int *a, int k) { int s = 0; assert(++k || 1); "
        "for (int i = 0; i < n; i++) s += a[i]; return s + k; }",
        "int f(int n, const int *a, int k) { int s = 0; "
        "for (int i = 0; i < n; i++) s += a[i]; return s + k; }",
    ),
    "what an assertion asks was lost": (
        "f.c",
        "#include <assert.h>\nint f(int n, const int *a) { assert(n >= 0); int s = 0; "
        "for (int i = 0; i < n; i++) s += a[i]; return s; }",
        "int f(int n, const int *a) { int s = 0; for (int i = 0; i < n; i++) s += a[i]; return s; }",
    ),
    "memcpy of a negative size": (
        "f.c",
        "#include <string.h>\nvoid f(int n, const int *a, int *b) { memcpy(b, a, n * sizeof(int)); }",
        "void f(int n, const int *a, int *b) { for (int i = 0; i < n; i++) b[i] = a[i]; }",
    ),
    "unsigned taken for signed": (
        "f.cpp",
        "#include <vector>\nlong f(const std::vector<unsigned> &a) { long s = 0; "
        "for (unsigned v : a) s += v / 2; return s; }",
        "#include <vector>\nlong f(const std::vector<unsigned> &a) { long s = 0; "
        "for (unsigned v : a) s += (int)v / 2; return s; }",
    ),
    "a parameter that is one constant": (
        "f.c",
        "int f(int n, const int *a, int k) { int s = 0; for (int i = 0; i < n; i++) s += a[i]; "
        "return k == 7100 ? s + 1 : s; }",
        "int f(int n, const int *a, int k) { int s = 0; for (int i = 0; i < n; i++) s += a[i]; "
        "return k == 7100 ? s + 2 : s; }",
    ),
    "elements that are one constant": (
        "f.c",
        "int f(int n, const short *a) { int s = 0; for (int i = 0; i < n; i++) s += a[i] >= 710; return s; }",
        "int f(int n, const short *a) { int s = 0; for (int i = 0; i < n; i++) s += a[i] > 710; return s; }",
    ),
    "a power that is complex": (
        "f.py",
        "def f(a: list[float]) -> list[float]:\n    return [x ** 0.5 for x in a]\n",
        "def f(a: list[float]) -> list[float]:\n    return [abs(x) for x in a]\n",
    ),
    "division that truncates": (
        "f.py",
        "def f(a: list[int]) -> list[int]:\n    return [x // 3 for x in a]\n",
        "def f(a: list[int]) -> list[int]:\n    return [(x + 2) // 3 if x < 0 else x // 3 for x in a]\n",
    ),
}


@needs_compilers
@pytest.mark.parametrize("name", MISREAD)
def test_what_was_misread_is_refused_with_an_input(name: str, tmp_path: Path) -> None:
    file, source, misread = MISREAD[name]
    (tmp_path / file).write_text(misread)
    (result,) = lift_file(tmp_path / file, targets=(), run=False)
    assert result.proved, result.reason
    lifted, function = result.work.lifted, result.work.function
    assert lifted is not None and function is not None
    assert SecondReader(tmp_path / file, [function]).check(lifted).inputs > 50
    (tmp_path / file).write_text(source)
    with pytest.raises(Refusal, match=r"the lifted program is not what the source computes.* for \w+ = "):
        SecondReader(tmp_path / file, [function]).check(lifted)


def test_an_array_of_numbers_of_another_kind_is_a_fault(tmp_path: Path) -> None:
    text = "import numpy as np\ndef f(n: int):\n    return np.full(n, 3, dtype={})\n"
    path = tmp_path / "f.py"
    path.write_text(text.format("float"))
    (result,) = lift_file(path, targets=(), run=False)
    assert result.work.lifted is not None and result.work.function is not None, result.reason
    path.write_text(text.format("int"))
    with pytest.raises(Refusal, match="it gives an array of int64"):
        SecondReader(path, [result.work.function], 8).check(result.work.lifted)


WEAK = {
    "f.c": "int f(int n, const int *a) { int s = 0; for (int i = 0; i < n; i++) s += a[i]; return s; }",
    "f.cpp": "#include <vector>\nint f(int n, const std::vector<int> &a) "
    "{ int s = 0; for (int i = 0; i < n; i++) s += a[i]; return s; }",
    "f.py": "def f(n: int, a: list[int]) -> int:\n    s = 0\n    for i in range(n):\n        s += a[i]\n"
    "    return s\n",
}


@needs_compilers
@pytest.mark.parametrize("file", WEAK)
def test_requirements_that_are_too_weak_are_seen(file: str, tmp_path: Path) -> None:
    (tmp_path / file).write_text(WEAK[file])
    (result,) = lift_file(tmp_path / file, targets=())
    assert result.proved and result.work.checked.inputs > 50, result.reason
    assert result.work.lifted is not None and result.work.function is not None
    forged = replace(result.work.lifted, requires=())
    with pytest.raises(Refusal, match="the source is at fault within the requirements"):
        SecondReader(tmp_path / file, [result.work.function]).check(forged)


def test_tables_hold_an_element_where_they_are_read(tmp_path: Path) -> None:
    """No requirement says how long t must be; an empty one makes each draw with n > 0 useless."""
    (tmp_path / "f.c").write_text(
        "void f(int n, const int *places, const float *t, float *o) "
        "{ for (int i = 0; i < n; i++) o[i] = t[places[i]]; }"
    )
    (result,) = lift_file(tmp_path / "f.c", targets=(), run=False)
    assert result.work.lifted is not None, result.reason
    for seed in range(20):
        sampler = Sampler(result.work.lifted, seed)
        for count in (-1, 0, 1, 5):
            known = sampler.plan("small", {"n": count}).known
            assert known["len(places, 0)"] == max(0, count)
            assert (known["len(t, 0)"] > 0) == (count > 0)


def test_no_list_is_drawn_with_a_length_below_0(tmp_path: Path) -> None:
    """k >= len(x[0]) - 1 would be met by that."""
    (tmp_path / "f.py").write_text(
        "def f(x: list[list[float]], k: int):\n    s = 0.0\n    for i in range(len(x)):\n"
        "        for j in range(len(x[0])):\n            s += x[i][k - j]\n    return s\n"
    )
    (function,) = read_source(tmp_path / "f.py")
    assert isinstance(function, Function)
    sampler = Sampler(tensorize(summarize(function)), 0)
    for k in [-2, -1, 0, 2] * 10:
        known = sampler.plan("small", {"k": k}).known
        assert min(count for name, count in known.items() if name != "k") >= 0


# What runs


OTHERS = """
#include <stdio.h>
int counted = 3;
static const int START = 2;
#define TWICE(x) ((x) * 2)
typedef struct { int first; } one;
int broken(void) { int other_compilers_only = __clang_major__; return other_compilers_only; }
#ifndef __clang__
__attribute__((constructor)) static void before(void) { fclose(fopen("WITNESS", "w")); }
#define SEEN(x) (fopen("WITNESS", "w") ? (x) + 1 : (x))
#else
#define SEEN(x) (x)
#endif
static int half(int x) { return x / START; }
int f(int n, const int *a) { int s = 0; for (int i = 0; i < n; i++) s += TWICE(half(SEEN(a[i]))); return s; }
"""


@needs_compilers
def test_only_the_function_runs_and_it_may_only_compute(tmp_path: Path) -> None:
    """Other functions of the file are not compiled with it, even if a macro hides them from libclang; what
    the function itself does beyond computing, the process may not."""
    witness = tmp_path / "witness"
    (tmp_path / "f.c").write_text(OTHERS.replace("WITNESS", str(witness)))
    (result,) = lift_file(tmp_path / "f.c", "f", targets=())
    assert result.proved and result.work.checked.inputs > 50, result.reason
    assert not witness.exists()


@pytest.mark.parametrize(
    "statement", ["open(p, 'w')", "__import__('os').mkdir(p)", "__import__('os').fork()"]
)
def test_a_python_function_may_only_compute(statement: str, tmp_path: Path) -> None:
    interpreter = Interpreter(numpy=False)
    interpreter.add("here", f"def f(p):\n    {statement}\n    return 3\n")
    path = tmp_path / "made"
    with pytest.raises((Raised, ProcessGone)):
        interpreter.call("here", "f", [str(path)])
    assert not path.exists()


def test_what_does_not_compile_stops_no_other_function(tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text(
        "#ifdef __clang__\n#define OTHER 1\n#endif\n"
        "int f(int n, const int *a) { int s = 0; for (int i = 0; i < n; i++) s += a[i]; return s; }\n"
        "int g(int n, const int *a) { int s = 0; for (int i = 0; i < n; i++) s += a[i] * OTHER; return s; }\n"
    )
    f, g = lift_file(tmp_path / "f.c", targets=())
    assert f.proved and f.work.checked.inputs > 50
    assert g.proved and g.work.checked.inputs == 0 and "OTHER" in g.work.checked.why_not
    assert str(g.work.checked).startswith("not checked against the running source: ")


@pytest.mark.skipif(sys.platform != "linux" or not compilers(), reason="no compiler, or no such limits")
def test_where_memory_is_limited_a_sanitizer_that_cannot_start_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("void f(float *a, int n) { for (int i = 0; i < n; i++) a[i] = a[i] + 1; }")
    command = [sys.executable, "-m", "tensmith", "lift", "a.c", "--to", "numpy"]
    limited = ["sh", "-c", 'ulimit -v 8000000; exec "$@"', "sh", *command]
    done = subprocess.run(limited, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "checked against the compiled source on" in done.stdout
    assert "address" not in done.stdout


def test_it_says_when_it_was_not_done(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text(WEAK["f.py"])
    (result,) = lift_file(tmp_path / "f.py", targets=(), run=False)
    assert str(result.work.checked) == "not checked against the running source: it was not run"
    assert result.to_json()["checked"] == {"inputs": 0, "by": "", "why_not": "it was not run"}
    assert str(Checked(9, "gcc 12.2")) == "checked against the compiled source on 9 inputs (gcc 12.2)"


def test_arrays_stay_arrays_where_only_an_annotation_says_so(tmp_path: Path) -> None:
    """int16 arrays wrap around where lists of numbers do not."""
    (tmp_path / "f.py").write_text(
        "import numpy as np\ndef f(a: np.ndarray[tuple[int], np.dtype[np.int16]]):\n"
        "    s = 0\n    for i in range(len(a)):\n        s += abs(i * a[i])\n    return s\n"
    )
    (result,) = lift_file(tmp_path / "f.py", targets=())
    assert result.proved and result.work.checked.inputs > 50, result.reason


@needs_compilers
def test_names_of_the_caller_meet_none_of_the_source(tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text("int s(int n) { return n / 3; }\nint result(int n) { return s(n); }")
    for result in lift_file(tmp_path / "f.c", targets=()):
        assert result.proved and result.work.checked.inputs > 50, result.reason


# Differences that generated programs have shown.
SHOWN = {
    "f.c": (
        "struct S { int n; double x; }; unsigned long f(struct S s) "
        "{ unsigned long t = 0; for (int i = 0; i < s.n; i++) t += i; return t; }"
    ),
    "g.c": (
        "#include <math.h>\ndouble f(int n, double x) "
        "{ double t = 0; for (int i = 0; i < n; i++) t += 1 / floor(x); return t; }"
    ),
    "h.c": (
        "void f(int n, const int *a, const int *b, int *c) "
        "{ for (int i = 0; i < n; i++) if (a[i] > 0) c[i] = a[i] % b[i]; else c[i] = 0; }"
    ),
    "i.c": (
        "float f(int n, const long *a) { float s = 0; for (int i = 0; i < n; i++) s += a[i]; return s; }"
    ),
    "f.cpp": (
        "namespace m { template <class T> static T twice(T x) { return x + x; } }\n"
        "template <> int m::twice<int>(int x) { return 3 * x; }\n"
        "long f(int n, const int *a, const long *b) "
        "{ long s = 0; for (int i = 0; i < n; i++) s += m::twice(a[i]) + m::twice(b[i]); return s; }"
    ),
    "g.py": "def f(a: list[float]) -> list[int]:\n    out = []\n    for i, v in enumerate(a):\n"
    "        if (i + i) != int(v):\n            t = (not i)\n        else:\n            t = (i * i)\n"
    "        out.append(t)\n    return out\n",
    "f.py": "def f(a: list[float]) -> list[float]:\n    return [abs(v ** 0.5) % 2.0 for v in a]\n",
}


@needs_compilers
@pytest.mark.parametrize("file", SHOWN)
def test_program_and_source_agree(file: str, tmp_path: Path) -> None:
    (tmp_path / file).write_text(SHOWN[file])
    *_, result = lift_file(tmp_path / file, targets=())
    assert result.proved and result.work.checked.inputs > 30, result.reason


@needs_compilers
def test_infinity_is_no_function_of_the_source(tmp_path: Path) -> None:
    """clang declares what the macro calls where another function first uses it."""
    (tmp_path / "f.c").write_text(
        "#include <math.h>\nfloat high(void) { return INFINITY; }\n"
        "float f(int n, const float *x) "
        "{ float m = -INFINITY; for (int i = 0; i < n; i++) m = fmaxf(m, x[i]); return m; }"
    )
    (result,) = lift_file(tmp_path / "f.c", function="f", targets=())
    assert result.proved and result.work.checked.inputs > 30, result.work.checked


@needs_compilers
def test_a_scalar_that_must_be_no_nan_is_checked(tmp_path: Path) -> None:
    """The source keeps s where x is NaN, a minimum does not."""
    (tmp_path / "f.c").write_text(
        "float f(int n, float x) { float s = 0; for (int i = 0; i < n; i++) s = x < s ? x : s; return s; }"
    )
    (result,) = lift_file(tmp_path / "f.c", targets=("numpy", "c"))
    assert result.proved and result.work.checked.inputs > 30, result.reason
    assert result.requires == ("no NaN in x",)
    called: dict[str, Any] = {}
    exec(result.emitted["numpy"]["f.py"], called)
    with pytest.raises(ValueError, match="f requires no NaN in x"):
        called["f"](3, math.nan)
    assert b"if (x != x) return 1;" in result.emitted["c"]["f.c"]


# How far apart floats may be.


ADDED = "def f(a: list[float]) -> float:\n    s = 0.0\n    for v in a:\n        s += v\n    return s\n"


def judge_of_sums(folder: Path, program: CallableLift) -> LiftJudge:
    """Holds a program against the sum of a list."""
    (folder / "f.py").write_text(ADDED)
    (result,) = lift_file(folder / "f.py", targets=(), run=False)
    lifted, function = result.work.lifted, result.work.function
    assert lifted is not None and function is not None
    return LiftJudge(lifted, SecondReader(folder / "f.py", [function]).sources["f"], program)


def draw_of(values: Mapping[str, Any]) -> Draw:
    return Draw(values, values, DrawPlan({}, {}, "small", (), (), False), 0)


@pytest.mark.parametrize(("roundings", "same"), [(1, True), (-1, True), (4, False), (-4, False)])
def test_a_sum_may_be_off_by_its_roundings_and_no_more(roundings: int, same: bool, tmp_path: Path) -> None:
    """A sum of n numbers of one sign in any order is off by n roundings at most."""
    values = {"a": np.linspace(1, 2, 40)}
    off = 1 + roundings * 40 * np.finfo(np.float64).eps

    def program(arguments: Mapping[str, Any]) -> list[Any]:
        return [np.float64(sum(arguments["a"].tolist()) * off)]

    judge, draw = judge_of_sums(tmp_path, program), draw_of(values)
    if same:
        judge.one(draw)
        assert judge.compared == 1
    else:
        with pytest.raises(Difference):
            judge.one(draw)


@pytest.mark.parametrize("last", [math.inf, math.nan])
def test_a_number_is_not_what_is_none(last: float, tmp_path: Path) -> None:
    found = [last]
    judge, draw = (
        judge_of_sums(tmp_path, lambda _: [np.float64(found[0])]),
        draw_of({"a": np.array([1, last])}),
    )
    judge.one(draw)
    assert judge.compared == 1
    for other in (5.0, *([-math.inf] if last == math.inf else [])):
        found[0] = other
        with pytest.raises(Difference):
            judge.one(draw)


def test_a_program_that_crashes_is_no_slow_one(tmp_path: Path) -> None:
    def ended(crashed: bool) -> CallableLift:
        def program(arguments: Mapping[str, Any]) -> list[Any]:
            raise ProcessGone(crashed)

        return program

    draws = [draw_of({"a": np.ones(2)})]
    assert judge_of_sums(tmp_path, ended(crashed=False)).all(draws) == 0
    with pytest.raises(Difference, match="the program crashes"):
        judge_of_sums(tmp_path, ended(crashed=True)).all(draws)


@needs_compilers
def test_a_sum_of_doubles_in_a_float_is_off_by_roundings_of_floats(tmp_path: Path) -> None:
    """Terms that nearly cancel: what is off is as large as they are, not as their sum."""
    (tmp_path / "f.c").write_text(
        "float f(int n, const double *v) { float t = 0; for (int i = 0; i < n; i++) t += v[i]; return t; }"
    )
    (result,) = lift_file(tmp_path / "f.c", targets=(), run=False)
    lifted, function = result.work.lifted, result.work.function
    assert lifted is not None and function is not None
    source = SecondReader(tmp_path / "f.c", [function]).sources["f"]
    v = np.array([1000.1, 2.3, -1000.2])
    values = {"n": len(v), "v": v}
    judge = LiftJudge(lifted, source, lambda arguments: [np.float32(arguments["v"].sum())])
    judge.one(Draw(values, values, DrawPlan({}, {}, "small", (), (), False), 0))
    assert judge.compared == 1


@needs_compilers
def test_whole_numbers_that_cannot_move_leave_roundings_too(tmp_path: Path) -> None:
    """Quotients of 1 and -1 cancel in a float, and take the small ones between them along."""
    (tmp_path / "f.c").write_text(
        "float f(int n, const long *v)\n"
        "{ float t = 0; for (int i = 0; i < n; i++) t += 1e2 / v[i]; return t; }"
    )
    (result,) = lift_file(tmp_path / "f.c", targets=(), run=False)
    lifted, function = result.work.lifted, result.work.function
    assert lifted is not None and function is not None
    source = SecondReader(tmp_path / "f.c", [function]).sources["f"]
    v = np.array([7 * 10**18, 1, -1, 5 * 10**18], np.int64)
    values = {"n": len(v), "v": v}
    judge = LiftJudge(lifted, source, lambda arguments: [np.float32((100 / arguments["v"]).sum())])
    judge.one(Draw(values, values, DrawPlan({}, {}, "small", (), (), False), 0))
    assert judge.compared == 1


@needs_compilers
@pytest.mark.parametrize(("off", "b", "same"), [(1, 1 / 3, True), (1, 0.5, False), (9, 1 / 3, False)])
def test_whole_numbers_of_floats_may_be_off_where_rounding_decides(
    off: int, b: float, same: bool, tmp_path: Path
) -> None:
    """(float)b / b is 1 up to rounding, so what it is cut to is 0 or 1; where nothing is rounded it is 1."""
    (tmp_path / "f.c").write_text("int f(double b) { return (int)((float)b / b); }")
    (result,) = lift_file(tmp_path / "f.c", targets=(), run=False)
    lifted, function = result.work.lifted, result.work.function
    assert lifted is not None and function is not None
    source = SecondReader(tmp_path / "f.c", [function]).sources["f"]
    judge = LiftJudge(lifted, source, lambda arguments: [np.int32(source(arguments).value - off)])
    draw = Draw({"b": b}, {"b": b}, DrawPlan({}, {}, "small", (), (), False), 0)
    if same:
        judge.one(draw)
        assert judge.compared == 1
    else:
        with pytest.raises(Difference):
            judge.one(draw)


def test_python_makes_no_whole_numbers_of_more_than_64_bits(tmp_path: Path) -> None:
    """A float holds it again, and the lift states that there is none."""
    (tmp_path / "f.py").write_text(
        "import math\ndef f(a: list[int]) -> list[float]:\n"
        "    return [float(math.floor(math.exp(v))) for v in a]\n"
    )
    (result,) = lift_file(tmp_path / "f.py", targets=())
    assert result.proved, result.reason


@needs_compilers
def test_a_quotient_that_nobody_uses_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text(
        "void f(int n, const int *b, int *c) { for (int i = 0; i < n; i++) { (void)(1 / b[i]); c[i] = 1; } }"
    )
    (result,) = lift_file(tmp_path / "f.c", targets=())
    assert not result.proved and "a quotient that nobody uses" in result.reason


@needs_compilers
def test_arrays_that_no_memory_holds_are_not_made(tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text("double f(const double *b) { return b[0] + b[18446744073709551614u]; }")
    (result,) = lift_file(tmp_path / "f.c", targets=())
    assert "time and memory" in str(result.work.checked)


def test_a_square_root_written_as_a_power_takes_no_minus_infinity(tmp_path: Path) -> None:
    """Python's -inf ** 0.5 is inf, and the lift says that it is left out."""
    (tmp_path / "f.py").write_text(
        "def f(a: list[float]) -> list[float]:\n    return [v ** 0.5 for v in a]\n"
    )
    (result,) = lift_file(tmp_path / "f.py", targets=())
    assert result.proved and any("-inf" in sentence for sentence in result.work.lifted.assumes)
