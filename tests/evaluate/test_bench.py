"""Bench: every engine on every file, one JSON shape, failures beside results."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tensmith.engine import SessionWorker, TensorSpec, available
from tensmith.engine.stopwatch import Turn
from tensmith.errors import EngineError, UsageError
from tensmith.evaluate.bench import bench, random_inputs
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.latency import tail_of
from tensmith.evaluate.open_sizes import check_sizes, open_sizes
from tensmith.report.metric import Metric


def test_json_has_the_agreed_shape(linear: Path, linear_batch_3: Path) -> None:
    said: list[str] = []
    result = bench([linear, linear_batch_3], batch=2, seconds=0.2, progress=said.append)
    fields = json.loads(json.dumps(result.to_json()))
    assert list(fields) == ["models", "busy"]
    assert [model["path"] for model in fields["models"]] == [str(linear), str(linear_batch_3)]
    for model in fields["models"]:
        assert [row["engine"] for row in model["engines"]] == list(available())
        for row in model["engines"]:
            assert set(row) == {"engine", "latency_ms", "ratio", "tail"}
            assert set(row["tail"]) == {"p95_ms", "p99_ms", "runs"} and row["tail"]["runs"] > 0
            assert Metric.from_json(row["latency_ms"]).unit == "ms"
            assert Metric.from_json(row["ratio"]).unit == "x"
    first = fields["models"][0]["engines"][0]
    assert first["ratio"]["low"] == first["ratio"]["high"] == 1
    assert result.baseline == f"{available()[0]}:linear.onnx"
    assert said[-1].startswith("timing")


def test_a_file_that_fails_does_not_stop_the_others(linear: Path) -> None:
    broken = linear.with_name("broken.onnx")
    broken.write_bytes(b"garbage!")
    result = bench([broken, linear], ["onnxruntime"], seconds=0.1)
    failed, ran = (model["engines"][0] for model in result.to_json()["models"])
    assert failed["latency_ms"] is None and failed["ratio"] is None and "broken.onnx" in failed["error"]
    assert ran["ratio"]["value"] == 1
    with pytest.raises(EngineError, match=r"broken\.onnx"):
        bench([broken], ["onnxruntime"], seconds=0.1)


@pytest.mark.parametrize("dying", ["all", "none"])
def test_one_that_dies_in_its_turn_ends_nobody_else(
    linear: Path, monkeypatch: pytest.MonkeyPatch, dying: str
) -> None:
    usual, turns = SessionWorker.time, 0

    def timed(worker: SessionWorker, count: int) -> Turn:
        """The fifth turn of a contender is its last."""
        nonlocal turns
        if id(worker) == ids[dying]:
            turns += 1
            if turns > 4:
                raise EngineError("it died")
        return usual(worker, count)

    ids: dict[str, int] = {}
    start = Contender.start

    def started(contender: Contender, *given: Any) -> SessionWorker:
        worker = start(contender, *given)
        ids[dict(contender.settings)["optimization"]] = id(worker)
        return worker

    monkeypatch.setattr(SessionWorker, "time", timed)
    monkeypatch.setattr(Contender, "start", started)
    names = [f"onnxruntime:optimization={level}" for level in ("all", "basic", "none")]
    result = bench([linear], names, seconds=0.2)
    rows = {row["engine"]: row for row in result.to_json()["models"][0]["engines"]}
    dead = f"onnxruntime:optimization={dying}"
    assert rows.pop(dead)["error"] == "it died" and all(row["latency_ms"] for row in rows.values())
    first = next(name for name in names if name != dead)
    assert result.baseline == f"{first}:linear.onnx" and rows[first]["ratio"]["value"] == 1
    turns = 0
    with pytest.raises(EngineError, match="it died"):
        bench([linear], [dead], seconds=0.2)


def test_a_bound_is_held_by_the_whole_interval_of_a_p99(linear: Path) -> None:
    result = bench([linear], ["onnxruntime"], seconds=2)
    (latency,) = result.latencies.values()
    p99 = latency.tail.percentiles[99]
    assert result.beyond(p99.high) == []
    assert "p99 is" in result.beyond(p99.high * 0.99)[0]
    few = replace(latency, tail=tail_of(np.full(100, 1e6)))
    assert "too few" in replace(result, latencies={latency.contender: few}).beyond(1000.0)[0]


def test_what_fails_at_guessed_sizes_says_which_they_were(linear: Path) -> None:
    model = onnx.load(linear)
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "features"
    onnx.save(model, linear)
    with pytest.raises(EngineError, match=r"taken for .*features=128: give the right ones by --sizes"):
        bench([linear], ["onnxruntime"], seconds=0.1)
    features = onnx.numpy_helper.to_array(model.graph.initializer[0]).shape[0]
    assert bench([linear], ["onnxruntime"], seconds=0.1, sizes={"features": features}).latencies


def test_what_no_engine_has_seen_does_not_fail_for_its_sizes(linear: Path) -> None:
    """The batch is open and taken for one; what is wrong is something else."""
    model = onnx.load(linear)
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "features"
    onnx.save(model, linear)
    with pytest.raises(EngineError, match=r"too large to make up; --sizes gives open ones$"):
        bench([linear], ["onnxruntime"], seconds=0.1, sizes={"features": 1 << 40})
    model.graph.input[0].type.tensor_type.ClearField("shape")
    onnx.save(model, linear)
    with pytest.raises(EngineError, match=r"export the model with one$"):
        bench([linear], ["onnxruntime"], seconds=0.1)


def test_an_engine_is_timed_in_several_settings(linear: Path) -> None:
    both = ["onnxruntime", "onnxruntime:optimization=none"]
    result = bench([linear], both, seconds=0.2)
    rows = result.to_json()["models"][0]["engines"]
    assert [row["engine"] for row in rows] == both
    assert all(row["latency_ms"] for row in rows)
    assert result.baseline == "onnxruntime:linear.onnx"
    with pytest.raises(UsageError, match=r"no setting 'colour'; it has .*optimization"):
        bench([linear], ["onnxruntime:colour=red"])
    with pytest.raises(UsageError, match=r"optimization is one of all, .*not 'red'"):
        bench([linear], ["onnxruntime:optimization=red"])
    with pytest.raises(UsageError, match="write ENGINE:NAME=VALUE"):
        bench([linear], ["onnxruntime:fast"])


def test_bad_usage_is_refused(linear: Path) -> None:
    with pytest.raises(UsageError, match="unknown engine 'nosuch'"):
        bench([linear], ["nosuch"])
    with pytest.raises(UsageError, match="at least one model"):
        bench([])
    with pytest.raises(UsageError, match="at least one model"):
        bench([linear], batch=0)
    for threads in (0, 5000):
        with pytest.raises(UsageError, match=f"threads is a whole number from 1 to 1024, not {threads}"):
            bench([linear], threads=threads)


def test_open_sizes_are_taken_as_given(linear: Path) -> None:
    specs = (TensorSpec("image", "float32", ("n", "channels", "height")),)
    sizes = {"channels": 3, "height": 7}
    assert random_inputs(specs, 2, sizes=sizes)["image"].shape == (2, 3, 7)
    assert open_sizes(specs, 2, {"height": 7}) == {"n": 2, "channels": 128, "height": 7}
    with pytest.raises(UsageError, match="'width' open; open are n, channels, height"):
        check_sizes(specs, {"width": 7})
    with pytest.raises(UsageError, match="from 1"):
        check_sizes(specs, {"height": 0})
    with pytest.raises(UsageError, match="no input leaves a size 'height' open"):
        bench([linear], ["onnxruntime"], sizes={"height": 7})


def test_random_inputs_fit_every_dtype() -> None:
    dtypes = ["float16", "float32", "float64", "int32", "int64", "uint8", "int8", "bool"]
    specs = tuple(TensorSpec(dtype, dtype, ("n", 3, "length")) for dtype in dtypes)
    for name, array in random_inputs(specs, batch=2).items():
        assert array.dtype == np.dtype(name) and array.shape == (2, 3, 128)
    with pytest.raises(EngineError, match="nothing can be made up"):
        random_inputs((TensorSpec("s", "str", (1,)),))
    with pytest.raises(EngineError, match="no declared shape"):
        random_inputs((TensorSpec("s", "float32", None),))
    with pytest.raises(EngineError, match="too large"):
        random_inputs((TensorSpec("s", "float32", (1 << 40,)),))
