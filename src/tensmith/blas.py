"""How many threads NumPy's linear algebra takes.

Its threads wait for each other by spinning. Beside other work, small matrices then take fifty times as long
with two threads as with one: rounding ResNet-56 to 2 bits took 180 s in place of 4.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


@cache
def _libraries() -> ThreadpoolController:
    import numpy as np  # noqa: F401 - only libraries that are loaded are found

    return ThreadpoolController()


def blas_threads(count: int) -> AbstractContextManager[Any]:
    """Inside, NumPy's matrix products and factorizations run in `count` threads."""
    limited: AbstractContextManager[Any] = _libraries().limit(limits=count, user_api="blas")
    return limited
