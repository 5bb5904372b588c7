"""How much memory reading takes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable


def peak_of(reading: Callable[[], object]) -> int:
    """The most bytes that are allocated while it reads."""
    tracemalloc.start()
    try:
        reading()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
