"""What has no meaning in one function of a file keeps no other from being lifted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensmith.errors import TensmithError
from tensmith.lifting.loops import Function
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.c.read import read_c

pytest.importorskip("clang.cindex", reason="libclang is not installed")

GOOD = "int good(int n) { return n + 1; }\n"
WRONG = [
    ("std::rotate(x, x + 1, x + n); return 2;", "std::rotate is not known here"),
    ("return std::accumulate(x, x + n, 0, [](int a, int b) { return a * b; });", "takes these arguments"),
    ("return n + M;", "use of undeclared identifier 'M'"),
]


def read(folder: Path, text: str) -> dict[str, Function | Refusal]:
    path = folder / "f.cpp"
    path.write_text("#include <algorithm>\n#include <numeric>\n" + text)
    return {str(each.function if isinstance(each, Refusal) else each.name): each for each in read_c(path)}


@pytest.mark.parametrize(("body", "words"), WRONG)
def test_an_error_refuses_its_function_and_those_that_call_it(body: str, words: str, tmp_path: Path) -> None:
    text = f"int bad(int n, int *x) {{ {body} }}\nint user(int n, int *x) {{ return bad(n, x) + 1; }}\n{GOOD}"
    found = read(tmp_path, text)
    assert isinstance(found["good"], Function)
    for name in ("bad", "user"):
        refusal = found[name]
        assert isinstance(refusal, Refusal) and words in refusal.reason and refusal.position.line == 3


def test_a_template_that_lost_a_statement_is_written_out_nowhere(tmp_path: Path) -> None:
    lost = "template <class T> void step(T &x) { std::bar(x); x = x + 1; }\n"
    found = read(tmp_path, f"{lost}int user(int n) {{ step(n); return n; }}\n{GOOD}")
    assert isinstance(found["user"], Refusal)
    assert isinstance(found["good"], Function)


@pytest.mark.parametrize(
    "text", ["int M = foo();\n", "int bad(int n) { return n + ; }\n", "struct S { foo a; };\n"]
)
def test_an_error_outside_of_functions_or_of_the_syntax_refuses_the_file(text: str, tmp_path: Path) -> None:
    with pytest.raises(TensmithError, match=r"f\.cpp:3:\d+: "):
        read(tmp_path, text + GOOD)
