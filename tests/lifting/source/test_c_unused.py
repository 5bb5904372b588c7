"""A value that nobody uses is computed all the same: what it divides by and reads has to be there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensmith.lifting.pipeline import lift_function, read_source
from tensmith.lifting.refusal import Refusal

pytest.importorskip("clang.cindex", reason="libclang is not installed")

HELPERS = """#include <string.h>
#include <vector>
using std::vector;
static int first(int x, int y) { return x; }
static int chosen(int x, int y) { return x > 0 ? y : 0; }
static int quotient(int x, int y) { return x / y; }
static const int &element(const int *a, int i) { return a[i]; }
"""
LOOP = "int f(int n, int k, const int *a) {{ int t = 0; for (int i = 0; i < n; i++) {{ {} }} return t; }}"
ROWS = "int f(const vector<vector<int>> &m) {{ int t = 0; {} return t; }}"

# A function whose value does not depend on it, and what it needs nevertheless.
NEEDED = {
    "left of a comma": (LOOP.format("t += ((a[i] % k), a[i]);"), "k != 0"),
    "left of a comma, by an index": (LOOP.format("t += ((a[i] % (i + k)), a[i]);"), None),
    "an element left of a comma": (LOOP.format("t += (a[i + k], a[i]);"), "elements of a >= n + k"),
    "expression statement": (LOOP.format("a[i] / k; t += a[i];"), "k != 0"),
    "element as a statement": (LOOP.format("a[i + k]; t += a[i];"), "elements of a >= n + k"),
    "cast to void": (LOOP.format("(void)(a[i] % k); t += a[i];"), "k != 0"),
    "cast to void and comma": (LOOP.format("(void)(a[i] % k, 0); t += a[i];"), "k != 0"),
    "local that is not read": (LOOP.format("int x = a[i] / k; t += a[i];"), "k != 0"),
    "local that is overwritten": (LOOP.format("int x = a[i] / k; x = 1; t += x;"), "k != 0"),
    "argument that is not used": (LOOP.format("t += first(a[i], a[i] / k);"), "k != 0"),
    "argument used at times": (LOOP.format("t += chosen(a[i], a[i] / k);"), "k != 0"),
    "result that is not used": (LOOP.format("quotient(a[i], k); t += a[i];"), "k != 0"),
    "reference that is not read": (LOOP.format("const int &r = a[i / k]; t += a[i];"), "k != 0"),
    "element that a helper names": (LOOP.format("element(a, i + k); t += 1;"), "elements of a >= n + k"),
    "empty if": (LOOP.format("if (a[i] / k) {} t += a[i];"), "k != 0"),
    "pointer as a condition": (LOOP.format("if (a + i / k) t += a[i];"), "k != 0"),
    "pointer against null": (LOOP.format("if (a + i / k != 0) t += a[i];"), "k != 0"),
    "hint": (LOOP.format("if (__builtin_expect(a[i] > 0, i / k)) t += a[i];"), "k != 0"),
    "choice that is not used": (LOOP.format("a[i] > 0 ? a[i] / k : 0; t += a[i];"), "k != 0"),
    "&& that is not used": (LOOP.format("(void)(a[i] > 0 && a[i] / k); t += a[i];"), "k != 0"),
    "step of a for": (
        "int f(int n, int k, const int *a) "
        "{ int t = 0; for (int i = 0; i < n; (void)(i / k), i++) t += a[i]; return t; }",
        "k != 0",
    ),
    "fill of no elements": ("void f(int n, int k, unsigned char *a) { memset(a, n / k, n); }", "k != 0"),
    "length of a row": (ROWS.format("int c = m[0].size(); t = 1;"), "len(m) >= 1"),
    "empty row": (ROWS.format("if (m[0].empty()) return 1; t = 1;"), "len(m) >= 1"),
    "row of a range-for": (ROWS.format("for (int x : m[1]) t += x;"), "len(m) >= 2"),
    "row that is copied": ("vector<int> f(const vector<vector<int>> &m) { return m[1]; }", "len(m) >= 2"),
    "room below zero": (
        "vector<int> f(int n, int k) { vector<int> v; v.reserve(k); "
        "for (int i = 0; i < n; i++) v.push_back(i); return v; }",
        "k >= 0",
    ),
}
# What C does not compute needs nothing.
FREE = {
    "sizeof": LOOP.format("t += a[i] + (int)sizeof(a[i + k] / k);"),
    "right of 0 &&": LOOP.format("(void)(0 && a[i] / k); t += a[i];"),
    "branch that is never taken": LOOP.format("if (0) a[i + k] / k; t += a[i];"),
    "assignment as a statement": LOOP.format("int x; x = k; t += a[i];"),
    "variable as a statement": LOOP.format("k; (void)k; t += a[i];"),
}


def lifted(text: str, folder: Path) -> tuple[bool, list[str], str]:
    path = folder / "f.cpp"
    path.write_text(HELPERS + text)
    entry = next(e for e in read_source(path) if not isinstance(e, Refusal) and e.name == "f")
    result = lift_function(entry, ())
    summary = result.work.summary
    return result.proved, [r.text for r in summary.requires] if summary else [], result.reason


@pytest.mark.parametrize("name", NEEDED)
def test_what_is_computed_is_needed(name: str, tmp_path: Path) -> None:
    text, needed = NEEDED[name]
    proved, requires, reason = lifted(text, tmp_path)
    if needed is None:
        assert not proved and "divisor" in reason
    else:
        assert proved and needed in requires, reason


@pytest.mark.parametrize("name", FREE)
def test_what_is_not_computed_is_not_needed(name: str, tmp_path: Path) -> None:
    proved, requires, reason = lifted(FREE[name], tmp_path)
    assert proved and requires == ["elements of a >= n"], reason


def test_a_number_that_its_type_cannot_hold_is_refused_by_name(tmp_path: Path) -> None:
    text = (
        "void f(size_t n, const int *a, size_t x, unsigned char *out) "
        "{ for (int i = 0; i < (int)n; i++) out[i] = (-9 + x) * 24; }"
    )
    proved, _, reason = lifted(text, tmp_path)
    assert not proved and "cannot hold" in reason
