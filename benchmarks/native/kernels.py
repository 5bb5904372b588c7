"""Single kernels on the layers of ResNet-50: each algorithm's first candidate against this machine's peak.

    python -m benchmarks.native.kernels [--cold]

The peak is measured: independent multiply-adds in registers. --cold takes other weights at every call, as a
network does, so that they come from memory.
"""

from __future__ import annotations

import ctypes
import sys
import time

import numpy as np
from kernel_runs import aligned, copy, sample

from benchmarks import parts
from tensmith.kernel import ALGORITHMS, ConvolutionProblem, Epilogue, Isa, Kernel, host_isa
from tensmith.kernel.toolchain import compile_library

SAME = (1, 1, 1, 1)
LAYERS = [
    ConvolutionProblem(3, 224, 224, 64, (7, 7), (2, 2), (3, 3, 3, 3)),
    *(ConvolutionProblem(64 * 2**i, 56 >> i, 56 >> i, 64 * 2**i, (3, 3), pads=SAME) for i in range(4)),
    *(ConvolutionProblem(128 * 2**i, 56 >> i, 56 >> i, 128 * 2**i, (3, 3), (2, 2), SAME) for i in range(3)),
    *(ConvolutionProblem(64 * 2**i, 56 >> i, 56 >> i, 256 * 2**i) for i in range(4)),
    *(ConvolutionProblem(256 * 2**i, 56 >> i, 56 >> i, 64 * 2**i) for i in range(4)),
    *(ConvolutionProblem(256 * 2**i, 56 >> i, 56 >> i, 512 * 2**i, (1, 1), (2, 2)) for i in range(3)),
    ConvolutionProblem(144, 56, 56, 144, (3, 3), pads=SAME, groups=144),
]
_REPEAT = """
__attribute__((visibility("default")))
void repeat(long count, long step, const char *weights, const void *in, const float *bias, void *out,
            void *scratch)
{ for (long i = 0; i < count; i++) kernel(in, weights + i * step, bias, 0, out, scratch); }
"""
_PEAK = """
__attribute__((visibility("default")))
float peak(long count, float factor)
{{
    vf a[{n}], x = splat(factor), y = splat(1e-9f);
    UNROLL for (int i = 0; i < {n}; i++) a[i] = splat(i);
    for (long r = 0; r < count; r++) {{
        UNROLL for (int i = 0; i < {n}; i++) a[i] = a[i] * x + y;
    }}
    vf s = a[0];
    for (int i = 1; i < {n}; i++) s += a[i];
    return s[0];
}}
"""
_COLD_BYTES = 96 << 20


def fastest(call: object, seconds: float = 0.3) -> float:
    """The least processor time of a call."""
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.process_time()
        call()  # type: ignore[operator]
        best = min(best, time.process_time() - start)
    return best


def measured_peak(isa: Isa) -> float:
    """Multiply-adds a second, counted as two operations."""
    count, chains = 2_000_000, 12
    library = ctypes.CDLL(str(compile_library(isa.prelude + _PEAK.format(n=chains), isa)))
    arguments = (ctypes.c_long(count), ctypes.c_float(0.999))
    return 2 * count * chains * isa.lanes / fastest(lambda: library.peak(*arguments))


def seconds_of(kernel: Kernel, cold: bool) -> float:
    """One call of a kernel with bias."""
    source, target = kernel.source, kernel.target
    text = kernel.isa.prelude + kernel.code("kernel", source, target, Epilogue(bias=True)) + _REPEAT
    library = ctypes.CDLL(str(compile_library(text, kernel.isa)))
    image, filters = sample(kernel.problem)
    packed = kernel.pack(filters)
    step = -(-packed.nbytes // 64) * 64
    count = max(1, _COLD_BYTES // step) if cold else max(1, int(2e9 / kernel.problem.macs))
    weights = aligned(step * (count if cold else 1), np.uint8)
    for place in range(count if cold else 1):
        weights[place * step : place * step + packed.nbytes] = packed.view(np.uint8).reshape(-1)
    arrays = (
        weights, copy(source.lay(image)), aligned(kernel.isa.round_up(kernel.problem.filters), fill=0),
        aligned(target.size), aligned(kernel.scratch_bytes // 4 + 16, fill=0),
    )  # fmt: skip
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in arrays]
    sizes = (ctypes.c_long(count), ctypes.c_long(step if cold else 0))
    return fastest(lambda: library.repeat(*sizes, *pointers)) / count


def measured(problem: ConvolutionProblem, peak: float, cold: bool) -> parts.Found:
    """By algorithm: share of the peak (of the definition's multiply-adds), seconds, and the guess of them."""
    row = {}
    for name, algorithm in ALGORITHMS.items():
        if algorithm.refuses(problem, host_isa()) is None:
            kernel = next(algorithm.candidates(problem, host_isa()))
            spent = seconds_of(kernel, cold)
            share = 2 * problem.macs / spent / peak
            row[name] = {"share": share, "seconds": spent, "guess": kernel.cost().seconds()}
    return parts.Found(row={"peak": peak, "best share": max(each["share"] for each in row.values()), **row})


def main() -> int:
    """1 where a layer could not be measured."""
    parser = parts.arguments(__doc__)
    parser.add_argument("--cold", action="store_true", help="weights from memory")
    options = parser.parse_args()
    isa = host_isa()
    peak = measured_peak(isa)
    settings = {"bench": "native_kernels", "isa": isa.name, "cold": options.cold}
    return parts.main(
        {str(p): p for p in LAYERS}, measured, options.output, settings, peak=peak, cold=options.cold
    )


if __name__ == "__main__":
    sys.exit(main())
