"""The choice of kernels that multiply in 16-bit floats: an approximation, for those who ask for it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

from tensmith.backend.native.layout import Chooser
from tensmith.kernel.algorithm import Kernel
from tensmith.kernel.isa import Isa
from tensmith.kernel.problem import Convolution


def in_halves(chooser: Callable[[int], Chooser]) -> Callable[[int], Chooser]:
    """Choosers that offer, beside what `chooser` does for floats, the kernels for halves."""

    def halved(weight_bytes: int) -> Chooser:
        choose = chooser(weight_bytes)

        @functools.cache
        def both(problem: Convolution, isa: Isa) -> list[tuple[float, Kernel]]:
            found = choose(problem, isa)
            return [*found, *choose(replace(problem, dtype="f16"), isa)] if problem.dtype == "f32" else found

        return both

    return halved
