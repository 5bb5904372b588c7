"""Runs small programs on an OpenCL device, where there is one; tests of that are skipped elsewhere."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from tensmith.backend.device.plan import make_plan
from tensmith.engine.device import LoadedPlan
from tensmith.ir import Program

Array = np.ndarray[Any, Any]


def load(program: Program, halves: bool = False) -> LoadedPlan:
    """The program on the device, its kernels not optimized by the driver, which takes most of a test.

    What users run, optimized kernels, is tested through the engine (tests/engine).
    """
    from tensmith.engine.engines.opencl import OpenClMachine

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYOPENCL_BUILD_OPTIONS", "-cl-opt-disable")
        return OpenClMachine(_device(), make_plan(program, halves))


@functools.cache
def _device() -> Any:
    from tensmith.engine.engines.opencl import find_device

    return find_device(1)


def example(program: Program) -> dict[str, Array]:
    """Normal floats and small whole numbers for every input."""
    random = np.random.default_rng(1)
    found = {}
    for name, type_ in program.inputs.items():
        shape = type_.static or ()
        whole = type_.numpy.kind in "iub"
        numbers = random.integers(0, 2, shape) if whole else random.standard_normal(shape)
        found[name] = np.asarray(numbers, type_.numpy)
    return found
