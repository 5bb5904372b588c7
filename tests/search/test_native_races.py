"""The native engine in the races of a search: its time is bounded, its refusals are silent."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tensmith.errors import EngineError
from tensmith.evaluate.latency import Contender, Latency
from tensmith.evaluate.metric import exact
from tensmith.ir import Program, TensorType, make_node
from tensmith.search import workshop
from tensmith.search.checkpoint import Checkpoint
from tensmith.search.pace import START
from tensmith.search.plan import Plan
from tensmith.search.workshop import Workshop, structure

MILLISECONDS = {"onnxruntime": 3.0, "openvino": 2.0, "native": 1.0}


def program(weights: Any) -> Program:
    node = make_node("matmul", ("x", "w"), ("y",))
    return Program("net", {"x": TensorType("f32", (1, 8))}, ("y",), (node,), {"w": weights})


DENSE = np.ones((8, 20), np.float32)


@pytest.fixture
def raced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The engines that were timed; native takes 1 ms, OpenVINO 2, ONNX Runtime 3."""
    names: list[str] = []

    def compare(contenders: list[Contender], *_: Any) -> list[Latency]:
        name = contenders[1].engine
        names.append(name)
        if name not in MILLISECONDS:
            raise EngineError(f"{name} has no kernel for this")
        return [Latency(c, "", exact(MILLISECONDS[name], "ms"), exact(1.0, "x"), 8) for c in contenders]

    monkeypatch.setattr(workshop, "compare", compare)
    return names


def made(tmp_path: Path, **fields: Any) -> Workshop:
    nothing: Any = None
    return Workshop(
        tmp_path / "model.onnx", program(DENSE), nothing, nothing, nothing, nothing,
        Checkpoint(tmp_path / "run.sqlite"), tmp_path, {}, engines=tuple(MILLISECONDS), **fields,
    )  # fmt: skip


def test_native_races_while_there_is_time_for_it(tmp_path: Path, raced: list[str]) -> None:
    shop = made(tmp_path, compile_seconds=1.0)
    assert shop.timing(Plan(), program(DENSE[:, :18]), tmp_path / "a.onnx")[0] == "openvino"
    shop.compile_seconds = 60.0
    assert shop.timing(Plan(), program(DENSE), tmp_path / "b.onnx")[0] == "native"
    shop.compile_seconds = 0.0
    assert shop.timing(Plan(), program(DENSE[:, :19]), tmp_path / "c.onnx")[0] == "openvino"
    assert raced.count("native") == 1


def test_a_race_is_run_once_a_structure(tmp_path: Path, raced: list[str]) -> None:
    shop = made(tmp_path)
    shop.timing(Plan(), program(DENSE), tmp_path / "a.onnx")
    shop.timing(Plan(), program(2 * DENSE), tmp_path / "b.onnx")
    assert len(raced) == 3
    assert structure(program(DENSE)) != structure(program(DENSE * (np.arange(20) < 2)))  # 90 % zeros


def test_an_engine_that_refuses_is_left_out(
    tmp_path: Path, raced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(MILLISECONDS, "native")
    shop = made(tmp_path)
    shop.engines = (*MILLISECONDS, "native")
    assert shop.timing(Plan(), program(DENSE), tmp_path / "a.onnx")[0] == "openvino"


def test_regions_race_where_the_whole_is_refused(
    tmp_path: Path, raced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = made(tmp_path)
    monkeypatch.delitem(MILLISECONDS, "native")
    monkeypatch.setitem(MILLISECONDS, "mixed", 1.5)
    assert shop.timing(Plan(), program(DENSE), tmp_path / "a.onnx")[0] == "mixed"
    assert raced == ["onnxruntime", "openvino", "native", "mixed"]


def test_weights_that_native_code_refuses_go_to_the_next_engine(
    tmp_path: Path, raced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def judge(path: Path, engine: str, *_: Any) -> str:
        if engine == "native":
            raise EngineError("the sums do not fit 32 bits")
        return f"judged by {engine}"

    shop = made(tmp_path)
    monkeypatch.setattr(shop, "judge", judge)
    engine, *_, outcome = shop._timed_and_judged(Plan(), program(DENSE), tmp_path / "a.onnx")
    assert (engine, outcome) == ("openvino", "judged by openvino")


def test_a_start_is_without_compiling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def worker(*_: Any, **__: Any) -> Any:
        if not made_before:
            compiled_folder()
        return contextlib.nullcontext()

    def compiled_folder(*_: Any) -> Path:
        made_before.append(True)
        time.sleep(0.2)
        return tmp_path

    made_before: list[bool] = []
    monkeypatch.setattr(workshop, "Worker", worker)
    monkeypatch.setattr(workshop, "compiled_folder", compiled_folder)
    monkeypatch.setattr(workshop, "sizes_in", lambda *_: {})
    shop = made(tmp_path)
    shop.task = SimpleNamespace(outcome=lambda *_: "judged")
    judged: Any = shop.judge(tmp_path / "a.onnx", "native", {}, range(1), None)
    assert (judged, made_before) == ("judged", [True])
    assert shop.pace.longest(START) < 0.1
