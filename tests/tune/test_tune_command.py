"""`tensmith tune`: the folder runs, what was timed is used again, and what goes wrong is one sentence."""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_networks import answered

from command_line import refused, started, tensmith
from own_cache import own_cache
from tensmith.backend.native.emit.loader import Model
from tensmith.engine import ENGINES


@pytest.fixture(autouse=True)
def private_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The database of timings is this test's own."""
    return own_cache(tmp_path / "cache", monkeypatch) / "timings.sqlite"


def test_a_tuned_folder_answers_as_the_model_and_its_timings_serve_again(tiny: Path, tmp_path: Path) -> None:
    arguments = ("tune", tiny / "tiny.onnx", "--trials", "4", "--json")
    first = json.loads(tensmith(*arguments, "--output", "one", folder=tmp_path).stdout)
    assert first["trials"] == 4 and first["failures"] == []
    assert all(row["best"]["microseconds"] > 0 for row in first["problems"])
    x, truth = answered(tiny / "tiny.onnx")
    np.testing.assert_allclose(Model(tmp_path / "one")(x=x)["y"], truth, rtol=1e-4, atol=1e-4)

    arguments = ("tune", tiny / "tiny.onnx", "--trials", "0", "--json")
    again = json.loads(tensmith(*arguments, "--output", "two", folder=tmp_path).stdout)
    assert again["trials"] == 0
    assert [row["best"] for row in again["problems"]] == [row["best"] for row in first["problems"]]
    session = ENGINES["native"].prepare(tiny / "tiny.onnx", 1)
    np.testing.assert_allclose(session.run({"x": x})["y"], truth, rtol=1e-4, atol=1e-4)


def test_a_size_that_was_guessed_wrong_is_named(tmp_path: Path) -> None:
    """A table of 16 positions, and text of any length."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", "length"]) for name in "xy"]
    table = numpy_helper.from_array(np.ones(16, np.float32), "positions")
    nodes = [helper.make_node("Add", ["x", "positions"], ["y"])]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [table])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "text.onnx")
    told = "sizes left open were taken as length=128; --sizes says otherwise"
    refused(tensmith("tune", "text.onnx", "--sizes", "batch=2", folder=tmp_path), 1, told)


def test_ctrl_c_writes_the_folder_with_what_is_known(tiny: Path, tmp_path: Path) -> None:
    arguments = ("tune", tiny / "tiny.onnx", "--time-budget", "1h", "--output", "made")
    cache = Path(os.environ["XDG_CACHE_HOME"]) / "tensmith" / "timings.sqlite"
    with started(*arguments, folder=tmp_path) as process:
        while not cache.exists():
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(2)
        output, _ = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Interrupted" in output and "Sizes left open were taken as n=1" in output
    assert Model(tmp_path / "made").inputs[0]["name"] == "x"


def test_two_processes_tune_side_by_side(tiny: Path, tmp_path: Path) -> None:
    options = ("--time-budget", "1h", "--trials", "12", "--json", "--output")
    with contextlib.ExitStack() as running:
        both = [
            running.enter_context(started("tune", tiny / "tiny.onnx", *options, name, folder=tmp_path))
            for name in ("one", "two")
        ]
        outputs = [process.communicate(timeout=300)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    last = tensmith(
        "tune", tiny / "tiny.onnx", "--trials", "0", "--json", "--output", "three", folder=tmp_path
    )
    together = json.loads(last.stdout)["problems"]
    for output in outputs:
        for alone, all_ in zip(json.loads(output)["problems"], together):
            assert all_["timed"] >= alone["timed"]


def test_what_exists_is_not_overwritten(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    refused(
        tensmith("tune", tiny / "tiny.onnx", "--output", "made", folder=tmp_path), 1, "made exists already"
    )


def test_a_damaged_database_is_refused(tiny: Path, tmp_path: Path, private_cache: Path) -> None:
    private_cache.write_text("not a database" * 100)
    refused(
        tensmith("tune", tiny / "tiny.onnx", folder=tmp_path), 1, "timings.sqlite", "damaged", "remove it"
    )
    bench = tensmith("bench", tiny / "tiny.onnx", "--engines", "native", folder=tmp_path)
    assert bench.returncode == 0, bench.stderr  # who only reads it does without


@pytest.mark.parametrize(("options", "word"), [
    (("--threads", "0"), "threads"), (("--time-budget", "soon"), "a time"), (("--trials", "-1"), "trials"),
])  # fmt: skip
def test_bad_options_are_refused(tiny: Path, tmp_path: Path, options: tuple[str, str], word: str) -> None:
    refused(tensmith("tune", tiny / "tiny.onnx", *options, folder=tmp_path), 2, word)


def test_an_operator_without_a_kernel_is_named(tmp_path: Path) -> None:
    node = onnx.helper.make_node("Det", ["x"], ["y"], name="strange")
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph([node], "g", [value("x", 1, [2, 3, 3])], [value("y", 1, [2])])
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 19)]), tmp_path / "m.onnx"
    )
    refused(tensmith("tune", "m.onnx", folder=tmp_path), 1, "strange")
