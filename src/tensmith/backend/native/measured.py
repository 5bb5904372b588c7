"""The tuned choice of kernels: what was measured takes the place of what is estimated."""

from __future__ import annotations

import functools
from collections.abc import Callable

from tensmith.backend.native.choosers import Chooser, estimated, memory_of, price
from tensmith.kernel.algorithm import Kernel
from tensmith.kernel.isa import Isa
from tensmith.kernel.problem import Convolution
from tensmith.kernel.scheduled import scheduled
from tensmith.kernel.timings import Timings


def measured(timings: Timings) -> Callable[[int], Chooser]:
    """Choosers that offer the kernels which were timed, or all by estimate where none was.

    An estimate is never held against a measurement: the two are not in one unit.
    """

    def chooser(weight_bytes: int) -> Chooser:
        guess, memory = estimated(weight_bytes), memory_of(weight_bytes)

        @functools.cache
        def choose(problem: Convolution, isa: Isa) -> list[tuple[float, Kernel]]:
            options = guess(problem, isa)
            known = timings.known((kernel for _, kernel in options), memory)
            return [(seconds + price(kernel, memory), kernel) for kernel, seconds in known.items()] or options

        return choose

    return chooser


def metascheduled(otherwise: Callable[[int], Chooser]) -> Callable[[int], Chooser]:
    """Choosers that offer MetaSchedule's kernel where one was searched for, else what `otherwise` does."""

    def chooser(weight_bytes: int) -> Chooser:
        choose = otherwise(weight_bytes)

        @functools.cache
        def found(problem: Convolution, isa: Isa) -> list[tuple[float, Kernel]]:
            kernel = scheduled(problem, isa)
            return [(0.0, kernel)] if kernel is not None else choose(problem, isa)

        return found

    return chooser
