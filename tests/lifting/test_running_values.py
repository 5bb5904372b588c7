"""A running maximum, minimum or product is one op along its axis, and no square of comparisons."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensmith.ir.ops.cumulative import Cumulative
from tensmith.lifting.pipeline import lift_file

RUNNING = Path(__file__).parent / "kernels" / "idioms" / "running.c"
STEPS = {
    "fmaxf": "m = fmaxf(m, a[i]);",
    "if": "if (a[i] > m) m = a[i];",
    "product": "m *= a[i];",
    "sum": "m += a[i];",
}
LOOP = """
#include <math.h>
void f(int n, float s, const float *a, float *out) {{
  float m = s;
  for (int i = 0; i < n; i++) {{ {before} {step} {after} }}
}}
"""


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("form", STEPS)
def test_one_op_says_it(form: str, exclusive: bool, tmp_path: Path) -> None:
    path = tmp_path / "f.c"
    parts = ("out[i] = m;", "")
    before, after = parts if exclusive else parts[::-1]
    path.write_text(LOOP.format(before=before, step=STEPS[form], after=after))
    kind = {"product": "prod", "sum": "sum"}.get(form, "max")
    join = {"prod": "mul", "sum": "add"}.get(kind, kind)
    (result,) = lift_file(path, targets=(), run=False)
    assert result.proved and result.work.lifted is not None, result.reason
    assert [node.op for node in result.work.lifted.program.nodes] == [f"cum_{kind}", join]


def test_no_square_is_made() -> None:
    for result in lift_file(RUNNING, targets=(), run=False):
        assert result.work.lifted is not None, result.reason
        program = result.work.lifted.program
        assert any(node.kind(Cumulative) for node in program.nodes), result.name
        rank = 2 if result.name == "down_columns" else 1
        assert all(len(program.type(node.output).dims) <= rank for node in program.nodes), result.name


@pytest.mark.parametrize("step", ["m = fmaxf(m, a[i] / s);", "if (sqrtf(a[i]) > m) m = sqrtf(a[i]);"])
def test_what_may_become_nan_is_taken_not_to(step: str, tmp_path: Path) -> None:
    """C's forms ignore it, the program's keep it."""
    path = tmp_path / "f.c"
    path.write_text(LOOP.format(before="", step=step, after="out[i] = m;"))
    (result,) = lift_file(path, targets=(), run=False)
    assert "no NaN in a" in result.requires
    assert "what a maximum or minimum compares is no NaN" in result.assumes
