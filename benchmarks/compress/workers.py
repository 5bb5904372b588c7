"""Judging by four workers against one, and what this machine's processors reach together at most.

    python -m benchmarks.compress.workers [--samples 2000] [--workers 4] [--output workers.json]

judge/ENGINE   seconds to judge a model: alone, as `tensmith compress --workers 1` does it; by one worker; by
               many. Alone, ONNX Runtime has a thread a processor, and every candidate a process that starts
               anew and gets its samples through a pipe; workers stay, and read the data themselves.
ceiling/WORK   the same jobs, done by one worker and by all, that do nothing but compute in one thread: what
               two processors that share a core, or are shared with neighbours, leave to be had
The sides take turns; of each the least time counts. `ratio` is one over many, `gain` alone over many. Beside
other work the sides that have more processes take more of the machine, and all ratios are too high.
"""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import DATA, parts
from tensmith.data import ImageInput, open_dataset, parse_preprocess, split
from tensmith.engine.base import ENGINES
from tensmith.engine.frame import Answer
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.judge import Judge
from tensmith.evaluate.sharing import shared
from tensmith.evaluate.task import Task, image_form
from tensmith.formula.arith import Array
from tensmith.frontend.onnx import read_onnx
from tensmith.hardware import detect_cpu
from tensmith.workers.base import Job
from tensmith.workers.processes import processes

MODEL, SOURCE = DATA / "models" / "resnet20_cifar10.onnx", f"cifar10:{DATA / 'cifar10'}"
ASKED = 1.7
_JOBS, _BATCH = 16, 64


class Work:
    """Jobs of the ceiling: a fixed piece of one thread's work."""

    def __init__(self) -> None:
        self._session: Any = None

    def answer(self, request: Mapping[str, Any], arrays: Mapping[str, Array], folder: Path) -> Answer:
        """See workers.serve.Runner."""
        images = np.random.default_rng(0).random((_BATCH, 3, 32, 32), np.float32)
        if request["work"] == "numpy":
            for _ in range(request["times"]):
                np.tanh(images * 1.5 + 0.5)
        else:
            self._session = self._session or ENGINES["onnxruntime"].prepare(folder / MODEL.name, 1)
            (name,) = (spec.name for spec in self._session.inputs)
            for _ in range(request["times"]):
                self._session.run({name: images})
        return {}, {}


def least_seconds(sides: Mapping[str, Callable[[], object]], turns: int) -> dict[str, float]:
    """The least time of each side, after a turn that does not count."""
    found: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(turns + 1):
        for name, run in sides.items():
            began = time.perf_counter()
            run()
            found[name].append(time.perf_counter() - began)
    return {name: min(seconds[1:]) for name, seconds in found.items()}


def row(seconds: Mapping[str, float]) -> dict[str, float]:
    """The times and their ratios."""
    gain = {"gain": seconds["alone"] / seconds["many"]} if "alone" in seconds else {}
    return {**seconds, "ratio": seconds["one"] / seconds["many"], **gain}


def ceiling(work: str, options: Namespace) -> parts.Found:
    """What computing alone gains."""
    request = {"work": work, "times": {"numpy": 60, "onnxruntime": 2}[work]}
    jobs = _JOBS * [Job("benchmarks.compress.workers:Work", request, files=(MODEL,))]
    with processes(1) as one, processes(options.workers) as many:
        return parts.Found(
            row=row(
                least_seconds({"one": lambda: one.map(jobs), "many": lambda: many.map(jobs)}, options.turns)
            )
        )


def judged(engine: str, options: Namespace) -> parts.Found:
    """What judging gains; a fault where it is less than was asked for, or where answers differ."""
    dataset, program = open_dataset(SOURCE), read_onnx(MODEL)
    splits = split(dataset, 100, 100, options.samples)
    images = ImageInput(parse_preprocess("imagenet"), image_form(program, splits.search))
    task = Task("accuracy", images)
    example = task.example(program, splits.search)
    contender = Contender(engine, MODEL)
    with processes(1) as one, processes(options.workers) as many:
        sharing = {
            "alone": None,
            "one": shared(one, dataset, splits, task, print),
            "many": shared(many, dataset, splits, task, print),
        }
        judges = {name: Judge(task, example, 1, detect_cpu().cores, by) for name, by in sharing.items()}
        answers = {name: judge.outcome(contender, splits.held_out) for name, judge in judges.items()}
        sides = {name: partial(judge.outcome, contender, splits.held_out) for name, judge in judges.items()}
        figures = row(least_seconds(sides, options.turns))
    wrong = []
    if answers["many"].drop(answers["alone"]).value:
        wrong.append(f"{engine}: workers answer otherwise than one process")
    if figures["gain"] < ASKED:
        wrong.append(f"{engine}: {figures['gain']:.2f}x with {options.workers} workers, less than {ASKED}x")
    return parts.Found(row=figures, wrong=tuple(wrong))


def main() -> int:
    """1 where less was gained than was asked for."""
    parser = parts.arguments(__doc__)
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    works = {f"ceiling/{work}": partial(ceiling, work) for work in ("numpy", "onnxruntime")}
    engines = {f"judge/{name}": partial(judged, name) for name in ("onnxruntime", "native")}
    settings = {"bench": "workers", "samples": options.samples, "workers": options.workers}
    return parts.main({**works, **engines}, lambda part: part(options), options.output, settings)


if __name__ == "__main__":
    sys.exit(main())
