"""Small ONNX models with the kinds of tensors that the packed file knows."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tensmith.trellis import following, has_odd


def model_of(*tensors: TensorProto) -> bytes:
    """A serialized model that holds `tensors` as initializers."""
    graph = helper.make_graph([], "g", [], [], initializer=list(tensors))
    return helper.make_model(graph, producer_name="test").SerializeToString()


def tensor(name: str, values: np.ndarray) -> TensorProto:
    """`values` in raw_data."""
    return numpy_helper.from_array(np.ascontiguousarray(values), name)


def on_trellis(codes: np.ndarray) -> np.ndarray:
    """Numbers of the quantizers that codes lead to along the first axis."""
    states, numbers = np.zeros(codes.shape[1:], np.int64), np.empty_like(codes)
    for place, row in enumerate(codes):
        numbers[place] = 2 * row - has_odd(states) * np.sign(row)
        states = following(states, numbers[place])
    return numbers


def varied_model(seed: int = 0) -> bytes:
    """Quantized, sparse, clustered, fake-quantized, half, dependent and derived ones, some in a subgraph."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(24, 12, 3, 3)) * rng.lognormal(0, 0.5, (24, 12, 1, 1))
    scales = (np.abs(weights).max((1, 2, 3), keepdims=True) / 31).astype(np.float32)
    steps = np.rint(weights / scales).astype(np.int8)
    step = np.float32(0.037)
    smooth = np.cumsum(np.cumsum(rng.normal(size=(32, 16, 3, 3)), 2), 3) * rng.lognormal(
        0, 0.7, (32, 16, 1, 1)
    )
    halves = rng.normal(8, 1, (2, 40, 60)).round().clip(0, 15).astype(np.int64)
    near_zero = rng.normal(size=(2, 20, 32, 3, 3)).round().astype(np.int64)
    tensors = [
        tensor("q", steps),
        tensor("smooth", smooth.round().clip(-127, 127).astype(np.int8)),
        tensor("dependent", on_trellis(near_zero[0]).astype(np.int8)),
        tensor("turned", on_trellis(near_zero[1, ..., 0, 0]).T.astype(np.int8)),
        tensor("q_scale", scales.ravel()),
        tensor("x_scale", step),
        tensor("b_scale", scales.ravel() * step),
        tensor("sparse", np.where(rng.random(steps.shape) < 0.9, 0, steps).astype(np.int8)),
        tensor("fake_quantized", steps.astype(np.float32) * scales),
        tensor("clustered", rng.normal(size=9).astype(np.float32)[rng.integers(0, 9, (40, 30))]),
        tensor("dense", weights.astype(np.float32)),
        tensor("pruned", np.where(np.abs(weights) > 1, weights, 0).astype(np.float32)),
        tensor("half", weights.astype(np.float16)),
        tensor("double", weights[:4].astype(np.float64)),
        tensor("bias", rng.integers(-90000, 90000, 300).astype(np.int32)),
        tensor("nibbles", (halves[0] | halves[1] << 4).astype(np.uint8)),
        tensor("constant", np.full((64, 32), 2.5, np.float32)),
        tensor("copy", weights.astype(np.float32)),
        helper.make_tensor("listed", TensorProto.FLOAT, [200], rng.normal(size=200).tolist()),
        helper.make_tensor(
            "int4",
            TensorProto.INT4,
            [30, 80],
            (halves[0, ::2] | halves[1, ::2] << 4).astype(np.uint8).tobytes(),
            True,
        ),
    ]
    inner = helper.make_graph([], "inner", [], [], initializer=[tensor("deep", steps[:8])])
    nodes = [
        helper.make_node("Constant", [], ["c"], value=tensor("c", steps[8:])),
        helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner),
    ]
    graph = helper.make_graph(nodes, "g", [], [], initializer=tensors)
    model: onnx.ModelProto = helper.make_model(graph, producer_name="test")
    return model.SerializeToString()
