"""Judging shared among workers: each takes some of the samples, and reads them itself.

A shard holds whole batches, and whole groups of as many samples as the file or the engine answers at a time,
so that a sample has the neighbours that it has when one process judges all. Each worker runs one thread,
where one process alone runs one a processor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensmith.data import Dataset, DatasetPart, Splits, Subset
from tensmith.data.opening import absolute
from tensmith.engine.base import ENGINES, fixed_batch
from tensmith.engine.signature import read_signature
from tensmith.evaluate.accuracy import MOST_SAMPLES
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.outcome import Answers, answers_of, joined
from tensmith.evaluate.shard import RUNNER, ShardRunner, task_json
from tensmith.evaluate.task import Task
from tensmith.frontend.model_files import model_files
from tensmith.progress import Progress
from tensmith.workers.base import Job, Workers, WorkersLost

# So many shards a worker, that nobody waits long for the last one; a loss costs no more than a shard.
_SHARDS_A_WORKER, _MOST_BATCHES = 8, 4


@dataclass(frozen=True)
class Sharing:
    """Workers that know the data by its name. task: as JSON. `tell` hears what does not go as asked."""

    workers: Workers
    source: str
    parts: Mapping[str, DatasetPart]
    task: Mapping[str, Any]
    tell: Progress

    @property
    def at_once(self) -> int:
        """Samples that keep all workers busy: a batch each."""
        return MOST_SAMPLES * len(self.workers)

    def admit(self) -> None:
        """Keeps the workers of this machine's kind that see the same data; says which are left out."""
        request = {"data": self.source, "parts": list(self.parts)}
        here, _ = ShardRunner().answer(request, {}, Path())
        if left_out := self.workers.admit(Job(RUNNER, request), here):
            self.tell(f"workers that are not used: {'; '.join(sorted(set(left_out)))}")

    def described(self, view: Subset, path: Path) -> tuple[dict[str, Any], tuple[Path, ...]] | None:
        """What workers are told of a view's data, and the files of a model, which lie in one folder.

        None where the view is of no part that they know, or the files lie apart.
        """
        part = next((name for name, part in self.parts.items() if part is view.part), None)
        files = tuple(model_files(path))
        if part is None or any(file.parent != path.parent for file in files):
            return None
        return {"data": self.source, "part": part, "task": self.task}, files

    def answers(
        self, contender: Contender, view: Subset, sizes: dict[str, int] | None, threads: int
    ) -> tuple[Answers, float] | None:
        """What a contender answers, and the seconds that loading it took; None if one process is to find out.

        That is where there are few samples, nobody to share them with, or nothing that workers could read.
        """
        described = self.described(view, contender.path)
        if not len(self.workers) or len(view) < 2 * MOST_SAMPLES or described is None:
            return None
        request, files = described
        model = {
            "file": contender.path.name,
            "engine": contender.engine,
            "module": type(ENGINES[contender.engine]).__module__,
            "settings": dict(contender.settings),
            "sizes": sizes,
            "threads": threads,
        }
        try:
            inputs = read_signature(contender.path).inputs
            symbol = next((str(spec.shape[0]) for spec in inputs if spec.shape), "")
            together = fixed_batch(inputs) or (sizes or {}).get(symbol, 1)
            found = self.workers.map(self._jobs({**request, "model": model}, view, files, together))
        except WorkersLost:
            self.tell("all workers were lost, and this process went on alone")
            return None
        answers = joined([answers_of(arrays) for _, arrays in found])
        return answers, max(answer["loading"] for answer, _ in found)

    def _jobs(
        self, request: dict[str, Any], view: Subset, files: tuple[Path, ...], together: int
    ) -> list[Job]:
        batches = math.ceil(len(view) / MOST_SAMPLES)
        size = MOST_SAMPLES * min(_MOST_BATCHES, math.ceil(batches / (_SHARDS_A_WORKER * len(self.workers))))
        size = together * math.ceil(size / together)
        starts = range(0, len(view), size)
        return [Job(RUNNER, request, {"indices": view.indices[at : at + size]}, files) for at in starts]


def shared(workers: Workers, dataset: Dataset, splits: Splits, task: Task, tell: Progress) -> Sharing | None:
    """How `workers` share what is judged; None where there are none, or they cannot know what to judge by."""
    if not len(workers):
        return None
    described = task_json(task)
    if not dataset.source or described is None:
        what = "the evaluation function" if dataset.source else "the data"
        tell(f"one process judges: {what} came from Python, and workers know only data named KIND:PATH")
        return None
    used = (splits.search.part, splits.held_out.part, splits.calibration.part)
    parts = {name: part for name in dataset.parts if (part := dataset.part(name)) in used}
    sharing = Sharing(workers, absolute(dataset.source), parts, described, tell)
    sharing.admit()
    return sharing
