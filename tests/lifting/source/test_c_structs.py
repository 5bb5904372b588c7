"""Arrays of structs are refused with what to pass in their place; a pointer to one struct is lifted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensmith.lifting.loops import Function
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.c.read import read_c

pytest.importorskip("clang.cindex", reason="libclang is not installed")

HEAD = "#include <vector>\nstruct V { float x, y; };\n"
ARRAYS = [
    ("const V *p", "for (int i = 0; i < n; i++) s += p[i].x;", "float *p_x"),
    ("const V *p", "for (int i = 0; i < n; i++, p++) s += p->x;", "float *p_x"),
    ("V p[4]", "for (int i = 0; i < 4; i++) s += p[i].y;", "float *p_x"),
    ("const std::vector<V> &p", "for (int i = 0; i < n; i++) s += p[i].y;", "float *p_x"),
]


def read(folder: Path, parameter: str, body: str) -> Function | Refusal:
    path = folder / "f.cpp"
    path.write_text(f"{HEAD}float f({parameter}, int n) {{ float s = 0; {body} return s; }}\n")
    return read_c(path)[0]


@pytest.mark.parametrize(("parameter", "body", "instead"), ARRAYS)
def test_an_array_of_structs_is_refused_as_one(
    parameter: str, body: str, instead: str, tmp_path: Path
) -> None:
    found = read(tmp_path, parameter, body)
    assert isinstance(found, Refusal) and found.position.line == 3
    assert "an array of structs" in found.reason and instead in found.reason


def test_one_struct_is_lifted(tmp_path: Path) -> None:
    assert isinstance(read(tmp_path, "const V *p", "s = p[0].x + p->y;"), Function)
