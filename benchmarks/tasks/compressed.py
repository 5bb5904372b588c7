"""Networks of real tasks, trained here, each compressed by one command.

    python -m benchmarks.tasks.compressed [--only vit,digits] [--time-budget 10m] [--recover 48m]
                                          [--folder build/tasks]

What is not in FOLDER yet is trained first, for as long as its task says, or for --minutes. A row has the
original's accuracy (a character model: its loss), the points within the budget, what was asked for, and
whether `tensmith verify` finds the best point's certificate true. Sentiment is also checked on IMDB.
"""

from __future__ import annotations

import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import DATA, ROOT, parts
from benchmarks.compress.asked import compressed_as_asked
from benchmarks.tasks.tasks import TASKS, Task
from benchmarks.tasks.train import made
from tensmith import load
from tensmith.data import DatasetPart, open_dataset
from tensmith.deploy.model import Model


def compressed(name: str, options: Namespace) -> parts.Found:
    """What its front holds."""
    task, folder = TASKS[name], options.folder / name
    asked = task.recovered if options.recover else task.asked
    assert asked is not None
    model, data = folder / "model.onnx", options.data / TASKS[name].data
    if not model.exists():
        made(name, data, model, options.minutes, options.seed)
    spec, out = task.spec(data, folder), folder / ("recovered" if options.recover else "out")
    training = ("--recover", options.recover) if options.recover else ()
    found = compressed_as_asked(model, spec, out, options.time_budget, asked, *training)
    row: dict[str, Any] = {}
    if task.also:
        part = open_dataset(f"{_absolute(task.also, options.data)}?{spec.partition('?')[2]}").part("test")
        files = {"also_accuracy": model, "also_accuracy_best": out / "best"}
        row |= {key: _right(load(file), task, part) for key, file in files.items()} | {"also": task.also}
    wrong = found.wrong + _verified(out / "best", model, spec)
    return parts.Found(row={**found.row, **row}, wrong=wrong)


def _absolute(named: str, data: Path) -> str:
    kind, _, place = named.partition(":")
    return f"{kind}:{data / place}"


def _right(model: Model, task: Task, part: DatasetPart) -> float:
    """Per cent of the samples of a part."""
    labels = part.labels(np.arange(len(part)))
    assert labels is not None
    right = 0
    for row in range(len(part)):
        inputs, _ = task.samples(part, [row])
        scores = model({name: each.numpy() for name, each in zip(task.inputs, inputs)})
        right += int(scores.argmax() == labels[row])
    return 100 * right / len(part)


def _verified(best: Path, model: Path, spec: str) -> tuple[str, ...]:
    """A sentence where the certificate does not hold."""
    words = ["verify", str(best), "--original", str(model), "--data", spec]
    ended = subprocess.run(
        [sys.executable, "-m", "tensmith", *words], capture_output=True, text=True, check=False
    )
    said = ended.stderr.strip().splitlines() or ended.stdout.strip().splitlines()
    return (f"tensmith verify: {said[-1] if said else ended.returncode}",) if ended.returncode else ()


def main() -> int:
    """1 where less was reached than was asked for."""
    parser = parts.arguments(__doc__)
    parser.add_argument("--only", type=parts.names, help="tasks, as A,B; all of which something is asked")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "tasks")
    parser.add_argument("--minutes", type=float, help="of training, at most")
    parser.add_argument("--time-budget", default="10m")
    parser.add_argument("--recover", help="train what loses too much for so long")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    asked = [name for name, task in TASKS.items() if (task.recovered if options.recover else task.asked)]
    settings = {"bench": "tasks", "time_budget": options.time_budget}
    settings |= {"recover": options.recover} if options.recover else {}
    return parts.main(options.only or asked, compressed, options.output, settings, options=options)


if __name__ == "__main__":
    sys.exit(main())
