"""The choice of kernels that multiply in 16-bit floats: an approximation, for those who ask for it."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

from tensmith.backend.native.choose.choosers import Chooser, Choosing, Options
from tensmith.kernel.isa import Isa
from tensmith.kernel.problem import ConvolutionProblem

# What layers of floats may multiply in: floats, bfloat16 summed in floats, 16-bit floats summed as such.
PRECISIONS = ("f32", "bf16", "f16")


def refusal(precision: str, isa: Isa) -> str | None:
    """Why layers cannot be computed so; None if they can."""
    if precision not in PRECISIONS:
        return f"precision is one of {', '.join(PRECISIONS)}, not '{precision}'"
    able = {"f32": True, "bf16": isa.has_bfloat, "f16": isa.has_halves}[precision]
    return None if able else f"{isa.name} does not multiply {precision} here"


@dataclass(frozen=True)
class InPrecision:
    """Choosers that offer, beside what `chooser` does for floats, the kernels of a precision."""

    chooser: Choosing
    precision: str

    def __call__(self, weight_bytes: int) -> Chooser:
        choose = self.chooser(weight_bytes)

        @functools.cache
        def both(problem: ConvolutionProblem, isa: Isa, beside: ConvolutionProblem) -> Options:
            found = choose(problem, isa, beside)
            if self.precision == "f32" or problem.dtype != "f32":
                return found
            return [*found, *choose(replace(problem, dtype=self.precision), isa, beside)]

        return both


def precision_of(chooser: Choosing) -> str:
    """What products of values may be computed in, too: floats unless somebody asked for less."""
    return chooser.precision if isinstance(chooser, InPrecision) else "f32"
