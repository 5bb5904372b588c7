"""Models that differ by a letter from what kernels compute: native code answers as ONNX Runtime does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx.parser import parse_model

from tensmith.backend.native.emit.folder import write_folder
from tensmith.backend.native.emit.loader import Model
from tensmith.backend.native.plan import make_plan
from tensmith.errors import EngineError
from tensmith.frontend.onnx import read_onnx
from tensmith.kernel import host_isa
from tensmith.rewrite.trail import simplify

HEAD = '<ir_version: 10, opset_import: ["": 18]>'
MODELS = {
    "the largest of codes": """
        network (float[1, 3, 9, 9] x) => (float[1, 3, 1, 1] y)
            <float s = {0.02}, uint8 z = {128}, int64[2] axes = {2, 3}, float[3, 3, 1, 1] w =
             {1, 2, -3, 0.5, -1, 1.5, 2, 0.25, 1}> {
            c = Conv (x, w)
            q = QuantizeLinear (c, s, z)
            m = ReduceMax (q, axes)
            y = DequantizeLinear (m, s, z)
        }""",
    "a scale beside a whole one, before a product": """
        network (float[1, 3, 4, 4] x) => (float[1, 2, 8, 8] y)
            <float[4] scales = {1, 1, 2.2, 2.2}, float[2, 3, 1, 1] w = {1, 2, -3, 0.5, -1, 1.5}> {
            large = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric",
                            nearest_mode = "floor"> (x, , scales)
            y = Conv (large, w)
        }""",
    "a scale beside 2, between products": """
        network (float[1, 2, 2, 2] x) => (float[1, 2, 4, 4] y)
            <float[4] scales = {1, 1, 2.25, 2.25}, float[2, 2, 1, 1] w = {1, 2, -3, 0.5}> {
            c = Conv (x, w)
            large = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric",
                            nearest_mode = "floor"> (c, , scales)
            y = Conv (large, w)
        }""",
    "the largest integer": """
        network (int64[2, 3] x) => (int64[2, 3] y, int64[2, 3] z)
            <int64 most = {9223372036854775807}, int64 odd = {6364136223846793005}> {
            y = Min (x, most)
            z = Mul (x, odd)
        }""",
    "a bias a row": """
        network (float[4, 3] x) => (float[4, 4] y)
            <float[3, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, float[4, 1] c = {10, 20, 30, 40}> {
            y = Gemm (x, w, c)
        }""",
    "a bias a row of codes": """
        network (float[4, 3] x) => (float[4, 4] y)
            <float s = {0.02}, uint8 z = {128}, int8 n = {0},
             int8[3, 4] v = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, float[4, 1] c = {10, 20, 30, 40}> {
            q = QuantizeLinear (x, s, z)
            d = DequantizeLinear (q, s, z)
            w = DequantizeLinear (v, s, n)
            y = Gemm (d, w, c)
        }""",
    "a number as bias, of codes": """
        network (float[4, 3] x) => (float[4, 4] y)
            <float s = {0.02}, uint8 z = {128}, int8 n = {0},
             int8[3, 4] v = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, float[1] c = {10}> {
            q = QuantizeLinear (x, s, z)
            d = DequantizeLinear (q, s, z)
            w = DequantizeLinear (v, s, n)
            y = Gemm (d, w, c)
        }""",
    "an output that is left out": """
        network (float[4, 8] x) => (float[4, 8] y, float[4, 1] inverse)
            <float[8] scale = {1, 2, 3, 4, 5, 6, 7, 8}> {
            y, none, inverse = LayerNormalization (x, scale)
        }""",
    "how long a range is": """
        network (float[4] x) => (float[4] y) <float start = {0}, float limit = {0.3}, float delta = {0.1}> {
            r = Range (start, limit, delta)
            y = Add (x, r)
        }""",
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_answers_as_onnx_runtime(name: str, tmp_path: Path) -> None:
    proto = parse_model(HEAD + MODELS[name])
    for node in proto.graph.node:
        node.output[:] = ["" if output == "none" else output for output in node.output]
    program = read_onnx(proto)
    (type_,) = program.inputs.values()
    random = np.random.default_rng(3)
    x = random.standard_normal(type_.static) if type_.floating else random.integers(-99, 99, type_.static)
    x = x.astype(type_.numpy)
    wanted = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})
    for number, each in enumerate((program, simplify(program).program)):
        try:
            plan = make_plan(each, host_isa())
        except EngineError as error:
            assert "no native kernel" in str(error)
            continue
        write_folder(plan, tmp_path / str(number))
        found = Model(tmp_path / str(number))(x=x)
        for output, right in zip(program.outputs, wanted):
            np.testing.assert_allclose(found[output], right, rtol=1e-5, atol=1e-5)
