"""A proof that fails is told in the words of the source: what, for which arguments, what to write instead."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tensmith.lifting.conditions import obligations, program_obligations
from tensmith.lifting.loops import Function
from tensmith.lifting.pipeline import derive_or_search, read_source
from tensmith.lifting.summary import Summary
from tensmith.lifting.tensorize import tensorize
from tensmith.lifting.unproved import unproved
from tensmith.verify.obligation import Obligation, Verdict
from tensmith.verify.solve import discharge

SIZES = """#include <vector>
int f(std::vector<int> v) {
    int s = v[0];
    for (unsigned i = 1; i < v.size(); i++) if (v[i] > s) s = v[i];
    return s;
}
"""
BYTES = """void f(int n, unsigned char m, const int *a, int *b) {
    for (unsigned char i = 0; i < m + n; i++) b[i] = a[i];
}
"""
LAST = """long f(unsigned n, const int *a) {
    long s = 0;
    for (unsigned i = 0; i < n - 1; i++) s += a[i];
    return s;
}
"""


def read(text: str, folder: Path, suffix: str = ".c") -> Function:
    path = folder / f"f{suffix}"
    path.write_text(text)
    (function,) = read_source(path)
    assert isinstance(function, Function)
    return function


def failure(summary: Summary) -> Verdict:
    found = discharge([*obligations(summary), *program_obligations(tensorize(summary), summary)])
    return next(verdict for verdict in found if verdict.status != "proved")


@pytest.mark.parametrize(("text", "suffix", "bits"), [(SIZES, ".cpp", 32), (BYTES, ".c", 8)])
def test_a_counter_of_too_few_bits_wraps(text: str, suffix: str, bits: int, tmp_path: Path) -> None:
    function = read(text, tmp_path, suffix)
    refusal = unproved(failure(derive_or_search(function)), function)
    assert refusal.reason.startswith(f"i + 1 is unsigned and wraps around at 2**{bits}; give it as many bits")
    assert refusal.position.line == text[: text.index("for")].count("\n") + 1


def test_an_unsigned_difference_says_what_to_write(tmp_path: Path) -> None:
    function = read(LAST, tmp_path)
    found = derive_or_search(function)
    summary = replace(found, requires=tuple(r for r in found.requires if r.kind != "at_least"))
    refusal = unproved(failure(summary), function)
    assert "n - 1 is unsigned" in refusal.reason and "write i + 1 < n" in refusal.reason


@pytest.mark.parametrize(
    "kind", ["bounds", "definedness", "exit", "initiation", "preservation", "post", "program"]
)
@pytest.mark.parametrize("status", ["refuted", "unknown"])
def test_counterexamples_are_arguments_by_their_names(kind: str, status: str, tmp_path: Path) -> None:
    detail = (
        "at.i%139 = 0\nin.n = 3\nin.B.rows = -1\nlen.v.0 = 2\nlen.w.1 = 4\nsize.n = 3\nfold.0 = [else -> 0]"
    )
    obligation = Obligation("name", kind, "s", "i@2:5", 2, 5)  # type: ignore[arg-type]
    function = read(BYTES, tmp_path)
    reason = unproved(Verdict(obligation, status, "", "z3", 0.0, detail), function).reason  # type: ignore[arg-type]
    assert not re.search(r"%|fold|at\.|size\.|in\.", reason)
    if status == "refuted":
        assert "where n = 3, B.rows = -1, len(v) = 2, len(w[0]) = 4;" in reason
    else:
        assert "in time" in reason and "n = 3" not in reason


@pytest.mark.parametrize(
    ("kind", "subject", "suffix", "advice"),
    [
        ("bounds", "b", ".c", "give the length of a row, where it has rows, as a parameter"),
        ("bounds", "v", ".cpp", "bound the loop by the array's own size"),
        ("program", "a view of b inside it", ".c", "simplify the expression"),
    ],
)
def test_advice_on_arrays_can_be_followed(
    kind: str, subject: str, suffix: str, advice: str, tmp_path: Path
) -> None:
    function = read(SIZES if suffix == ".cpp" else BYTES, tmp_path, suffix)
    obligation = Obligation("name", kind, subject, "i@2:5", 2, 5)  # type: ignore[arg-type]
    detail = "in.m = 3\nlen.a.0 = 1\nlen.b.0 = 2"
    reason = unproved(Verdict(obligation, "refuted", "", "z3", 0.0, detail), function).reason
    assert advice in reason and ("where len(b) = 2, m = 3, len(a) = 1;" in reason) == (suffix == ".c")


@pytest.mark.parametrize(
    ("kind", "subject", "words"),
    [
        ("program", "return.2", "what the loops do (the returned value 2);"),
        ("program", "axis 1 of return.2", "(axis 1 of the returned value 2);"),
        ("program", "return", "(the returned value);"),
        ("post", "return.2", "found for the returned value 2 is right;"),
        ("program", "returns", "(returns);"),
    ],
)
def test_what_is_returned_is_named_by_its_place(kind: str, subject: str, words: str, tmp_path: Path) -> None:
    obligation = Obligation("name", kind, subject, "", 2, 5)  # type: ignore[arg-type]
    verdict = Verdict(obligation, "refuted", "", "z3", 0.0)
    assert words in unproved(verdict, read(BYTES, tmp_path)).reason


def test_an_access_that_may_leave_its_array_is_named_by_its_subscripts(tmp_path: Path) -> None:
    text = "def f(x: list[list[float]]):\n    r = [x[i][:] for i in range(len(x))]\n"
    text += "    for p in range(len(x)):\n        for q in range(len(x[0])):\n"
    function = read(text + "            r[p][q + 1] = 0.0\n    return r\n", tmp_path, ".py")
    obligation = Obligation("name", "bounds", "r", "", 5, 13)
    refusal = unproved(Verdict(obligation, "refuted", "", "z3", 0.0), function)
    assert "cannot be shown that r[p][q + 1] lies inside of 'r';" in refusal.reason


def test_requirements_that_contradict_each_other_and_forms_say_so(tmp_path: Path) -> None:
    function = read(BYTES, tmp_path)
    none = Obligation("all hold", "satisfiable", "requirements", "", 1, 1, expects="sat")
    contradict = unproved(Verdict(none, "refuted", "", "z3", 0.0), function).reason
    assert "contradict" in contradict and "can never run" not in contradict  # a[-i] from i = 0 on does
    assert "in time" in unproved(Verdict(none, "unknown", "", "z3", 0.0), function).reason
    form = Obligation("there is no loop", "form", "f", "", 1, 1)
    assert "there is no loop" in unproved(Verdict(form, "refuted", "", "z3", 0.0), function).reason
