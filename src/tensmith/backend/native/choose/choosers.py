"""Choosers: which kernels may compute a problem, with the seconds that each is estimated to take."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TypeAlias

from tensmith.kernel.algorithm import Kernel, candidates
from tensmith.kernel.isa import Isa
from tensmith.kernel.problem import ConvolutionProblem

# Kernels, with the seconds of each.
Options: TypeAlias = list[tuple[float, Kernel]]
# (problem, isa, beside) -> which kernels may compute a problem; their seconds may be compared with those that
# the problem `beside` has beside itself. Measured seconds are in no unit with estimated ones, so parts are
# asked for beside the whole.
Chooser: TypeAlias = Callable[[ConvolutionProblem, Isa, ConvolutionProblem], Options]

# What a plan asks for its chooser, by how many bytes of weights every run reads.
Choosing: TypeAlias = Callable[[int], Chooser]

# Classes of algorithms that a choice can be held to, and no such choice.
FAMILIES = ("direct", "gemm", "spatial_pack", "winograd", "sparse")
ANY = "any"

# (bytes, bytes a second, bytes worth a second) of a server core's second and third cache and of its memory.
_MEMORIES = ((1 << 20, 150e9, math.inf), (16 << 20, 70e9, math.inf), (1 << 62, 18e9, 60e9))


def estimated(weight_bytes: int) -> Chooser:
    """The untuned choice, by estimated cost; weights come from the nearest memory that holds all of them."""
    memory = memory_of(weight_bytes)
    bandwidth = _MEMORIES[memory][1]

    @functools.cache
    def options(problem: ConvolutionProblem, isa: Isa) -> Options:
        return [
            (kernel.cost().seconds(bandwidth=bandwidth) + price(kernel, memory), kernel)
            for kernel in candidates(problem, isa)
        ]

    return lambda problem, isa, _beside: options(problem, isa)


def memory_of(weight_bytes: int) -> int:
    """The nearest memory that holds so many bytes: 0 the second cache, 1 the third, 2 beyond."""
    return next(place for place, (size, *_) in enumerate(_MEMORIES) if weight_bytes <= size)


def price(kernel: Kernel, memory: int) -> float:
    """Seconds that the room for a kernel's weights is worth, so that speed is not bought with all memory."""
    return kernel.weight_bytes / _MEMORIES[memory][2]


def in_family(kernel: str, name: str) -> bool:
    """Whether the kernel of a name is of the algorithm `name`, whatever numbers it multiplies."""
    return kernel == name or kernel.startswith(f"{name}_")


def restricted_to(name: str) -> Choosing:
    """The untuned choice, but the algorithm `name` alone where it takes a problem; ANY restricts nothing."""
    return estimated if name == ANY else lambda weight_bytes: only(name, estimated(weight_bytes))


def only(name: str, choose: Chooser) -> Chooser:
    """`choose`, but the algorithm `name` alone where it takes the problem."""

    def restricted(problem: ConvolutionProblem, isa: Isa, beside: ConvolutionProblem) -> Options:
        options = choose(problem, isa, beside)
        return [option for option in options if in_family(option[1].name, name)] or options

    return restricted
