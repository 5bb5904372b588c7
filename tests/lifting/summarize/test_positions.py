"""What is required where windows overlap or positions are divided, and why what is not lifted is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensmith.lifting.pipeline import lift_file

STRIDED = """
def f(x: list[float], w: list[float]) -> list[float]:
    out = []
    for i in range((len(x) - len(w)) // 2 + 1):
        s = 0.0
        for k in range(len(w)):
            s += x[2 * i + k] * w[k]
        out.append(s)
    return out
"""


def written(text: str, folder: Path) -> Path:
    source = folder / ("f.py" if "def f" in text else "f.c")
    source.write_text(text)
    return source


@pytest.mark.parametrize(
    ("text", "requires"),
    [
        (
            "float f(const float *x, int n, int m, int d) { float s = 0; for (int i = 0; i < n; i++)"
            " for (int k = 0; k < m; k++) s += x[i + d * k]; return s; }",
            ("d >= 0", "elements of x >= n + d*m - d"),
        ),
        (
            "float f(const float *x, int n, int m, int s) { float t = 0; for (int i = 0; i < n; i++)"
            " for (int k = 0; k < m; k++) t += x[s * i + k]; return t; }",
            ("s >= 0", "elements of x >= n*s + m - s"),
        ),
        (STRIDED, ()),
        (
            "float f(const float *b, int n, int c) { float t = 0; for (int i = 0; i < n; i++) t += b[i % c];"
            " return t; }",
            ("c >= 1", "elements of b >= c"),
        ),
    ],
)
def test_no_more_is_required_than_keeps_reads_inside(
    text: str, requires: tuple[str, ...], tmp_path: Path
) -> None:
    (result,) = lift_file(written(text, tmp_path), targets=(), run=False)
    assert (result.reason, result.requires) == ("", requires)


def test_a_position_that_may_be_negative_is_not_called_data(tmp_path: Path) -> None:
    text = "void f(const float *x, float *y, int n) { for (int i = 0; i < n; i++) y[i] = x[(i - 1) % n]; }"
    (result,) = lift_file(written(text, tmp_path), targets=(), run=False)
    assert result.status == "refused" and "data" not in result.reason


def test_an_array_may_be_empty_where_no_iteration_needs_anything_of_it(
    tmp_path: Path,
) -> None:
    loops = "for (int i = 0; i < n; i++) for (int k = 0; k < m; k++) if (i + k >= 5) s += x[i + k - 5];"
    text = f"float f(const float *x, int n, int m) {{ float s = 0; {loops} return s; }}"
    (result,) = lift_file(written(text, tmp_path), targets=(), run=False)
    assert result.status == "proved" and result.requires == ("elements of x >= n + m - 6",)
