"""Products of codes as ONNX Runtime's quantizer writes them run in kernels of 8 bits.

ONNX Runtime itself saturates sums of bytes where a CPU has no VNNI, so the interpreter says what is right.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.parser import parse_model

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
# Of these, by the zero point, what has no kernel.
REFUSED = {
    ("padded codes", 0),
    ("the place of the largest", 0),
    ("the place of the largest", 5),
    ("codes that two read", 0),
    ("codes that two read", 5),
}


@pytest.mark.parametrize("zero", [0, 5])
@pytest.mark.parametrize("name", SIGNED)
def test_signed_codes_are_read_as_they_are_or_refused(name: str, zero: int, tmp_path: Path) -> None:
    head = '<ir_version: 10, opset_import: ["": 21]>'
    program = read_onnx(parse_model(head + SIGNED[name].replace("ZERO", str(zero))))
    shape = program.inputs["x"].static
    x = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    if (name, zero) in REFUSED:
        with pytest.raises(EngineError, match="signed codes"):
            make_plan(program, host_isa())
        return
    write_folder(make_plan(program, host_isa()), tmp_path / "f")
    for output, found in Model(tmp_path / "f")(x=x).items():
        np.testing.assert_allclose(found, interpret(program, {"x": x})[output], atol=1e-5)
