"""OpenVINO on the CPU, in the precision that the file states.

Its own default computes fp32 models in bf16 on CPUs that can, without a word (relative error 1e-2); the
precision hint forbids that unless the caller asks for it by name.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from tensmith.backend.native.emit.loader import one_at_a_time
from tensmith.engine import base
from tensmith.engine.profile import StepTime, mean_steps
from tensmith.engine.signature import ModelSignature, read_signature
from tensmith.errors import EngineError

_MOST_PROFILED = 1000


class OpenVinoSession(base.Session):
    """One compiled model and the infer requests that no inference is using; a request is made at need."""

    def __init__(self, compiled: Any, signature: ModelSignature) -> None:
        self._compiled = compiled
        self._free: list[Any] = []
        self.inputs, self.outputs = signature.inputs, signature.outputs
        self.operators = signature.operators

    def run(self, inputs: base.Arrays) -> dict[str, np.ndarray[Any, Any]]:
        request = self._request()
        results = self._inferred(request, inputs)
        self._free.append(request)
        return {spec.name: results[index] for index, spec in enumerate(self.outputs)}

    def bind(self, inputs: base.Arrays) -> Callable[[], object]:
        """Keeps a request to itself: whoever runs meanwhile sets the inputs of another one."""
        import openvino

        request = self._request()
        self._inferred(request, inputs)
        owned = {name: np.array(array, order="C") for name, array in inputs.items()}
        for name, array in owned.items():
            request.set_tensor(name, openvino.Tensor(array, shared_memory=True))
        infer = functools.partial(request.infer, None, share_outputs=True)
        infer.__dict__["kept"] = owned  # alive as long as the call is
        return one_at_a_time(infer)

    def steps(self, inputs: base.Arrays) -> list[StepTime]:
        """One inference of a model that was compiled to count, and what it executed."""
        request = self._request()
        self._inferred(request, inputs)
        self._free.append(request)
        return [
            StepTime(
                info.node_name, f"{info.node_type} ({info.exec_type})", (), info.real_time.total_seconds()
            )
            for info in request.profiling_info
            if str(info.status) == "Status.EXECUTED"
        ]

    def close(self) -> None:
        self._compiled = None
        self._free.clear()

    def _request(self) -> Any:
        """One that is free."""
        try:
            return self._free.pop()
        except IndexError:
            return self._compiled.create_infer_request()

    def _inferred(self, request: Any, inputs: base.Arrays) -> Any:
        base.check_inputs(self.inputs, inputs)
        try:
            # The outputs are copied: the request writes its next answer into the same buffers.
            return request.infer(dict(inputs), share_inputs=True, share_outputs=False)
        except Exception as error:
            raise EngineError(f"openvino failed while running: {base.first_line(error)}") from error


@base.engine
class OpenVino(base.PackageEngine):
    """Setting `precision`: "f32" (default), "bf16" or "f16" for what fp32 operators compute in."""

    name = "openvino"
    install = "'tensmith[openvino]'"
    settings = MappingProxyType({"precision": ("f32", "bf16", "f16")})

    def start(self) -> None:
        super().start()
        import openvino

        openvino.Core()

    def prepare(
        self, path: Path, threads: int, *, sizes: Mapping[str, int] | None = None, **settings: str
    ) -> base.Session:
        properties = cpu_properties(threads, **self.completed(settings))
        self.start()
        return _compiled(path, properties, sizes or {})

    def profile(
        self, path: Path, threads: int, inputs: base.Arrays, seconds: float, **settings: str
    ) -> list[StepTime]:
        """As `engine.profile`: what was executed, by the names of the ONNX nodes that it came of."""
        properties = cpu_properties(threads, **self.completed(settings)) | {"PERF_COUNT": True}
        self.start()
        session = _compiled(path, properties, base.sizes_in(path, inputs))
        ended = time.monotonic() + seconds
        runs = [session.steps(inputs)]
        while time.monotonic() < ended and len(runs) < _MOST_PROFILED:
            runs.append(session.steps(inputs))
        return mean_steps(runs[1:] or runs)  # the first inference allocates


def _compiled(path: Path, properties: Mapping[str, Any], sizes: Mapping[str, int]) -> OpenVinoSession:
    signature = read_signature(path)
    import openvino

    try:
        core = openvino.Core()
        model = core.read_model(str(path))
        if shapes := _fixed_shapes(signature, sizes):
            model.reshape(shapes)
        return OpenVinoSession(core.compile_model(model, "CPU", dict(properties)), signature)
    except Exception as error:
        raise EngineError(f"openvino cannot load {path}: {base.first_line(error)}") from error


def cpu_properties(threads: int, precision: str) -> dict[str, Any]:
    """What a model is compiled with."""
    return {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": precision,
        "INFERENCE_NUM_THREADS": threads,
        # Left to the scheduler, as in every other engine: two runs pinned to the same core would halve each
        # other.
        "ENABLE_CPU_PINNING": False,
    }


def _fixed_shapes(signature: ModelSignature, sizes: Mapping[str, int]) -> dict[str, list[int]]:
    """Static shapes of the inputs whose symbols are all known: kernels compiled for them are faster."""
    shapes = {spec.name: base.fix(spec, sizes) for spec in signature.inputs} if sizes else {}
    return {name: list(shape) for name, shape in shapes.items() if shape is not None}
