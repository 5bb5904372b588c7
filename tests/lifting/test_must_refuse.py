"""What no tensor program stands for is refused with a sentence that says why, or restricted by a guard.

The functions lie in kernels/refuse, each with the words that its refusal must speak of one of.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

import harness
import pytest
from corpus import Forbidden, forbidden
from harness_targets import Numpy

from tensmith.errors import TensmithError
from tensmith.lifting.pipeline import lift_file
from tensmith.lifting.result import LiftResult

# What is lifted once serves all of them.
pytestmark = pytest.mark.xdist_group(__name__)

FORBIDDEN = forbidden()


@functools.cache
def results(path: Path) -> dict[str, LiftResult]:
    return {result.name: result for result in lift_file(path, run=False)}


def test_there_are_enough() -> None:
    assert sum(case.kind == "refuses" for case in FORBIDDEN) >= 25
    texts = [path.read_text() for path in {case.path for case in FORBIDDEN}]
    annotated = re.compile(r"^(?://|#|/\*) (?:refuses|restricted|either):", re.MULTILINE)
    assert len(FORBIDDEN) == sum(len(annotated.findall(text)) for text in texts)


@pytest.mark.parametrize("case", FORBIDDEN, ids=str)
def test_must_refuse(case: Forbidden, tmp_path: Path) -> None:
    result = results(case.path)[case.function]
    if result.status == "refused":
        assert result.line > 0 and result.column > 0
        assert len(result.reason) > 20, "a refusal is a sentence"
        assert "the fault is ours" not in result.reason
        assert any(word in result.reason.lower() for word in case.words), result.reason
    elif case.kind == "restricted":
        stated = " ".join((*result.requires, *result.assumes)).lower()
        assert any(word in stated for word in case.words), stated
    else:
        assert case.kind == "either", f"lifted as\n{result.program}"
        compared(case, tmp_path)


def compared(case: Forbidden, folder: Path) -> None:
    """Where a lift may be right, it has to be."""
    if not harness.compilers():
        pytest.skip("gcc and g++ are not installed")
    (result,) = lift_file(case.path, case.function, ["numpy"], folder, run=False)
    lifted = result.work.lifted
    assert lifted is not None
    library = harness.build(case.path, [case.function], folder)
    source = harness.source_of(case.path, lifted.function, library)
    (verdict,) = harness.judge(lifted, source, {"numpy": Numpy(lifted, folder)}, 200).values()
    assert not verdict.wrong, verdict.wrong[0]
    assert verdict.compared


def deep(depth: int) -> str:
    return f"int f(int n) {{ return {'(' * depth}n{')' * depth}; }}\n"


def deep_loops(depth: int) -> str:
    loops = "".join(f"for (int i{d} = 0; i{d} < n; i{d}++) {{ " for d in range(depth))
    return f"void f(int *a, int n) {{ {loops} a[0] = 1; {'}' * depth} }}\n"


def deep_python(depth: int) -> str:
    return f"def f(n):\n    return {'(' * depth}n{')' * depth}\n"


def nested_python(depth: int) -> str:
    lines = [f"{'  ' * (d + 1)}for i{d} in range(n):" for d in range(depth)]
    return "def f(a, n):\n" + "\n".join(lines) + f"\n{'  ' * (depth + 1)}a[0] = 1\n"


def long(suffix: str, bytes_: int = 10_000_000) -> str:
    line = "    x = x + 1;\n" if suffix == ".c" else "    x = x + 1\n"
    head = "int f(int x) {\n" if suffix == ".c" else "def f(x):\n"
    tail = "    return x;\n}\n" if suffix == ".c" else "    return x\n"
    return head + line * (bytes_ // len(line)) + tail


MALFORMED = {
    "syntax.c": "int f(int n) { return n +; }\n",
    "unclosed.c": "int f(int n) { for (int i = 0; i < n; i++) {\n",
    "missing_header.c": '#include "not_there.h"\nint f(int n) { return helper(n); }\n',
    "bytes.c": "\x00\x01\x02 int f(\ufffd",
    "empty.c": "",
    "deep.c": deep(100_000),
    "deep_loops.c": deep_loops(200),
    "big.c": long(".c"),
    "deep_branches.c": f"int f(int n) {{ int s = 0; {'if (n > s) { s++; ' * 200}{'}' * 200} return s; }}\n",
    "endless.c": "int f(int n) { while (1) { n++; } return n; }\n",
    "quote.c": 'int f(int n) { char *s = "abc; return n; }\n',
    "comment.c": "int f(int n) { /* return n; }\n",
    "doubling.c": f"int f(int n) {{ int s = n; {'s = s * s; ' * 40} return s; }}\n",
    "endless_macro.c": "#define a b\n#define b a\nint f(int n) { return a; }\n",
    "includes_itself.c": '#include "includes_itself.c"\nint f(int n) { return n; }\n',
    "syntax.cpp": "#include <vector>\nstd::vector<int f(int n) { return n; }\n",
    "deep_template.cpp": "template <int N> struct S { static const int v = S<N + 1>::v; };\n"
    "int f(int n) { return S<0>::v; }\n",
    "syntax.py": "def f(n:\n    return n\n",
    "indent.py": "def f(n):\nreturn n\n",
    "deep.py": deep_python(100_000),
    "deep_loops.py": nested_python(60),
    "endless.py": "def f(n):\n    while True:\n        n += 1\n    return n\n",
    "quote.py": "def f(n):\n    s = '''abc\n    return n\n",
    "big.py": long(".py"),
    "bytes.py": "def f(n):\n    return '\x00'\n",
    "empty.py": "",
}


@pytest.mark.timeout(180)  # an answer takes some 5 s on a quiet machine; what hangs ends here
@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_files_are_answered_in_time(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(MALFORMED[name])
    try:
        found = lift_file(path, run=False)
    except TensmithError as error:
        assert len(str(error)) > 10
    else:
        for result in found:
            assert result.status == "refused" or name.startswith("deep"), result
            assert "the fault is ours" not in result.reason


@pytest.mark.parametrize("name", ["syntax.c", "syntax.cpp", "syntax.py", "indent.py", "missing_header.c"])
def test_errors_of_syntax_have_a_place(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(MALFORMED[name])
    try:
        found = lift_file(path, run=False)
    except TensmithError as error:
        assert re.search(r":\d+:\d+", str(error)), error
    else:
        assert found and all(result.status == "refused" and result.line for result in found)


def test_nothing_of_a_file_is_executed(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    path = tmp_path / "hostile.py"
    path.write_text(
        f"open({str(trace)!r}, 'w').write('ran')\n"
        f"def f(n, m=open({str(trace)!r}, 'w')):\n    return n\n"
        f"@open({str(trace)!r}, 'w').write\ndef g(n):\n    return n\n"
    )
    lift_file(path, run=False)
    assert not trace.exists()


RECURRENCES = {
    "s ^= a[i]": "bit by bit",
    "s |= a[i]": "bit by bit",
    "s = s * 33 + a[i]": "multiplied by 33",
    "s = (s << 1) + s + a[i]": "multiplied by 3",
    "s = s + 0.5f * a[i]": "cut off to an integer",
    "s = n * s + a[i]": "multiplied by n",
}


@pytest.mark.parametrize("step", RECURRENCES)
def test_recurrences_without_a_tensor_operation_are_named(step: str, tmp_path: Path) -> None:
    path = tmp_path / "f.c"
    path.write_text(
        f"int f(int n, const int *a) {{ int s = 1; for (int i = 0; i < n; i++) {step}; return s; }}\n"
    )
    (result,) = lift_file(path, run=False)
    assert result.status == "refused" and RECURRENCES[step] in result.reason


CONDITIONS = {
    "i < n / a[0]": "divides by what is no constant and no argument",
    "a[i] != 0": "reads 'a'",
    "i < n || i < m": "either of two cases",
    "s < n": "'s', which its condition tests",
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_why_a_loop_has_no_count_is_said(condition: str, tmp_path: Path) -> None:
    path = tmp_path / "f.c"
    loop = f"for (int i = 0; {condition}; i++) s += a[i];"
    path.write_text(f"int f(int n, int m, const int *a) {{ int s = 0; {loop} return s; }}\n")
    (result,) = lift_file(path, run=False)
    assert result.status == "refused" and CONDITIONS[condition] in result.reason
