"""Judging shared among workers: the same answers as one process gives, whoever is lost on the way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from linear_model import save_linear
from tensmith.data import ImageForm, ImageInput, open_dataset, parse_preprocess, split
from tensmith.data.images import FIRST, LAST
from tensmith.engine.frame import Answer
from tensmith.engine.module_worker import WorkerEnded
from tensmith.errors import DataError
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.judge import Judge
from tensmith.evaluate.outcome import Classification
from tensmith.evaluate.shard import task_json, task_of
from tensmith.evaluate.sharing import shared
from tensmith.evaluate.task import Task
from tensmith.workers.base import Job, Workers, WorkersLost
from tensmith.workers.processes import ProcessWorker

FEATURES, CLASSES = 16, 4


class Mortal(ProcessWorker):
    """A process that is killed over its third job, when it has done the work and not yet told."""

    asked = 0

    def ask(self, job: Job) -> Answer:
        answer = super().ask(job)
        self.asked += 1
        if self.asked == 3:
            self.kill()
            raise WorkerEnded("died")
        return answer


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with Workers([Mortal(), Mortal()]) as workers:
        yield workers


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    features = random.random((1400, FEATURES), np.float32)
    np.savez(tmp_path / "samples.npz", x=features, y=random.integers(0, CLASSES, 1400))
    return tmp_path / "samples.npz"


def test_answers_are_those_of_one_process(workers: Workers, samples: Path, tmp_path: Path) -> None:
    dataset = open_dataset(f"npz:{samples}")
    splits = split(dataset, 50, 50)
    weights = np.random.default_rng(1).random((FEATURES, CLASSES))
    contender = Contender("onnxruntime", save_linear(tmp_path / "linear.onnx", "batch", weights))
    task, said = Task("accuracy"), []
    example = {"x": np.zeros((1, FEATURES), np.float32)}
    sharing = shared(workers, dataset, splits, task, said.append)
    alone, together = Judge(task, example, 1, 1), Judge(task, example, 1, 1, sharing)
    expected, found = (judge.outcome(contender, splits.held_out) for judge in (alone, together))
    assert isinstance(expected, Classification) and isinstance(found, Classification)
    assert len(found.predicted) == len(splits.held_out) > 1000
    np.testing.assert_array_equal(found.predicted, expected.predicted)
    np.testing.assert_array_equal(found.labels, expected.labels)
    assert together.pace.usual("start") > 0 and together.pace.usual("sample") > 0
    assert said == []


def test_no_shard_cuts_a_group_that_the_file_fixes(
    samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator that quantizes by the batch would answer otherwise than in one process."""
    dataset = open_dataset(f"npz:{samples}")
    splits = split(dataset, 50, 50)
    jobs: list[Job] = []

    def record(asked: list[Job]) -> None:
        jobs[:] = asked
        raise WorkersLost("recorded")

    with Workers([ProcessWorker(), ProcessWorker()]) as workers:
        sharing = shared(workers, dataset, splits, Task("accuracy"), lambda text: None)
        assert sharing is not None
        monkeypatch.setattr(workers, "map", record)
        for batch in (10, 48, 64, "batch"):
            path = save_linear(tmp_path / f"{batch}.onnx", batch, np.ones((FEATURES, CLASSES)))
            assert sharing.answers(Contender("onnxruntime", path), splits.held_out, None, 1) is None
            *counts, last = [len(job.arrays["indices"]) for job in jobs]
            assert sum(counts) + last == len(splits.held_out) and len(counts) > 2
            assert all(count % (batch if isinstance(batch, int) else 64) == 0 for count in counts), batch


@pytest.mark.parametrize(
    "images", [None, ImageInput(parse_preprocess("imagenet"), ImageForm(LAST, 3, np.dtype(np.uint8)))]
)
def test_a_task_as_json_is_the_same_task(images: ImageInput | None) -> None:
    task = Task("agreement", images)
    assert task_of(json.loads(json.dumps(task_json(task)))) == task


def test_what_came_from_python_is_judged_here(workers: Workers, samples: Path) -> None:
    dataset, said = open_dataset(f"npz:{samples}"), []
    splits = split(dataset, 50, 50)
    own = Task("score", evaluation=lambda model, view: 1.0)
    assert shared(workers, dataset, splits, own, said.append) is None
    assert "the evaluation function came from Python" in said[0]


def test_data_that_do_not_fit_are_refused_alike(workers: Workers, samples: Path, tmp_path: Path) -> None:
    dataset = open_dataset(f"npz:{samples}")
    splits = split(dataset, 50, 50)
    task = Task(
        "accuracy", ImageInput(parse_preprocess("unit"), ImageForm(FIRST, FEATURES, np.dtype(np.float32)))
    )
    sharing = shared(workers, dataset, splits, task, print)
    path = save_linear(tmp_path / "linear.onnx", "batch", np.ones((FEATURES, CLASSES)))
    example = {"x": np.zeros((1, FEATURES), np.float32)}
    for judge in (Judge(task, example, 1, 1), Judge(task, example, 1, 1, sharing)):
        with pytest.raises(DataError, match="preprocessing 'unit' is for images"):
            judge.outcome(Contender("onnxruntime", path), splits.held_out)
