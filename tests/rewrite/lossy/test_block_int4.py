"""4-bit weights in blocks: which layers take them, how far off they are, and that the file says so."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from lossy_samples import Net
from tensmith.backend.onnx import to_onnx
from tensmith.errors import ProgramError
from tensmith.frontend.onnx import read_onnx
from tensmith.ir import Program, TensorType, interpret
from tensmith.rewrite.lossy.block_int4 import products, rounded
from tensmith.rewrite.method import LOSSY
from tensmith.rewrite.rule import EVERYWHERE


def tower() -> Program:
    """A matmul, a gemm with its matrix turned, one too shallow, two that share their weights."""
    net = Net()
    net.input = TensorType("f32", (5, 70))
    x = net.op("relu", net.op("matmul", "x", net.weights(70, 48)))
    x = net.op("gemm", x, net.weights(20, 48), net.weights(20), transB=1)
    x = net.op("matmul", x, net.weights(20, 40))
    shared = net.weights(40, 40)
    return net.program(net.op("matmul", net.op("matmul", x, shared), shared))


def changed(program: Program, site: str = EVERYWHERE, **params: object) -> Program:
    return LOSSY["block_int4"].apply(program, site, params, None)  # type: ignore[arg-type]


def test_products_deep_enough_with_weights_of_their_own_are_changed() -> None:
    program = changed(tower())
    opened = [node for node in program.nodes if node.op == "dequantize_linear"]
    assert [node.attrs["axis"] for node in opened] == [0, 1]
    assert [program.type(node.inputs[0]).dtype for node in opened] == ["i4", "i4"]
    assert [program.constants[node.inputs[1]].shape for node in opened] == [(3, 48), (20, 2)]
    assert program.nodes[-1].inputs[1] in program.constants


def test_the_output_moves_by_what_the_weights_move() -> None:
    before = tower()
    x = {"x": np.random.default_rng(1).standard_normal((5, 70)).astype(np.float32)}
    (exact,), (found,) = (list(interpret(p, x).values()) for p in (before, changed(before)))
    assert 1e-3 < np.linalg.norm(found - exact) / np.linalg.norm(exact) < 0.2


@pytest.mark.parametrize("block", [16, 32])
def test_a_weight_is_off_by_half_a_step_or_what_is_cut_off(block: int) -> None:
    weights = np.random.default_rng(2).standard_normal((70, 9)).astype(np.float32)
    codes, scales = rounded(weights, block)
    step = np.repeat(scales, block, 0)[:70]
    found = codes.astype(np.float32) * step
    plain = np.repeat(
        np.stack([abs(weights[i : i + block]).max(0) for i in range(0, 70, block)]) / 7, block, 0
    )[:70]
    assert np.square(found - weights).sum() < np.square(np.rint(weights / plain) * plain - weights).sum()
    inside = abs(weights) <= 7 * step
    assert np.all(abs(found - weights)[inside] <= step[inside] / 2 * (1 + 1e-6))


def test_zeros_stay_zeros() -> None:
    codes, scales = rounded(np.zeros((32, 3), np.float32), 32)
    assert not codes.astype(np.int8).any() and np.isfinite(scales).all() and scales.all()


def test_the_file_is_one_that_the_checker_accepts() -> None:
    model = to_onnx(changed(tower()))
    onnx.checker.check_model(model, full_check=True)
    assert model.opset_import[0].version >= 21
    assert {node.op for node in read_onnx(model).nodes} >= {"dequantize_linear", "matmul", "gemm"}


def test_what_it_refuses() -> None:
    program = tower()
    with pytest.raises(ProgramError, match="multiple of 16"):
        changed(program, block=20)
    with pytest.raises(ProgramError, match="no matrix product of depth 128"):
        changed(program, block=128)
    assert changed(program, skip=[layer.site for layer in products(program, 32)]).nodes == program.nodes
