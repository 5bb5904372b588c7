"""Products of codes as ONNX Runtime's quantizer writes them run in kernels of 8 bits.

ONNX Runtime itself saturates sums of bytes where a CPU has no VNNI, so the interpreter says what is right.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.parser import parse_model
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from tensmith.backend.native.emit.folder import write_folder
from tensmith.backend.native.emit.loader import Model
from tensmith.backend.native.plan import make_plan
from tensmith.errors import EngineError
from tensmith.frontend.onnx import read_onnx
from tensmith.ir.interpreter import interpret
from tensmith.kernel import Kernel, host_isa

RNG = np.random.default_rng(0)


def quantized(dtype: str, bias: bool) -> onnx.ModelProto:
    """[1, 3, 9, 9] floats -> conv 3x3 of 8 filters, conv 1x1 of 5, product with [9, 4]; all codes."""
    code = np.dtype(dtype)
    zero = 3 if dtype == "int8" else 121
    weights = {
        "xs": np.float32(0.03), "xz": code.type(zero), "ys": np.float32(0.2), "yz": code.type(zero + 2),
        "zs": np.float32(0.9), "zz": code.type(zero + 1), "ps": np.float32(2.5), "pz": code.type(zero),
        "w": RNG.integers(-127, 128, (8, 3, 3, 3)).astype(np.int8),
        "ws": RNG.uniform(0.005, 0.01, 8).astype(np.float32), "wz": np.zeros(8, np.int8),
        "b": RNG.integers(-2000, 2000, 8).astype(np.int32),
        "v": RNG.integers(-127, 128, (5, 8, 1, 1)).astype(np.int8),
        "vs": np.float32(0.01), "vz": np.int8(0),
        "m": RNG.integers(-127, 128, (9, 4)).astype(np.int8),
    }  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["q"]),
        helper.make_node(
            "QLinearConv", ["q", "xs", "xz", "w", "ws", "wz", "ys", "yz", *["b"] * bias], ["c"],
            pads=[1, 1, 1, 1],
        ),
        helper.make_node("QLinearConv", ["c", "ys", "yz", "v", "vs", "vz", "zs", "zz"], ["d"]),
        helper.make_node("QLinearMatMul", ["d", "zs", "zz", "m", "vs", "vz", "ps", "pz"], ["e"]),
        helper.make_node("DequantizeLinear", ["e", "ps", "pz"], ["y"]),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "codes",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 9, 9])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5, 9, 4])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(("dtype", "bias"), [("uint8", True), ("int8", False)])
def test_codes_stay_codes(dtype: str, bias: bool, tmp_path: Path) -> None:
    program = read_onnx(quantized(dtype, bias))
    plan = make_plan(program, host_isa())
    works = [action.work for action in plan.kernels]
    assert [work.problem.dtype for work in works if isinstance(work, Kernel)] == ["u8"] * 3
    write_folder(plan, tmp_path / "f")
    x = RNG.standard_normal((1, 3, 9, 9)).astype(np.float32)
    want, found = interpret(program, {"x": x})["y"], Model(tmp_path / "f")(x=x)["y"]
    assert abs(found - want).max() <= 2.5 and (found == want).mean() > 0.99  # a code, where halves are near


# Signed codes that others than dequantizations read.
SIGNED = {
    "padded codes": """
        network (float[1, 1, 4, 4] x) => (float[1, 1, 6, 6] y)
            <float s = {0.1}, int8 z = {ZERO}, int8 border = {ZERO},
             int64[8] pads = {0, 0, 1, 1, 0, 0, 1, 1}> {
            q = QuantizeLinear (x, s, z)
            p = Pad (q, pads, border)
            y = DequantizeLinear (p, s, z)
        }""",
    "codes padded by others": """
        network (float[1, 2, 4, 4] x) => (float[1, 2, 5, 5] y, float[1, 2, 6, 6] t)
            <float s = {0.1}, float ws = {0.0937}, int8 z = {ZERO}, int8 border = {17},
             int64[8] pads = {0, 0, 1, 1, 0, 0, 1, 1}, int8 wz = {0},
             int8[2, 2, 2, 2] w = {3, -5, 7, 2, 1, 2, 3, 4, 9, 8, 7, 6, -5, -4, -3, -2}> {
            q = QuantizeLinear (x, s, z)
            c = QLinearConv <pads = [0, 0, 1, 1]> (q, s, z, w, ws, wz, s, z)
            p = Pad (c, pads, border)
            t = DequantizeLinear (p, s, z)
            d = QLinearConv (p, s, z, w, ws, wz, s, z)
            y = DequantizeLinear (d, s, z)
        }""",
    "codes padded without a number": """
        network (float[1, 2, 4, 4] x) => (float[1, 2, 8, 4] y)
            <float s = {0.1}, int8 z = {ZERO}, int64[8] pads = {0, 0, 1, 1, 0, 0, 1, 1},
             int64[8] again = {0, 0, 1, -1, 0, 0, 1, -1}> {
            q = QuantizeLinear (x, s, z)
            p = Pad (q, pads)
            b = Pad (p, again)
            y = DequantizeLinear (b, s, z)
        }""",
    "codes that are moved": """
        network (float[1, 2, 4, 4] x) => (float[4, 2] y, float[4] t)
            <float s = {0.1}, int8 z = {ZERO}, int64[2] sizes = {2, 4}, int64[1] axis = {0}> {
            q = QuantizeLinear (x, s, z)
            m = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (q)
            a = Reshape (m, sizes)
            b = Transpose <perm = [1, 0]> (a)
            y = DequantizeLinear (b, s, z)
            c, d = Split <axis = 1, num_outputs = 2> (b)
            e = Squeeze (d)
            t = DequantizeLinear (e, s, z)
        }""",
    "the place of the largest": """
        network (float[1, 2, 4, 4] x) => (int64[1, 1, 4, 4] y)
            <float s = {0.1}, int8 z = {ZERO}, int8[2, 2, 1, 1] w = {3, -5, 7, 2}, int8 wz = {0}> {
            q = QuantizeLinear (x, s, z)
            c = QLinearConv (q, s, z, w, s, wz, s, z)
            y = ArgMax <axis = 1> (c)
        }""",
    "codes that two read": """
        network (float[1, 2, 4, 4] x) => (float[1, 2, 4, 4] y, float[1, 2, 4, 4] t)
            <float s = {0.1}, float[2, 2, 1, 1] w = {3, -5, 7, 2}> {
            q = QuantizeLinear <output_dtype = 3> (x, s)
            d = DequantizeLinear (q, s)
            y = Conv (d, w)
            t = Softmax <axis = 2> (d)
        }""",
}
# Of these what has no kernel.
REFUSED = {"the place of the largest"}


@pytest.mark.parametrize("zero", [0, 5, -128])
@pytest.mark.parametrize("name", SIGNED)
def test_signed_codes_are_read_as_they_are_or_refused(name: str, zero: int, tmp_path: Path) -> None:
    head = '<ir_version: 10, opset_import: ["": 21]>'
    program = read_onnx(parse_model(head + SIGNED[name].replace("ZERO", str(zero))))
    shape = program.inputs["x"].static
    x = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    if name in REFUSED:
        with pytest.raises(EngineError, match="signed codes"):
            make_plan(program, host_isa())
        return
    write_folder(make_plan(program, host_isa()), tmp_path / "f")
    for output, found in Model(tmp_path / "f")(x=x).items():
        np.testing.assert_allclose(found, interpret(program, {"x": x})[output], atol=1e-5)


class _Made(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self) -> None:
        self.left = [{"x": x} for x in RNG.standard_normal((4, 1, 3, 16, 16)).astype(np.float32)]

    def get_next(self) -> dict[str, np.ndarray] | None:
        return self.left.pop() if self.left else None


def residual(path: Path) -> None:
    """Convolutions with a residual each, padding, pools and a product, in floats."""
    graph = parse_model("""
        <ir_version: 8, opset_import: ["": 17]>
        network (float[1, 3, 16, 16] x) => (float[1, 10] y)
            <int64[8] around = {0, 0, 1, 1, 0, 0, 1, 1}> {
            a = Conv <pads = [1, 1, 1, 1]> (x, w0, b0)
            b = Tanh (a)
            c = Pad (b, around)
            d = MaxPool <kernel_shape = [3, 3], strides = [2, 2]> (c)
            e = Conv <pads = [1, 1, 1, 1]> (d, w1, b1)
            f = Relu (e)
            g = Conv <pads = [1, 1, 1, 1]> (f, w2, b2)
            h = Add (d, g)
            i = AveragePool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (h)
            j = Conv <strides = [2, 2]> (h, w3, b3)
            k = Add (i, j)
            l = GlobalAveragePool (k)
            m = Flatten (l)
            y = Gemm <transB = 1> (m, w4, b4)
        }""")
    for number, shape in enumerate([(8, 3, 3, 3), (8, 8, 3, 3), (8, 8, 3, 3), (8, 8, 1, 1), (10, 8)]):
        for letter, size in (("w", shape), ("b", shape[:1])):
            array = RNG.normal(scale=0.3, size=size).astype(np.float32)
            graph.graph.initializer.append(numpy_helper.from_array(array, f"{letter}{number}"))
    onnx.save(graph, path)


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("codes", [QuantType.QInt8, QuantType.QUInt8])
@pytest.mark.parametrize("form", [QuantFormat.QOperator, QuantFormat.QDQ])
def test_a_residual_network_of_the_static_quantizer(
    form: QuantFormat, codes: QuantType, each: bool, tmp_path: Path
) -> None:
    """Every layer multiplies bytes, and answers are ONNX Runtime's but where a number lies between codes."""
    source, path = tmp_path / "floats.onnx", tmp_path / "codes.onnx"
    residual(source)
    # Weights of 7 bits, of which no product saturates on any processor.
    quantize_static(
        source, path, _Made(), quant_format=form, activation_type=codes, weight_type=QuantType.QInt8,
        per_channel=each, reduce_range=True,
    )  # fmt: skip
    plan = make_plan(read_onnx(path), host_isa())
    kernels = [action.work for action in plan.kernels if isinstance(action.work, Kernel)]
    assert [kernel.problem.dtype for kernel in kernels] == ["u8"] * 5
    write_folder(plan, tmp_path / "f")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    model = Model(tmp_path / "f")
    images = RNG.standard_normal((8, 1, 3, 16, 16)).astype(np.float32)
    found = [model(x=x)["y"] for x in images]
    want = [session.run(None, {"x": x})[0] for x in images]
    code = np.diff(np.unique(want)).min()
    steps = np.round(np.subtract(found, want) / code)
    assert np.abs(steps).max() <= 1 and (steps == 0).mean() > 0.5
