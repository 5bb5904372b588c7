"""Unsigned sizes: what is subtracted from them, and matrices whose subscripts they make."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lifting.harness_native import compilers
from tensmith.lifting.pipeline import lift_file
from tensmith.lifting.result import LiftResult
from tensmith.lifting.running import load

pytest.importorskip("clang.cindex", reason="libclang is not installed")

HEAD = "#include <cstddef>\n#include <vector>\n"
BOTH = "const float *a, float *b, size_t n"
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


MATRICES = {
    "transposed": (
        "for (size_t i = 0; i < n; i++) for (size_t j = 0; j < m; j++) b[j * n + i] = a[i * m + j];",
        ("elements of a >= m*n", "elements of b >= m*n", "a and b do not overlap"),
    ),
    "stencil": (
        "for (size_t y = 1; y < n - 1; y++) for (size_t x = 1; x < m - 1; x++)"
        " b[y * m + x] = a[(y - 1) * m + x] + a[y * m + x + 1];",
        (
            *("n >= 2", "m >= 2", "elements of a >= m*n - m", "elements of b >= m*n - 1 - m"),
            "a and b do not overlap",
        ),
    ),
    "rows": (
        "for (size_t i = 0; i < n; i++) { const float *row = a + i * m; float *to = b + i * m;"
        " for (size_t j = 0; j < m; j++) to[j] = row[m - 1 - j]; }",
        ("elements of a >= m*n", "elements of b >= m*n", "a and b do not overlap"),
    ),
}


@pytest.mark.parametrize("name", MATRICES)
def test_unsigned_subscripts_of_matrices_do_not_wrap_inside_of_memory(name: str, tmp_path: Path) -> None:
    body, requires = MATRICES[name]
    found = lifted(tmp_path, body, "const float *a, float *b, size_t n, size_t m")
    assert found.status == "proved", found.reason
    assert found.requires == requires


def test_a_subscript_that_wraps_on_its_way_is_refused(tmp_path: Path) -> None:
    wraps = lifted(tmp_path, "for (size_t i = 0; i < n; i++) b[i - 1] = a[i];", BOTH)
    assert wraps.status == "refused"
    below = lifted(tmp_path, "for (size_t i = 1; i < n; i++) b[(i - 2) + 1] = a[i];", BOTH)
    assert below.status == "proved", below.reason


@pytest.mark.skipif(not compilers(), reason="gcc and g++ are not installed")
def test_emitted_c_refuses_products_of_sizes_beyond_its_integers(tmp_path: Path) -> None:
    path = tmp_path / "f.cpp"
    path.write_text(
        f"{HEAD}double f(const double *a, size_t n, size_t m)"
        " { double s = 0; for (size_t i = 0; i < n; i++) for (size_t j = 0; j < m; j++) s += a[i * m + j];"
        " return s; }"
    )
    found = lift_file(path, targets=("c",))[0]
    assert found.status == "proved", found.reason
    files = found.emitted["c"]
    assert found.work.lifted is not None
    run = load("c", found.work.lifted, files)
    assert run(np.ones(6), 2, 3) == 6
    for n, m in ((2, 4), (2**32, 2**32), (2**62, 4), (2**63 - 1, 2)):
        with pytest.raises(ValueError, match="requires"):
            run(np.ones(6), n, m)


def test_vectors_are_matrices_where_subscripts_say_so(tmp_path: Path) -> None:
    body = "for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) b[j * n + i] = k * a[i * m + j];"
    parameters = "const std::vector<float> &a, std::vector<float> &b, int n, int m, float k"
    found = lifted(tmp_path, body, parameters)
    assert found.status == "proved", found.reason
    assert found.requires == ("len(a) >= m*n", "len(b) >= m*n", "a and b do not overlap")


def test_the_unsigned_number_that_is_named_is_that_of_the_subscript(tmp_path: Path) -> None:
    body = (
        "for (unsigned y = 0; y < n; ++y) for (unsigned x = 0; x < m; ++x) s += a[y * m + x] * (n - 1 - y);"
    )
    found = lifted(
        tmp_path, f"float s = 0; {body} return s;", "const float *a, unsigned n, unsigned m", "float"
    )
    assert found.status == "refused"
    assert "(y * m) + x is unsigned and wraps around at 2**32" in found.reason


def test_two_bounds_of_a_loop_are_named(tmp_path: Path) -> None:
    body = "for (size_t i = 0; i < a.size() && i < b.size(); i++) s += a[i] * b[i]; return s;"
    parameters = "const std::vector<float> &a, const std::vector<float> &b"
    found = lifted(tmp_path, f"float s = 0; {body}", parameters, "float")
    assert found.status == "refused" and "two bounds" in found.reason


def test_a_product_of_sizes_that_an_array_is_as_long_as_does_not_wrap(tmp_path: Path) -> None:
    loop = "for (size_t i = 0; i < n; i++) for (size_t j = 0; j < m; j++) s += a[i * m + j];"
    parameters = "const double *a, size_t n, size_t m"
    found = lifted(tmp_path, f"double s = 0; {loop} return s / (n * m);", parameters, "double")
    assert found.status == "proved", found.reason
    assert found.requires == ("elements of a >= m*n",)
    loop = "for (size_t i = 0; i < n; i++) s += a[i];"
    found = lifted(tmp_path, f"double s = 0; {loop} return s / (n * m);", parameters, "double")
    assert found.status == "refused"
