"""Biases in 32-bit codes: they hold what floats held, also where a channel has hardly any weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from lossy_samples import Interpreted, Net, inputs_of, run, transformer
from tensmith.backend.onnx import write_onnx
from tensmith.ir import interpret
from tensmith.rewrite.method import apply_lossy
from tensmith.rewrite.rule import EVERYWHERE, Step
from tensmith.rewrite.trail import simplify


def test_a_dead_channel_keeps_its_bias() -> None:
    """As of a normalization whose factor went to nothing in training: all that is left is its shift."""
    net = Net()
    x = net.conv("x", 8)
    weights, bias = (next(a for a in net.constants.values() if a.ndim == n) for n in (4, 1))
    weights[3] *= np.float32(1e-12)
    bias[3] = 1.5
    program = net.program(net.op("relu", x))
    step = Step("int8", EVERYWHERE, {"calibration": "minmax", "default_bits": 8}, "lossy")
    treated = apply_lossy(program, step, Interpreted())
    (codes,) = (array for array in treated.constants.values() if array.dtype == np.int32 and array.any())
    assert np.abs(codes.astype(np.int64)).max() <= 2**30
    np.testing.assert_allclose(run(treated)[:, 3], 1.5, rtol=0.02)


@pytest.mark.parametrize("rounding", ["nearest", "compensated", "coded"])
def test_a_bias_of_rows_stays_one(rounding: str) -> None:
    """As many as there are columns: each is added to all of its row."""
    net = Net(image=(6,))
    hidden = net.op("gemm", "x", net.weights(6, 16), net.constant(10 * net.random.normal(size=(16, 1))))
    program = net.program(net.op("matmul", net.op("relu", hidden), net.weights(16, 5)))
    priced = {"price": 1e-4, "worth": {hidden: 0.01}} if rounding == "coded" else {}
    step = Step("int8", EVERYWHERE, {"rounding": rounding, **priced}, "lossy")
    before, after = run(program), run(apply_lossy(program, step, Interpreted()))
    assert np.linalg.norm(after - before) < 0.05 * np.linalg.norm(before)


def test_a_bias_behind_a_product_is_added_before_anything_is_rounded(tmp_path: Path) -> None:
    """In integers where sizes are known, too: ONNX Runtime would make a Gemm in floats of a bias [n]."""
    step = Step("int8", EVERYWHERE, {"default_bits": 7}, "lossy")
    small = simplify(apply_lossy(transformer(), step, Interpreted())).program
    (gelu,) = (node for node in small.nodes if node.op == "gelu")
    added = small.producers[gelu.inputs[0]]
    assert small.producers[added.inputs[0]].op == "matmul"
    assert small.constants[added.inputs[1]].shape == (1, 1, 16)
    write_onnx(small, tmp_path / "small.onnx")
    options = onnxruntime.SessionOptions()
    options.add_free_dimension_override_by_name("batch", 2)
    options.optimized_model_filepath = str(tmp_path / "as_run.onnx")
    options.log_severity_level = 4  # such a file is for this machine alone
    x = inputs_of(small, 2)
    (found,) = onnxruntime.InferenceSession(tmp_path / "small.onnx", options).run(None, x)
    ops = {node.op_type for node in onnx.load(tmp_path / "as_run.onnx").graph.node}
    assert "Gemm" not in ops
    np.testing.assert_allclose(found, interpret(small, x)[small.outputs[0]], atol=1e-5)


def test_a_layer_of_constants_alone_is_left_as_it_is() -> None:
    """As of positions that a small layer turns into a table: too large to be folded, and on no grid."""
    net = Net(image=(6,))
    table = net.op(
        "gemm", net.constant(net.random.normal(size=(1, 4))), net.weights(4, 16), net.constant(np.ones(16))
    )
    program = net.program(net.op("add", net.op("matmul", "x", net.weights(6, 16)), table))
    step = Step("int8", EVERYWHERE, {}, "lossy")
    treated = apply_lossy(program, step, Interpreted())
    assert treated.producers[table].inputs == program.producers[table].inputs
    before, after = run(program), run(treated)
    assert np.linalg.norm(after - before) < 0.05 * np.linalg.norm(before)
