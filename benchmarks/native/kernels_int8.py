"""8-bit kernels on the shapes of ResNet-50 against this core's measured peak, one thread.

    python -m benchmarks.native.kernels_int8 [--candidates 1]

The peak is what independent dot products (u8 x s8) in registers reach. A kernel's time is the least of many
runs, in turn with the peak's, requantization to bytes included.
"""

from __future__ import annotations

import ctypes
import functools
import math
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks import parts
from tensmith.kernel import ConvolutionProblem, Epilogue, Isa, Kernel, candidates, host_isa
from tensmith.kernel.quantized import QuantizationParameters, Requantization, constants
from tensmith.kernel.toolchain import compile_library

Array = np.ndarray[Any, Any]
CHAINS, TURNS = 16, 20_000


def resnet50(dtype: str = "u8") -> list[tuple[int, ConvolutionProblem]]:
    """(how many times, convolution) at 224 x 224."""
    found = [(1, ConvolutionProblem(3, 224, 224, 64, (7, 7), (2, 2), (3, 3, 3, 3), dtype=dtype))]
    for stage, (width, size, blocks) in enumerate(((64, 56, 3), (128, 28, 4), (256, 14, 6), (512, 7, 3))):
        stride = 1 if stage == 0 else 2
        before, big = 64 if stage == 0 else 2 * width, size * stride
        stage_of = partial(ConvolutionProblem, dtype=dtype)
        found += [
            (1, stage_of(before, big, big, width)),
            (1, stage_of(width, big, big, width, (3, 3), (stride, stride), (1, 1, 1, 1))),
            (1, stage_of(before, big, big, 4 * width, (1, 1), (stride, stride))),
            (blocks, stage_of(width, size, size, 4 * width)),
            (blocks - 1, stage_of(4 * width, size, size, width)),
            (blocks - 1, stage_of(width, size, size, width, (3, 3), pads=(1, 1, 1, 1))),
        ]
    return [*found, (1, ConvolutionProblem(2048, 1, 1, 1000, dtype=dtype))]


PEAK = """
__attribute__((visibility("default"))) void peak(const void *in, void *out)
{
    vi a[CHAINS], x = *(const vi *)in;
    UNROLL for (int i = 0; i < CHAINS; i++) a[i] = x;
    for (int t = 0; t < TURNS; t++)
        UNROLL for (int i = 0; i < CHAINS; i++) { a[i] = dot(a[i], x, x); __asm__ volatile("" : "+x"(a[i])); }
    UNROLL for (int i = 0; i < CHAINS; i++) ((vi *)out)[i] = a[i];
}
""".replace("CHAINS", str(CHAINS)).replace("TURNS", str(TURNS))


def peak(isa: Isa) -> tuple[Callable[[], object], float]:
    """A call at the peak and its operations."""
    function = ctypes.CDLL(str(compile_library(isa.prelude + PEAK, isa))).peak
    memory = [aligned(isa.bytes * CHAINS) for _ in range(2)]
    return bound(function, memory), 2 * CHAINS * TURNS * isa.lanes * 4


def bound(function: Callable[..., object], memory: list[Array]) -> Callable[[], object]:
    """The call of a C function on arrays, which live as long as it does."""
    return functools.partial(function, *(array.ctypes.data_as(ctypes.c_void_p) for array in memory))


def aligned(size: int) -> Array:
    """Zeroed bytes on a cache line."""
    raw = np.zeros(size + 64, np.uint8)
    return raw[-raw.ctypes.data % 64 :][:size]


def call(kernel: Kernel) -> Callable[[], object]:
    """One run of a kernel on random operands."""
    p, generator = kernel.problem, np.random.default_rng(0)
    shape = (p.filters, p.channels // p.groups, *p.window)
    source, target = kernel.source, kernel.target
    weights = generator.integers(-127, 128, shape).astype(np.int8)
    image = generator.integers(0, 256, source.size).astype(np.uint8)
    next_grid = QuantizationParameters(0.05 * math.sqrt(p.depth), 0)
    how = Requantization(QuantizationParameters(0.02, 0), np.full(p.filters, 0.01, np.float32), next_grid)
    words, epilogue = constants(p, kernel.isa, weights, how, curved=False), Epilogue(True)
    text = (
        kernel.isa.prelude
        + kernel.code("kernel", source, target, epilogue)
        + """
__attribute__((visibility("default")))
void entry(const void *i, const void *w, const void *b, const void *r, void *o, void *s)
{ kernel(i, w, b, r, o, s); }
"""
    )
    function = ctypes.CDLL(str(compile_library(text, kernel.isa))).entry
    arrays = [image, kernel.pack(weights), words, np.zeros(1, np.uint8)]
    memory = [*map(moved, arrays), aligned(target.bytes), aligned(kernel.scratch_bytes + 64)]
    return bound(function, memory)


def moved(array: Array) -> Array:
    """The bytes of an array on a cache line."""
    raw = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
    found = aligned(len(raw))
    found[...] = raw
    return found


def least(calls: list[Callable[[], object]], seconds: float) -> list[float]:
    """The least time of each call, taking turns."""
    found = [math.inf] * len(calls)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for index, run in enumerate(calls):
            start = time.perf_counter()
            run()
            found[index] = min(found[index], time.perf_counter() - start)
    return found


def measured(case: tuple[int, ConvolutionProblem], count: int, seconds: float) -> parts.Found:
    """The best candidate of one layer."""
    times, problem = case
    roof, operations = peak(host_isa())
    tried = candidates(problem, host_isa())
    chosen = [k for name in dict.fromkeys(k.name for k in tried)
              for k in [k for k in tried if k.name == name][:count]]  # fmt: skip
    first, *spent = least([roof, *map(call, chosen)], seconds)
    best = min(range(len(chosen)), key=lambda index: spent[index])
    share = 2 * problem.macs / spent[best] / (operations / first)
    row = {"times": times, "seconds": spent[best], "share": share, "peak": operations / first}
    return parts.Found(row=row | {"kernel": str(chosen[best])})


def main() -> int:
    """1 where a layer could not be measured."""
    parser = parts.arguments(__doc__)
    parser.add_argument("--candidates", type=int, default=1, help="how many of each algorithm's to try")
    parser.add_argument("--seconds", type=float, default=0.3, help="how long to measure a shape's candidates")
    options = parser.parse_args()
    layers = {str(problem): (times, problem) for times, problem in resnet50()}
    settings = {"bench": "native_kernels_int8", "candidates": options.candidates}
    return parts.main(
        layers, measured, options.output, settings, count=options.candidates, seconds=options.seconds
    )


if __name__ == "__main__":
    sys.exit(main())
