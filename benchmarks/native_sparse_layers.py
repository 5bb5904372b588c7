"""Pruned layers of ResNet-50 one by one: how much of the expected speed-up each kernel reaches, one thread.

    python benchmarks/native_sparse_layers.py [--zeros 90] [--dtype f32,u8] [--pattern any,channels,filters]

The expected speed-up of weights with a share `density` left is 1 / density; the observed one is the time of
the dense kernel of the same engine that computes the convolution directly, over the sparse kernel's. Shares
of the expected speed-up are also printed over the fastest dense kernel, which for 3x3 windows in fp32 is
Winograd's and saves multiplications of its own. Zeros lie anywhere, or in fours of channels or filters. Every
kernel is the best guess of its algorithm; times are the least of several turns, weights from the third cache.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import replace

from native_kernels_int8 import resnet50

from tensmith.kernel import ConvolutionProblem, Kernel, candidates, host_isa
from tensmith.tune.timer import Timer

DIRECT = {"f32": "spatial_pack", "u8": "spatial_pack_int8"}
PATTERNS = ("any", "channels", "filters")
WEIGHTS_FROM = 1  # the third cache


def guesses(problem: ConvolutionProblem) -> dict[str, Kernel]:
    """The best guess of each algorithm."""
    found: dict[str, Kernel] = {}
    for kernel in candidates(problem, host_isa()):
        if kernel.name not in found or kernel.cost().cycles < found[kernel.name].cost().cycles:
            found[kernel.name] = kernel
    return found


def timed(timer: Timer, kernels: dict[str, Kernel], turns: int, span: float) -> dict[str, float]:
    """The least seconds of each kernel, taking turns."""
    rounds = [
        {name: timer.seconds(kernel, WEIGHTS_FROM, span) for name, kernel in kernels.items()}
        for _ in range(turns)
    ]
    return {name: min(one[name] for one in rounds) for name in kernels}


def table(dtype: str, density: float, pattern: str, turns: int, span: float) -> None:
    """One line for each layer, then what they come to."""
    anywhere = 1 - (1 - density) ** 4
    quads, strips = (density if pattern == along else anywhere for along in PATTERNS[1:])
    print(f"\n{dtype}, {1 - density:.0%} zeros, {pattern}: expected {1 / density:.3g}x")
    print(f"{'us':52} {'sparse':>8} {'direct':>8} {'fastest':>8}   over direct, share   over fastest, share")
    layers: list[tuple[float, float, float]] = []
    with Timer() as timer:
        for times, layer in resnet50(dtype):
            kernels = guesses(replace(layer, density=density, quads=quads, strips=strips))
            found = timed(timer, kernels, turns, span)
            sparse = min(seconds for name, seconds in found.items() if name.startswith("sparse"))
            direct = found[DIRECT[dtype]]
            fastest = min(seconds for name, seconds in found.items() if not name.startswith("sparse"))
            layers += [(sparse, direct, fastest)] * times
            label = f"{times} x {str(layer).partition(', pads')[0]}"
            print(f"{label[:52]:52} {line(sparse, direct, fastest, density)}", flush=True)
    sparse, direct, fastest = map(sum, zip(*layers, strict=True))
    print(f"{'all':52} {line(sparse, direct, fastest, density)}")
    for at, name in ((1, "direct"), (2, "fastest")):
        shares = [density * layer[at] / layer[0] for layer in layers]
        reached = sum(share >= 0.5 for share in shares) / len(shares)
        middle = statistics.median(shares)
        print(f"over {name}: median share {middle:.0%}, half or more in {reached:.0%} of the layers")


def line(sparse: float, direct: float, fastest: float, density: float) -> str:
    """Microseconds, then ratios and shares."""
    microseconds = " ".join(f"{seconds * 1e6:8.1f}" for seconds in (sparse, direct, fastest))
    ratios = (f"{dense / sparse:6.2f}x {density * dense / sparse:5.0%}" for dense in (direct, fastest))
    return f"{microseconds}        {'         '.join(ratios)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--zeros", type=float, default=90.0, help="percent of zeros")
    parser.add_argument("--dtype", default="f32,u8", help="element types, as A,B")
    parser.add_argument("--pattern", default="any", help=f"where zeros lie, of {', '.join(PATTERNS)}")
    parser.add_argument("--turns", type=int, default=4, help="how often each kernel has its turn")
    parser.add_argument("--seconds", type=float, default=0.04, help="how long a turn is")
    arguments = parser.parse_args()
    for dtype in arguments.dtype.split(","):
        for pattern in arguments.pattern.split(","):
            table(dtype, 1 - arguments.zeros / 100, pattern, arguments.turns, arguments.seconds)


if __name__ == "__main__":
    sys.exit(main())
