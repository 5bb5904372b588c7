"""Unsigned sizes: what is subtracted from them, and matrices whose subscripts they make."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tensmith.lifting.pipeline import lift_file
from tensmith.lifting.result import LiftResult

pytest.importorskip("clang.cindex", reason="libclang is not installed")

HEAD = "#include <cstddef>\n#include <vector>\n"
DIFFERENCES = {
    "for (size_t i = 0; i < x.size() - 1; i++) s += x[i + 1] - x[i]; return s;": "len(x) >= 1",
    "for (size_t i = 0; i <= x.size() - 1; i++) s += x[i]; return s;": "len(x) >= 1",
    "for (size_t i = 0; i < x.size() - 2; i++) s += x[i] * x[i + 2]; return s;": "len(x) >= 2",
    "for (double v : x) s += v; return s / (x.size() - 1);": "len(x) >= 1",
    "return 2.0 * (x.size() - 1);": "len(x) >= 1",
    "return x.size() - 1 > 10 ? 1 : 0;": "len(x) >= 1",
    "for (size_t i = 0; i + 1 < x.size(); i++) s += x[i + 1] - x[i]; return s;": "",
}


def lifted(folder: Path, body: str, parameters: str, returns: str = "void") -> LiftResult:
    """One C++ function, lifted to NumPy and run beside its source."""
    path = folder / "f.cpp"
    path.write_text(f"{HEAD}{returns} f({parameters}) {{ {body} }}\n")
    return lift_file(path)[0]


@pytest.mark.parametrize("body", DIFFERENCES)
def test_a_size_less_a_number_is_required_not_to_wrap(body: str, tmp_path: Path) -> None:
    found = lifted(tmp_path, f"double s = 0; {body}", "const std::vector<double> &x", "double")
    assert found.status == "proved", found.reason
    assert found.requires == tuple(filter(None, [DIFFERENCES[body]]))


def test_a_difference_that_no_iteration_reads_may_wrap(tmp_path: Path) -> None:
    found = lifted(
        tmp_path, "for (size_t i = 0; i < n; i++) w[i] = 0.5 * i / (n - 1);", "double *w, size_t n"
    )
    assert found.status == "proved", found.reason
    assert found.requires == ("elements of w >= n",)
    space: dict[str, object] = {}
    exec(found.emitted["numpy"]["f.py"], space)
    ramp = space["f"]
    assert callable(ramp)
    assert ramp(None, 0).tolist() == []
    assert np.isnan(ramp(None, 1)).tolist() == [True]
    assert ramp(None, 3).tolist() == [0, 0.25, 0.5]
