"""NVIDIA's management library, which comes with the driver: what CUDA does not tell of a board."""

from __future__ import annotations

import ctypes

_LONGEST_TEXT = 96


def library() -> ctypes.CDLL | None:
    """The library, ready to be asked; None where there is none."""
    try:
        found = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    return None if found.nvmlInit_v2() else found


def driver_version() -> str | None:
    """The driver's version; None where the library does not tell."""
    nvml, text = library(), ctypes.create_string_buffer(_LONGEST_TEXT)
    if nvml is None or nvml.nvmlSystemGetDriverVersion(text, _LONGEST_TEXT):
        return None
    return text.value.decode()
