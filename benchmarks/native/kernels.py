"""Single kernels on the layers of ResNet-50 against this core's measured peak, one thread.

    python -m benchmarks.native.kernels [--dtype f32,u8] [--candidates 1] [--cold]

The peak is what independent multiply-adds, or dot products of bytes (u8 x s8), reach in registers; where
bytes are widened first, a kernel that does so once for several products may exceed it. A kernel adds a bias
and, where it multiplies bytes, makes bytes of its sums. --cold takes other weights at every call, as a
network does, so that they come from memory.
"""

from __future__ import annotations

import ctypes
import sys
import time
from functools import partial
from itertools import islice

from benchmarks import parts
from tensmith.kernel import ALGORITHMS, ConvolutionProblem, Isa, host_isa
from tensmith.kernel.toolchain import compile_library
from tensmith.tune.timer import Timer

CHAINS, TURNS = 12, 20_000
CACHED, FROM_MEMORY = 0, 2  # where the weights come from
# Of an element type: what a register holds, a turn of one chain, and how many operations that is a lane.
_PEAKS = {"f32": ("vf", "vfma(a[i], x, x)", 2), "u8": ("vi", "dot(a[i], x, x)", 8)}
_PEAK = """
#ifdef __x86_64__
#define HIDE(v) __asm__ volatile("" : "+x"(v))
#else
#define HIDE(v) __asm__ volatile("" : "+w"(v))
#endif
__attribute__((visibility("default"))) void peak(void *out)
{
    REGISTER a[CHAINS] = {{0}}, x = {0};
    for (int t = 0; t < TURNS; t++)
        UNROLL for (int i = 0; i < CHAINS; i++) { HIDE(x); a[i] = TURN; }
    UNROLL for (int i = 0; i < CHAINS; i++) __builtin_memcpy((char *)out + i * sizeof x, &a[i], sizeof x);
}
"""


def resnet50(dtype: str) -> list[tuple[int, ConvolutionProblem]]:
    """(how many times, convolution) at 224 x 224."""
    layer = partial(ConvolutionProblem, dtype=dtype)
    found = [(1, layer(3, 224, 224, 64, (7, 7), (2, 2), (3, 3, 3, 3)))]
    for stage, (width, size, blocks) in enumerate(((64, 56, 3), (128, 28, 4), (256, 14, 6), (512, 7, 3))):
        stride = 1 if stage == 0 else 2
        before, big = 64 if stage == 0 else 2 * width, size * stride
        found += [
            (1, layer(before, big, big, width)),
            (1, layer(width, big, big, width, (3, 3), (stride, stride), (1, 1, 1, 1))),
            (1, layer(before, big, big, 4 * width, (1, 1), (stride, stride))),
            (blocks, layer(width, size, size, 4 * width)),
            (blocks - 1, layer(4 * width, size, size, width)),
            (blocks - 1, layer(width, size, size, width, (3, 3), pads=(1, 1, 1, 1))),
        ]
    return [*found, (1, layer(2048, 1, 1, 1000))]


def mobile(dtype: str) -> list[tuple[int, ConvolutionProblem]]:
    """A layer of MobileNet-v2, whose channels are each by themselves; ResNet-50 has none."""
    return [(0, ConvolutionProblem(144, 56, 56, 144, (3, 3), pads=(1, 1, 1, 1), groups=144, dtype=dtype))]


def peak(isa: Isa, dtype: str, seconds: float = 0.1) -> float:
    """Operations a second, a multiply-add counted as two."""
    register, turn, operations = _PEAKS[dtype]
    text = _PEAK.replace("REGISTER", register).replace("TURNS", str(TURNS)).replace("TURN", turn)
    library = ctypes.CDLL(str(compile_library(isa.prelude + text.replace("CHAINS", str(CHAINS)), isa)))
    out = ctypes.create_string_buffer(isa.bytes * CHAINS)
    spent, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.thread_time()
        library.peak(out)
        spent.append(time.thread_time() - start)
    return operations * CHAINS * TURNS * isa.lanes / min(spent)


def measured(case: tuple[int, ConvolutionProblem], count: int, seconds: float, cold: bool) -> parts.Found:
    """By algorithm, of its fastest candidate: seconds, the guess of them, and its share of the peak.

    That is of the multiply-adds of the definition.
    """
    times, problem = case
    isa = host_isa()
    roof, row, shares = peak(isa, problem.dtype), {}, []
    with Timer() as timer:
        for name, algorithm in ALGORITHMS.items():
            if algorithm.refuses(problem, isa) is None:
                tried = islice(algorithm.candidates(problem, isa), count)
                spent = {k: timer.seconds(k, FROM_MEMORY if cold else CACHED, seconds) for k in tried}
                best = min(spent, key=spent.__getitem__)
                share = 2 * problem.macs / spent[best] / roof
                guess = best.cost().seconds()
                row[name] = {"kernel": f"{best}", "share": share, "seconds": spent[best], "guess": guess}
                shares.append(share)
    return parts.Found(row={"times": times, "peak": roof, "best share": max(shares), **row})


def main() -> int:
    """1 where a layer could not be measured."""
    parser = parts.arguments(__doc__)
    parser.add_argument("--dtype", type=parts.names, default=[*_PEAKS], help="element types, as A,B")
    parser.add_argument("--candidates", type=int, default=1, help="how many of each algorithm's to try")
    parser.add_argument("--seconds", type=float, default=0.3, help="how long to measure each kernel")
    parser.add_argument("--cold", action="store_true", help="weights from memory")
    options = parser.parse_args()
    layers = [layer for dtype in options.dtype for layer in (*resnet50(dtype), *mobile(dtype))]
    how = {"count": options.candidates, "seconds": options.seconds, "cold": options.cold}
    settings = {"bench": "native_kernels", "isa": host_isa().name, **how}
    cases = {str(problem): (times, problem) for times, problem in layers}
    return parts.main(cases, measured, options.output, settings, **how)


if __name__ == "__main__":
    sys.exit(main())
