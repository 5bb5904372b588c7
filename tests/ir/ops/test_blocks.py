"""Blocks, triangles and reversed sequences: conformance with ONNX."""

from __future__ import annotations

import numpy as np
import pytest
from conformance import check, random


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_to_space_and_back(mode: str) -> None:
    x = random(2, 12, 3, 4)
    (y,) = check("depth_to_space", [x], {"blocksize": 2, "mode": mode}, symbolic=False)
    attrs = {"blocksize": 2} if mode == "DCR" else {"blocksize": 2, "mode": mode}
    opset = 22 if mode == "DCR" else 28
    (back,) = check("space_to_depth", [y], attrs, symbolic=False, opset=opset)
    np.testing.assert_array_equal(back, x)


def test_trilu() -> None:
    check("trilu", [random(2, 4, 5)])
    check("trilu", [random(4, 5), np.array(-1)], {"upper": 0})
    check("trilu", [random(4, 5), np.array(2)])


def test_eye_like() -> None:
    check("eye_like", [random(4, 5)], {"k": 1})
    check("eye_like", [random(4, 5)], {"dtype": 7, "k": -1})


def test_reverse_sequence() -> None:
    check("reverse_sequence", [random(4, 3, 2), np.array([1, 4, 2])])
    attrs = {"time_axis": 1, "batch_axis": 0}
    check("reverse_sequence", [random(3, 4, 2), np.array([1, 4, 2])], attrs)
