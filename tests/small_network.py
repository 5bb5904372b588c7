"""Small programs that tests of verification share."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tensmith.backend.onnx import write_onnx
from tensmith.formula.poly import Poly
from tensmith.frontend.onnx import read_onnx
from tensmith.ir import Program
from tensmith.ir.program import make_node
from tensmith.ir.types import TensorType

_GENERATOR = np.random.default_rng(7)


def _random(*shape: int) -> np.ndarray:  # type: ignore[type-arg]
    return _GENERATOR.normal(size=shape).astype(np.float32)


CONSTANTS = {
    "w1": _random(4, 3, 3, 3), "b1": _random(4), "scale": _random(4), "shift": _random(4),
    "mean": _random(4), "var": np.abs(_random(4)) + np.float32(0.5), "w2": _random(5, 4, 1, 1),
    "axes": np.array([2, 3], np.int64), "w3": _random(5, 2), "b3": _random(2),
}  # fmt: skip


def network() -> Program:
    """Convolution, batch norm, relu, convolution, mean, a matrix product with a bias."""
    conv = {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1)}
    nodes = (
        make_node("conv", ("x", "w1", "b1"), ("c1",), conv),
        make_node("batch_normalization", ("c1", "scale", "shift", "mean", "var"), ("n1",)),
        make_node("relu", ("n1",), ("r1",)),
        make_node("conv", ("r1", "w2"), ("c2",), {"kernel_shape": (1, 1)}),
        make_node("relu", ("c2",), ("r2",)),
        make_node("reduce_mean", ("r2", "axes"), ("m",), {"keepdims": 0}),
        make_node("matmul", ("m", "w3"), ("p",)),
        make_node("add", ("p", "b3"), ("y",)),
    )
    x = TensorType("f32", (Poly.symbol("batch"), 3, 6, 6))
    return Program("network", {"x": x}, ("y",), nodes, CONSTANTS)


def from_file(program: Program, path: Path) -> Program:
    """Writes a program and reads it again."""
    write_onnx(program, path)
    return read_onnx(path)
