"""Small programs whose every layer has several kernels, and a clock that knows how long each takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime

from tensmith.errors import EngineError
from tensmith.formula.arith import Array
from tensmith.ir import Program, TensorType, make_node
from tensmith.kernel.algorithm import Kernel
from tensmith.kernel.problem import ConvolutionProblem


def two_layers() -> Program:
    """3 -> 16 -> 32 channels by 3x3 convolutions of 8 x 8."""
    generator = np.random.default_rng(0)
    weights = {
        "v": generator.standard_normal((16, 3, 3, 3)).astype(np.float32),
        "w": generator.standard_normal((32, 16, 3, 3)).astype(np.float32),
    }
    nodes = tuple(
        make_node("conv", names, [output], {"pads": (1, 1, 1, 1), "strides": (1, 1), "dilations": (1, 1)})
        for names, output in ((["x", "v"], "a"), (["a", "w"], "b"))
    )
    return Program("two", {"x": TensorType("f32", (1, 3, 8, 8))}, ("b",), nodes, weights)


def answered(model: Path) -> tuple[Array, Array]:
    """An image x [1, 3, 8, 8], and what ONNX Runtime answers to it."""
    x = np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype(np.float32)
    return x, onnxruntime.InferenceSession(model).run(None, {"x": x})[0]


class Clock:
    """Stands for a timer: the slower a kernel's guess, the faster it is here; some of them crash."""

    def __init__(self, crashing: str = "nothing") -> None:
        self.asked: list[Kernel] = []
        self._crashing = crashing

    def __call__(self, kernel: Kernel, memory: int, span: float) -> float:
        """Seconds; EngineError if the kernel's name holds `crashing`."""
        self.asked.append(kernel)
        if self._crashing in str(kernel):
            raise EngineError(f"{kernel} died")
        return 1e-6 / kernel.cost().seconds()


def problem(channels: int = 32, size: int = 8) -> ConvolutionProblem:
    """A 3x3 convolution that keeps its size."""
    return ConvolutionProblem(channels, size, size, channels, (3, 3), pads=(1, 1, 1, 1))
