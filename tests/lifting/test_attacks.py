"""Held-out attacks: functions by someone who was not there when the front ends were built.

Each is refused, or agrees with its source wherever what is stated holds. Without the words of stated.txt a
lift would be wrong for inputs that their languages allow.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lifting.harness_native import compilers
from tensmith.lifting.pipeline import lift_file
from tensmith.lifting.result import LiftResult
from tensmith.lifting.second import SecondReader

TABLES = Path(__file__).parent / "attacks"
INPUTS = 8
TYPES = {
    "i8": "signed char", "u8": "unsigned char", "i16": "short", "u16": "unsigned short", "i32": "int",
    "u32": "unsigned", "i64": "long", "u64": "unsigned long", "f32": "float", "f64": "double", "b": "_Bool",
}  # fmt: skip
C_HEADERS = ("limits", "math", "stddef", "stdint", "stdlib", "string", "float")
CPP_HEADERS = ("algorithm", "array", "cmath", "cstdint", "cstdlib", "cstring", "limits", "numeric", "vector")
C = "".join(f"#include <{name}.h>\n" for name in C_HEADERS)
CPP = "".join(f"#include <{name}>\n" for name in CPP_HEADERS)
LOOP = (
    "void @(int n, const {} *a, const {} *b, {} *o, int k, double h) "
    "{{ for (int i = 0; i < n; i++) o[i] = {}; }}"
)
LIST = """def @(a: list[{0}], b: list[{0}], k: {1}) -> list[{2}]:
    n = len(a)
    r = []
    for i in range(n):
        x = a[i]
        y = b[i]
        r.append({3})
    return r
"""

ARRAY = """def @(
    a: np.ndarray[tuple[int], np.dtype[np.{0}]], b: np.ndarray[tuple[int], np.dtype[np.{1}]], k: {2}
):
    n = a.shape[0]
    r = np.zeros(n, dtype=np.{3})
    for i in range(n):
        x = a[i]
        y = b[i]
        r[i] = {4}
    return r
"""


def table(name: str, between: str = "\n") -> list[str]:
    """The entries of a table, without its first."""
    return (TABLES / name).read_text().strip().split(between)[1:]


def elements(name: str, around: str, types: dict[str, str]) -> list[str]:
    """Functions around the expressions of a table."""
    found = []
    for line in table(name):
        given, expression = line.split(" : ", 1)
        found.append(around.format(*(types.get(word, word) for word in given.split()), expression))
    return found


def functions(name: str) -> list[str]:
    """The functions of a table, a macro with what uses it."""
    found: list[str] = []
    for line in table(name):
        if found and found[-1].startswith("#define") and "\n" not in found[-1]:
            found[-1] += f"\n{line}"
        else:
            found.append(line)
    return found


def lifted(folder: Path, suffix: str, head: str, texts: list[str]) -> tuple[Path, list[LiftResult]]:
    """All texts in one file, lifted by the proof alone."""
    path = folder / f"attacks{suffix}"
    path.write_text(head + "\n".join(text.replace("@", f"f{number}") for number, text in enumerate(texts)))
    return path, lift_file(path, targets=(), run=False)


def agreeing(path: Path, results: list[LiftResult]) -> int:
    """How many proved functions were run; each agrees, or this raises the refusal that says where not."""
    proved = [result for result in results if result.proved]
    assert not [result.reason for result in results if "the fault is ours" in result.reason]
    ran = 0
    for start in range(0, len(proved), 60):  # a process has seconds for all of its calls
        some = proved[start : start + 60]
        made = [result.work.function for result in some if result.work.function is not None]
        reader = SecondReader(path, made, INPUTS)
        for result in some:
            assert result.work.lifted is not None
            ran += reader.check(result.work.lifted).inputs > 0
    return ran


@pytest.mark.skipif(not compilers(), reason="gcc and g++ are not installed")
def test_c_that_is_proved_agrees_with_the_compiled_source(tmp_path: Path) -> None:
    texts = elements("c_elements.txt", LOOP, TYPES) + functions("c.txt")
    assert agreeing(*lifted(tmp_path, ".c", C, texts)) >= 280


@pytest.mark.skipif(not compilers(), reason="gcc and g++ are not installed")
def test_cpp_that_is_proved_agrees_with_the_compiled_source(tmp_path: Path) -> None:
    assert agreeing(*lifted(tmp_path, ".cpp", CPP, functions("cpp.txt"))) >= 70


def test_what_a_lift_takes_for_granted_is_stated(tmp_path: Path) -> None:
    pairs = [line.split(" : ", 1) for line in table("stated.txt")]
    _, results = lifted(tmp_path, ".cpp", CPP, [text for _, text in pairs])
    for (words, text), result in zip(pairs, results, strict=True):
        said = result.requires + result.assumes + result.notes if result.proved else (result.reason,)
        assert any(words in part for part in said), (text, said)


@pytest.mark.skipif(not compilers(), reason="gcc and g++ are not installed")
def test_steps_that_may_be_zero_do_not_end_the_reading(tmp_path: Path) -> None:
    text = "void @(int n, const int *a, int *o, int k) { for (int i = 0; i < n; i += k) o[i] = a[i]; }"
    path, results = lifted(tmp_path, ".c", "", [text])
    assert "k >= 1" in results[0].requires and agreeing(path, results) == 1


def test_a_branch_that_picks_one_element_is_no_trivial_input(tmp_path: Path) -> None:
    text = "void @(int n, int *a, int k) { for (int i = 0; i < n; i++) if (i == k) a[i] = 7; }"
    (result,) = lifted(tmp_path, ".c", "", [text])[1]
    assert result.proved and not result.notes


def test_python_that_is_proved_agrees_with_the_running_source(tmp_path: Path) -> None:
    texts = elements("python_elements.txt", LIST, {}) + table("python.txt", "\n\n")
    assert agreeing(*lifted(tmp_path, ".py", "import math\n\n", texts)) >= 170


def test_numpy_that_is_proved_agrees_with_the_running_source(tmp_path: Path) -> None:
    head = "import math\n\nimport numpy as np\n\n"
    texts = [*elements("numpy_elements.txt", ARRAY, {}), *table("numpy.txt", "\n\n")]
    assert agreeing(*lifted(tmp_path, ".py", head, texts)) >= 110


SEVERAL_KINDS = "def f(a: np.ndarray[tuple[int], np.dtype[np.uint8]], k: int):\n    return {}\n"


@pytest.mark.parametrize(
    "expression", ["max(a[0], 5) * 100", "(a[0] if k > 0 else 7) * 100", "(a[0] or k) - 1", "sum(a) - 1"]
)
def test_a_value_that_wraps_on_some_paths_alone_is_refused(expression: str, tmp_path: Path) -> None:
    (result,) = lifted(tmp_path, ".py", "import numpy as np\n", [SEVERAL_KINDS.format(expression)])[1]
    assert "NumPy's u8 or Python's int, by the path taken" in result.reason


@pytest.mark.parametrize("expression", ["max(a[0], -9)", "max(a[0], k)", "min(a[0], 300) * 100"])
def test_an_extreme_of_elements_and_numbers_of_python_is_exact(expression: str, tmp_path: Path) -> None:
    path, results = lifted(tmp_path, ".py", "import numpy as np\n", [SEVERAL_KINDS.format(expression)])
    assert agreeing(path, results) == 1
