"""Recurrences that derivation refuses: search finds closed forms, and all of the function is proved."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from lifting.evaluate_summary import arguments, check, widened
from tensmith.lifting.loops import Function
from tensmith.lifting.pipeline import lift_file
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.c.read import read_c
from tensmith.lifting.summarize import summarize
from tensmith.lifting.synthesis.closed import complete

LIFTED = {
    "running_mean": "double f(int n, const double *x) { double m = 0;"
    " for (int i = 0; i < n; i++) m += (x[i] - m) / (i + 1); return m; }",
    "running_means": "void f(int n, const double *x, double *out) { double m = 0;"
    " for (int i = 0; i < n; i++) { m += (x[i] - m) / (i + 1); out[i] = m; } }",
    "powers_of_two": "int f(int n) { int s = 0; for (int i = 0; i < n; i++) s = 2 * s + 1; return s; }",
    "alternating_sign": "int f(int n, const int *a) { int s = 0, g = 1;"
    " for (int i = 0; i < n; i++) { s += g * a[i]; g = -g; } return s; }",
    "alternating_difference": "int f(int n, const int *a) { int s = 0;"
    " for (int i = 0; i < n; i++) s = a[i] - s; return s; }",
    "maximum_by_its_negative": "int f(int n, const int *a) { int best = 0, low = 0;"
    " for (int i = 0; i < n; i++) if (-a[i] < low) { low = -a[i]; best = a[i]; } return best; }",
    "unusual_condition": "int f(int n, const int *a) { int best = 0;"
    " for (int i = 0; i < n; i++) if (!(a[i] - best <= 0)) best = a[i]; return best; }",
    "maximum_by_difference": "int f(int n, const int *a) { int best = 0;"
    " for (int i = 0; i < n; i++) { int d = a[i] - best; best = d > 0 ? best + d : best; } return best; }",
    "first_iteration_apart": "int f(int n, const int *a) { int s = 0;"
    " for (int i = 0; i < n; i++) { if (i == 0) s = a[0]; else s += a[i]; } return s; }",
    "parity": "int f(int n) { int s = 0; for (int i = 0; i < n; i++) s = (s + 1) % 2; return s; }",
    "row_maxima": "void f(int n, int m, const int *a, int *out) { for (int i = 0; i < n; i++) { int best = 0;"
    " for (int j = 0; j < m; j++) if (!(a[i * m + j] - best <= 0)) best = a[i * m + j]; out[i] = best; } }",
}
LOGISTIC = "int f(int n) { int s = 3; for (int i = 0; i < n; i++) s = s * s - 7 * s; return s; }"


def read(path: Path, source: str) -> Function:
    (path / "f.c").write_text(source)
    (function,) = read_c(path / "f.c")
    assert isinstance(function, Function)
    return function


@pytest.mark.parametrize("name", LIFTED)
def test_search_lifts_what_derivation_refuses(name: str, tmp_path: Path) -> None:
    function = read(tmp_path, LIFTED[name])
    with pytest.raises(Refusal, match="iteration before"):
        summarize(function)
    summary = complete(widened(function), 60)
    assert summary is not None
    chance = random.Random(name)
    for _ in range(20):
        check(summary, arguments(summary, chance))


@pytest.mark.parametrize("name", ["powers_of_two", "unusual_condition", "row_maxima"])
def test_the_road_searches_by_itself_and_writes_a_certificate(name: str, tmp_path: Path) -> None:
    read(tmp_path, LIFTED[name])
    (result,) = lift_file(tmp_path / "f.c", output=tmp_path / "lifted", run=False)
    assert result.status == "proved", result.reason
    assert (tmp_path / "lifted" / "f.cert").is_dir()


def test_a_failed_search_keeps_the_reason_and_the_place(tmp_path: Path) -> None:
    function = read(tmp_path, LOGISTIC)
    assert complete(function, 0.2) is None
    with pytest.raises(Refusal) as refusal:
        summarize(function)
    (result,) = lift_file(tmp_path / "f.c", run=False)
    assert (result.status, result.reason) == ("refused", refusal.value.reason)
    assert (result.line, result.column) == (refusal.value.position.line, refusal.value.position.column)


def test_what_is_not_usable_is_blocked(tmp_path: Path) -> None:
    function = read(tmp_path, LIFTED["maximum_by_its_negative"])
    seen: list[object] = []
    complete(
        function,
        1,
        lambda summary: bool(seen.append(summary.loops[0].scalars["best"])),
    )
    assert len(seen) > 1 and len(seen) == len(set(map(str, seen)))


def test_functions_that_are_derived_have_no_holes(tmp_path: Path) -> None:
    source = "int f(int n, const int *a) { int s = 0; for (int i = 0; i < n; i++) s += a[i]; return s; }"
    assert complete(read(tmp_path, source), 1) is None
