"""Pruned layers of ResNet-50 one by one: how much of the expected speed-up each kernel reaches, one thread.

    python -m benchmarks.native.sparse_layers [--zeros 90] [--dtype f32,u8] [--pattern any,channels,filters]

The expected speed-up of weights with a share `density` left is 1 / density; the observed one is the time of
the dense kernel of the same engine that computes the convolution directly, over the sparse kernel's. Shares
of the expected speed-up are also taken over the fastest dense kernel, which for 3x3 windows in fp32 is
Winograd's and saves multiplications of its own. Zeros lie anywhere, or in fours of channels or filters. Every
kernel is the best guess of its algorithm; times are the least of several turns, weights from the third cache.
"""

from __future__ import annotations

import statistics
import sys
from dataclasses import replace
from itertools import product
from typing import Any

from benchmarks import parts
from benchmarks.native.kernels import resnet50
from tensmith.kernel import ConvolutionProblem, Kernel, candidates, host_isa
from tensmith.tune.timer import Timer

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


def measured(case: tuple[str, str], density: float, turns: int, span: float) -> parts.Found:
    """All layers of an element type with zeros in a pattern: seconds of each, and what they come to."""
    dtype, pattern = case
    anywhere = 1 - (1 - density) ** 4
    quads, strips = (density if pattern == along else anywhere for along in PATTERNS[1:])
    layers: list[dict[str, Any]] = []
    with Timer() as timer:
        for times, layer in resnet50(dtype):
            kernels = guesses(replace(layer, density=density, quads=quads, strips=strips))
            found = timed(timer, kernels, turns, span)
            sparse = min(seconds for name, seconds in found.items() if name.startswith("sparse"))
            fastest = min(seconds for name, seconds in found.items() if not name.startswith("sparse"))
            layers.append({"layer": str(layer), "times": times, "sparse": sparse,
                           "direct": found["spatial_pack"], "fastest": fastest})  # fmt: skip
    return parts.Found(row={**reached(layers, density), "layers": layers})


def reached(layers: list[dict[str, Any]], density: float) -> dict[str, float]:
    """The share of the expected speed-up over each dense kernel: median, and how many layers reach half."""
    row = {}
    for dense in ("direct", "fastest"):
        shares = [density * each[dense] / each["sparse"] for each in layers for _ in range(each["times"])]
        row[f"median share over {dense}"] = statistics.median(shares)
        row[f"half or more over {dense}"] = sum(share >= 0.5 for share in shares) / len(shares)
    return row


def main() -> int:
    """1 where layers could not be measured."""
    parser = parts.arguments(__doc__)
    parser.add_argument("--zeros", type=float, default=90.0, help="percent of zeros")
    parser.add_argument("--dtype", type=parts.names, default=["f32", "u8"], help="element types, as A,B")
    parser.add_argument("--pattern", type=parts.names, default=["any"], help=f"of {', '.join(PATTERNS)}")
    parser.add_argument("--turns", type=int, default=4, help="how often each kernel has its turn")
    parser.add_argument("--seconds", type=float, default=0.04, help="how long a turn is")
    options = parser.parse_args()
    cases = {" ".join(case): case for case in product(options.dtype, options.pattern)}
    settings = {"bench": "native_sparse_layers", "zeros": options.zeros, "turns": options.turns}
    how = {"density": 1 - options.zeros / 100, "turns": options.turns, "span": options.seconds}
    return parts.main(cases, measured, options.output, settings, **how)


if __name__ == "__main__":
    sys.exit(main())
