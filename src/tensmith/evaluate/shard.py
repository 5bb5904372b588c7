"""The job of judging a part of the samples: what a worker does for evaluate.sharing."""

from __future__ import annotations

import importlib
import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from tensmith.backend.native.choose.tuning import TUNED, timings_revision
from tensmith.backend.native.emit.loader import cpu_flags
from tensmith.data import Dataset, ImageInput, Subset, open_dataset
from tensmith.data.fingerprint import part_digest
from tensmith.engine.base import ENGINES, Session, available
from tensmith.engine.compiled import code_revision
from tensmith.evaluate.heads import HEADS
from tensmith.evaluate.outcome import answer_arrays
from tensmith.evaluate.task import Task
from tensmith.formula.arith import Array

RUNNER = f"{__name__}:ShardRunner"


def task_json(task: Task) -> dict[str, Any] | None:
    """A task as JSON; None if it holds functions of the user's."""
    if task.own or not isinstance(task.preprocess, ImageInput | None):
        return None
    return {
        "measure": task.measure,
        "preprocess": task.preprocess and task.preprocess.to_json(),
        "head": task.head and task.head.name,
        "classes": task.classes,
    }


def task_of(document: Mapping[str, Any]) -> Task:
    """The task of `task_json`."""
    images, head = document["preprocess"], document["head"]
    return Task(
        document["measure"],
        images and ImageInput.from_json(images),
        head=head and HEADS[head],
        classes=document["classes"],
    )


class ShardRunner:
    """Judges shards; the data stay open, and the model until another one comes."""

    def __init__(self) -> None:
        self._dataset = lru_cache(1)(open_dataset)
        self._loaded: tuple[Any, Session] | None = None

    def answer(
        self, request: Mapping[str, Any], arrays: Mapping[str, Array], folder: Path
    ) -> tuple[dict[str, Any], dict[str, Array]]:
        """See workers.serve.Runner. Without samples: of which kind the machine is, and what its data are."""
        dataset = self._dataset(request["data"])
        if "indices" not in arrays:
            return _kind(dataset, request["parts"]), {}
        began = time.monotonic()
        task = task_of(request["task"])
        session = self._session(request["model"], folder, task)
        seconds = time.monotonic() - began
        view = Subset(dataset.part(request["part"]), arrays["indices"])
        return {"loading": seconds}, answer_arrays(task.answers(session, view))

    def _session(self, model: Mapping[str, Any], folder: Path, task: Task) -> Session:
        key = (dict(model), folder, task.measure)
        if self._loaded is None or self._loaded[0] != key:
            if self._loaded is not None:
                self._loaded[1].close()
                self._loaded = None
            importlib.import_module(model["module"])
            engine, path = ENGINES[model["engine"]], folder / model["file"]
            engine.start()
            session = engine.prepare(path, model["threads"], sizes=model["sizes"], **model["settings"])
            self._loaded = key, task.session(session, model["engine"], path)
        return self._loaded[1]


def _kind(dataset: Dataset, parts: list[str]) -> dict[str, str]:
    """All that makes answers on two machines the same, in the words of what differs."""
    data = " ".join(part_digest(dataset.part(name)) for name in parts)
    return {
        "data": data,
        "processor": " ".join(sorted(cpu_flags())),
        "version of tensmith": code_revision(),
        "set of kernel timings": timings_revision(TUNED),
        "set of engines": " ".join(f"{name} {ENGINES[name].version()}" for name in sorted(available())),
    }
