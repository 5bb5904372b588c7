"""Runs C for small devices in Unicorn (QEMU's processors), with the device's memory map and nothing else."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

from tensmith.backend.native.emit.freestanding import FUNCTION
from tensmith.backend.native.plan import NativePlan
from tensmith.kernel.image import FLASH, RAM, Image

Array = np.ndarray[Any, Any]

_MISSING = [name for name in ("unicorn", "ziglang") if importlib.util.find_spec(name) is None]
needs_emulator = pytest.mark.skipif(bool(_MISSING), reason=f"pip install {' '.join(_MISSING)}")

_UNTOUCHED = 0xA5


class Device:
    """A Cortex-M4F with so many bytes of flash and RAM, which hold a model.

    The caller's arrays lie in RAM behind the model's, and the stack grows down from the end of RAM: what does
    not fit, or is touched elsewhere, ends in an error. `stack` is what the last run took of it.
    """

    def __init__(self, plan: NativePlan, image: Image, flash: int = 256 << 10, ram: int = 64 << 10) -> None:
        from unicorn import UC_ARCH_ARM, UC_MODE_MCLASS, UC_MODE_THUMB, UC_PROT_EXEC, UC_PROT_READ, Uc
        from unicorn.arm_const import UC_CPU_ARM_CORTEX_M4

        self.plan, self.image, self.flash, self.ram, self.stack = plan, image, flash, ram, 0
        self._cpu = Uc(UC_ARCH_ARM, UC_MODE_THUMB | UC_MODE_MCLASS, UC_CPU_ARM_CORTEX_M4)
        self._cpu.mem_map(FLASH, flash, UC_PROT_READ | UC_PROT_EXEC)
        self._cpu.mem_map(RAM, ram)
        for section in (*self.image.flash, *self.image.ram):
            self._cpu.mem_write(section.address, section.content)
        self._free = max((section.address + section.size for section in self.image.ram), default=RAM)

    def run(self, **inputs: Array) -> dict[str, Array]:
        """One inference."""
        from unicorn.arm_const import UC_ARM_REG_LR, UC_ARM_REG_R0, UC_ARM_REG_SP

        types = {name: self.plan.program.type(name) for name in self.plan.program.outputs}
        results = {name: np.zeros(type_.static or (), type_.numpy) for name, type_ in types.items()}
        addresses, free = [], self._free
        for array in (*(inputs[name] for name in self.plan.program.inputs), *results.values()):
            addresses.append(free)
            self._cpu.mem_write(free, np.ascontiguousarray(array).tobytes())
            free += array.nbytes + -array.nbytes % 8
        assert len(addresses) <= 4, "more arguments would lie on the stack"
        end = RAM + self.ram
        self._cpu.mem_write(free, bytes([_UNTOUCHED]) * (end - free))
        for index, address in enumerate(addresses):
            self._cpu.reg_write(UC_ARM_REG_R0 + index, address)
        self._cpu.reg_write(UC_ARM_REG_SP, end)
        back = FLASH + self.flash - 4  # nothing is there to run: the end
        self._cpu.reg_write(UC_ARM_REG_LR, back | 1)
        self._cpu.emu_start(self.image.symbols[FUNCTION] | 1, back)
        assert self._cpu.reg_read(UC_ARM_REG_R0) == 0
        rest = bytes(self._cpu.mem_read(free, end - free))
        self.stack = len(rest.lstrip(bytes([_UNTOUCHED])))
        found = addresses[-len(results) :]
        return {
            name: np.frombuffer(bytes(self._cpu.mem_read(at, array.nbytes)), array.dtype).reshape(array.shape)
            for at, (name, array) in zip(found, results.items())
        }
