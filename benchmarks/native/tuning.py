"""What tuning brings: networks compiled by estimates alone and by what was timed, taking turns, one thread.

    python -m benchmarks.native.tuning [--budget 120] [--seconds 20] [--only resnet20_cifar10,...]

The networks of networks.py, and with --int8 those of networks_int8.py, in a cache of its own. Figures are the
ratio untuned / tuned of whole networks with its interval, and what was timed for it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from benchmarks import cache, parts, timing
from benchmarks.native.networks import arguments, file_of, inputs_of
from benchmarks.native.quantized_files import quantized
from tensmith.backend.native.plan import fixed
from tensmith.engine import read_signature
from tensmith.engine.base import sizes_of
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.latency import compare
from tensmith.frontend.onnx import read_onnx
from tensmith.kernel import host_isa
from tensmith.kernel.shipped import shipped
from tensmith.kernel.timings import Timings
from tensmith.tune.network import TuningTarget, tune
from tensmith.tune.search import Budget
from tensmith.tune.timer import Timer


def measured(name: str, int8: bool, budget: float, seconds: float) -> parts.Found:
    """One network."""
    path = quantized(file_of(name), cache()) if int8 else file_of(name)
    inputs = inputs_of(path)
    program = fixed(read_onnx(path), sizes_of(read_signature(path).inputs, inputs))
    with tempfile.TemporaryDirectory() as folder, Timer() as timer:
        place = TuningTarget(host_isa(), Timings(), timer.seconds, shipped(host_isa()))
        tuned = tune(program, place, Path(folder) / "made", Budget(budget))
    names = ("tuned", "untuned")
    contenders = [Contender("native", path, (("tuning", setting),)) for setting in names]
    found = dict(zip(names, compare(contenders, inputs, 1, seconds)))
    return parts.Found(row=timing.row(found) | {"trials": tuned.trials, "problems": len(tuned.tasks)})


def main() -> int:
    """1 where a network could not be measured."""
    parser = arguments(__doc__)
    parser.add_argument("--budget", type=float, default=120.0, help="seconds to tune each network")
    parser.add_argument("--int8", action="store_true", help="their 8-bit forms")
    options = parser.parse_args()
    how = {"int8": options.int8, "budget": options.budget, "seconds": options.seconds}
    settings = {"bench": "native_tuning"} | how
    with tempfile.TemporaryDirectory() as cache_home:
        os.environ["XDG_CACHE_HOME"] = cache_home
        return parts.main(options.only, measured, options.output, settings, **how)


if __name__ == "__main__":
    sys.exit(main())
