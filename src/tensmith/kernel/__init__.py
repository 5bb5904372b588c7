"""Kernels: what a heavy op computes at fixed sizes, and the algorithms that compute it, as C text."""

from tensmith.kernel.algorithm import ALGORITHMS, Cost, Kernel, algorithm, candidates
from tensmith.kernel.buffer import Buffer, Halo
from tensmith.kernel.epilogue import Epilogue
from tensmith.kernel.isa import Isa, host_isa, isa_named
from tensmith.kernel.problem import ConvolutionProblem

__all__ = [
    "ALGORITHMS",
    "Buffer",
    "ConvolutionProblem",
    "Cost",
    "Epilogue",
    "Halo",
    "Isa",
    "Kernel",
    "algorithm",
    "candidates",
    "host_isa",
    "isa_named",
]
