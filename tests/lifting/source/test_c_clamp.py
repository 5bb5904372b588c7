"""std::clamp: bounds out of order are undefined in C++, stated with the lift, and no fault of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensmith.lifting.pipeline import lift_file

pytest.importorskip("clang.cindex", reason="libclang is not installed")


@pytest.mark.parametrize("kind", ["int", "float"])
def test_bounds_that_are_passed_are_stated_to_be_in_order(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "f.cpp"
    path.write_text(
        f"#include <algorithm>\n#include <vector>\nvoid f(std::vector<{kind}> &x, {kind} lo, {kind} hi)"
        " { for (size_t i = 0; i < x.size(); i++) x[i] = std::clamp(x[i], lo, hi); }\n"
    )
    found = lift_file(path)[0]
    assert found.status == "proved", found.reason
    assert "the bounds of clamp at line 3 are in order" in found.assumes
