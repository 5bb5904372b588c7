"""The loop language as text, and what clang's tree becomes in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from function_text import print_function

from tensmith.lifting.loops import Function
from tensmith.lifting.source.c.read import read_c

pytest.importorskip("clang.cindex", reason="libclang is not installed")

SHOWN = [
    (
        """#include <stdint.h>
void blend(int n, const uint8_t *a, uint8_t *out) {
    for (int i = 0; i < n; i++)
        out[i] = a[i] * 2 > 255 ? 255 : a[i] + 1;
}""",
        """\
    2  function blend(n: i32, a: const u8[], out: u8[])
    3    i: i32 = 0
    3    while i < n:  # i@3:5
    4      out[i] = u8(255 if ((i32(a[i]) * 2) > 255) else (i32(a[i]) + 1))
    3      i = i + 1
""",
    ),
    (
        """void fill(float *p, float *end, unsigned x) {
    while (p < end)
        *p++ = x * 3;
}""",
        None,
    ),
    (
        """void walk(int n, int m, double a[n][m], const double *b) {
    for (int i = n - 1; i >= 0; i -= 2) {
        double *row = a[i];
        for (int j = 0; j < m; j++)
            if (b && j > 0 && b[j] > 0)
                row[j] += *b++;
    }
}""",
        """\
    1  function walk(n: i32, m: i32, a: f64[][m], b: const f64[])
    1    b_at: i64 = 0
    2    i: i32 = n - 1
    2    while i >= 0:  # i@2:5
    3      row: i64 = i64(i)
    4      j: i32 = 0
    4      while j < m:  # j@4:9
    5        if j > 0:
    5          if b[b_at + i64(j)] > 0.0:
    6            a[row, j] = a[row, j] + b[b_at]
    6            b_at = b_at + 1
    4        j = j + 1
    2      i = i - 2
       note: pointers are not null
""",
    ),
    (
        """#include <vector>
std::vector<int> sums(const std::vector<std::vector<int>> &a) {
    std::vector<int> out;
    for (auto &row : a) {
        unsigned s = 0;
        for (int x : row)
            s += x;
        out.push_back(s);
    }
    return out;
}""",
        """\
    2  function sums(a: const nested i32[][]) -> nested i32[]
    3    out: nested array(0) of i32 = 0
    4    row_at: i64 = 0
    4    while row_at < i64(len(a)):  # row@4:5
    5      s: u32 = 0
    6      x_at: i64 = 0
    6      while x_at < i64(len(a[row_at], 1)):  # x@6:9
    6        x: i32 = a[row_at, x_at]
    7        s = u32(s + u32(x))
    6        x_at = x_at + 1
    8      append i32(s) to out
    4      row_at = row_at + 1
    2    return out
       note: the rows of a have equal lengths
""",
    ),
]


@pytest.mark.parametrize(("source", "expected"), SHOWN)
def test_a_function_and_its_text(tmp_path: Path, source: str, expected: str | None) -> None:
    path = tmp_path / ("f.cpp" if "std::" in source else "f.c")
    path.write_text(source)
    (found,) = read_c(path)
    if expected is None:  # p and end are two parameters: two arrays
        assert not isinstance(found, Function) and "may be into different arrays; take one" in found.reason
        return
    assert isinstance(found, Function)
    assert print_function(found) == expected
