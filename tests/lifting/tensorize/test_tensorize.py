"""Summaries as tensor programs: the programs are well typed, short, and compute what the terms say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lifting import lifted_interpreter
from lifting.summaries import KERNELS, evaluate
from tensmith.ir.text import parse_program, print_program
from tensmith.lifting.loops import Array
from tensmith.lifting.pipeline import lift_file
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.c.read import read_c
from tensmith.lifting.summarize import summarize
from tensmith.lifting.summary import Summary
from tensmith.lifting.tensorize import tensorize

PLANES = Path(__file__).parents[1] / "kernels" / "idioms" / "planes.c"
ROWS_AND_TOTAL = """
def f(x: list[list[float]]):
    rows = []
    total = 0.0
    for row in x:
        s = 0.0
        for v in row:
            s += v
        rows.append(s)
        total += s
    return rows, total
"""
SIZES = [(0, 0, 1), (1, 1, 1), (2, 1, 2), (1, 4, 3), (5, 3, 2), (7, 7, 7)]


def arguments(claim: Summary, n: int, m: int, k: int, seed: int = 0) -> dict:
    """Random arguments; arrays are longer than any kernel needs."""
    random = np.random.default_rng(seed)
    values = {"n": n, "m": m, "k": k}
    found = {}
    for parameter in claim.function.parameters:
        type_ = parameter.type
        if isinstance(type_, Array):
            size = (n + 2) * (m + 2) + k * (n + m + k + 1) + n * n
            kind = type_.element
            high = 256 if kind.bits == 8 else 50
            array = random.integers(0 if kind.bits == 8 else -50, high, size)
            if parameter.name == "b" and claim.function.name == "quotient":
                array[array == 0] = 3
            found[parameter.name] = array.astype(
                "f4" if kind.kind == "float" else f"{kind[0]}{kind.bits // 8}"
            )
        else:
            found[parameter.name] = values.get(parameter.name, 3)
    return found


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("n,m,k", SIZES)
def test_a_program_computes_what_the_terms_say(name, n, m, k):
    claim = KERNELS[name]
    if name == "greatest" and n == 0:
        pytest.skip("the kernel requires n >= 1")
    given = arguments(claim, n, m, k)
    lifted = tensorize(claim)
    expected, found = evaluate(claim, given), lifted_interpreter.run(lifted, given)
    assert expected.keys() == found.keys()
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-5, err_msg=str(lifted.program))


@pytest.mark.parametrize("name", KERNELS)
def test_a_program_reads_back_from_its_text(name):
    program = tensorize(KERNELS[name]).program
    text = print_program(program)
    assert print_program(parse_program(text)) == text


def ops(name: str) -> list[str]:
    return [node.op for node in tensorize(KERNELS[name]).program.nodes]


def test_sums_of_products_are_products_of_matrices():
    for name in ("dot", "gemv", "gemv_t", "matmul", "window"):
        assert ops(name) == ["matmul"]
    assert "matmul" in ops("gemm_int")


def test_shifted_reads_are_views():
    assert ops("stencil") == ["add", "add"]


def test_a_maximum_from_the_first_element_on_is_one_reduction(tmp_path):
    assert ops("greatest") == ["reduce_max"]
    loop = "for (int i = 1; i < n; i++) if (x[i] > m) m = x[i];"
    (tmp_path / "f.c").write_text(f"float f(const float *x, int n) {{ float m = x[0]; {loop} return m; }}")
    (function,) = read_c(tmp_path / "f.c")
    assert [node.op for node in tensorize(summarize(function)).program.nodes] == ["reduce_max"]


def test_one_element_is_all_of_no_array(tmp_path):
    (tmp_path / "f.cpp").write_text(
        "#include <vector>\nvoid f(std::vector<std::vector<float>> &a) { a[0][0] = 1; }"
    )
    (function,) = read_c(tmp_path / "f.cpp")
    (output,) = tensorize(summarize(function)).outputs
    assert not output.whole


BOUNDED = {
    "a first position below 0": "def f(x: list[int], lo: int) -> list[int]:\n"
    "    return [x[i] if i > lo else -x[i] for i in range(len(x))]\n",
    "a last position behind all": "def f(x: list[int], m: int, k: int) -> int:\n"
    "    s = 0\n    for i in range(len(x)):\n        if i < m - k:\n            s += x[i]\n    return s\n",
}


@pytest.mark.parametrize("name", BOUNDED)
def test_positions_outside_of_a_loop_are_not_read(name, tmp_path):
    """Wherever parameters put the bounds, nothing is required that the source does not need."""
    (tmp_path / "f.py").write_text(BOUNDED[name])
    (result,) = lift_file(tmp_path / "f.py")
    assert result.proved, result.reason
    assert result.requires == ()


def test_an_empty_view_may_begin_before_its_array(tmp_path):
    body = "    s = 0\n    for i in range(n, 0, -2):\n        s += a[i - 1] % -3\n    return s\n"
    (tmp_path / "f.py").write_text(f"def f(a: list[int], n: int) -> int:\n{body}")
    (result,) = lift_file(tmp_path / "f.py")
    assert result.proved, result.reason
    assert result.requires == ("n >= 0", "len(a) >= n")


def test_requirements_name_what_the_function_has(tmp_path):
    path = tmp_path / "f.c"
    path.write_text(
        "void f(float *y, const float *x, int h, int w, int m) {\n"
        " for (int i = 0; i < h; i++) for (int j = 0; j < w; j++) {\n"
        "  int r = i + 1 < w ? i + 1 : w - 1;\n"
        "  if (i < m) y[i * w + j] = x[r * w + j]; } }\n"
    )
    (result,) = lift_file(path, targets=(), run=False)
    assert result.status == "proved", result.reason
    assert "elements of x >= w + h*w - max(0, h - m)*w" in result.requires


def test_what_a_longer_list_has_is_not_asked_for_again(tmp_path: Path) -> None:
    body = "    s = 0.0\n    for i in range(len(x)):\n        if i < k:\n            s += x[i + 3]\n"
    (tmp_path / "f.py").write_text(f"def f(x: list[float], k: int):\n{body}    return s\n")
    (result,) = lift_file(tmp_path / "f.py", targets=(), run=False)
    assert result.status == "proved", result.reason
    assert result.requires == ("len(x) >= k + 3",)


GUARDED = """
void convolution(const float *x, const float *k, float *out, int h, int w, int n, int m) {
    for (int i = 0; i < h; i++)
        for (int j = 0; j < w; j++) {
            float s = 0;
            for (int a = 0; a < n; a++)
                for (int b = 0; b < m; b++) {
                    int y = i + a - 1, z = j + b - 1;
                    if (y >= 0 && y < h && z >= 0 && z < w) s += x[y * w + z] * k[a * m + b];
                }
            out[i * w + j] = s;
        }
}
"""


def test_what_is_read_beyond_two_borders_is_said_to_be_copied_by_a_function_of_its_own(tmp_path):
    (tmp_path / "f.c").write_text(GUARDED)
    (function,) = read_c(tmp_path / "f.c")
    with pytest.raises(Refusal, match="one function copy it into a larger array"):
        tensorize(summarize(function))


def test_rows_are_not_asked_for_beside_all_rows(tmp_path):
    text = PLANES.read_text()
    (tmp_path / "f.c").write_text(text[text.index("void laplace_repeating_rows") :])
    (function,) = read_c(tmp_path / "f.c")
    asked = [each.text for each in tensorize(summarize(function)).requires if each.array == "x"]
    assert asked == ["elements of x >= h*w", "x and y do not overlap"]


def test_sums_of_rows_and_their_total_are_summed_in_the_order_of_the_loops(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text(ROWS_AND_TOTAL)
    (result,) = lift_file(tmp_path / "f.py", targets=(), run=False)
    assert result.status == "proved", result.reason
    assert result.work.lifted is not None and len(result.work.lifted.program.inputs) == 1
