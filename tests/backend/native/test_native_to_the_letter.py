"""Models that differ by a letter from what kernels compute: native code answers as ONNX Runtime does."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx.parser import parse_model

from nets import Net
from tensmith.backend.native.emit.folder import write_folder
from tensmith.backend.native.emit.loader import Model
from tensmith.backend.native.plan import make_plan
from tensmith.errors import EngineError
from tensmith.frontend.onnx import read_onnx
from tensmith.ir import make_node
from tensmith.ir.interpreter import interpret
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
    "an output that is left out": """
        network (float[4, 8] x) => (float[4, 8] y, float[4, 1] inverse)
            <float[8] scale = {1, 2, 3, 4, 5, 6, 7, 8}> {
            y, none, inverse = LayerNormalization (x, scale)
        }""",
    "signed codes of a product": """
        network (float[4, 8] x) => (int8[4, 4] y)
            <float s = {0.02}, uint8 z = {128}, float t = {0.25}, int8 u = {-3}, int8 n = {0},
             int8[8, 4] v = RAMP_32> {
            q = QuantizeLinear (x, s, z)
            d = DequantizeLinear (q, s, z)
            w = DequantizeLinear (v, s, n)
            p = MatMul (d, w)
            y = QuantizeLinear (p, t, u)
        }""",
    "signed codes added to a product": """
        network (float[4, 8] x) => (float[4, 4] y)
            <float s = {0.02}, uint8 z = {128}, float t = {0.25}, int8 u = {-3}, int8 n = {0}, int8[4, 4] r =
             {1, -2, 3, -4, 5, -6, 7, -8, 9, 10, -11, 12, 13, 14, -15, 16}, int64[4] ids = {2, 1, 3, 0},
             int8[8, 4] v = RAMP_32> {
            q = QuantizeLinear (x, s, z)
            d = DequantizeLinear (q, s, z)
            w = DequantizeLinear (v, s, n)
            p = MatMul (d, w)
            zero = Sub (p, p)
            one = Cast <to = 7> (zero)
            place = ReduceMax <keepdims = 0> (one)
            at = Add (ids, place)
            picked = Gather (r, at)
            e = DequantizeLinear (picked, t, u)
            y = Add (p, e)
        }""",
    "whole numbers quantized": """
        network (int64[2, 8] x) => (uint8[2, 8] y) <float s = {0.5}, uint8 z = {7}> {
            i = Cast <to = 6> (x)
            y = QuantizeLinear (i, s, z)
        }""",
    "numbers of codes that two read": """
        network (float[4, 8] x) => (float[4, 8] y) <float s = {0.02}, uint8 z = {128}, int64[1] axes = {1}> {
            q = QuantizeLinear (x, s, z)
            d = DequantizeLinear (q, s, z)
            m = ReduceMean (d, axes)
            y = Sub (d, m)
        }""",
    "numbers of codes as an output": """
        network (float[1, 3, 8, 8] x) => (float[1, 3, 8, 8] d, float[1, 2, 8, 8] y)
            <float s = {0.02}, uint8 z = {128}, float[2, 3, 1, 1] w = {1, 2, -3, 0.5, -1, 1.5}> {
            q = QuantizeLinear (x, s, z)
            d = DequantizeLinear (q, s, z)
            y = Conv (x, w)
        }""",
    "codes as an output and in a product": """
        network (float[4, 18] x) => (uint8[4, 18] q, float[4, 2] y)
            <float s = {0.02}, uint8 z = {128}, int8 n = {0}, int8[18, 2] v = RAMP_36> {
            q = QuantizeLinear (x, s, z)
            d = DequantizeLinear (q, s, z)
            w = DequantizeLinear (v, s, n)
            y = MatMul (d, w)
        }""",
    "a mask of fewer axes than values": """
        network (float[2, 4, 8] x) => (float[3, 2, 4, 8] y)
            <float[4, 4] mask = {0, -1, -2, -3, 0, 0, -1, -2, 0, 0, 0, -1, 0, 0, 0, 0}, int64[1] first = {0},
             int64[4] shape = {3, 2, 4, 8}> {
            k = Transpose <perm = [0, 2, 1]> (x)
            scores = MatMul (x, k)
            masked = Add (scores, mask)
            p = Softmax <axis = -1> (masked)
            u = Unsqueeze (x, first)
            v = Expand (u, shape)
            y = MatMul (p, v)
        }""",
    "numbers of codes a channel": """
        network (float[1, 3, 8, 8] x) => (float[1, 2, 8, 8] y)
            <float s = {0.02}, uint8 z = {128}, float[3] t = {0.02, 0.03, 0.04}, uint8[3] u = {128, 100, 90},
             float[2, 3, 1, 1] w = {1, 2, -3, 0.5, -1, 1.5}> {
            q = QuantizeLinear (x, s, z)
            d = DequantizeLinear <axis = 1> (q, t, u)
            y = Conv (d, w)
        }""",
    "how long a range is": """
        network (float[4] x) => (float[4] y) <float start = {0}, float limit = {0.3}, float delta = {0.1}> {
            r = Range (start, limit, delta)
            y = Add (x, r)
        }""",
}  # fmt: skip
MODELS["a number as bias, of codes"] = MODELS["a bias a row of codes"].replace(
    "float[4, 1] c = {10, 20, 30, 40}", "float[1] c = {10}"
)


def _ramp(count: re.Match[str]) -> str:
    """So many codes, some of either sign."""
    return "{" + ", ".join(str(code - 9) for code in range(int(count[1]))) + "}"


@pytest.mark.parametrize("name", MODELS)
def test_answers_as_onnx_runtime(name: str, tmp_path: Path) -> None:
    proto = parse_model(HEAD + re.sub(r"RAMP_(\d+)", _ramp, MODELS[name]))
    for node in proto.graph.node:
        node.output[:] = ["" if output == "none" else output for output in node.output]
    program = read_onnx(proto)
    (type_,) = program.inputs.values()
    random = np.random.default_rng(3)
    x = random.standard_normal(type_.static) if type_.floating else random.integers(-99, 99, type_.static)
    x = x.astype(type_.numpy)
    try:
        wanted = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        wanted = [*interpret(program, {"x": x}).values()]
    for number, each in enumerate((program, simplify(program).program)):
        write_folder(make_plan(each, host_isa()), tmp_path / str(number))
        found = Model(tmp_path / str(number))(x=x)
        for output, right in zip(program.outputs, wanted):
            near = 1 if right.dtype.itemsize == 1 else 1e-5  # a code, where halves are near
            np.testing.assert_allclose(found[output].astype(np.float64), right, rtol=1e-5, atol=near)


@pytest.mark.parametrize("name", ["output y", "y\0 of the caller"])
def test_values_may_be_called_as_plans_call_theirs(name: str, tmp_path: Path) -> None:
    net = Net(1, 3, 16, 16)
    weights = net.constant(64, 3, 3, 3)
    net.nodes.append(make_node("conv", ["x", weights], [name], {"pads": (1, 1, 1, 1)}))
    joined = net.add("add", net.add("relu", name), net.add("max_pool", name, kernel_shape=(1, 1)))
    net.nodes.append(make_node("global_average_pool", [joined], ["y"]))
    program = net.program("y", name)
    if "\0" in name:
        with pytest.raises(EngineError, match="zero byte"):
            make_plan(program, host_isa())
        return
    write_folder(make_plan(program, host_isa()), tmp_path / "model")
    x = np.random.default_rng(1).standard_normal((1, 3, 16, 16)).astype(np.float32)
    found = Model(tmp_path / "model")(x=x)
    for value, expected in interpret(program, {"x": x}).items():
        np.testing.assert_allclose(found[value], expected, atol=1e-4)
