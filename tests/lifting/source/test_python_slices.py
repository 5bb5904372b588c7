"""What is required of lists whose slices are run over or copied, and nothing twice."""

from __future__ import annotations

import pytest

from tensmith.lifting.pipeline import lift_function
from tensmith.lifting.source.python.read import read_python_source

REQUIRED = {
    "sum(p[1:])": (),
    "sum(p[:-1])": (),
    "sum(p[::-1])": (),
    "sum(p[::2])": (),
    "p[1::3]": (),
    "sum(a * b for a, b in zip(p, p[1:]))": (),
    "sum(a * b for a, b in zip(p[:-1], p[1:]))": (),
    "sum(i * v for i, v in enumerate(p[1:], 1))": (),
    "sum(p[k:])": ("k >= 0",),
    "sum(p[:k])": ("k >= 0", "len(p) >= k"),
    "sum(p[-k:])": ("k >= 1", "len(p) >= k"),
    "p[:-k]": ("k >= 1",),
    "max(p[:-1])": ("len(p) >= 2",),
    "p[:2]": ("len(p) >= 2",),
}


@pytest.mark.parametrize("value", REQUIRED)
def test_what_is_required_of_slices(value: str) -> None:
    (function,) = read_python_source(f"def f(p: list[int], k: int): return {value}\n", "f.py")
    result = lift_function(function)
    assert result.proved, result.reason
    assert result.requires == REQUIRED[value]
