"""The native engine in the races of a search: its time is bounded, its refusals are silent."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

from tensmith.engine.base import compiler
from tensmith.errors import EngineError
from tensmith.evaluate import contender, pace
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.judge import Judge
from tensmith.evaluate.latency import Latency
from tensmith.evaluate.pace import START
from tensmith.ir import Program, TensorType, make_node
from tensmith.report.metric import exact
from tensmith.rewrite.rule import Step
from tensmith.search import race as race_module
from tensmith.search.builder import Built
from tensmith.search.candidate import Candidate
from tensmith.search.checkpoint import Checkpoint
from tensmith.search.plan import Plan
from tensmith.search.race import RACED, Race, structure
from tensmith.search.resume import with_earlier
from tensmith.search.trial import Trials

MILLISECONDS = {"onnxruntime": 3.0, "openvino": 2.0, "native": 1.0}


def program(weights: Any) -> Program:
    node = make_node("matmul", ("x", "w"), ("y",))
    return Program("net", {"x": TensorType("f32", (1, 8))}, ("y",), (node,), {"w": weights})


DENSE = np.ones((8, 20), np.float32)


@pytest.fixture
def raced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The engines that were timed; native takes 1 ms, OpenVINO 2, ONNX Runtime 3; the others refuse."""
    names: list[str] = []

    def compare(
        contenders: list[Contender], *_: Any, refusals: dict[Contender, str], **__: Any
    ) -> list[Latency]:
        taken = [c for c in contenders if c.engine in MILLISECONDS or not compiler(c.engine)]
        refusals.update({c: f"{c.engine} has no kernel for this" for c in contenders if c not in taken})
        names.extend(c.engine for c in taken[1:])
        return [
            Latency(c, "", exact(MILLISECONDS[c.engine], "ms"), exact(1 / MILLISECONDS[c.engine], "x"))
            for c in taken
        ]

    monkeypatch.setattr(race_module, "compare", compare)
    return names


def made(tmp_path: Path, time_budget: float = 600.0, engines: tuple[str, ...] = tuple(MILLISECONDS)) -> Race:
    baseline = Contender("onnxruntime", tmp_path / "model.onnx")
    run: Any = SimpleNamespace(
        baseline=baseline,
        engines=engines,
        example={},
        threads=1,
        time_budget=time_budget,
        taken=lambda *_: {"peak_bytes": exact(5e6, "bytes"), "energy_mj": exact(7.0, "mJ", "estimated")},
    )
    return Race(run, Checkpoint(tmp_path / "run.sqlite"))


def test_native_races_while_there_is_time_for_it(tmp_path: Path, raced: list[str]) -> None:
    race = made(tmp_path, time_budget=3.0)
    assert race.winner(Plan(), program(DENSE[:, :18]), tmp_path / "a.onnx").engine == "openvino"
    race.run = made(tmp_path, time_budget=200.0).run
    assert race.winner(Plan(), program(DENSE), tmp_path / "b.onnx").engine == "native"
    race._compiling_seconds.append(75.0)
    assert race.winner(Plan(), program(DENSE[:, :19]), tmp_path / "c.onnx").engine == "openvino"
    assert raced.count("native") == 1


def test_what_was_raced_without_native_code_is_raced_again_where_there_is_time(
    tmp_path: Path, raced: list[str]
) -> None:
    race, plan, file = made(tmp_path, time_budget=3.0), Plan(), tmp_path / "a.onnx"
    assert [race.winner(plan, program(DENSE), file).engine for _ in range(2)] == 2 * ["openvino"]
    assert raced == ["onnxruntime", "openvino"], "known until there is time"
    race._began -= 600  # training takes longer than a search
    assert [race.winner(plan, program(DENSE), file).engine for _ in range(2)] == 2 * ["native"]
    assert len(raced) == 5


def test_a_race_is_run_once_a_structure(tmp_path: Path, raced: list[str]) -> None:
    race = made(tmp_path)
    race.winner(Plan(), program(DENSE), tmp_path / "a.onnx")
    race.winner(Plan(), program(2 * DENSE), tmp_path / "b.onnx")
    assert len(raced) == 3
    assert structure(program(DENSE)) != structure(program(DENSE * (np.arange(20) < 2)))  # 90 % zeros


def test_a_race_tells_time_memory_and_energy_each_with_its_evidence(tmp_path: Path, raced: list[str]) -> None:
    race = made(tmp_path)
    found = [race.winner(Plan(), program(DENSE), tmp_path / "a.onnx") for _ in range(2)]
    assert found[0] == found[1], "the second comes from the checkpoint"
    words = {name: metric.evidence for name, metric in found[0].metrics.items()}
    assert words == {**dict.fromkeys(RACED, "measured"), "energy_mj": "estimated"}


def test_an_engine_that_refuses_is_left_out(
    tmp_path: Path, raced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(MILLISECONDS, "native")
    race = made(tmp_path, engines=(*MILLISECONDS, "native"))
    assert race.winner(Plan(), program(DENSE), tmp_path / "a.onnx").engine == "openvino"


def test_regions_race_where_the_whole_is_refused(
    tmp_path: Path, raced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    race = made(tmp_path)
    monkeypatch.delitem(MILLISECONDS, "native")
    monkeypatch.setitem(MILLISECONDS, "mixed", 1.5)
    assert race.winner(Plan(), program(DENSE), tmp_path / "a.onnx").engine == "mixed"
    assert raced == ["onnxruntime", "openvino", "mixed"], "what refuses is not timed"


def test_weights_that_native_code_refuses_go_to_the_next_engine(tmp_path: Path, raced: list[str]) -> None:
    def judged(contender: Contender, *_: Any) -> str:
        if contender.engine == "native":
            raise EngineError("the sums do not fit 32 bits")
        return f"judged by {contender.engine}"

    race, nothing = made(tmp_path), MagicMock()
    standard: Any = SimpleNamespace(judged=judged)
    trials = Trials(nothing, race, standard, race.checkpoint)
    built = Built(program(DENSE), (), (), tmp_path / "a.onnx", None)
    winner, answers = trials._raced_and_judged(Plan(), built)
    assert (winner.engine, answers) == ("openvino", "judged by openvino")
    with pytest.raises(EngineError, match="do not fit 32 bits"):
        trials._raced_and_judged(Plan(settings={"engine": "native"}), built)
    with pytest.raises(EngineError, match="engine 'cuda' is none of the run's: onnxruntime, openvino, nat"):
        trials._raced_and_judged(Plan(settings={"engine": "cuda"}), built)


def test_what_an_earlier_start_measured_is_not_lost_to_a_shorter_one(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "run.sqlite")
    metrics = {name: exact(1.0, "") for name in (*RACED, "accuracy")}
    tried = []
    for name in ("again", "left", "broken"):
        plan = Plan((Step(name, kind="lossy"),))
        known = {} if name == "broken" else metrics
        tried.append(Candidate(plan.id, plan, "accepted", "", "native", known))
        checkpoint.add(tried[-1])
    assert with_earlier(tried[:1], checkpoint) == tried[:2]


def test_a_start_is_without_compiling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def worker(*_: Any, **__: Any) -> Any:
        if not made_before:
            compiled_folder()
        return contextlib.nullcontext()

    def compiled_folder(*_: Any) -> Path:
        made_before.append(True)
        now.append(now[-1] + 100.0)
        return tmp_path

    made_before: list[bool] = []
    now = [0.0]
    monkeypatch.setattr(pace, "time", SimpleNamespace(monotonic=lambda: now[-1]))
    monkeypatch.setattr(contender, "SessionWorker", worker)
    monkeypatch.setattr(contender, "compiled_folder", compiled_folder)
    monkeypatch.setattr(contender, "sizes_in", lambda *_: {})
    task: Any = SimpleNamespace(
        session=lambda session, *_: session,
        answers=lambda *_: "judged",
        judged=lambda answers, _: answers,
    )
    judge, one_sample = Judge(task, {}, 1, 2), MagicMock(__len__=lambda _: 1)
    judged: Any = judge.outcome(Contender("native", tmp_path / "a.onnx"), one_sample)
    assert (judged, made_before) == ("judged", [True])
    assert now[-1] == 100.0 and judge.pace.longest(START) == 0.0
