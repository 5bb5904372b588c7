"""NVIDIA GPUs, through CUDA's driver and its run-time compiler.

The kernels are those of OpenCL (backend.device), compiled by NVRTC for the GPU that is found. Only programs
whose every node has a formula run here; the error names the node that has none.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import weakref
from typing import Any

from tensmith.backend.device.dialect import CUDA
from tensmith.backend.device.plan import DevicePlan
from tensmith.engine import nvml
from tensmith.engine.base import engine, require
from tensmith.engine.device import DeviceEngine, LoadedPlan
from tensmith.engine.frame import Array
from tensmith.errors import EngineError, MissingExtra

_DRIVERS = ("libcuda.so.1", "nvcuda.dll")
_LONGEST_TEXT = 256


def compile_ptx(source: str, architecture: str) -> bytes:
    """Kernels as PTX for a virtual architecture, as "compute_80"; needs no GPU.

    EngineError with the compiler's first complaint; MissingExtra where there is no compiler.
    """
    if not _has_compiler():
        raise MissingExtra("compiling for NVIDIA GPUs", "cuda")
    from cuda.bindings import nvrtc

    try:
        program = _checked(nvrtc.nvrtcCreateProgram((CUDA + source).encode(), b"kernels.cu", 0, [], []))
    except RuntimeError as error:  # the bindings are there, the library that they look for is not
        raise MissingExtra("compiling for NVIDIA GPUs", "cuda") from error
    try:
        options = [f"--gpu-architecture={architecture}".encode()]
        (failed,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        if failed:
            log = b" " * _checked(nvrtc.nvrtcGetProgramLogSize(program))
            _checked(nvrtc.nvrtcGetProgramLog(program, log))
            complaints = [line for line in log.decode().splitlines() if "error" in line]
            raise EngineError(f"cuda cannot compile its kernels: {(complaints or [str(failed)])[0]}")
        ptx = b" " * int(_checked(nvrtc.nvrtcGetPTXSize(program)))
        _checked(nvrtc.nvrtcGetPTX(program, ptx))
        return ptx
    finally:
        nvrtc.nvrtcDestroyProgram(program)


class CudaMachine(LoadedPlan):
    """A plan in the default stream of the first GPU."""

    def __init__(self, plan: DevicePlan) -> None:
        from cuda.bindings import driver

        super().__init__(plan)
        self._context = _first_gpu()
        module = _checked(driver.cuModuleLoadData(compile_ptx(plan.source, _architecture())))
        self._owned: list[int] = []
        weakref.finalize(self, _release, self._context, module, self._owned)
        arena = self._allocated(plan.arena_bytes)
        self._addresses = {name: arena + place.start for name, place in plan.places.items()}
        for name, array in plan.constants.items():
            self._addresses[name] = self._allocated(array.nbytes)
            self.send(name, array)
        self._launches = [
            (
                _checked(driver.cuModuleGetFunction(module, launch.kernel.encode())),
                launch,
                tuple(self._addresses[name] for name in launch.values),
            )
            for launch in plan.launches
        ]

    def enter(self) -> None:
        """A context is current in a thread."""
        from cuda.bindings import driver

        _checked(driver.cuCtxSetCurrent(self._context))

    def send(self, name: str, array: Array) -> None:
        from cuda.bindings import driver

        if array.size:
            _checked(driver.cuMemcpyHtoD(self._addresses[name], array.ctypes.data, array.nbytes))

    def launch(self) -> None:
        from cuda.bindings import driver

        for function, launch, addresses in self._launches:
            arguments = (addresses, (ctypes.c_void_p,) * len(addresses))
            size = (launch.groups, 1, 1, launch.threads, 1, 1)
            _checked(driver.cuLaunchKernel(function, *size, 0, 0, arguments, 0))

    def fetch(self, name: str, array: Array) -> None:
        from cuda.bindings import driver

        _checked(driver.cuMemcpyDtoH(array.ctypes.data, self._addresses[name], array.nbytes))

    def _allocated(self, size: int) -> int:
        """The address of memory that is given back with this object."""
        from cuda.bindings import driver

        self._owned.append(int(_checked(driver.cuMemAlloc(max(size, 1)))))
        return self._owned[-1]


def _release(context: Any, module: Any, addresses: list[int]) -> None:
    from cuda.bindings import driver

    driver.cuCtxSetCurrent(context)
    for address in addresses:
        driver.cuMemFree(address)
    driver.cuModuleUnload(module)


@engine
class Cuda(DeviceEngine):
    """Setting `precision`: "f32" (default), or "f16" for halves in memory, with sums in floats.

    Threads say nothing here: the GPU is used whole.
    """

    name, package, on_request = "cuda", "cuda-bindings", True

    def missing(self) -> str | None:
        if not _has_compiler():
            return "cuda-bindings is not installed: pip install 'tensmith[cuda]'"
        return None if _has_driver() else "no NVIDIA driver is installed: install the one of your GPU"

    def device(self) -> tuple[str, str]:
        from cuda.bindings import driver

        name = _text(_checked(driver.cuDeviceGetName(_LONGEST_TEXT, _first_device())))
        return f"GPU {name}", nvml.driver_version() or f"of CUDA {_checked(driver.cuDriverGetVersion())}"

    def start(self) -> None:
        require(self)
        _first_gpu()

    def load(self, plan: DevicePlan, threads: int) -> CudaMachine:
        return CudaMachine(plan)


def _has_compiler() -> bool:
    return importlib.util.find_spec("cuda") is not None and bool(importlib.util.find_spec("cuda.bindings"))


@functools.cache
def _has_driver() -> bool:
    for name in _DRIVERS:
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        return True
    return False


def pci_bus_id() -> str | None:
    """Where the first GPU is, by which other libraries know it; None without one."""
    if not (_has_compiler() and _has_driver()):
        return None
    from cuda.bindings import driver

    try:
        return _text(_checked(driver.cuDeviceGetPCIBusId(_LONGEST_TEXT, _first_device())))
    except EngineError:
        return None


def _text(found: bytes) -> str:
    """What the driver wrote, which ends in a zero."""
    return found.partition(b"\0")[0].decode()


def _first_device() -> Any:
    """The first GPU; EngineError without one."""
    from cuda.bindings import driver

    _checked(driver.cuInit(0))
    if _checked(driver.cuDeviceGetCount()) == 0:
        raise EngineError("cuda has no GPU: there is a driver, but no device")
    return _checked(driver.cuDeviceGet(0))


def _first_gpu() -> Any:
    """The first GPU's primary context, made current."""
    from cuda.bindings import driver

    context = _checked(driver.cuDevicePrimaryCtxRetain(_first_device()))
    _checked(driver.cuCtxSetCurrent(context))
    return context


def _architecture() -> str:
    from cuda.bindings import driver

    attribute = driver.CUdevice_attribute
    device = _checked(driver.cuDeviceGet(0))
    major, minor = (
        _checked(driver.cuDeviceGetAttribute(number, device))
        for number in (
            attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
        )
    )
    return f"compute_{major}{minor}"


def _checked(result: tuple[Any, ...]) -> Any:
    """The value of a call, which comes behind its error code; EngineError unless that is 0."""
    code, *values = result
    if int(code):
        raise EngineError(f"cuda failed: {getattr(code, 'name', code)}")
    return values[0] if values else None
