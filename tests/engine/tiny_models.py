"""Small ONNX models that every engine must run, and inputs for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Arrays = dict[str, np.ndarray[Any, Any]]


def _model(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    weights: Arrays,
) -> onnx.ModelProto:
    initializers = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "tiny", inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    onnx.checker.check_model(model, full_check=True)
    return model


def _float(name: str, shape: list[int | str]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def conv_relu() -> tuple[onnx.ModelProto, Arrays]:
    """Fixed batch: 3x3 convolution with padding and bias, then Relu."""
    random = np.random.default_rng(0)
    weights = {
        "w": random.standard_normal((4, 3, 3, 3)).astype(np.float32),
        "b": random.standard_normal(4).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    model = _model(nodes, [_float("x", [1, 3, 8, 8])], [_float("y", [1, 4, 8, 8])], weights)
    return model, {"x": random.standard_normal((1, 3, 8, 8)).astype(np.float32)}


def matmul() -> tuple[onnx.ModelProto, Arrays]:
    """Symbolic batch and two outputs: x @ w, and its softmax."""
    random = np.random.default_rng(0)
    weights = {"w": random.standard_normal((16, 10)).astype(np.float32)}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["probabilities"], axis=-1),
    ]
    outputs = [_float("logits", ["batch", 10]), _float("probabilities", ["batch", 10])]
    model = _model(nodes, [_float("x", ["batch", 16])], outputs, weights)
    return model, {"x": random.standard_normal((7, 16)).astype(np.float32)}


def cross_attention() -> tuple[onnx.ModelProto, Arrays]:
    """Two open first axes, of rows that are looked up and of those they are looked up in: no samples."""
    random = np.random.default_rng(0)
    nodes = [
        helper.make_node("Transpose", ["c"], ["k"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "k"], ["s"]),
        helper.make_node("Softmax", ["s"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "c"], ["y"]),
    ]
    model = _model(nodes, [_float("x", ["n", 3]), _float("c", ["m", 3])], [_float("y", ["n", 3])], {})
    return model, {name: random.random((size, 3), np.float32) for name, size in (("x", 2), ("c", 5))}


def scaled() -> tuple[onnx.ModelProto, Arrays]:
    """A fixed batch, each sample turned around and times a scalar input."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["t"]), helper.make_node("Mul", ["t", "s"], ["y"])]
    inputs, turned = [_float("x", [2, 16]), _float("s", [])], np.eye(16, dtype=np.float32)[::-1]
    model = _model(nodes, inputs, [_float("y", [2, 16])], {"w": turned})
    return model, {"x": np.ones((2, 16), np.float32), "s": np.array(2, np.float32)}


def open_image() -> tuple[onnx.ModelProto, Arrays]:
    """3x3 convolution of an image whose open height and width cannot be 1."""
    random = np.random.default_rng(0)
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"])]
    inputs, outputs = [_float("x", ["n", 3, "h", "w_"])], [_float("y", ["n", 2, "h2", "w2"])]
    model = _model(nodes, inputs, outputs, {"w": random.standard_normal((2, 3, 3, 3)).astype(np.float32)})
    return model, {"x": random.random((1, 3, 5, 6), np.float32)}


def quantized_matmul() -> tuple[onnx.ModelProto, Arrays]:
    """int8 in QDQ form; integers small enough for AVX2's 16-bit sums, scales powers of two: exact."""
    random = np.random.default_rng(0)
    weights = {
        "w": random.integers(-31, 32, (16, 4)).astype(np.int8),
        "ws": np.array(2.0**-5, np.float32),
        "wz": np.array(0, np.int8),
        "xs": np.array(2.0**-4, np.float32),
        "xz": np.array(64, np.uint8),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "xs", "xz"], ["xd"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wd"]),
        helper.make_node("MatMul", ["xd", "wd"], ["y"]),
    ]
    model = _model(nodes, [_float("x", ["batch", 16])], [_float("y", ["batch", 4])], weights)
    return model, {"x": (random.integers(-60, 60, (3, 16)) / 16).astype(np.float32)}


def product() -> tuple[onnx.ModelProto, Arrays]:
    """Of two inputs."""
    random = np.random.default_rng(0)
    inputs = {name: random.standard_normal((64, 64)).astype(np.float32) for name in ("a", "b")}
    nodes = [helper.make_node("MatMul", ["a", "b"], ["y"])]
    model = _model(nodes, [_float(name, [64, 64]) for name in inputs], [_float("y", [64, 64])], {})
    return model, inputs


MODELS = {make.__name__: make for make in (conv_relu, matmul, quantized_matmul)}
