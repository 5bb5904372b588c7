"""What a replay's rounding and a compilation's code depend on beside what they are given: this machine."""

from __future__ import annotations

import functools

import numpy as np

from tensmith.backend.native.choose.tuning import TUNED, timings_revision
from tensmith.engine.compiled import code_revision
from tensmith.errors import TensmithError
from tensmith.files import sha256_bytes
from tensmith.hardware import detect_cpu
from tensmith.kernel.isa import host_isa
from tensmith.kernel.toolchain import build_version
from tensmith.verify.schema import MachineRecord

_ARITHMETIC = ("numpy", "cpu", "features")
_CPU = ("cpu", "features")
_TOOLCHAIN = ("compiler", "cpu", "features", "timings", "code")
_WORDS = {
    "numpy": "another NumPy",
    "cpu": "another CPU",
    "features": "another CPU",
    "compiler": "another C compiler",
    "timings": "other timings of kernels",
    "code": "another tensmith",
}


def this_machine() -> MachineRecord:
    """As a certificate states it: `timings` are what `tensmith tune` keeps now, `code` is what compiles."""
    lasting = _lasting()
    if not lasting.compiler:
        return lasting
    try:
        return lasting.model_copy(update={"timings": timings_revision(TUNED)})
    except TensmithError:
        return lasting


@functools.cache
def _lasting() -> MachineRecord:
    """What does not change while a process runs: all but the timings, which another may add to."""
    cpu = detect_cpu()
    known = " ".join((*sorted(cpu.features), *map(str, cpu.cache_bytes)))
    try:
        compiler = build_version(host_isa()).replace("\0", " ")
    except TensmithError:
        compiler = ""
    return MachineRecord(
        numpy=np.__version__,
        cpu=cpu.model,
        features=sha256_bytes(known.encode()),
        compiler=compiler,
        timings="",
        code=code_revision(),
    )


def other_arithmetic(stated: MachineRecord) -> str:
    """Why numbers may round otherwise here than where a certificate was made; "" if they may not."""
    return _difference(stated, _ARITHMETIC)


def other_cpu(stated: MachineRecord) -> str:
    """Why what was estimated for the machine of a certificate may be other than for this one; "" if it may
    not."""
    return _difference(stated, _CPU)


def other_toolchain(stated: MachineRecord) -> str:
    """Why the same model may be compiled to other code here; "" if it may not."""
    return _difference(stated, _TOOLCHAIN)


def _difference(stated: MachineRecord, fields: tuple[str, ...]) -> str:
    here = this_machine()
    found = [_WORDS[name] for name in fields if getattr(stated, name) != getattr(here, name)]
    return f"it was made with {' and '.join(dict.fromkeys(found))}" if found else ""
