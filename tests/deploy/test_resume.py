"""Runs that go on after something has changed: the data, the user's function, an engine."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

from command_line import QUICK, candidates, contents, refused, tensmith
from made_up_time import make_up_time
from tensmith import compress, compression
from tensmith.config import Config
from tensmith.data import Subset
from tensmith.deploy.schedule import Schedule
from tensmith.errors import OutputError
from tensmith.evaluate.sequential import FEWEST
from tensmith.evaluate.task import Measure, Task
from tensmith.hardware import Target, host, load_target
from tensmith.search import resume, sensitivity
from tensmith.search.checkpoint import Checkpoint
from tensmith.search.resume import as_first_measured, as_measured, forget_other_engines
from tensmith.search.sensitivity import Sensitivities, Sensitivity
from watched import Watch


@pytest.fixture
def place(tiny: Path, finished: Path, tmp_path: Path) -> Path:
    """A folder with tiny.onnx, tiny.npz and a copy of a finished run on them."""
    for name in ("tiny.onnx", "tiny.npz"):
        shutil.copyfile(tiny / name, tmp_path / name)
    shutil.copytree(finished, tmp_path / "out")
    return tmp_path


def arguments(*options: str) -> tuple[str, ...]:
    return (
        "compress",
        "tiny.onnx",
        "--data",
        "npz:tiny.npz",
        *QUICK,
        "--output",
        "out",
        "--resume",
        *options,
    )


def test_changed_data_is_refused(place: Path) -> None:
    with np.load(place / "tiny.npz") as data:
        x, y = data["x"], data["y"].copy()
    y[3] = (y[3] + 1) % 4
    np.savez(place / "tiny.npz", x=x, y=y)
    before = contents(place / "out")
    refused(tensmith(*arguments(), folder=place), 1, "out was made with other data", "--output")
    assert contents(place / "out") == before


def test_another_evaluation_is_refused(tiny: Path, tmp_path: Path) -> None:
    def run(evaluation: Callable[..., float], resume: bool) -> Any:
        return compress(
            tiny / "tiny.onnx",
            f"npz:{tiny / 'tiny.npz'}",
            output=tmp_path / "out",
            evaluation=evaluation,
            resume=resume,
            engines=("onnxruntime",),
            time_budget=1,
            preprocess="raw",
        )

    def always_one(model: Any, view: Any) -> float:
        return 1.0

    def always_half(model: Any, view: Any) -> float:
        return 0.5

    run(always_one, resume=False)
    with pytest.raises(OutputError, match="another evaluation function"):
        run(always_half, resume=True)
    assert run(always_one, resume=True).points


def test_another_version_of_an_engine_is_timed_again(place: Path) -> None:
    with sqlite3.connect(place / "out" / "run.sqlite") as database:
        rows = database.execute("SELECT key, body FROM candidates ORDER BY number").fetchall()
        documents = {key: json.loads(body) for key, body in rows}
        original, failing = rows[0][0], rows[-1][0]
        for document in documents.values():
            document["metrics"]["latency_ms"] |= {"value": 1e6, "low": 1e6, "high": 1e6}
        documents[failing] |= {"status": "failed", "reason": "a bug of that version", "metrics": {}}
        for key, document in documents.items():
            database.execute("UPDATE candidates SET body = ? WHERE key = ?", (json.dumps(document), key))
        database.execute("UPDATE facts SET value = ? WHERE name = 'engines'", ('{"onnxruntime": "0.9"}',))
        accuracy = documents[original]["metrics"]["accuracy"]
    database.close()

    result = tensmith(*arguments(), folder=place)
    assert result.returncode == 0, result.stderr
    assert "onnxruntime was 0.9 and is " in (place / "out" / "report.html").read_text()
    after = {key: json.loads(body) for _, key, body in candidates(place / "out")}
    assert after[original]["metrics"]["latency_ms"]["value"] < 1e6
    assert after[original]["metrics"]["accuracy"] == accuracy
    assert failing not in after or after[failing]["status"] != "failed"
    assert all(document["metrics"].get("latency_ms", {}).get("value") != 1e6 for document in after.values())


def test_the_same_versions_are_not_timed_again(place: Path) -> None:
    before = candidates(place / "out")
    assert tensmith(*arguments(), folder=place).returncode == 0
    assert candidates(place / "out")[: len(before)] == before


def test_a_score_is_of_as_many_samples_as_before_even_where_few_were_affordable(tmp_path: Path) -> None:
    nothing: Any = None
    search, held_out = Subset(nothing, np.arange(2000)), Subset(nothing, np.arange(2000, 4000))

    def samples(time_budget: float, measure: Measure = "score") -> int:
        splits = SimpleNamespace(search=search, held_out=held_out)
        given: Any = SimpleNamespace(model=tmp_path, splits=splits)
        pace = SimpleNamespace(usual=lambda _: 1.0)
        judge: Any = SimpleNamespace(pace=pace, outcome=MagicMock(), task=Task(measure))
        config = Config(model="", time_budget=time_budget)
        view = compression._standard(given, config, judge, checkpoint).view
        assert np.array_equal(view.indices, search.indices[: len(view)])
        return len(view)

    checkpoint = Checkpoint(tmp_path / "run.sqlite")
    assert samples(60.0) == samples(36000.0) == FEWEST
    assert samples(60.0, "accuracy") == 2000


class Ended(Exception):
    """As many candidates were tried as were asked for."""


def test_a_run_goes_on_as_one_that_was_never_stopped(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its search looks at nothing that is held out."""
    make_up_time(monkeypatch)
    watch, there = Watch(monkeypatch), host.detect_host()
    estimated: dict[str, set[float]] = {}
    seconds_of = compression.node_seconds

    def tried(out: str, count: int, resume: bool = False) -> list[str]:
        asked: list[None] = []

        def reserve(*_: Any) -> float:
            asked.append(None)
            if len(asked) > count:
                raise Ended
            return 0.0

        def node_seconds(target: Target, *rest: Any, **more: Any) -> Any:
            estimated.setdefault(out, set()).add(target.bandwidth_gbs)
            return seconds_of(target, *rest, **more)

        busy = there.model_copy(update={"bandwidth_gbs": there.bandwidth_gbs / 3})
        monkeypatch.setattr(host, "detect_host", lambda: busy if resume else there)
        monkeypatch.setattr(compression, "node_seconds", node_seconds)
        monkeypatch.setattr(Schedule, "reserve", reserve)
        with pytest.raises(Ended):
            compress(
                tiny / "tiny.onnx",
                f"npz:{tiny / 'tiny.npz'}",
                output=tmp_path / out,
                resume=resume,
                engines=("onnxruntime",),
                time_budget=3600,
                preprocess="raw",
                max_drop=10.0,
            )
        return [key for _, key, _ in candidates(tmp_path / out)]

    whole, begun = tried("whole", 8), tried("out", 4)
    assert begun == whole[: len(begun)] and len(begun) < len(whole)
    assert tried("out", 8, resume=True) == whole
    assert estimated == {"whole": {there.bandwidth_gbs}, "out": {there.bandwidth_gbs}}
    assert not watch.touched and watch.seen


def test_this_machine_is_what_it_was_measured_to_be_until_an_engine_changes(tmp_path: Path) -> None:
    checkpoint, first = Checkpoint(tmp_path / "run.sqlite"), host.detect_host()
    later = first.model_copy(update={"bandwidth_gbs": 1.0, "peak_gflops": {"fp32": 1.0}, "cores": 99})
    forget_other_engines(checkpoint, {"onnxruntime": "1"})
    assert as_measured(first, checkpoint) is None
    assert (
        as_first_measured(first, checkpoint)
        == first
        == as_measured(later.model_copy(update={"cores": first.cores}), checkpoint)
    )
    forget_other_engines(checkpoint, {"onnxruntime": "1"})
    assert as_first_measured(later, checkpoint) == first.model_copy(update={"cores": 99})
    named = load_target("raspberry-pi-4")
    assert as_first_measured(named, checkpoint) == named == as_measured(named, checkpoint)
    forget_other_engines(checkpoint, {"onnxruntime": "2"})
    assert as_first_measured(later, checkpoint) == later


@pytest.mark.parametrize("wrong", [[], {"bandwidth_gbs": 0.0}, {"bandwidth_gbs": "fast"}, 3])
def test_a_machine_that_cannot_be_is_damage(tmp_path: Path, wrong: Any) -> None:
    checkpoint, here = Checkpoint(tmp_path / "run.sqlite"), host.detect_host()
    fine = as_first_measured(here, checkpoint).model_dump(mode="json", include=resume._MEASURED)
    checkpoint.note(resume._MACHINE, fine | wrong if isinstance(wrong, dict) else wrong)
    with pytest.raises(OutputError, match="is damaged"):
        as_measured(here, checkpoint)


def test_sensitivities_are_those_of_the_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = [{"h": Sensitivity(0.1, 2.5)}, {"h": Sensitivity(0.3, 4.0)}]
    monkeypatch.setattr(Sensitivities, "_probe", None)
    monkeypatch.setattr(sensitivity, "layer_sensitivity", lambda *_: measured.pop(0))
    monkeypatch.setattr(sensitivity, "for_all_layers", lambda _, found: found)
    for _ in range(2):
        checkpoint = Checkpoint(tmp_path / "run.sqlite")
        known = Sensitivities(MagicMock(), MagicMock(), MagicMock(), checkpoint)
        assert known.of_all_layers() == {"h": Sensitivity(0.1, 2.5)}
        checkpoint.close()
