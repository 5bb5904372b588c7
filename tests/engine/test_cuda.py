"""CUDA without a GPU: that its kernels compile, and what is asked of the driver; not that they run."""

from __future__ import annotations

import ctypes
import gc
import importlib.metadata
import importlib.util
from typing import Any

import numpy as np
import pytest

from nets import pools, residual_block, sequences, squeeze_excite
from tensmith.backend.device.plan import make_plan
from tensmith.engine import ENGINES, nvml
from tensmith.engine.base import available
from tensmith.engine.engines import cuda
from tensmith.engine.engines.cuda import CudaMachine, compile_ptx
from tensmith.errors import EngineError, MissingExtra

try:
    HAS_NVRTC = bool(compile_ptx("", "compute_75"))
except MissingExtra:
    HAS_NVRTC = False
needs_nvrtc = pytest.mark.skipif(not HAS_NVRTC, reason="NVRTC is not installed: pip install 'tensmith[cuda]'")


@needs_nvrtc
@pytest.mark.parametrize("halves", [False, True])
@pytest.mark.parametrize("build", [residual_block, pools, sequences, squeeze_excite])
def test_every_kernel_becomes_ptx(build, halves: bool) -> None:  # type: ignore[no-untyped-def]
    plan = make_plan(build(), halves)
    ptx = compile_ptx(plan.source, "compute_75").decode()
    for launch in plan.launches:
        assert f".entry {launch.kernel}(" in ptx
    assert ("cvt.f32.f16" in ptx) == halves
    assert ".f64" not in ptx  # a double among floats would be computed at a fraction of the speed
    assert ".local" not in ptx  # sums stay in registers


class Driver:
    """Answers as CUDA's driver does, with memory of this process; kernels are noted, not run."""

    def __init__(self) -> None:
        self.memory: dict[int, ctypes.Array[ctypes.c_char]] = {}
        self.launched: list[tuple[str, int, int, tuple[int, ...]]] = []
        self.modules: list[bytes] = []

    def load(self, image: bytes) -> tuple[int, bytes]:
        self.modules.append(image)
        return 0, image

    def unload(self, module: bytes) -> tuple[int]:
        self.modules.remove(module)
        return (0,)

    def alloc(self, size: int) -> tuple[int, int]:
        block = ctypes.create_string_buffer(size)
        self.memory[ctypes.addressof(block)] = block
        return 0, ctypes.addressof(block)

    def free(self, address: int) -> tuple[int]:
        del self.memory[address]
        return (0,)

    def copy(self, target: int, source: int, size: int) -> tuple[int]:
        ctypes.memmove(target, source, size)
        return (0,)

    def launch(self, name: bytes, *rest: Any) -> tuple[int]:
        groups, _, _, threads, _, _, shared, stream, (addresses, types), extra = rest
        assert (shared, stream, extra) == (0, 0, 0)
        assert set(types) == {ctypes.c_void_p} and len(types) == len(addresses)
        self.launched.append((name.decode(), groups, threads, addresses))
        return (0,)

    def holds(self, address: int) -> bool:
        """Whether an address is in memory that was asked for."""
        return any(start <= address < start + len(block) for start, block in self.memory.items())


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    from cuda.bindings import driver

    fake = Driver()
    answers = {
        "cuInit": lambda flags: (0,),
        "cuDeviceGetCount": lambda: (0, 1),
        "cuDeviceGet": lambda number: (0, number),
        "cuDeviceGetName": lambda length, device: (0, b"NVIDIA T4\0\0"),
        "cuDeviceGetPCIBusId": lambda length, device: (0, b"0000:65:00.0\0\0"),
        "cuDriverGetVersion": lambda: (0, 12090),
        "cuDevicePrimaryCtxRetain": lambda device: (0, object()),
        "cuCtxSetCurrent": lambda context: (0,),
        "cuDeviceGetAttribute": lambda attribute, device: (0, 9 if "MAJOR" in attribute.name else 0),
        "cuModuleLoadData": fake.load,
        "cuModuleUnload": fake.unload,
        "cuModuleGetFunction": lambda module, name: (0, name),
        "cuMemAlloc": fake.alloc,
        "cuMemFree": fake.free,
        "cuMemcpyHtoD": fake.copy,
        "cuMemcpyDtoH": fake.copy,
        "cuLaunchKernel": fake.launch,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(driver, name, answer)
    return fake


@needs_nvrtc
def test_what_is_asked_of_the_driver(driver: Driver) -> None:
    program = residual_block()
    machine = CudaMachine(make_plan(program))
    x = np.zeros((2, 3, 18, 14), np.float32)
    answers = machine(x=x)
    assert {name: array.shape for name, array in answers.items()} == {
        name: program.type(name).static for name in program.outputs
    }
    asked = [(launch.kernel, launch.groups, launch.threads) for launch in machine.plan.launches]
    assert [call[:3] for call in driver.launched] == asked
    assert all(driver.holds(address) for call in driver.launched for address in call[3])
    assert all(len(set(call[3])) == len(call[3]) for call in driver.launched)
    assert len(driver.modules) == 1
    del machine
    gc.collect()
    assert not driver.memory and not driver.modules


@needs_nvrtc
def test_its_version_names_what_computes(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = ENGINES["cuda"]
    monkeypatch.setattr(type(engine), "missing", lambda self: None)
    package = importlib.metadata.version("cuda-bindings")
    monkeypatch.setattr(nvml, "driver_version", lambda: "570.86")
    assert engine.version() == f"{package} on GPU NVIDIA T4 (driver 570.86)"
    monkeypatch.setattr(nvml, "driver_version", lambda: None)
    assert engine.version() == f"{package} on GPU NVIDIA T4 (driver of CUDA 12090)"
    from cuda.bindings import driver as bindings

    monkeypatch.setattr(bindings, "cuDeviceGetCount", lambda: (0, 0))
    assert engine.version() == package


@needs_nvrtc
def test_the_gpu_s_place_is_told(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "_has_driver", lambda: False)
    assert cuda.pci_bus_id() is None
    monkeypatch.setattr(cuda, "_has_driver", lambda: True)
    assert cuda.pci_bus_id() == "0000:65:00.0"


@needs_nvrtc
def test_an_error_of_the_driver_is_named(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    from cuda.bindings import driver as bindings

    code = bindings.CUresult.CUDA_ERROR_OUT_OF_MEMORY
    monkeypatch.setattr(bindings, "cuMemAlloc", lambda size: (code, None))
    with pytest.raises(EngineError, match="CUDA_ERROR_OUT_OF_MEMORY"):
        CudaMachine(make_plan(residual_block()))


@needs_nvrtc
def test_what_the_compiler_refuses_is_one_sentence() -> None:
    with pytest.raises(EngineError, match=r"cuda cannot compile its kernels: .*nonsense") as caught:
        compile_ptx("KERNEL(32) broken(GLOBAL f32 *y) { nonsense; }", "compute_75")
    assert "\n" not in str(caught.value)


def test_it_is_used_where_it_is_asked_for() -> None:
    assert "cuda" not in available()


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert ENGINES["cuda"].missing() == "cuda-bindings is not installed: pip install 'tensmith[cuda]'"
    with pytest.raises(EngineError, match="cuda-bindings is not installed"):
        ENGINES["cuda"].start()
