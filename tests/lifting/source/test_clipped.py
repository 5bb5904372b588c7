"""Loops over whole windows do what those do that clip them: functions with and without, run by the
interpreter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from corpus import KERNELS
from loops_interpreter import agreements

from tensmith.lifting.loops import Function, Loop, statements
from tensmith.lifting.pipeline import lift_file, read_source
from tensmith.lifting.source.clipped import with_whole_windows

HEAD = "#define MAX(a, b) ((a) > (b) ? (a) : (b))\n#define MIN(a, b) ((a) < (b) ? (a) : (b))\n"
# Of i, n, k and the elements of a; what is returned depends on which places were visited, in which order.
CLIPPED = {
    "macros": "for (int j = MAX(0, i - k); j < MIN(n, i + k + 1); j++) s = 3 * s + a[j];",
    "a counter that is read behind": "int j; for (j = MAX(0, i - k); j < MIN(n, i + k + 1); j++)"
    " s = 3 * s + a[j]; s = 7 * s + j;",
    "one that ends": "int j; for (j = MAX(i - k, 1); j <= MIN(n - 1, i + k); j++) s = 3 * s + a[j];"
    " s = 7 * s + j;",
    "three starts": "for (int j = MAX(MAX(1, i - k), n - i); j < MIN(n, i + k); j++) s = 3 * s + a[j];",
    "branches": "int lo = i - 1, hi = i + 2; if (lo < 0) lo = 0; if (hi >= n) hi = n;"
    " for (int j = lo; j < hi; j++) s = 3 * s + a[j] + lo - hi;",
    "either": "int lo; if (i > 0) lo = i - 1; else lo = 0; for (int j = lo; j < MIN(i + 3, n); j++)"
    " s = 3 * s + a[j];",
    "choices": "int hi = i + 1 >= n ? n - 1 : i + 1; for (int j = MAX(i - 2, 0); j <= hi; j++)"
    " s = 3 * s + a[j];",
    "two tests": "for (int j = i; j < n && j < i + k; j++) s = 3 * s + a[j];",
    "a window in a window": "for (int j = MAX(0, i - 1); j < MIN(n, i + 2); j++)"
    " for (int l = MAX(j, 1); l < MIN(n, j + k); l++) s = 3 * s + a[j] - l;",
    "the same counter twice": "int j; for (j = MAX(0, i - k); j < MIN(n, i + 1); j++) s = 3 * s + a[j];"
    " for (; j < MIN(n, i + k); j++) s = 5 * s + a[j];",
    "a bound of another loop": "int lo = MAX(0, i - 1); for (int r = 0; r < 2; r++)"
    " for (int j = lo; j < MIN(n, i + 2); j++) s = 3 * s + a[j] + r;",
    "names that are set again": "int lo = MAX(0, i - 1), hi = MIN(n, i + 2); int k2 = k; k2 = 1;"
    " for (int j = lo; j < hi; j++) s = 3 * s + a[j] + k2; lo = 0; hi = 1; s = s + lo - hi;",
}
AS_IT_IS = {
    "nothing clipped": "for (int j = 0; j < n; j++) s += a[j];",
    "a bound that changes": "int hi = MIN(n, i + 2); for (int j = MAX(0, i - 1); j < hi; j++) {"
    " s = 3 * s + a[j]; hi = hi - k; }",
    "what a bound is made of changes": "int m = n; for (int j = MAX(0, i - 1); j < MIN(m, i + 2); j++) {"
    " s = 3 * s + a[j]; m = m - 1; }",
    "a bound that follows the counter": "for (int j = MAX(0, i - 1); j < MIN(n, j + k - 2); j++)"
    " s = 3 * s + a[j];",
    "a counter that skips": "for (int j = MAX(0, i - 1); j < MIN(n, i + 2); j++) { s = 3 * s + a[j];"
    " if (s > 100) j = j + 1; }",
    "steps of two": "for (int j = MAX(0, i - 1); j < MIN(n, i + 2); j += 2) s = 3 * s + a[j];",
    "downwards": "for (int j = MIN(n, i + 2) - 1; j >= MAX(0, i - 1); j--) s = 3 * s + a[j];",
    "data": "for (int j = MAX(0, i - 1); j < MIN(n, a[0]); j++) s = 3 * s + a[j];",
    "another choice": "int hi = i < n ? n : i + 1; for (int j = i; j < hi; j++) s = 3 * s + j;",
    "the other extreme": "for (int j = MIN(0, i - 1); j < MAX(n, i); j++) s = 3 * s + j;",
    "one that may not fit": "int hi = k < i ? k + 1 : i + 1; for (int j = i - 1; j < hi; j++) s = 3 * s + j;",
    "unsigned": "for (unsigned j = MAX(1u, k - 1u); j < MIN((unsigned)n, k + 2u); j++) s = 3 * s + a[j];",
}


def function(body: str, folder: Path) -> Function:
    # `int k` of the parameters is 0 to 4, n as many elements as a has, s what is returned.
    text = f"{HEAD}int f(int n, int k, const int *a) {{ int s = 0; for (int i = 0; i < n; i++) {{ {body} }}"
    (folder / "f.c").write_text(f"{text} return s % 100003; }}\n")
    (found,) = read_source(folder / "f.c")
    assert isinstance(found, Function), found
    return found


@pytest.mark.parametrize("name", CLIPPED)
def test_the_same_places_are_visited_in_the_same_order(name: str, tmp_path: Path) -> None:
    before = function(CLIPPED[name], tmp_path)
    after = with_whole_windows(before)
    assert after != before
    random, calls = np.random.default_rng(0), []
    for _ in range(60):
        n, k = (int(random.integers(0, 5)) for _ in range(2))
        calls.append([n, k, random.integers(0, 6, n).astype(np.int32)])
    assert agreements(before, after, calls) > 30


@pytest.mark.parametrize("name", AS_IT_IS)
def test_what_clips_nothing_or_may_change_stays(name: str, tmp_path: Path) -> None:
    before = function(AS_IT_IS[name], tmp_path)
    assert with_whole_windows(before) == before


@pytest.mark.parametrize("file", ["clipped.c", "clipped.cpp", "clipped.py"])
def test_no_window_of_the_idioms_is_left_clipped(file: str) -> None:
    for found in read_source(KERNELS / "idioms" / file):
        assert isinstance(found, Function), found
        whole = with_whole_windows(found)
        assert whole != found and with_whole_windows(whole) == whole, found.name
        assert len([s for s in statements(whole.body) if isinstance(s, Loop)]) > 1


@pytest.mark.parametrize(
    ("file", "name", "wanted"),
    [
        ("clipped.c", "sums_of_the_next", ["elements of x >= n", "k >= 0"]),
        ("windows.c", "weighted_by_the_next", ["elements of w >= k", "elements of x >= n"]),
        ("clipped.py", "next_k", ["k <= 2147483647", "k >= 0"]),
        ("clipped.py", "how_many_within", ["k <= 2147483647", "k >= -2147483647"]),
        ("clipped.py", "within_k", ["k <= 2147483647", "k >= -2147483647"]),
        ("clipped.py", "next_of_boxes", [f"{n} {sign}1290" for n in "abc" for sign in ("<= ", ">= -")]),
    ],
)
def test_no_more_is_asked_than_the_source_reads(file: str, name: str, wanted: list[str]) -> None:
    """But that windows are no longer than can be counted: the source takes any number."""
    (result,) = lift_file(KERNELS / "idioms" / file, name, targets=(), run=False)
    work = result.work.lifted
    assert work is not None
    own = [each.text for each in work.requires if each.kind != "apart" and "of y" not in each.text]
    assert sorted(own) == wanted
