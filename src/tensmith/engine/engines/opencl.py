"""OpenCL devices, through pyopencl: a GPU if there is one, else what computes on the CPU, as PoCL does.

Kernels are compiled when a file is loaded (backend.device). Only programs whose every node has a formula run
here; the error names the node that has none.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tensmith.backend.device.dialect import OPENCL
from tensmith.backend.device.plan import DevicePlan
from tensmith.engine.base import engine, first_line, require
from tensmith.engine.device import DeviceEngine, LoadedPlan
from tensmith.engine.frame import Array
from tensmith.errors import EngineError

# Where drivers are registered on Linux (cl_khr_icd).
_VENDORS = Path("/etc/OpenCL/vendors")
_EXTRA = "pip install 'tensmith[opencl]'"


class OpenClMachine(LoadedPlan):
    """A plan in a queue of one device."""

    def __init__(self, device: Any, plan: DevicePlan) -> None:
        import pyopencl as cl

        super().__init__(plan)
        context = cl.Context([device])
        self._queue = cl.CommandQueue(context)
        flags = cl.mem_flags
        try:
            program = cl.Program(context, OPENCL + plan.source).build(["-w"])
            arena = cl.Buffer(context, flags.READ_WRITE, max(plan.arena_bytes, 1))
            self._memory = {
                name: arena.get_sub_region(place.start, place.bytes) for name, place in plan.places.items()
            }
            self._memory |= {
                name: cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=_not_empty(array))
                for name, array in plan.constants.items()
            }
            self._launches = []
            for launch in plan.launches:
                kernel = cl.Kernel(program, launch.kernel)
                kernel.set_args(*(self._memory[name] for name in launch.values))
                self._launches.append((kernel, (launch.groups * launch.threads,), (launch.threads,)))
        except cl.Error as error:
            raise EngineError(refusal() or f"{device.name}: {_said(error)}") from error

    def send(self, name: str, array: Array) -> None:
        import pyopencl as cl

        cl.enqueue_copy(self._queue, self._memory[name], array, is_blocking=False)

    def launch(self) -> None:
        import pyopencl as cl

        for kernel, whole, group in self._launches:
            cl.enqueue_nd_range_kernel(self._queue, kernel, whole, group)

    def fetch(self, name: str, array: Array) -> None:
        import pyopencl as cl

        cl.enqueue_copy(self._queue, array, self._memory[name])


@engine
class OpenCl(DeviceEngine):
    """Setting `precision`: "f32" (default), or "f16" for halves in memory, with sums in floats.

    On a CPU it computes in as many threads as it is given; a GPU is used whole.
    """

    name, package, on_request = "opencl", "pyopencl", True

    def missing(self) -> str | None:
        if importlib.util.find_spec("pyopencl") is None:
            return f"pyopencl is not installed: {_EXTRA}"
        linux = sys.platform.startswith("linux")
        if (
            linux
            and not any(_VENDORS.glob("*.icd"))
            and not importlib.util.find_spec("pocl_binary_distribution")
        ):
            return f"no OpenCL driver is installed: install your device's, or for the CPU {_EXTRA}"
        return None

    def device(self) -> tuple[str, str]:
        import pyopencl as cl

        found = _first_device()
        kinds = {"GPU": cl.device_type.GPU, "CPU": cl.device_type.CPU}
        kind = next((word for word, flag in kinds.items() if found.type & flag), "accelerator")
        return f"{kind} {found.name.strip()}", found.driver_version

    def start(self) -> None:
        require(self)
        find_device(1)

    def load(self, plan: DevicePlan, threads: int) -> OpenClMachine:
        return OpenClMachine(find_device(threads), plan)


def _not_empty(array: Array) -> Array:
    """The array; in the place of one without elements something that a buffer can hold."""
    return array if array.size else np.zeros(1, np.uint8)


def _said(error: Exception) -> str:
    """What a compiler complains of, where it was one."""
    complaints = [line.strip() for line in str(error).splitlines() if line.startswith("error:")]
    return complaints[0] if complaints else first_line(error)


def refusal() -> str:
    """Why not even an empty kernel can be compiled; "" if one can. Drivers know no newer processor."""
    import pyopencl as cl

    device = find_device(1)
    try:
        cl.Program(cl.Context([device]), "kernel void nothing() {}").build()
    except cl.Error as error:
        return f"the driver of {device.name} compiles nothing here ({_said(error)}); install a newer one"
    return ""


def find_device(threads: int) -> Any:
    """The device to use: of a CPU, that many of its processors."""
    import pyopencl as cl

    device = _first_device()
    if device.type & cl.device_type.CPU and threads < device.max_compute_units:
        return device.create_sub_devices([cl.device_partition_property.BY_COUNTS, threads])[0]
    return device


def _first_device() -> Any:
    """The first device of the best kind."""
    import pyopencl as cl

    kinds = (cl.device_type.GPU, cl.device_type.ACCELERATOR, cl.device_type.CPU)
    try:
        found = [
            device
            for kind in kinds
            for platform in cl.get_platforms()
            for device in platform.get_devices(kind)
        ]
    except cl.Error as error:
        raise EngineError(f"opencl has no device: {first_line(error)}") from error
    if not found:
        raise EngineError(f"opencl has no device: install your device's driver, or for the CPU {_EXTRA}")
    return found[0]
