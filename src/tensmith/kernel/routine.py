"""What every routine offers: its C text for given buffers. Routines are the cheap neighbours of kernels.

The C function of a routine, for one image:

    static void NAME(const float *const *in, const float *constants, float *out, void *scratch)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensmith.kernel.buffer import Buffer

Array = np.ndarray[Any, Any]

ROUTINE_SIGNATURE = "const float *const *in, const float *constants, float *out, void *scratch"


@dataclass(frozen=True)
class Routine(ABC):
    """One cheap step over images in memory."""

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratch memory it uses, aligned to 64."""
        return 0

    def takes_planes(self, read: int, written: int) -> bool:
        """Whether it also works on floats as planes; the widths are those of what it reads and writes."""
        return False

    @abstractmethod
    def code(self, name: str, sources: tuple[Buffer, ...], target: Buffer) -> str:
        """C text that defines the static function `name` for these buffers."""

    def cycles(self, sources: tuple[Buffer, ...], target: Buffer) -> float:
        """An estimate: a vector read or written a cycle."""
        return sum(buffer.bytes for buffer in (*sources, target)) / 64


@dataclass(frozen=True)
class UnaryRoutine(Routine):
    """One that reads one image."""

    def code(self, name: str, sources: tuple[Buffer, ...], target: Buffer) -> str:
        """See Routine."""
        (source,) = sources
        return self.unary_code(name, source, target)

    @abstractmethod
    def unary_code(self, name: str, source: Buffer, target: Buffer) -> str:
        """C text that defines the static function `name` for these buffers."""
