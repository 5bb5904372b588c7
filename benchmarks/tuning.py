"""What tuning brings: networks compiled by estimates alone and by what was timed, taking turns, one thread.

    python benchmarks/tuning.py [--budget 120] [--seconds 20] [--only resnet20_cifar10,...]

The networks of native.py, and with --int8 those of native_int8.py. Prints the ratio untuned / tuned of whole
networks with its interval, and what was timed for it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
from native import BUILT, DATA, REAL, export
from native_int8 import quantized

from tensmith.backend.native.plan import fixed
from tensmith.engine import read_signature
from tensmith.engine.base import sizes_of
from tensmith.evaluate.bench import random_inputs
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.latency import compare
from tensmith.frontend.onnx import read_onnx
from tensmith.kernel import host_isa
from tensmith.kernel.shipped import shipped
from tensmith.kernel.timings import Timings
from tensmith.tune.network import TuningTarget, tune
from tensmith.tune.search import Budget
from tensmith.tune.timer import Timer


def measure(path: Path, budget: float, seconds: float) -> str:
    """One line of the table."""
    specs = read_signature(path).inputs
    inputs = random_inputs(specs)
    with tempfile.TemporaryDirectory() as folder:
        program = fixed(read_onnx(path), sizes_of(specs, inputs))
        with Timer() as timer:
            made = Path(folder) / "made"
            place = TuningTarget(host_isa(), Timings(), timer.seconds, shipped(host_isa()))
            found = tune(program, place, made, Budget(budget))
    settings = ("tuned", "untuned")
    contenders = [Contender("native", path, (("tuning", setting),)) for setting in settings]
    tuned, untuned = compare(contenders, inputs, 1, seconds)
    ratio = untuned.ratio
    return (
        f"{path.stem:28} {untuned.latency.value:9.3f} {tuned.latency.value:9.3f}   {1 / ratio.value:6.3f}"
        f" [{1 / ratio.high:.3f} to {1 / ratio.low:.3f}]   {found.trials} trials, {len(found.tasks)} problems"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--budget", type=float, default=120.0, help="seconds to tune each network")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long to measure each network")
    parser.add_argument("--only", default="", help="networks to measure, as A,B")
    parser.add_argument("--int8", action="store_true", help="their 8-bit forms")
    arguments = parser.parse_args()
    print(f"{'network':28} {'untuned':>9} {'tuned ms':>9}   ratio")
    cache = Path(tempfile.gettempdir()) / "tensmith-native-benchmark"
    cache.mkdir(exist_ok=True)
    for name in arguments.only.split(",") if arguments.only else [*REAL, *BUILT]:
        path = DATA / "models" / f"{name}.onnx"
        path = path if path.exists() else export(name, cache)
        path = quantized(path, cache) if arguments.int8 else path
        print(measure(path, arguments.budget, arguments.seconds), flush=True)


if __name__ == "__main__":
    np.seterr(all="ignore")
    sys.exit(main())
