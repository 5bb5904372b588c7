"""Building plans, shared among workers: a plan a job, and its file comes back.

A worker reads the model and the calibration samples itself, and goes on with what it built before. Whatever
is delivered is built again here, and has to be the same file.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tensmith.data import Subset, open_dataset
from tensmith.errors import TensmithError
from tensmith.evaluate.calibrator import Calibrator
from tensmith.evaluate.shard import task_of
from tensmith.evaluate.sharing import Sharing
from tensmith.files import TemporaryFolder
from tensmith.formula.arith import Array
from tensmith.frontend.model_files import model_files
from tensmith.frontend.onnx import read_onnx
from tensmith.rewrite.rule import Step
from tensmith.search.builder import Builder
from tensmith.search.plan import Plan
from tensmith.workers.base import Job

RUNNER = f"{__name__}:BuildRunner"


@dataclass(frozen=True)
class Delivered:
    """What a worker made of a plan: its files (packed where that saves anything), and how long it took."""

    trail: tuple[Step, ...]
    model: bytes
    packed: bytes | None
    seconds: float


@dataclass(frozen=True)
class Building:
    """Workers that build plans for `model`, calibrated on `view`; sessions take so many threads."""

    sharing: Sharing
    model: Path
    view: Subset
    threads: int

    def deliver(self, plans: Sequence[Plan]) -> dict[str, Delivered]:
        """What workers made of plans, by key; nothing of those that fail, or are several files."""
        described = self.sharing.described(self.view, self.model)
        if described is None or len(plans) < 2:
            return {}
        request, files = described
        request |= {"model": self.model.name, "threads": self.threads}
        indices = {"indices": self.view.indices}
        jobs = [Job(RUNNER, {**request, "plan": plan.to_json()}, indices, files) for plan in plans]
        try:
            answers = self.sharing.workers.map(jobs)
        except TensmithError as error:
            self.sharing.tell(f"workers built nothing ({error}), and this process went on alone")
            return {}
        return {
            plan.key: _delivered(found, arrays) for plan, (found, arrays) in zip(plans, answers) if arrays
        }


def _delivered(found: Mapping[str, Any], arrays: Mapping[str, Array]) -> Delivered:
    packed = arrays["packed"].tobytes() if "packed" in arrays else None
    trail = tuple(map(Step.from_json, found["trail"]))
    return Delivered(trail, arrays["model"].tobytes(), packed, found["seconds"])


@dataclass
class BuildRunner:
    """Builds plans; the model, its calibration and what was built stay until others come."""

    _builder: Builder | None = None
    _of: Any = None

    def answer(
        self, request: Mapping[str, Any], arrays: Mapping[str, Array], folder: Path
    ) -> tuple[dict[str, Any], dict[str, Array]]:
        """See workers.serve.Runner. No arrays where a step does not fit: who asks finds out why."""
        began = time.monotonic()
        builder = self._builder_of(request, arrays["indices"], folder)
        with TemporaryFolder() as place:  # nothing stays of a plan's files, whatever came of it
            builder.folder = Path(place)
            try:
                built = builder.built(Plan.from_json(request["plan"]))
            except TensmithError:
                return {}, {}
            if len(model_files(built.path)) > 1:
                return {}, {}
            files = {"model": built.path, **({"packed": built.packed} if built.packed else {})}
            content = {name: np.fromfile(file, np.uint8) for name, file in files.items()}
        trail = [step.to_json() for step in built.trail]
        return {"trail": trail, "seconds": time.monotonic() - began}, content

    def _builder_of(self, request: Mapping[str, Any], indices: Array, folder: Path) -> Builder:
        path = folder / request["model"]
        of = {name: value for name, value in request.items() if name != "plan"}, indices.tolist(), path
        if self._builder is None or self._of != of:
            view = Subset(open_dataset(request["data"]).part(request["part"]), indices)
            preprocess = task_of(request["task"]).preprocess
            calibrator = Calibrator(view, preprocess, request["threads"])
            self._builder = Builder(path, read_onnx(path), folder, calibrator)
            self._of = of
        return self._builder
