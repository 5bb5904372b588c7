"""A loop unrolled by hand is what the plain loop is; one that only looks like it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensmith.lifting.pipeline import lift_file
from tensmith.lifting.result import LiftResult

DOT = "float f(const float *a, const float *b, int n) {{ float s = 0; int i = 0; {} return s; }}"
SCALE = "void f(const float *a, float *b, int n) {{ int i = 0; {} }}"
PYTHON = "def f(a: list[float], b: list[float], n: int) -> float:\n    s, i = 0.0, 0\n{}    return s\n"


def lifted(text: str, folder: Path) -> LiftResult:
    source = folder / ("f.py" if text.startswith("def") else "f.c")
    source.write_text(text)
    (result,) = lift_file(source, targets=(), run=False)
    return result


@pytest.mark.parametrize(
    ("template", "plain", "unrolled"),
    [
        (
            DOT,
            "for (; i < n; i++) s += a[i] * b[i];",
            "for (; i + 2 <= n; i += 2) { s += a[i] * b[i]; s += a[i + 1] * b[i + 1]; }"
            "for (; i < n; i++) s += a[i] * b[i];",
        ),
        (
            DOT,
            "for (; i < n; i++) s += a[i] * b[i];",
            "for (; i < n - 2; i += 3) s += a[i + 1] * b[i + 1] + a[i] * b[i] + a[i + 2] * b[i + 2];"
            "for (; i < n; i++) s += a[i] * b[i];",
        ),
        (
            DOT,
            "for (; i < n; i++) s += a[i] * b[i];",
            "float t = 0; for (; i + 2 <= n; i += 2) { s += a[i] * b[i]; t += a[i + 1] * b[i + 1]; }"
            "for (; i < n; i++) s += a[i] * b[i]; s += t;",
        ),
        (
            SCALE,
            "for (; i < n; i++) b[i] += 2 * a[i];",
            "for (; i + 1 < n; i += 2) { b[i] += 2 * a[i]; b[i + 1] += 2 * a[i + 1]; }"
            "for (; i < n; i++) b[i] += 2 * a[i];",
        ),
        (
            PYTHON,
            "    for k in range(n):\n        s += a[k] * b[k]\n",
            "    while i + 2 <= n:\n        s += a[i] * b[i]\n        s += a[i + 1] * b[i + 1]\n"
            "        i += 2\n"
            "    while i < n:\n        s += a[i] * b[i]\n        i += 1\n",
        ),
    ],
)
def test_it_lifts_to_what_the_plain_loop_lifts_to(
    template: str, plain: str, unrolled: str, tmp_path: Path
) -> None:
    wanted, found = (lifted(template.format(loop), tmp_path) for loop in (plain, unrolled))
    assert (found.status, found.reason) == ("proved", "")
    assert found.program == wanted.program
    assert sorted(found.requires) == sorted(wanted.requires)


@pytest.mark.parametrize(
    "loops",
    [
        "for (; i + 2 <= n; i += 2) { s += a[i] * b[i]; s += a[i + 1] * b[i]; }",
        "for (; i + 2 <= n; i += 2) { s += a[i] * b[i]; s -= a[i + 1] * b[i + 1]; }",
        "for (; i + 3 <= n; i += 3) { s += a[i] * b[i]; s += a[i + 1] * b[i + 1]; }",
    ],
)
def test_what_only_looks_like_it_keeps_its_own_terms(loops: str, tmp_path: Path) -> None:
    plain = lifted(DOT.format("for (; i < n; i++) s += a[i] * b[i];"), tmp_path)
    found = lifted(DOT.format(loops + " for (; i < n; i++) s += a[i] * b[i];"), tmp_path)
    assert found.program != plain.program


def test_what_is_no_sum_of_all_shares_is_computed_of_each(tmp_path: Path) -> None:
    loops = (
        "float t = 0; for (; i + 2 <= n; i += 2) { s += a[i] * b[i]; t += a[i + 1] * b[i + 1]; } s = s * t;"
    )
    found = lifted(DOT.format(loops), tmp_path)
    assert found.proved and "sub(" not in found.program
    assert found.program.count("= matmul(") == 2
