"""How fast emitted code is beside `gcc -O3` on the sequential source: a part of lifting.py.

The 69 kernels in pointer C, on matrices of 1000 x 1000 or vectors of 1,000,000, one thread. Source and
targets take turns of some calls, as engines do in `tensmith bench`, each on its own kind of arrays, results
included; arrays that the source changes are restored between calls, outside of the timing. A ratio above 1
says that the emitted code is faster.
"""

from __future__ import annotations

import argparse
import functools
import random
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from math import exp, log
from pathlib import Path
from typing import Any

import harness
import numpy as np
from corpus import GROUPS
from harness_targets import TARGETS
from lifting_coverage import by_file

from tensmith.engine.stopwatch import time_calls
from tensmith.evaluate.latency import take_turns
from tensmith.lifting.auto import choose, sample
from tensmith.lifting.emit import EMITTERS
from tensmith.lifting.lifted import Lifted
from tensmith.lifting.loops import Scalar
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.road import lift_file, standard_steps
from tensmith.lifting.running import load
from tensmith.lifting.second.values import Record

SOURCE, NATIVE = "gcc -O3", "gcc -O3 -march=native"
FLAGS = {SOURCE: ("-O3",), NATIVE: ("-O3", "-march=native")}
MUST_WIN = ("numpy", "torch", "c")
SECONDS = 0.4  # for each of those that take turns
VECTOR = 1_000_000
CLOSE, CLOSE_SHARE = 1.2, 0.9  # how near `auto` comes to the best, and in how many kernels
RESAMPLES = 1000


def speed(options: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    """Ratios by kernel, geometric means with 95 % intervals, and how near `auto` comes to the best."""
    wanted = options.targets.split(",") if options.targets else list(TARGETS)
    targets = [name for name in wanted if not TARGETS[name].missing()]
    seconds = 0.05 if options.quick else SECONDS
    times: dict[str, dict[str, list[float]]] = {}
    picks: dict[str, str] = {}
    print(
        f"{'kernel':28} {SOURCE + ' ms':>10} " + " ".join(f"{n:>10}" for n in [*targets, "-march"]) + "  auto"
    )
    for path, functions in by_file(GROUPS["c"]):
        with tempfile.TemporaryDirectory() as folder:
            for kernel, row, pick in timed(path, functions, targets, Path(folder), seconds):
                times[kernel], picks[kernel] = row, pick
                ratios = " ".join(f"{ratio(row, name):>10}" for name in [*targets, NATIVE])
                print(
                    f"{kernel:28} {statistics.median(row[SOURCE]) * 1e3:>10.3f} {ratios}  {pick}", flush=True
                )
    means = {name: mean(times, name) for name in [*targets, NATIVE]}
    print(f"\n{'geometric mean':28} {'':>10}")
    for name, (value, low, high, count) in means.items():
        print(
            f"  {name:26} {value:6.2f}x of {SOURCE}, 95 % interval {low:.2f} to {high:.2f}, {count} kernels"
        )
    close = [kernel for kernel, row in times.items() if near(row, picks[kernel], targets)]
    share = len(close) / max(1, len(times))
    print(f"auto is within {CLOSE}x of the best target on {len(close)} of {len(times)}")
    well = share >= CLOSE_SHARE and all(means[n][0] >= 1 for n in MUST_WIN if n in means)
    medians = {k: {n: statistics.median(s) for n, s in row.items()} for k, row in times.items()}
    return {"seconds": medians, "means": means, "auto": picks, "auto close": share}, well


def timed(
    path: Path, functions: Sequence[str], targets: Sequence[str], folder: Path, seconds: float
) -> list[tuple[str, dict[str, list[float]], str]]:
    """(kernel, seconds of every call by target, what `auto` picks) for the functions of a file."""
    steps = standard_steps()
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
        choice, _ = choose(lifted, steps, sizes)
        rows.append((f"{path.stem}/{result.name}", turns(runs, seconds), choice.best))
    return rows


def ready(
    target: str, lifted: Lifted, files: Mapping[str, bytes], arguments: Sequence[Any]
) -> Callable[[], Any]:
    """A call on the target's own arrays that ends when the result is there."""
    if target in ("c", "onnx"):
        function = load(target, lifted, files)
        return lambda: function(*arguments)
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
    scalars = (p.name for p in lifted.function.parameters if isinstance(p.type, Scalar))
    return {name: (VECTOR,) for name in scalars if name in symbols}


def named(lifted: Lifted, arguments: Sequence[Any]) -> dict[str, Any]:
    """Arguments by parameter, as the harness has them."""
    names = [parameter.name for parameter in lifted.function.parameters]
    return {n: Record(v) if isinstance(v, dict) else v for n, v in zip(names, arguments)}


def turns(
    runs: Mapping[str, tuple[Callable[[], Any], Callable[[], Any]]], seconds: float
) -> dict[str, list[float]]:
    """Median seconds of a call in each turn, whose first call meets the caches of others and is dropped."""
    timers = [functools.partial(time_calls, run, after=restore) for run, restore in runs.values()]
    times = take_turns(timers, seconds * len(runs)).nanoseconds / 1e9
    return {name: times[:, index].tolist() for index, name in enumerate(runs)}


def ratio(row: Mapping[str, Sequence[float]], name: str) -> str:
    """How many times faster than the source, as text."""
    return f"{statistics.median(row[SOURCE]) / statistics.median(row[name]):.2f}" if name in row else "-"


def mean(times: Mapping[str, Mapping[str, list[float]]], name: str) -> tuple[float, float, float, int]:
    """Geometric mean of the ratios, its 95 % interval (kernels and calls resampled), number of kernels."""
    rows = [(row[SOURCE], row[name]) for row in times.values() if name in row]
    if not rows:
        return 0.0, 0.0, 0.0, 0
    rng = random.Random(0)

    def once(pairs: Sequence[tuple[list[float], list[float]]], again: bool) -> float:
        logs = []
        for source, target in pairs:
            if again:
                source = rng.choices(source, k=len(source))
                target = rng.choices(target, k=len(target))
            logs.append(log(statistics.median(source) / statistics.median(target)))
        return exp(statistics.fmean(logs))

    resampled = sorted(once(rng.choices(rows, k=len(rows)), True) for _ in range(RESAMPLES))
    low, high = resampled[int(0.025 * RESAMPLES)], resampled[int(0.975 * RESAMPLES)]
    return once(rows, False), low, high, len(rows)


def near(row: Mapping[str, list[float]], pick: str, targets: Sequence[str]) -> bool:
    """Whether a pick is about as fast as the fastest, by the least times: noise only adds."""
    least = {name: min(row[name]) for name in targets if name in row}
    return pick in least and least[pick] <= CLOSE * min(least.values())
