"""How fast emitted code is beside `gcc -O3` on the sequential source.

    python -m benchmarks.lifting.speed [--seconds 0.2] [--targets numpy,c]

The 69 kernels in pointer C, on matrices of 1000 x 1000 or vectors of 1,000,000, one thread. Source and
targets take turns of some calls, as engines do in `tensmith bench`, each on its own kind of arrays, results
included; C writes into memory that its caller has, as the source does. Arrays that the source changes are
restored between calls, outside of the timing. A ratio above 1 says that the emitted code is faster.
"""

from __future__ import annotations

import functools
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import harness
import numpy as np
from harness_targets import TARGETS

from benchmarks import parts, timing
from benchmarks.lifting.files import SourceFile, arguments, files, on_one_core
from tensmith.engine.stopwatch import time_calls
from tensmith.evaluate.latency import take_turns
from tensmith.formula.types import MachineType
from tensmith.lifting.auto import choose, prepared, sample
from tensmith.lifting.emit import EMITTERS
from tensmith.lifting.lifted import Lifted
from tensmith.lifting.pipeline import lift_file
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.running import load
from tensmith.lifting.second.cell import Fields

SOURCE, NATIVE = "gcc -O3", "gcc -O3 -march=native"
FLAGS = {SOURCE: ("-O3",), NATIVE: ("-O3", "-march=native")}
MUST_WIN = ("numpy", "torch", "c")
VECTOR = 1_000_000
CLOSE, CLOSE_SHARE = 1.2, 0.9  # how near `auto` comes to the best, and in how many kernels


def measured(file: SourceFile, targets: list[str], seconds: float) -> parts.Found:
    """Median and least seconds of the functions of a file by target, and what `auto` picks."""
    row: dict[str, Any] = {"seconds": {}, "least": {}, "auto": {}}
    with tempfile.TemporaryDirectory() as folder:
        for kernel, times, pick in timed(file.path, file.functions, targets, Path(folder), seconds):
            row["seconds"][kernel] = {name: statistics.median(spent) for name, spent in times.items()}
            row["least"][kernel] = {name: min(spent) for name, spent in times.items()}
            row["auto"][kernel] = pick
    return parts.Found(row={**row, **means(row["seconds"])})


def means(seconds: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """How many times faster than the source, by target: the geometric mean over kernels."""
    names = dict.fromkeys(name for times in seconds.values() for name in times if name != SOURCE)
    return {
        name: statistics.geometric_mean([ts[SOURCE] / ts[name] for ts in seconds.values() if name in ts])
        for name in names
    }


def timed(
    path: Path, functions: Sequence[str], targets: Sequence[str], folder: Path, seconds: float
) -> list[tuple[str, dict[str, list[float]], str]]:
    """(kernel, seconds of every call by target, what `auto` picks) for the functions of a file."""
    libraries = {}
    for name, flags in FLAGS.items():
        (folder / name).mkdir()
        libraries[name] = harness.build(path, functions, folder / name, flags)
    rows = []
    for result in lift_file(path, targets=(), run=False):
        lifted = result.work.lifted
        if not result.proved or lifted is None:
            continue
        sizes = extents(lifted)
        arguments = sample(lifted, sizes)
        runs: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {}
        for name, library in libraries.items():
            native = harness.Native(library, lifted.function)
            runs[name] = native.prepare(named(lifted, arguments))
        for name in targets:
            try:
                files = EMITTERS[name].emit(lifted).files
            except Refusal:
                continue
            runs[name] = (ready(name, lifted, files, arguments), lambda: None)
        choice, _ = choose(lifted, sizes)
        rows.append((f"{path.stem}/{result.name}", turns(runs, seconds), choice.best))
    return rows


def ready(
    target: str, lifted: Lifted, files: Mapping[str, bytes], arguments: Sequence[Any]
) -> Callable[[], Any]:
    """A call on the target's own arrays that ends when the result is there."""
    if target in ("c", "onnx"):
        return prepared(target, load(target, lifted, files), arguments)
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            Path(folder, name).write_bytes(content)
        return TARGETS[target](lifted, Path(folder)).ready(named(lifted, arguments))


def extents(lifted: Lifted) -> dict[str, tuple[int, ...]]:
    """1000 for each size, where that makes matrices; a million where all is one-dimensional."""
    total = sum(np.size(value) for value in sample(lifted, {}))
    if total > VECTOR // 4:
        return {}
    symbols = frozenset().union(*(size.poly.symbols() for size in lifted.sizes))
    scalars = (p.name for p in lifted.function.parameters if isinstance(p.type, MachineType))
    return {name: (VECTOR,) for name in scalars if name in symbols}


def named(lifted: Lifted, arguments: Sequence[Any]) -> dict[str, Any]:
    """Arguments by parameter, as the harness has them."""
    names = [parameter.name for parameter in lifted.function.parameters]
    return {n: Fields(v) if isinstance(v, dict) else v for n, v in zip(names, arguments)}


def turns(
    runs: Mapping[str, tuple[Callable[[], Any], Callable[[], Any]]], seconds: float
) -> dict[str, list[float]]:
    """Median seconds of a call in each turn, whose first call meets the caches of others and is dropped."""
    timers = [functools.partial(time_calls, run, after=restore) for run, restore in runs.values()]
    times = take_turns(timers, seconds * len(runs)).nanoseconds / 1e9
    return {name: times[:, index].tolist() for index, name in enumerate(runs)}


def near(least: Mapping[str, float], pick: str, targets: Sequence[str]) -> bool:
    """Whether a pick is about as fast as the fastest, by the least times: noise only adds."""
    return pick in least and least[pick] <= CLOSE * min(least[name] for name in targets if name in least)


def main() -> int:
    """1 where a target that must win does not, or `auto` is far from the best too often."""
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=0.2, help="for each of those that take turns")
    parser.add_argument("--targets", type=parts.names, default=[*TARGETS], help="as A,B; those that are here")
    parser.set_defaults(groups=["c"])
    options = parser.parse_args()
    on_one_core()
    targets = [name for name in options.targets if not TARGETS[name].missing()]
    settings = {"bench": "lifting_speed", "seconds": options.seconds, "targets": targets}
    work = functools.partial(measured, targets=targets, seconds=options.seconds)
    document = parts.run(files(options), work, options.output, settings)
    rows = document["rows"].values()
    seconds, least, auto = (
        {k: v for row in rows for k, v in row[part].items()} for part in ("seconds", "least", "auto")
    )
    found = means(seconds)
    for name in found:
        ratios = [times[SOURCE] / times[name] for times in seconds.values() if name in times]
        value, low, high = timing.geometric(ratios)
        print(f"{name:22} {value:6.2f}x of {SOURCE}, 95 % interval {low:.2f} to {high:.2f}")
    close = sum(near(least[kernel], auto[kernel], targets) for kernel in seconds)
    print(f"auto is within {CLOSE}x of the best target on {close} of {len(seconds)}")
    well = close >= CLOSE_SHARE * len(seconds) and all(found[n] >= 1 for n in MUST_WIN if n in found)
    return parts.ended(document) or int(not well)


if __name__ == "__main__":
    sys.exit(main())
