"""Tensors whose axes are exchanged: squares turned in registers, alone and inside of elementwise trees."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from native_programs import answers

from tensmith.ir import Program, TensorType, make_node
from tensmith.kernel import isa_named

SHAPES = [
    ((37, 50), (1, 0)),
    ((2, 40, 33), (0, 2, 1)),
    ((3, 17, 5, 40), (0, 2, 3, 1)),
    ((2, 33, 4, 16), (0, 2, 1, 3)),
    ((19, 2, 35), (2, 1, 0)),
    ((16, 16), (1, 0)),
    ((15, 64), (1, 0)),
    ((1, 70, 3, 31), (3, 2, 1, 0)),
]


def turned(shape: tuple[int, ...], perm: tuple[int, ...]) -> Program:
    """The transpose: alone, behind a function with a plain tensor, a row and a column, joined, normalized."""
    after = tuple(shape[axis] for axis in perm)
    rng = np.random.default_rng(0)
    constants = {
        "row": rng.standard_normal(after[-1]).astype(np.float32),
        "column": rng.standard_normal((after[-2], 1)).astype(np.float32),
    }
    constants["shape"] = np.array(after)
    nodes = (
        make_node("reshape", ("x", "shape"), ("z",)),
        make_node("transpose", ("x",), ("t",), {"perm": perm}),
        make_node("gelu", ("t",), ("g",)),
        make_node("add", ("g", "z"), ("a",)),
        make_node("mul", ("a", "row"), ("b",)),
        make_node("add", ("b", "column"), ("c",)),
        make_node("tanh", ("x",), ("h",)),
        make_node("transpose", ("h",), ("k",), {"perm": perm}),
        make_node("concat", ("k", "z"), ("j",), {"axis": -1}),
        make_node("softmax", ("t",), ("s",), {"axis": -1}),
    )
    return Program("turned", {"x": TensorType("f32", shape)}, ("t", "c", "j", "s"), nodes, constants)


@pytest.mark.parametrize(("shape", "perm"), SHAPES, ids=str)
def test_axes_are_exchanged(shape: tuple[int, ...], perm: tuple[int, ...], tmp_path: Path) -> None:
    program = turned(shape, perm)
    found, expected = answers(program, tmp_path)
    for name in program.outputs:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("isa", ["avx2", "generic"])
def test_vectors_of_other_lengths(isa: str, tmp_path: Path) -> None:
    program = turned((3, 17, 5, 40), (0, 2, 3, 1))
    found, expected = answers(program, tmp_path, isa_named(isa))
    for name in program.outputs:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, atol=1e-5, err_msg=name)
