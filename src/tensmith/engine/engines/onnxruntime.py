"""ONNX Runtime on the CPU, all graph optimizations: the default engine and the baseline."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from tensmith.backend.native.emit.loader import one_at_a_time
from tensmith.engine import base
from tensmith.engine.profile import StepTime, mean_steps
from tensmith.engine.signature import ModelSignature, read_signature
from tensmith.errors import EngineError
from tensmith.files import TemporaryFolder

_FATAL_ONLY = 4
_KERNEL, _MOST_PROFILED = "_kernel_time", 1000
_LEVELS = {"all": "ORT_ENABLE_ALL", "basic": "ORT_ENABLE_BASIC", "none": "ORT_DISABLE_ALL"}
_WEIGHTS = {"packed": "0", "mapped": "1"}


class OnnxRuntimeSession(base.Session):
    """One InferenceSession."""

    def __init__(self, native: Any, signature: ModelSignature) -> None:
        self._native = native
        self.inputs, self.outputs = signature.inputs, signature.outputs
        self.operators = signature.operators
        self._names = [spec.name for spec in signature.outputs]

    def run(self, inputs: base.Arrays) -> dict[str, np.ndarray[Any, Any]]:
        base.check_inputs(self.inputs, inputs)
        try:
            return dict(zip(self._names, self._native.run(self._names, dict(inputs))))
        except Exception as error:
            raise EngineError(f"onnxruntime failed while running: {base.first_line(error)}") from error

    def bind(self, inputs: base.Arrays) -> Callable[[], object]:
        self.run(inputs)
        binding = self._native.io_binding()
        for name, array in inputs.items():
            binding.bind_cpu_input(name, np.asarray(array, order="C"))
        for name in self._names:
            binding.bind_output(name, "cpu")
        run = self._native.run_with_iobinding
        return one_at_a_time(lambda: run(binding))

    def end_profiling(self) -> str:
        """The path of what the profiler wrote."""
        return str(self._native.end_profiling())

    def close(self) -> None:
        self._native = None


@base.engine
class OnnxRuntime(base.PackageEngine):
    """Settings: `optimization` "all" (default), "basic" or "none"; `weights` "packed" (default) or "mapped".

    Mapped weights are read where they lie, in the file beside the model: they take no memory of their own
    (below "all", which puts them into another order), and kernels are a little slower.
    """

    name = "onnxruntime"
    install = "onnxruntime"
    settings = MappingProxyType({"optimization": tuple(_LEVELS), "weights": tuple(_WEIGHTS)})

    def prepare(
        self, path: Path, threads: int, *, sizes: Mapping[str, int] | None = None, **settings: str
    ) -> base.Session:
        chosen = self.completed(settings)
        self.start()
        options = _options(threads, chosen)
        for symbol, size in (sizes or {}).items():
            options.add_free_dimension_override_by_name(symbol, size)
        signature = read_signature(path)
        return self._opened(path, options, signature)

    def profile(
        self, path: Path, threads: int, inputs: base.Arrays, seconds: float, **settings: str
    ) -> list[StepTime]:
        """As `engine.profile`; values are those of nodes that the optimized graph names."""
        chosen = self.completed(settings)
        self.start()
        options = _options(threads, chosen)
        with TemporaryFolder() as folder:
            optimized = Path(folder) / "optimized.onnx"
            options.enable_profiling, options.profile_file_prefix = True, str(Path(folder) / "profile")
            options.optimized_model_filepath = str(optimized)
            session = self._opened(path, options, read_signature(path))
            ended = time.monotonic() + seconds
            for _ in range(_MOST_PROFILED):
                session.run(inputs)
                if time.monotonic() > ended:
                    break
            written = Path(session.end_profiling())
            import onnx

            values = {
                node.name: tuple(node.output)
                for node in onnx.load(optimized, load_external_data=False).graph.node
            }
            runs = list(_events(written, values))
            return mean_steps(runs[1:] or runs)  # the first inference allocates

    def _opened(self, path: Path, options: Any, signature: ModelSignature) -> OnnxRuntimeSession:
        try:
            return open_session(path, options, signature)
        except Exception as error:
            raise EngineError(f"onnxruntime cannot load {path}: {base.first_line(error)}") from error


def _events(file: Path, values: Mapping[str, tuple[str, ...]]) -> Iterator[list[StepTime]]:
    """The steps of each inference in a file of ONNX Runtime's profiler, microseconds in it."""
    nodes: list[tuple[int, int, StepTime]] = []
    for event in json.loads(file.read_text(encoding="utf-8")):
        if event["cat"] == "Node" and event["name"].endswith(_KERNEL):
            name = event["name"].removesuffix(_KERNEL)
            step = StepTime(name, event["args"]["op_name"], values.get(name, ()), 0.0)
            nodes.append((event["ts"], event["dur"], step))
        elif event["name"] == "model_run":
            yield _own_times(nodes)
            nodes = []


def _own_times(nodes: list[tuple[int, int, StepTime]]) -> list[StepTime]:
    """Steps by their beginnings and lengths in microseconds, each without those inside it: a Loop, Scan or If
    is told beside the nodes that it runs. One that begins before another's end is inside that."""
    own: list[int] = []
    around: list[tuple[int, int]] = []  # ends, and places in `own`
    ordered = sorted(nodes, key=lambda node: (node[0], -node[1]))
    for begin, lasted, _ in ordered:
        while around and around[-1][0] <= begin:
            around.pop()
        if around:
            own[around[-1][1]] -= lasted
        around.append((begin + lasted, len(own)))
        own.append(lasted)
    return [replace(step, seconds=max(0, spent) / 1e6) for (*_, step), spent in zip(ordered, own)]


def _options(threads: int, chosen: Mapping[str, str]) -> Any:
    """SessionOptions by the engine's settings."""
    import onnxruntime

    options = session_options(threads)
    level = _LEVELS[chosen["optimization"]]
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.add_session_config_entry("session.disable_prepacking", _WEIGHTS[chosen["weights"]])
    return options


def session_options(threads: int) -> Any:
    """SessionOptions for measuring: one operator at a time, on so many threads."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.enable_mem_pattern = True
    options.log_severity_level = _FATAL_ONLY
    # Threads may spin inside an inference, where it makes this engine as fast as it can be, but stop with
    # it: left spinning between inferences, they would slow down whoever is measured next.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    return options


def open_session(path: Path, options: Any, signature: ModelSignature) -> OnnxRuntimeSession:
    """The model at `path` loaded with its SessionOptions; ONNX Runtime's own exceptions if it cannot be."""
    import onnxruntime

    native = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return OnnxRuntimeSession(native, signature)
