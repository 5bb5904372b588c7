"""Statistics are those of the values a program computes, and gathering them takes little memory."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tensmith.data import Subset, as_dataset
from tensmith.errors import ProgramError
from tensmith.evaluate import calibrator
from tensmith.evaluate.calibrator import Calibrator
from tensmith.formula.poly import Poly
from tensmith.ir import Program, TensorType, make_node
from tensmith.ir.interpreter import interpret
from tensmith.rewrite.calibration import Histogram

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = np.random.default_rng(0).standard_normal((10, 4, 6, 6)).astype(np.float32)


def network() -> Program:
    """A 3x3 convolution in two groups, a rectifier, a 1x1 convolution."""
    random = np.random.default_rng(1)
    weights = {
        "w": random.standard_normal((4, 2, 3, 3)).astype(np.float32),
        "v": random.standard_normal((5, 4, 1, 1)).astype(np.float32),
    }
    square = {"strides": (1, 1), "dilations": (1, 1), "pads": (0, 0, 0, 0)}
    nodes = (
        make_node("conv", ("x", "w"), ("h",), {**square, "group": 2}),
        make_node("relu", ("h",), ("r",)),
        make_node("conv", ("r", "v"), ("y",), square),
    )
    inputs = {"x": TensorType("f32", (Poly.symbol("n"), 4, 6, 6))}
    return Program("net", inputs, ("h", "r", "y"), nodes, weights)


TRUTH = {"x": SAMPLES, **interpret(network(), {"x": SAMPLES})}


@pytest.fixture(params=[16, 4], ids=["one batch", "batches of 4, 4 and 2"])
def found(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Calibrator:
    """Over all samples; wide matrices are added to in pieces."""
    monkeypatch.setattr(calibrator, "_MOST_BATCH", request.param)
    monkeypatch.setattr(calibrator, "_COLUMNS", 7)
    view = Subset(as_dataset((SAMPLES, None)).part("all"), np.arange(len(SAMPLES)))
    return Calibrator(view, None, 1)


# Sums of some hundred products in float32, in another order.
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def test_histograms(found: Calibrator) -> None:
    histograms = found.histograms(network(), TRUTH)
    for name, truth in TRUTH.items():
        ends = (histograms[name].low, histograms[name].high)
        np.testing.assert_allclose(ends, (truth.min(), truth.max()), **CLOSE)
        assert histograms[name].counts.sum() == truth.size


def test_moments_of_patches(found: Calibrator) -> None:
    moment = found.moment(network(), "h")
    patches = np.lib.stride_tricks.sliding_window_view(SAMPLES, (3, 3), axis=(2, 3))  # [n, c, 4, 4, 3, 3]
    for group in range(2):
        rows = patches[:, 2 * group : 2 * group + 2].transpose(0, 2, 3, 1, 4, 5).reshape(-1, 18)
        assert moment.count == len(rows)
        np.testing.assert_allclose(moment.first[group], rows.mean(0), **CLOSE)
        np.testing.assert_allclose(moment.second[group], rows.T @ rows / len(rows), **CLOSE)
    channels = TRUTH["r"].transpose(0, 2, 3, 1).reshape(-1, 4)
    second = found.moment(network(), "y").second[0]
    np.testing.assert_allclose(second, channels.T @ channels / len(channels), **CLOSE)


def test_what_is_drawn_for_a_layer_does_not_depend_on_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """So a replay finds the moment again, though it asks for other layers, or in another order."""
    for name in ("_FEWEST_POSITIONS", "_MOST_POSITIONS"):
        monkeypatch.setattr(calibrator, name, 7)
    view = Subset(as_dataset((SAMPLES, None)).part("all"), np.arange(len(SAMPLES)))
    alone, after = (Calibrator(view, None, 1) for _ in range(2))
    after.moment(network(), "h")  # which gathers y as well
    np.testing.assert_array_equal(alone.moment(network(), "y").second, after.moment(network(), "y").second)


@pytest.mark.parametrize(("op", "attrs"), [("matmul", {}), ("gemm", {}), ("gemm", {"transB": 1})])
def test_positions_are_counted_by_what_is_summed(
    op: str, attrs: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not by how many outputs there are, however weights lie."""
    for name, value in {"_FEWEST_POSITIONS": 1, "_POSITIONS_A_DEPTH": 1}.items():
        monkeypatch.setattr(calibrator, name, value)
    weights = {"w": np.ones((2, 5) if attrs else (5, 2), np.float32)}
    inputs = {"x": TensorType("f32", (Poly.symbol("n"), 5))}
    program = Program("one", inputs, ("y",), (make_node(op, ("x", "w"), ("y",), attrs),), weights)
    view = Subset(as_dataset((np.ones((10, 5), np.float32), None)).part("all"), np.arange(10))
    assert Calibrator(view, None, 1).moment(program, "y").count == 5


def test_a_file_that_answers_so_many_at_a_time_is_given_as_many() -> None:
    """4 of 10 samples, where what a layer multiplies does not begin with their axis: 2 go in twice."""
    weights = {"rows": np.array([8, 72], np.int64), "w": np.ones((72, 2), np.float32)}
    nodes = (
        make_node("reshape", ("x", "rows"), ("h",)),
        make_node("matmul", ("h", "w"), ("m",)),
        make_node("relu", ("m",), ("y",)),
    )
    program = Program("four", {"x": TensorType("f32", (4, 4, 6, 6))}, ("y",), nodes, weights)
    view = Subset(as_dataset((SAMPLES, None)).part("all"), np.arange(len(SAMPLES)))
    found = Calibrator(view, None, 1)
    histograms = found.histograms(program, ("x", "h", "y"))
    assert [histograms[name].counts.sum() for name in "xhy"] == [12 * 144, 12 * 144, 24 * 2]
    rows = np.concatenate([SAMPLES, SAMPLES[8:]]).reshape(-1, 72)
    moment = found.moment(program, "m")
    assert moment.count == len(rows)
    np.testing.assert_allclose(moment.second[0], rows.T @ rows / len(rows), **CLOSE)


@pytest.mark.parametrize("given", ["states", "last states"])
def test_moments_of_recurrent_layers(given: str) -> None:
    """Of the elements, and of the states of each direction within the lengths of sequences, whatever the
    program gives of them."""
    random, lengths = np.random.default_rng(1), np.array([3, 5, 2, 5, 1, 4, 5, 5])
    weights = {"w": random.standard_normal((2, 12, 6)), "r": random.standard_normal((2, 12, 4)) / 2}
    constants = {name: array.astype(np.float32) for name, array in weights.items()}
    outputs = ("y",) if given == "states" else ("", "h")
    attrs = {"direction": "bidirectional", "hidden_size": 4}
    turn = make_node("transpose", ("x",), ("turned",), {"perm": (1, 0, 2)})
    node = make_node("gru", ("turned", "w", "r", "", "lengths"), outputs, attrs)
    batch = Poly.symbol("n")
    inputs = {"x": TensorType("f32", (batch, 5, 6)), "lengths": TensorType("i32", (batch,))}
    program = Program("recurrent", inputs, outputs[-1:], (turn, node), constants)
    x = random.standard_normal((8, 5, 6)).astype(np.float32)
    data = as_dataset(({"x": x, "lengths": lengths.astype(np.int32)}, None)).part("all")
    found = Calibrator(Subset(data, np.arange(8)), None, 1)
    behind = np.arange(5) >= lengths[:, None]
    elements = found.moment(program, f"{outputs[-1]} (element)")
    np.testing.assert_allclose(elements.first[0], x.mean(axis=(0, 1)), **CLOSE)
    every = replace(program, nodes=(turn, replace(node, outputs=("y",))), outputs=("y",))
    y = interpret(every, {"x": x, "lengths": lengths.astype(np.int32)})["y"]
    y = y.transpose(2, 1, 0, 3)  # [samples, directions, steps, states]
    states = found.moment(program, f"{outputs[-1]} (state)")
    for way in range(2):
        rows = y[:, way][~behind]
        np.testing.assert_allclose(states.first[way], rows.mean(axis=0), **CLOSE)
        np.testing.assert_allclose(states.second[way], rows.T @ rows / len(rows), **CLOSE)


def test_only_layers_have_moments(found: Calibrator) -> None:
    with pytest.raises(ProgramError, match="'r' is not the output"):
        found.moment(network(), "r")


@pytest.mark.data
@pytest.mark.parametrize("name", ["squeezenet1_1_imagenet", "mobilenetv2_imagenet"])
def test_calibrating_takes_at_most_twice_the_model_and_a_batch(data_dir: Path, name: str) -> None:
    path = data_dir / "models" / f"{name}.onnx"
    if not path.exists():
        pytest.skip(f"no {path}")
    command = [sys.executable, "-m", "benchmarks.compress.calibration_memory", str(path), "--json"]
    for _ in range(3):  # what else is resident, a busy machine decides: the least counts
        result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        if "does not let" in result.stderr:
            pytest.skip(result.stderr.strip())
        found = json.loads(result.stdout)
        if found["calibrating"] <= 2 * found["model"] + found["batch"]:
            return
    pytest.fail(f"three times more: {found}")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_range_of_few_numbers_has_a_histogram(dtype: type) -> None:
    """There are fewer halves from 1 to 1.0625 than a histogram has bins."""
    found = Histogram.of(np.array([1, 1, 1.03125, 1.0625, np.nan], dtype))
    assert (found.low, found.high, found.counts.sum()) == (1, 1.0625, 4)
    assert found.counts[[0, len(found.counts) // 2, -1]].tolist() == [2, 1, 1]
