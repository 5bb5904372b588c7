"""Small functions that lifters get wrong: each is lifted rightly, or refused with the words that say why."""

from __future__ import annotations

import os
from pathlib import Path

import harness
import pytest
from harness_targets import Numpy

from tensmith.errors import TensmithError
from tensmith.lifting.pipeline import lift_file
from tensmith.lifting.result import LiftResult

RIGHT = {
    # One closed form at two iterations: folds over one variable with two extents.
    "lagged.py": "def lagged(a):\n    x = y = 0\n    for i in range(len(a)):\n"
    "        x, y = x + a[i], x\n    return x - y\n",
    "counting.c": "void counting(int n, int *a, int *k) {\n"
    "    for (int i = 0; i < n; i++) { a[i] += *k; *k = *k + 1; }\n}\n",
    # What gives a size cannot be None.
    "both.py": "def both(a, b):\n    s = 0\n    for i in range(len(a)):\n        a[i] = b[i]\n"
    "        s += b[i]\n    return s\n",
    # A length as a position that values are chosen by.
    "ends.py": "def ends(a, n):\n    return [a[i] if i < len(a) else 0 for i in range(n)]\n",
    # The element before the first of no elements.
    "last_added.c": "void last_added(int n, int *a) { for (int i = 0; i < n; i++) a[i] += a[n - 1]; }\n",
    # The type of a choice between an element and a constant.
    "last.c": "int last(int n, const int *a) {\n    int s = 0;\n"
    "    for (int i = 0; i < n; i++) s = a[i];\n    return s;\n}\n",
    # NaN: fmax takes the other argument.
    "relu.c": "#include <math.h>\nvoid relu(int n, const float *a, float *b) {\n"
    "    for (int i = 0; i < n; i++) b[i] = fmaxf(a[i], 0);\n}\n",
    "smaller.c": "#include <math.h>\nvoid smaller(int n, const float *a, const float *b, float *c) {\n"
    "    for (int i = 0; i < n; i++) c[i] = fminf(a[i], b[i]);\n}\n",
    "greatest.c": "#include <math.h>\nfloat greatest(int n, const float *a) {\n    float m = 0;\n"
    "    for (int i = 0; i < n; i++) m = fmaxf(m, a[i]);\n    return m;\n}\n",
    # Two ranges to one bound are one range.
    "zipped.py": "def zipped(n: int):\n    s = 0\n    for i, j in zip(range(n), range(n)):\n"
    "        s += i * j\n    return s\n",
    # The same statement once in every iteration and once in some.
    "counted.c": "static void count(int *k) { *k += 1; }\n"
    "int counted(int n, const int *a) {\n    int k = 0;\n"
    "    for (int i = 0; i < n; i++) { count(&k); if (a[i]) count(&k); }\n    return k;\n}\n",
    # Conversions of scalars wrap.
    **{
        f"{name}.c": f"#include <stdint.h>\nstatic int as_int(uint32_t p) {{ return p; }}\n"
        f"long {name}({type_} x, int n) {{\n    long k = 0; int c = 0;\n"
        f"    for (int i = 0; i < n; i++) {statement}\n    return k + c * 0;\n}}\n"
        for name, type_, statement in (
            ("declared", "uint32_t", "{ int d = x; k += d; }"),
            ("assigned", "uint32_t", "k += (c = x);"),
            ("cast_to_int", "uint32_t", "k += (int)x;"),
            ("returned", "uint32_t", "k += as_int(x);"),
            ("narrowed", "int64_t", "{ int d = x; k += d; }"),
            ("to_short", "int", "{ short d = x; k += d; }"),
            ("to_char", "int64_t", "{ char d = x; k += d; }"),
            ("to_unsigned", "int64_t", "{ unsigned d = x; k += d; }"),
            ("to_long", "uint64_t", "{ long d = x; k += d % 7; }"),
            ("beside_positions", "uint32_t", "k += (int)(x + i);"),
        )
    },
}
# Sizes and positions that are converted are required to fit.
REQUIRED = {
    "void bound(uint32_t n, int64_t *a) { int m = n; for (int i = 0; i < m; i++) a[i] += m; }":
        ("n <= 2147483647", "elements of a >= n"),
    "void signed_bound(int64_t n, int *a) { int m = n; for (int i = 0; i < m; i++) a[i] = 0; }":
        ("n >= -2147483648", "n <= 2147483647", "elements of a >= n"),
    "void positions(uint64_t n, int *a) { for (uint64_t i = 0; i < n; i++) a[i] = i; }":
        ("n <= 2147483648", "elements of a >= n"),
    "int subscript(uint32_t x, const int *a) { return a[(int)x]; }":
        ("x <= 2147483647", "elements of a >= x + 1"),
    "void branch(uint32_t x, int n, int *a) { int c = x; for (int i = 0; i < n; i++) if (c > i) a[i] = 0; }":
        ("x <= 2147483647", "elements of a >= n"),
    "float mean(size_t n, const float *a) {"
    " float s = 0; for (size_t i = 0; i < n; i++) s += a[i]; return s / (int)n; }":
        ("elements of a >= n",),
}  # fmt: skip
REFUSED = {
    "unordered.c": ("#include <math.h>\nfloat unordered(int n, const float *a) {\n    float m = NAN;\n"
    "    for (int i = 0; i < n; i++) if (a[i] > m) m = a[i];\n    return m;\n}\n", "NaN"),
    "sizes.cpp": ("#include <cmath>\n#include <vector>\nfloat sizes(std::vector<float> v) {\n"
    "    float s = 0;\n    for (float x : v) s += abs(x);\n    return s;\n}\n", "std::abs"),
}  # fmt: skip


def lift(folder: Path, name: str, text: str, function: str | None = None) -> LiftResult:
    path = folder / name
    path.write_text(text)
    (result,) = lift_file(path, function, ["numpy"], folder / "lifted", run=False)
    return result


@pytest.mark.parametrize("name", RIGHT)
def test_lifted_rightly(name: str, tmp_path: Path) -> None:
    if name.endswith(".c") and not harness.compilers():
        pytest.skip("gcc and g++ are not installed")
    result = lift(tmp_path, name, RIGHT[name], Path(name).stem)
    assert result.status == "proved", result.reason
    lifted, path = result.work.lifted, tmp_path / name
    assert lifted is not None
    library = harness.build(path, [result.name], tmp_path) if name.endswith(".c") else None
    source = harness.source_of(path, lifted.function, library)
    (verdict,) = harness.judge(lifted, source, {"numpy": Numpy(lifted, tmp_path / "lifted")}, 200).values()
    assert not verdict.wrong, verdict.wrong[0]
    assert verdict.compared > 100


@pytest.mark.parametrize("text", REQUIRED)
def test_sizes_that_are_converted_are_required_to_fit(text: str, tmp_path: Path) -> None:
    result = lift(tmp_path, "sized.c", f"#include <stddef.h>\n#include <stdint.h>\n{text}\n")
    assert result.status == "proved", result.reason
    assert result.requires == REQUIRED[text]


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_a_reason(name: str, tmp_path: Path) -> None:
    text, words = REFUSED[name]
    result = lift(tmp_path, name, text)
    assert result.status == "refused"
    assert words in result.reason and result.line > 0


def test_lengths_of_an_array_are_not_required_of_itself(tmp_path: Path) -> None:
    text = "def total(a):\n    s = 0\n    for x in a:\n        s += x\n    return s\n"
    assert lift(tmp_path, "total.py", text).requires == ()
    text = "void left(int n, int *a) { for (int i = 0; i + 1 < n; i++) a[i] = a[i + 1]; }\n"
    assert lift(tmp_path, "left.c", text).requires == ("elements of a >= n",)


def test_the_source_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "total.py"
    path.write_text("def total(a):\n    s = 0\n    for x in a:\n        s += x\n    return s\n")
    text = path.read_text()
    (result,) = lift_file(path, None, ["numpy"], tmp_path, run=False)
    assert result.status == "refused" and "source itself" in result.reason
    assert path.read_text() == text and list(tmp_path.iterdir()) == [path]


def test_functions_of_one_name_do_not_overwrite_each_other(tmp_path: Path) -> None:
    path = tmp_path / "twice.cpp"
    path.write_text("int f(int n) { return n; }\nint f(float n) { return n; }\n")
    results = lift_file(path, None, ["numpy"], tmp_path / "lifted", run=False)
    assert [result.status for result in results] == ["refused", "refused"]
    assert "named f" in results[0].reason and not (tmp_path / "lifted").exists()


def test_a_pipe_is_no_source(tmp_path: Path) -> None:
    path = tmp_path / "pipe.py"
    os.mkfifo(path)
    with pytest.raises(TensmithError, match="not a file"):
        lift_file(path)


@pytest.mark.parametrize(
    ("divisor", "said"), [("y", True), ("0.1", True), ("3", True), ("2", False), ("-0.5", False)]
)
def test_quotients_that_may_round_to_whole_numbers_are_stated(
    divisor: str, said: bool, tmp_path: Path
) -> None:
    result = lift(tmp_path, "rest.py", f"def rest(x: float, y: float):\n    return x % {divisor} + y\n")
    assert any("1.0 / 0.1" in part for part in result.assumes) == said, result.reason


HELD = """
def second(p: int, q: int) -> int:
    return q


def cond(p: int, q: int) -> int:
    return p if q > 0 else q


def whole(n: int, m: int, x: int) -> int:
    return second(n // m, x)


def converted(n: int, m: int, x: int) -> int:
    return second(int(n // m > 3), x)


def on_a_branch(n: int, m: int, x: int) -> int:
    return cond(int(n // m > 3), x)
"""


def test_what_is_given_to_a_helper_is_computed_before_it(tmp_path: Path) -> None:
    path = tmp_path / "held.py"
    path.write_text(HELD)
    for result in lift_file(path, targets=(), run=False)[2:]:
        assert result.proved, (result.name, result.reason)
        assert [entry.text for entry in result.work.lifted.requires] == ["m != 0"], result.name


@pytest.mark.parametrize(("count", "said"), [("k", True), ("7", False)])
def test_shift_counts_that_c_leaves_undefined_are_stated(count: str, said: bool, tmp_path: Path) -> None:
    text = "void f(int n, unsigned k, const unsigned *a, unsigned *b)\n"
    text += f"{{\n    for (int i = 0; i < n; i++)\n        b[i] = (a[i] >> {count}) + k;\n}}\n"
    result = lift(tmp_path, "shifts.c", text)
    assert result.proved, result.reason
    assert any("shift counts" in part for part in result.assumes) == said
