"""What the engines of massively parallel devices share: models planned from files, and how one runs."""

from __future__ import annotations

import importlib.metadata
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np

from tensmith.backend.device.plan import DevicePlan, make_plan
from tensmith.backend.native.plan import fixed
from tensmith.engine.base import Engine, Session, first_line, require
from tensmith.engine.frame import Array
from tensmith.engine.signature import read_signature
from tensmith.engine.sized import opened
from tensmith.errors import EngineError, TensmithError
from tensmith.frontend.onnx import read_onnx


class LoadedPlan(ABC):
    """A plan on a device: its kernels are compiled, its constants there, its arena allocated.

    There is one arena, so calls wait for each other.
    """

    def __init__(self, plan: DevicePlan) -> None:
        self.plan = plan
        self.bytes = plan.arena_bytes + sum(array.nbytes for array in plan.constants.values())
        self._lock = threading.Lock()

    def __call__(self, /, **inputs: Array) -> dict[str, Array]:
        """One inference."""
        step, outputs = self.bind(inputs)
        step()
        return outputs

    def bind(self, inputs: dict[str, Array]) -> tuple[Callable[[], None], dict[str, Array]]:
        """(a call that sends the inputs, runs the kernels and fetches the outputs, the arrays it fills)."""
        program = self.plan.program
        given = {
            name: np.asarray(inputs[name], type_.numpy, order="C") for name, type_ in program.inputs.items()
        }
        types = {name: program.type(name) for name in program.outputs}
        results = {name: np.empty(type_.static or (), type_.numpy) for name, type_ in types.items()}

        def step() -> None:
            with self._lock:
                self.enter()
                run()

        def run() -> None:
            for name, array in given.items():
                if array.size:
                    self.send(name, array)
            self.launch()
            for name, array in results.items():
                if name in self.plan.constants:
                    array[...] = self.plan.constants[name]
                elif array.size:
                    self.fetch(name, array)

        return step, results

    def enter(self) -> None:
        """What a thread must do before it uses the device."""
        return None

    @abstractmethod
    def send(self, name: str, array: Array) -> None:
        """Copies an input to its place."""

    @abstractmethod
    def launch(self) -> None:
        """Starts all kernels, in order."""

    @abstractmethod
    def fetch(self, name: str, array: Array) -> None:
        """Fills `array` with a value, when all before is done."""


class DeviceEngine(Engine):
    """An engine that runs plans on a device, which it reaches by a Python `package`."""

    package: str
    settings = MappingProxyType({"precision": ("f32", "f16")})  # of what lies in memory between kernels

    @abstractmethod
    def device(self) -> tuple[str, str]:
        """Kind and name of the device, as "GPU NVIDIA T4", and its driver's version.

        EngineError where there is no device.
        """

    def version(self) -> str:
        """Of the package and, where there is a device, of what computes there."""
        require(self)
        version = importlib.metadata.version(self.package)
        try:
            name, driver = self.device()
        except EngineError:
            return version
        return f"{version} on {name} (driver {driver})"

    @abstractmethod
    def load(self, plan: DevicePlan, threads: int) -> LoadedPlan:
        """Puts a plan on the device."""

    def prepare(
        self, path: Path, threads: int, *, sizes: Mapping[str, int] | None = None, **settings: str
    ) -> Session:
        precision = self.completed(settings)["precision"]
        self.start()

        def build(sizes: Mapping[str, int]) -> LoadedPlan:
            try:
                plan = make_plan(fixed(read_onnx(path), dict(sizes)), precision == "f16")
                return self.load(plan, threads)
            except TensmithError as error:
                raise EngineError(f"{self.name} cannot load {path}: {first_line(error)}") from error

        return opened(read_signature(path), build, sizes)
