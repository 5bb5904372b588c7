"""Elements kept in variables are what they were: functions with and without, run by the interpreter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from loops_interpreter import agreements

from tensmith.lifting.loops import Function
from tensmith.lifting.source.c.read import read_c
from tensmith.lifting.source.kept import with_kept_elements

KEPT = {
    "argmax": "int f(int n, const int *a) { int k = 0; for (int i = 1; i < n; i++) if (a[i] > a[k]) k = i;"
    " return k; }",
    "two places of one variable": "int f(int n, const int *a) { int k = 0, s = 0;"
    " for (int i = 0; i < n; i++) { if (a[i] > a[k]) k = i; s += a[k + 1] * a[k]; } return s; }",
    "two indices": "int f(int n, const int *a) { int k = 0, l = 0, s = 0; for (int i = 0; i < n; i++)"
    " { if (a[i] > 2) { k = i; l = n - i; } s = 3 * s + a[k + l]; } return s; }",
    "a loop in a loop": "int f(int n, const int *a) { int k = 0, s = 0; for (int r = 0; r < n; r++) {"
    " if (a[r] > 1) k = r; for (int j = 0; j < a[0]; j++) if (a[j] > 3) k = j; s = 3 * s + a[k]; }"
    " return s; }",
    "after the loop": "int f(int n, const int *a) { int k = 0; for (int i = 0; i < n; i++)"
    " if (a[i] > a[k]) k = i; return a[k]; }",
    "other scopes after it": "int f(int n, const int *a) { int k = 0, s = 0; for (int i = 0; i < n; i++)"
    " if (a[i] > a[k]) k = i; for (int r = 0; r < n; r++) { int k = r; s += a[k]; } k = 1;"
    " return s + a[k]; }",
    "another array of the same place": "int f(int n, const int *a) { int t[2] = {7, 8}, k = 0, s = 0;"
    " for (int i = 0; i < n; i++) { if (a[i] > a[k]) k = i > 0; s += t[k]; } return s; }",
}
AS_IT_IS = {
    "written": "int f(int n, int *a) { int k = 0; for (int i = 1; i < n; i++) { if (a[i] > a[k]) k = i;"
    " a[0] = i; } return k; }",
    "asked by the loop": "int f(int n, const int *a) { int k = 0, i = 0; while (i < n && a[k] < 5) {"
    " if (n > 3) k = 1; i++; } return i; }",
    "a counter": "int f(int n, const int *a) { int s = 0; for (int i = 0; i < n; i++) s += a[i]; return s; }",
    "a pointer that moves": "int f(int n, const int *a) { int k = 0, s = 0; for (int i = 0; i < n; i++) {"
    " if (a[i] > 2) k = k + 1; s += a[k]; } return s; }",
    "a local place": "int f(int n, const int *a) { int s = 0, k = 0; for (int i = 0; i < n; i++) { int j = i;"
    " if (a[i] > 2) k = 1; s += a[k + j]; } return s; }",
    "a local array": "int f(int n, const int *a) { int s = 0, k = 0; for (int i = 0; i < n; i++) {"
    " int t[2]; t[0] = a[i]; t[1] = 3; if (a[i] > 2) k = 1; s += t[k]; } return s; }",
}


def function(text: str, folder: Path) -> Function:
    (folder / "f.c").write_text(text)
    (found,) = read_c(folder / "f.c")
    assert isinstance(found, Function), found
    return found


@pytest.mark.parametrize("name", KEPT)
def test_nothing_is_computed_otherwise(name: str, tmp_path: Path) -> None:
    before = function(KEPT[name], tmp_path)
    after = with_kept_elements(before)
    assert after != before
    random, calls = np.random.default_rng(0), []
    for _ in range(200):
        count = int(random.integers(0, 5))
        calls.append([count, random.integers(0, 6, 2 * count + 8).astype(np.int32)])
    assert agreements(before, after, calls) > 100


@pytest.mark.parametrize("name", AS_IT_IS)
def test_what_may_change_is_read_where_it_stands(name: str, tmp_path: Path) -> None:
    before = function(AS_IT_IS[name], tmp_path)
    assert with_kept_elements(before) == before
