"""Tables written in place, and where data says to read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensmith.lifting.pipeline import lift_file
from tensmith.verify.lift_checker import check

pytest.importorskip("clang.cindex", reason="libclang is not installed")

TABLE = "static const int t[4] = {5, 7, 1, -2};"
LIFTED = [
    f"{TABLE} for (int i = 0; i < n; i++) y[i] = t[x[i] & 3];",
    f"{TABLE} for (int i = 0; i < n; i++) if (x[i] >= 0 && x[i] < 4) y[i] = t[x[i]];",
    f"{TABLE} for (int i = 0; i < n; i++) y[i] = t[i % 4] * x[i];",
    "const float w[3] = {0.5f, 1.5f}; for (int i = 0; i < n; i++) y[i] = (int)(w[(x[i] & 15) % 3] * 2);",
    "int t[2] = {n, 3}; for (int i = 0; i < n; i++) y[i] = t[x[i] > 0];",
    "static const int t[2][2] = {{1, 2}, {3, 4}}; for (int i = 0; i < n; i++)"
    " y[i] = t[x[i] & 1][(x[i] >> 1) & 1];",
]
REFUSED = [
    (f"{TABLE} for (int i = 0; i < n; i++) y[i] = t[x[i]];", "that t[x[i]] lies inside"),
    (f"{TABLE} for (int i = 0; i < n; i++) y[i] = t[i % 5];", "that t[i % 5] lies inside"),
    ("int t[3]; t[0] = t[1] = 4; for (int i = 0; i < n; i++) y[i] = t[x[i] & 1];", "has no value"),
    ("static const int t[64] = {1}; for (int i = 0; i < n; i++) y[i] = t[x[i] & 63];", "at most 32 elements"),
    ("int t[4] = {0}; for (int i = 0; i < n; i++) { t[2] = i; y[i] = t[x[i] & 3]; }", "depends on data"),
]


@pytest.mark.parametrize("body", LIFTED)
def test_a_table_is_read_where_data_says(body: str, tmp_path: Path) -> None:
    path = tmp_path / "f.c"
    path.write_text(f"void f(const int *x, int *y, int n) {{ {body} }}\n")
    found = lift_file(path, output=tmp_path / "lifted")[0]
    assert found.status == "proved", found.reason
    assert check(tmp_path / "lifted" / "f.cert") == []


@pytest.mark.parametrize(("body", "words"), REFUSED)
def test_a_table_that_may_be_left_or_has_no_values_is_refused(body: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "f.c"
    path.write_text(f"void f(const int *x, int *y, int n) {{ {body} }}\n")
    found = lift_file(path)[0]
    assert found.status == "refused"
    assert words in found.reason
