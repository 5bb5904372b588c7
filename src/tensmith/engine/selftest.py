"""Does an engine work here? A tiny model through it, against the reference interpreter."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from tensmith.backend.onnx import write_onnx
from tensmith.engine.worker import SessionWorker
from tensmith.errors import EngineError
from tensmith.files import TemporaryFolder
from tensmith.ir import Program, TensorType, interpret, make_node

_TIMEOUT_S = 60.0
# Nine products and their sum in single precision: each rounds by at most 2**-24 of numbers below 32.
_TOLERANCE = 18 * 32 * 2.0**-24


def self_test(engine: str) -> float:
    """Runs a 3x3 convolution and a rectifier; seconds from starting the engine to its answer.

    EngineError if it cannot be loaded, or if it answers otherwise than the interpreter.
    """
    program = _program()
    sample = {"x": np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 1, 8, 8)}
    expected = interpret(program, sample)["y"]
    started = time.monotonic()
    with TemporaryFolder() as folder:
        path = Path(folder) / "selftest.onnx"
        write_onnx(program, path)
        with SessionWorker(engine, path, timeout=_TIMEOUT_S) as worker:
            answer = worker.run(sample)["y"]
    if answer.shape != expected.shape or not np.allclose(answer, expected, rtol=0, atol=_TOLERANCE):
        raise EngineError(f"{engine} answers otherwise than the reference on a convolution; install it again")
    return time.monotonic() - started


def _program() -> Program:
    kernel = np.arange(-4, 5, dtype=np.float32).reshape(1, 1, 3, 3)
    conv = make_node("conv", ["x", "w"], ["c"], {"pads": (1, 1, 1, 1)})
    relu = make_node("relu", ["c"], ["y"])
    return Program("selftest", {"x": TensorType("f32", (1, 1, 8, 8))}, ("y",), (conv, relu), {"w": kernel})
