"""Spaces of equal programs small enough to measure every one: how near the searches come to the fastest.

    python -m benchmarks.search.small_spaces [--tries 24] [--seeds 3] [--output FILE] [NAME ...]

All programs that the exact rules make of a small one are timed once in ONNX Runtime (one thread, in processes
that take turns), each beside the program as it came. The searches then read these times: so many programs,
here `tries`, each may ask for, and chance is all that differs between seeds. A space's row has the number of
its programs, how many times as fast the fastest is, and by search the worst seed's distance from it in per
cent. More than 3 is a fault.
"""

from __future__ import annotations

import math
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks import parts
from benchmarks.search.egraphs import Net, bert, inception, resnext
from tensmith.backend.onnx import write_onnx
from tensmith.egraph.explore import Reach, enumerate_all
from tensmith.egraph.programs import ArrayHashes, signature
from tensmith.errors import EngineError
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.count import node_seconds
from tensmith.evaluate.latency import compare
from tensmith.files import TemporaryFolder
from tensmith.hardware import detect_host
from tensmith.ir import Program
from tensmith.report.metric import exact
from tensmith.rewrite.trail import Traced, simplified
from tensmith.search.candidate import Candidate
from tensmith.search.objective import Objective
from tensmith.search.plan import Plan
from tensmith.search.space import Space
from tensmith.search.strategy import STRATEGIES, Quest

MOST = 3.0  # per cent
_SEARCHES = ("beam", "genetic", "saturation", "auto")
# Programs that are timed together, beside the first one.
_TOGETHER = 6


def pairs(places: int = 5) -> Program:
    """Products that read one value, two by two, one pair after the other."""
    net, y = Net(x=(64, 256)), "x"
    for _ in range(places):
        a, b = (net.add("matmul", y, net.weights(256, 256)) for _ in range(2))
        y = net.add("add", net.add("exp", a), net.add("tanh", b))
    return net.program("pairs", y)


def gates() -> Program:
    """Three gates of a recurrent cell of 256 units, each a sum of two products."""
    net = Net(x=(1, 256), h=(1, 256))

    def gate(kind: str) -> str:
        products = [net.add("matmul", name, net.weights(256, 256)) for name in ("x", "h")]
        return net.add(kind, net.add("add", *products))

    a, b, c = map(gate, ("sigmoid", "relu", "tanh"))
    return net.program("gates", net.add("mul", net.add("tanh", net.add("mul", a, b)), c))


def sums() -> Program:
    """A matrix times others, summed, element by element and as products."""
    net = Net(a=(256, 256), b=(256, 256), c=(256, 256), d=(256, 256))
    y = net.add("add", net.add("mul", "a", "b"), net.add("mul", "a", "c"))
    z = net.add("add", net.add("matmul", "a", "d"), net.add("matmul", "a", y))
    return net.program("sums", net.add("relu", z))


SPACES: Mapping[str, Callable[[], Program]] = {
    f.__name__: f for f in (pairs, gates, sums, bert, inception, resnext)
}


def timed(programs: Mapping[str, Program], seconds: float) -> dict[str, float]:
    """By signature: what each program takes, the first one 1."""
    first, *others = programs
    inputs = programs[first].inputs.items()
    random = np.random.default_rng(1)
    example = {n: random.standard_normal(t.static or ()).astype(np.float32) for n, t in inputs}
    times = {first: 1.0}
    with TemporaryFolder("small-spaces") as folder:
        files = {name: Path(folder) / f"{number}.onnx" for number, name in enumerate(programs)}
        for name, program in programs.items():
            write_onnx(program, files[name])
        for at in range(0, len(others), _TOGETHER):
            some = others[at : at + _TOGETHER]
            runners = [Contender("onnxruntime", files[name]) for name in (first, *some)]
            found = compare(runners, example, 1, seconds * len(runners))
            times |= {name: 1 / latency.ratio.value for name, latency in zip(some, found[1:])}
    return times


def searched(name: str, space: Space, times: Mapping[str, float], tries: int, seed: int) -> float:
    """What the fastest program takes that a search finds, of so many that it may ask for."""
    hashes, asked = ArrayHashes(), dict[str, float]()
    plans = 0

    def attempt(plan: Plan) -> Candidate:
        nonlocal plans
        plans += 1
        if any(step.kind == "lossy" for step in plan.steps):
            return Candidate(plan.id, plan, "failed", "no program of this space")
        of = signature(space.regions.formed(plan.steps).program, hashes)
        took = asked[of] = times[of]
        metrics = {
            "packed_bytes": exact(1, "bytes"), "latency_ms": exact(took, "ms"),
            "speedup": exact(1 / took, "x"),
        }  # fmt: skip
        return Candidate(plan.id, plan, "accepted", metrics=metrics, drop=exact(0, "points"))

    def time_left() -> bool:
        return len(asked) < tries and plans < 10 * tries

    quest = Quest(space, attempt, Objective(), 1.0, time_left, "roofline", 10.0, lambda _: None, seed)
    STRATEGIES[name].run(quest)
    return min(asked.values())


def compared(name: str, options: Namespace) -> parts.Found:
    """One space: every program timed, every search run on the times."""
    program = simplified(Traced(SPACES[name]())).program
    cost = node_seconds(detect_host())
    every = enumerate_all(program, cost, Reach(seconds=options.limit))
    if every.ended:
        raise EngineError(f"not all programs were seen: {every.ended}")
    layers = {node: took for node, took in cost(program).items() if took > 0}
    space = Space(program, ("onnxruntime",), layer_seconds=layers, cost=cost)
    hashes = ArrayHashes()
    programs = {}
    for form in sorted(every.cheapest, key=len):
        found = space.regions.formed(form).program
        programs[signature(found, hashes)] = found
    times = timed(programs, options.timing)
    fastest = min(times.values())
    worst = {
        search: max(
            100 * (searched(search, space, times, options.tries, seed) / fastest - 1)
            for seed in range(options.seeds)
        )
        for search in options.searches
    }
    wrong = [f"{name}: {search} is {loss:.2g}% off" for search, loss in worst.items() if loss > MOST]
    cheapest = signature(space.regions.formed(every.cheapest[0]).program, hashes)
    row = {
        "programs": every.programs, "faster": 1 / fastest, "spread": max(times.values()) / fastest,
        "by estimate": 100 * (times[cheapest] / fastest - 1), **worst, "times": sorted(times.values()),
    }  # fmt: skip
    return parts.Found({"programs": every.programs}, tuple(wrong), row)


def mean(losses: Sequence[float]) -> float:
    """The geometric mean of what is lost, in per cent."""
    return 100 * (math.exp(math.fsum(math.log1p(loss / 100) for loss in losses) / len(losses)) - 1)


def main() -> int:
    """1 where a search is more than 3% off."""
    parser = parts.arguments(__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(SPACES)}")
    parser.add_argument("--tries", type=int, default=24, help="programs that a search may ask for")
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--searches", type=parts.names, default=list(_SEARCHES), help="as A,B")
    parser.add_argument("--timing", type=float, default=2.0, help="seconds for each program")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds to see all programs of a space")
    options = parser.parse_args()
    if unknown := set(options.names) - set(SPACES):
        parser.error(f"no space {', '.join(sorted(unknown))}")
    settings = {
        "bench": "small_spaces", "tries": options.tries, "seeds": options.seeds, "timing": options.timing,
    }  # fmt: skip
    names = options.names or list(SPACES)
    document = parts.run(names, partial(compared, options=options), options.output, settings)
    for search in options.searches:
        losses = [row[search] for row in document["rows"].values()]
        if losses:
            print(f"{search:12} {mean(losses):.2f}% from the fastest, at worst {max(losses):.2f}%")
    return parts.ended(document)


if __name__ == "__main__":
    sys.exit(main())
