"""Small models of which native code compiles a part, written as mixed folders and run by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tensmith.backend.mixed.folder import mix, write_folder
from tensmith.frontend.onnx import read_onnx
from tensmith.ir import Program
from tensmith.kernel import Isa, host_isa

Array = np.ndarray[Any, Any]
Values = dict[str, tuple[int, Sequence[int | str]]]

F32, I64 = TensorProto.FLOAT, TensorProto.INT64
X = {"x": (F32, (1, 3, 8, 8))}


def weights(seed: int = 2, **shapes: tuple[int, ...]) -> dict[str, Array]:
    """Normal floats of these shapes."""
    random = np.random.default_rng(seed)
    return {name: random.standard_normal(shape).astype(np.float32) / 4 for name, shape in shapes.items()}


def model(nodes: list[onnx.NodeProto], outputs: Values, constants: dict[str, Array]) -> onnx.ModelProto:
    """A model of the input x, 8x8 images of 3 channels."""
    inputs, given = ([helper.make_tensor_value_info(n, *t) for n, t in v.items()] for v in (X, outputs))
    initializers = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "small", inputs, given, initializers)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    onnx.checker.check_model(made, full_check=True)
    return made


def convolution(source: str, filters: str, output: str) -> onnx.NodeProto:
    """A 3x3 convolution that keeps the size."""
    return helper.make_node("Conv", [source, filters], [output], pads=[1, 1, 1, 1])


def detector(seed: int = 2) -> onnx.ModelProto:
    """Two convolutions, boxes and scores of them, and what NonMaxSuppression selects."""
    nodes = [
        convolution("x", "f", "a"),
        helper.make_node("Relu", ["a"], ["b"]),
        convolution("b", "g", "c"),
        helper.make_node("Split", ["c"], ["left", "right"], axis=1, num_outputs=2),
        helper.make_node("Reshape", ["left", "boxes_shape"], ["boxes"]),
        helper.make_node("Reshape", ["right", "scores_shape"], ["scores"]),
        helper.make_node("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["selected"]),
    ]
    constants = {
        "boxes_shape": np.array([1, 64, 4]), "scores_shape": np.array([1, 4, 64]), "most": np.array([5]),
        "overlap": np.array([0.5], np.float32), "least": np.array([0.1], np.float32),
        **weights(seed, f=(16, 3, 3, 3), g=(8, 16, 3, 3)),
    }  # fmt: skip
    return model(nodes, {"selected": (I64, ("found", 3)), "boxes": (F32, (1, 64, 4))}, constants)


def branching() -> onnx.ModelProto:
    """A convolution, an If whose branches read it, and a convolution of what comes out."""
    then, otherwise = (
        helper.make_graph(
            [helper.make_node(op, ["a"], [f"{op}_y"])], op, [],
            [helper.make_tensor_value_info(f"{op}_y", F32, [1, 16, 8, 8])],
        )
        for op in ("Relu", "Neg")
    )  # fmt: skip
    nodes = [
        convolution("x", "f", "a"),
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "zero"], ["positive"]),
        helper.make_node("If", ["positive"], ["b"], then_branch=then, else_branch=otherwise),
        convolution("b", "g", "y"),
    ]
    constants = {"zero": np.array(0, np.float32), **weights(f=(16, 3, 3, 3), g=(8, 16, 3, 3))}
    return model(nodes, {"y": (F32, (1, 8, 8, 8))}, constants)


def program(made: onnx.ModelProto) -> Program:
    """A model as a program."""
    return read_onnx(made)


def compile_mixed(made: onnx.ModelProto, folder: Path, isa: Isa | None = None) -> Path:
    """The mixed folder of a model, inside `folder`."""
    path = folder / "mixed"
    write_folder(mix(read_onnx(made), isa or host_isa()), path)
    return path
