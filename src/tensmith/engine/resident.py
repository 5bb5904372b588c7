"""Resident memory of this process, from /proc where there is one (proc(5)), else from psutil."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path

_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"


def _field(name: str) -> int | None:
    """A field of /proc/self/status in bytes; None where it does not exist."""
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return None


def resident_bytes() -> int:
    """Resident set size now, in bytes."""
    resident = _field("VmRSS")
    if resident is not None:
        return resident
    import psutil

    return psutil.Process().memory_info().rss


def reset_peak() -> bool:
    """Starts a new high-water mark; False where the system does not permit it."""
    try:
        _CLEAR_REFS.write_text(_RESET_PEAK)
    except OSError:
        return False
    return True


def peak_bytes() -> int | None:
    """Highest resident set size since the last reset (or since the start), in bytes; None if unknown."""
    return _field("VmHWM")


def release_freed() -> None:
    """Gives memory that is no longer in use back to the system, where the C library keeps it (glibc)."""
    if trim := _malloc_trim():
        trim(0)


@functools.cache
def _malloc_trim() -> Callable[[int], int] | None:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return None
