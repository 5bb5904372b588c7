"""What this CPU can do, from /proc/cpuinfo and /sys (Linux; elsewhere nothing is guessed)."""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tensmith.hardware.control_groups import core_limit, read_if_there

# The kernel's flag -> the name used here, mostly the same. x86 flags are in
# arch/x86/include/asm/cpufeatures.h, Arm's in Documentation/arch/arm64/elf_hwcaps.rst: "neon" says a 32-bit
# kernel, whose programs know no AArch64.
_SAME = (
    "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni", "avx_vnni",
    "avx512_bf16", "avx512_fp16", "amx_int8", "amx_bf16", "i8mm", "bf16", "sve",
)  # fmt: skip
_FLAGS = {**dict(zip(_SAME, _SAME)), "asimd": "neon", "asimdhp": "fp16", "asimddp": "dotprod"}


# Those that Linux lends to a process that asks: arch_prctl(ARCH_REQ_XCOMP_PERM, tile data), Linux 5.16.
_LENT = frozenset({"amx_int8", "amx_bf16"})
_ARCH_PRCTL, _REQUEST, _TILE_DATA = 158, 0x1023, 18


_CPUS = Path("/sys/devices/system/cpu")

# Features with one instruction that multiplies int8 and adds up in int32.
INT8_DOT = frozenset({"avx512_vnni", "avx_vnni", "amx_int8", "dotprod", "i8mm"})
# Those that multiply bfloat16 and add up in floats.
BF16_DOT = frozenset({"avx512_bf16", "amx_bf16"})


@dataclass(frozen=True)
class Cpu:
    """A CPU as this process sees it: `cores` it may use, clock and data caches (L1 first) where known.

    `whole_cores` counts threads of one core once. `family` is the x86 family number, 0 elsewhere.
    """

    architecture: str
    vendor: str
    model: str
    family: int
    features: frozenset[str]
    cores: int
    whole_cores: int
    frequency_ghz: float | None
    cache_bytes: tuple[int, ...]

    @property
    def has_int8_dot(self) -> bool:
        """Whether one instruction multiplies int8 and adds up in int32, so that int8 never saturates."""
        return not self.features.isdisjoint(INT8_DOT)


def parse_cpuinfo(text: str) -> dict[str, str]:
    """The fields of the first processor in the text of /proc/cpuinfo, names in lower case."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if not colon:
            if fields:
                break
            continue
        fields[name.strip().lower()] = value.strip()
    return fields


def features_of(flags: str) -> frozenset[str]:
    """The features named by the `flags` (x86) or `Features` (Arm) line of /proc/cpuinfo."""
    return frozenset(_FLAGS[flag] for flag in flags.split() if flag in _FLAGS)


def model_of(fields: Mapping[str, str]) -> str:
    """The CPU's name; Arm's, which says none, by the numbers of its maker and design.

    A name without a number, as virtual machines give it, is one of several generations: their numbers follow.
    """
    arm = [fields[name] for name in ("cpu implementer", "cpu part") if name in fields]
    name = fields.get("model name", "")
    if name and "cpu family" in fields and "model" in fields and not re.search(r"\d", name):
        return f"{name} (family {fields['cpu family']}, model {fields['model']})"
    return name or fields.get("model") or " ".join(arm) or platform.processor() or "unknown"


def parse_cache_size(text: str) -> int:
    """Bytes of a size as /sys writes it: "32K", "1M"."""
    match = re.fullmatch(r"(\d+)([KMG]?)", text.strip())
    if match is None:
        return 0
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2]]


def detect_cpu() -> Cpu:
    """The CPU that this process runs on."""
    fields = parse_cpuinfo(read_if_there(Path("/proc/cpuinfo")))
    features = features_of(fields.get("flags", fields.get("features", "")))
    if features & _LENT and not _lent():
        features -= _LENT
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    most = core_limit() or len(allowed)
    return Cpu(
        architecture=platform.machine(),
        vendor=fields.get("vendor_id", fields.get("cpu implementer", "unknown")),
        model=model_of(fields),
        family=int(fields.get("cpu family", "0")),
        features=features,
        cores=min(len(allowed), most),
        whole_cores=min(whole_cores(allowed, _CPUS), most),
        frequency_ghz=_frequency(fields),
        cache_bytes=_caches(_CPUS / "cpu0" / "cache"),
    )


def whole_cores(allowed: Iterable[int], folder: Path) -> int:
    """Over how many cores these processors spread, by /sys's files of each in `folder`."""
    lists = (
        read_if_there(folder / f"cpu{number}" / "topology" / "thread_siblings_list") for number in allowed
    )
    return len({siblings or number for number, siblings in zip(allowed, lists)})


@functools.cache
def _lent() -> bool:
    """Whether the system lets this process use tile registers; sandboxes may not."""
    call = getattr(ctypes.CDLL(None), "syscall", None)
    return call is not None and call(*map(ctypes.c_long, (_ARCH_PRCTL, _REQUEST, _TILE_DATA))) == 0


def _frequency(fields: dict[str, str]) -> float | None:
    """The highest frequency if the kernel knows it, else the present one (virtual machines: the nominal)."""
    highest = read_if_there(_CPUS / "cpu0" / "cpufreq" / "cpuinfo_max_freq").strip()
    if highest.isdigit():
        return int(highest) / 1e6
    present = re.fullmatch(r"\d+(\.\d+)?", fields.get("cpu mhz", ""))
    return float(present[0]) / 1e3 if present else None


def _caches(folder: Path) -> tuple[int, ...]:
    sizes: dict[int, int] = {}
    for index in sorted(folder.glob("index*")):
        level = read_if_there(index / "level").strip()
        if level.isdigit() and read_if_there(index / "type").strip() != "Instruction":
            sizes[int(level)] = parse_cache_size(read_if_there(index / "size"))
    return tuple(size for _, size in sorted(sizes.items()) if size)
