"""MatMulNBits means what ONNX Runtime computes, natively too, and goes back into a file as it came."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info

from tensmith.backend.native.emit.folder import write_folder
from tensmith.backend.native.emit.loader import Model
from tensmith.backend.native.plan import make_plan
from tensmith.backend.onnx import to_onnx
from tensmith.errors import ModelError
from tensmith.frontend.onnx import read_onnx
from tensmith.ir import interpret
from tensmith.kernel import host_isa

ROWS, COLUMNS = 3, 24


def packed_model(depth: int, bits: int = 4, zeros: bool = False, bias: bool = False) -> onnx.ModelProto:
    """x [1, ROWS, depth] @ dequantized w, in blocks of 32."""
    random = np.random.default_rng(3)
    blocks = -(-depth // 32)
    arrays = {
        "w": random.integers(0, 256, (COLUMNS, blocks, 32 * bits // 8)).astype(np.uint8),
        "s": (random.uniform(0.5, 1, COLUMNS * blocks) / 2**bits).astype(np.float32),
        "z": random.integers(0, 256, COLUMNS * -(-blocks * bits // 8)).astype(np.uint8) if zeros else None,
        "b": random.standard_normal(COLUMNS).astype(np.float32) if bias else None,
    }
    inputs = ["x", "w", "s", "z" if zeros else "", "", "b" if bias else ""]
    while not inputs[-1]:
        inputs.pop()
    attrs = {"K": depth, "N": COLUMNS, "bits": bits, "block_size": 32, "accuracy_level": 1}
    node = make_node("MatMulNBits", inputs, ["y"], domain="com.microsoft", **attrs)
    graph = make_graph(
        [node], "packed", [make_tensor_value_info("x", 1, [1, ROWS, depth])],
        [make_tensor_value_info("y", 1, [1, ROWS, COLUMNS])],
        [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items() if array is not None],
    )  # fmt: skip
    return make_model(
        graph, opset_imports=[make_opsetid("", 21), make_opsetid("com.microsoft", 1)], ir_version=10
    )


CASES = [(96, 4, False, False), (96, 4, True, True), (32, 4, False, True), (96, 8, False, False)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_is_what_onnx_runtime_computes(case: tuple[int, int, bool, bool], tmp_path: Path) -> None:
    model = packed_model(*case)
    x = np.random.default_rng(1).standard_normal((1, ROWS, case[0])).astype(np.float32)
    program = read_onnx(model)
    (node,) = program.nodes
    assert node.op == "matmul_n_bits"
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    # Weights are at most 15, sums have 96 terms: 100 * 96 * 15 * 2^-24.
    np.testing.assert_allclose(interpret(program, {"x": x})["y"], expected, rtol=0, atol=9e-3)
    plan = make_plan(program, host_isa())
    assert [kernel.work.name for kernel in plan.kernels] == ["coded_product"]  # type: ignore[union-attr]
    write_folder(plan, tmp_path / "folder")
    exact = interpret(program, {"x": x})["y"]
    np.testing.assert_allclose(Model(tmp_path / "folder")(x=x)["y"], exact, rtol=0, atol=9e-3)


def test_it_goes_back_as_it_came() -> None:
    model = packed_model(96, zeros=True)
    old, new = (m.graph.node[0] for m in (model, to_onnx(read_onnx(model))))
    assert list(old.input) == list(new.input) and old.domain == new.domain
    assert sorted(map(str, old.attribute)) == sorted(map(str, new.attribute))


def test_bits_that_go_without_saying_are_said() -> None:
    model = packed_model(96)
    (bits,) = (each for each in model.graph.node[0].attribute if each.name == "bits")
    model.graph.node[0].attribute.remove(bits)
    written = to_onnx(read_onnx(model)).graph.node[0].attribute
    assert sorted(map(str, written)) == sorted(map(str, packed_model(96).graph.node[0].attribute))


def test_wrong_sizes_and_uses_that_are_not_claimed() -> None:
    model = packed_model(96)
    model.graph.initializer[1].dims[0] -= 1
    model.graph.initializer[1].raw_data = model.graph.initializer[1].raw_data[:-4]
    with pytest.raises(ModelError, match="72 elements are needed"):
        read_onnx(model)
    other = packed_model(96)
    next(a for a in other.graph.node[0].attribute if a.name == "block_size").i = 24
    assert read_onnx(other).nodes[0].op == "com.microsoft.MatMulNBits"
