"""Outcomes are per sample, whatever the batch, and data that does not fit is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info

from tensmith.engine import ENGINES, Session, TensorSpec
from tensmith.engine.base import in_parts
from tensmith.errors import DataError, EngineError
from tensmith.evaluate import accuracy
from tensmith.evaluate.accuracy import as_model, best_batch_size, classify, model_language, score
from tensmith.evaluate.outcome import Classification, LanguageModel, Score
from tensmith.evaluate.task import Task
from tensmith.ir import Program, TensorType

RNG = np.random.default_rng(0)
X = RNG.standard_normal((20, 4)).astype(np.float32)
TRUTH = X.argmax(axis=1)


@dataclass(frozen=True)
class FakeBatch:
    inputs: Any
    labels: Any


@dataclass(frozen=True)
class FakeView:
    inputs: np.ndarray
    labels: np.ndarray | None

    def batches(self, batch_size: int) -> Iterator[FakeBatch]:
        for start in range(0, len(self.inputs), batch_size):
            rows = slice(start, start + batch_size)
            yield FakeBatch(self.inputs[rows], None if self.labels is None else self.labels[rows])


class FakeSession(Session):
    """Returns fixed logits, row by row."""

    def __init__(self, logits: np.ndarray, operators: frozenset[str] = frozenset()) -> None:
        self.inputs = (TensorSpec("x", "int64", ("batch", "length")),)
        self.outputs = (TensorSpec("logits", "float32", ("batch", "length", logits.shape[-1])),)
        self.operators = operators
        self._logits, self._at = logits, 0

    def run(self, inputs):
        count = len(inputs["x"])
        self._at += count
        return {"logits": self._logits[self._at - count : self._at]}


def session(path: Path) -> Session:
    return ENGINES["onnxruntime"].prepare(path, 1)


@pytest.mark.parametrize("batch_size", [None, 1, 3, 7, 64])
def test_the_batch_does_not_matter(
    linear: Path, linear_batch_3: Path, batch_size: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if batch_size is not None:
        monkeypatch.setattr(accuracy, "best_batch_size", lambda _: batch_size)
    for path in (linear, linear_batch_3):
        outcome = classify(session(path), FakeView(X, TRUTH))
        np.testing.assert_array_equal(outcome.predicted, TRUTH)
        assert outcome.metric().value == 100
        assert outcome.metric().high == 100 and 80 < outcome.metric().low < 90


def test_preprocessing_and_casting(linear: Path) -> None:
    outcome = classify(session(linear), FakeView(X.astype(np.float64), TRUTH), preprocess=lambda x: -x)
    np.testing.assert_array_equal(outcome.predicted, X.argmin(axis=1))


def test_a_drop_is_paired(linear: Path) -> None:
    original = classify(session(linear), FakeView(X, TRUTH))
    wrong = np.where(np.arange(20) < 2, (TRUTH + 1) % 4, TRUTH)
    ours = Classification(wrong, TRUTH)
    drop = ours.drop(original)
    assert drop.value == 10 and drop.low <= 10 <= drop.high and drop.unit == "pt"
    assert ours.agreement(original).value == 90
    assert original.drop(ours).value == -10
    assert original.drop(original).value == 0


def test_agreement_stands_in_for_missing_labels(linear: Path) -> None:
    original = classify(session(linear), FakeView(X, None))
    with pytest.raises(DataError, match="no labels"):
        original.metric()
    ours = Classification(np.where(np.arange(20) < 5, -1, original.predicted), None)
    assert ours.judged_by(original).metric().value == 75
    assert ours.judged_by(original).drop(original.judged_by(original)).value == 25


def test_other_samples_cannot_be_paired() -> None:
    one = Classification(np.array([1, 2]), np.array([1, 2]))
    for other in (Classification(np.array([1]), np.array([1])), Classification(np.array([1, 2]), None)):
        with pytest.raises(DataError, match="same samples"):
            one.drop(other)
    rows = LanguageModel(np.array([1.0]), np.array([2]))
    with pytest.raises(DataError, match="same samples"):
        rows.drop(LanguageModel(np.array([1.0]), np.array([3])))


def test_nan_is_never_right(linear: Path) -> None:
    x = X.copy()
    x[3] = np.nan
    outcome = classify(session(linear), FakeView(x, TRUTH))
    assert outcome.predicted[3] == -1 and outcome.metric().value == 95


@pytest.mark.parametrize(
    ("view", "message"),
    [
        (FakeView(X, TRUTH + 1), "label 4 is out of range: the model tells 4 classes"),
        (FakeView(X, TRUTH - 1), "label -1 is out of range"),
        (FakeView(X, TRUTH.astype(np.float32)), "labels float32"),
        (FakeView(X[:, :3], TRUTH), "does not fit the model: input 'x' has shape"),
        (FakeView(X.astype(np.int64), TRUTH), "int64, but the model takes float32"),
        (FakeView(X[:0], TRUTH[:0]), "no samples"),
    ],
)
def test_data_that_does_not_fit_is_refused(linear: Path, view: FakeView, message: str) -> None:
    with pytest.raises(DataError, match=message):
        classify(session(linear), view)


def test_a_language_model_s_nats() -> None:
    logits = RNG.standard_normal((3, 5, 7)).astype(np.float32)
    labels = RNG.integers(0, 7, (3, 5))
    labels[1, 3:] = -1
    outcome = model_language(FakeSession(logits), FakeView(np.zeros((3, 5), np.int64), labels))
    probability = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    losses = -np.log(np.take_along_axis(probability, labels.clip(0)[..., None], -1))[..., 0] * (labels >= 0)
    assert outcome.tokens.tolist() == [5, 3, 5]
    np.testing.assert_allclose(outcome.nats, losses.sum(axis=1), rtol=1e-5)
    metric = outcome.metric()
    assert metric.value == pytest.approx(losses.sum() / 13, rel=1e-5)
    assert metric.unit == "nats/token" and metric.low < metric.value < metric.high


def test_nats_of_halves_are_those_of_their_numbers() -> None:
    """Probabilities of unlikely tokens are no halves."""
    logits = np.full((1, 2, 4096), -17.0, np.float16)
    logits[0, :, 0] = 0
    view = FakeView(np.zeros((1, 2), np.int64), np.zeros((1, 2), np.int64))
    (halves,), (floats,) = (
        model_language(FakeSession(found), view).nats for found in (logits, logits.astype(np.float32))
    )
    assert halves == floats > 0


def test_a_language_model_s_drop_is_per_cent_and_paired() -> None:
    nats, tokens = RNG.uniform(50, 150, 40), np.full(40, 64)
    original = LanguageModel(nats, tokens)
    drop = LanguageModel(nats * 1.01, tokens).drop(original)
    assert (drop.value, drop.low, drop.high) == pytest.approx((1, 1, 1))
    assert drop.unit == "%"


def test_a_language_model_that_fails_says_so() -> None:
    logits = np.full((1, 2, 3), np.nan, np.float32)
    tokens = np.zeros((1, 2), np.int64)
    with pytest.raises(EngineError, match="not numbers"):
        model_language(FakeSession(logits), FakeView(tokens, tokens))
    with pytest.raises(DataError, match="tokens that follow"):
        model_language(FakeSession(logits), FakeView(tokens, None))


def test_the_user_s_own_function_may_fail_and_return_what_numpy_returns(linear: Path) -> None:
    def broken(model, view: FakeView) -> float:
        raise ValueError("input contains NaN")

    with pytest.raises(DataError, match="evaluation function failed: ValueError: input contains NaN"):
        score(session(linear), FakeView(X, None), broken)
    for given in (np.int64(3), np.array(3.0), np.float32(3), 3):
        found = score(session(linear), FakeView(X, None), lambda model, view, given=given: given)
        assert found.metric().value == 3
    with pytest.raises(DataError, match="must return a finite number"):
        score(session(linear), FakeView(X, None), lambda model, view: np.zeros(2))


def test_the_user_s_own_function(linear: Path) -> None:
    def mean_top(model, view: FakeView) -> float:
        return float(model(view.inputs)["logits"].max(axis=1).mean())

    found = score(session(linear), FakeView(X, None), mean_top)
    assert found.metric().value == pytest.approx(X.max(axis=1).mean())
    assert Score(0.4).drop(Score(0.5)).value == pytest.approx(0.1)
    with pytest.raises(DataError, match="must return a finite number"):
        score(session(linear), FakeView(X, None), lambda model, view: float("nan"))


def test_batch_sizes(linear: Path, linear_batch_3: Path) -> None:
    assert best_batch_size(session(linear)) == 64
    assert best_batch_size(session(linear_batch_3)) == 63  # handed over, and answered 3 at a time
    assert best_batch_size(FakeSession(np.zeros((1, 1, 50_000)))) == 1, "large answers"
    dynamic = frozenset({"DynamicQuantizeLinear"})
    assert best_batch_size(FakeSession(np.zeros((1, 1, 2)), dynamic)) == 1


def test_a_fixed_batch_takes_any_number_of_samples(linear_batch_3: Path) -> None:
    model = as_model(session(linear_batch_3))
    for count in (1, 3, 4, 20):
        np.testing.assert_array_equal(model(X[:count])["logits"], X[:count])
    with pytest.raises(DataError, match="takes the inputs x"):
        model({"y": X})


def test_inputs_of_different_numbers_of_samples_are_refused() -> None:
    counts = {"x": np.zeros((4, 3)), "i": np.zeros((2, 3))}
    with pytest.raises(DataError, match="different numbers of samples: 4 of 'x', 2 of 'i'"):
        next(in_parts(counts, 2))


def test_resnet20_on_cifar10(data_dir: Path) -> None:
    """The first 500 test images; all 10,000 give 91.73 (data/README.md)."""
    import lzma

    with lzma.open(data_dir / "cifar10" / "test_batch.bin.xz") as file:
        records = np.frombuffer(file.read(500 * 3073), np.uint8).reshape(500, 3073)
    mean = np.array([0.485, 0.456, 0.406], np.float32).reshape(1, 3, 1, 1)
    std = np.array([0.229, 0.224, 0.225], np.float32).reshape(1, 3, 1, 1)
    images = records[:, 1:].reshape(-1, 3, 32, 32).astype(np.float32)
    view = FakeView(images, records[:, 0].astype(np.int64))
    model = ENGINES["onnxruntime"].prepare(data_dir / "models" / "resnet20_cifar10.onnx", 1)
    metric = classify(model, view, preprocess=lambda x: (x / 255 - mean) / std).metric()
    assert metric.low <= 91.73 <= metric.high


@pytest.mark.parametrize(
    ("found", "most"), [((1, 10), 64), (("boxes", 6), 1), ((2, 1, 10), 1), ((1, "boxes", 6), 1), (None, 1)]
)
def test_only_what_is_told_apart_by_sample_is_answered_together(found: Any, most: int) -> None:
    fixed = SimpleNamespace(
        inputs=(TensorSpec("x", "float32", (1, 3, 8, 8)),),
        outputs=(TensorSpec("y", "float32", found),),
        operators=frozenset(),
        samples=None,
    )
    assert best_batch_size(fixed) == most


def test_rows_that_are_found_are_not_taken_for_samples(tmp_path: Path) -> None:
    """The first image has one, as if it were a row a sample."""
    found = [make_node("NonZero", ["x"], ["places"]), make_node("Transpose", ["places"], ["y"])]
    inputs = [make_tensor_value_info("x", 1, [1, 4])]
    graph = make_graph(found, "g", inputs, [make_tensor_value_info("y", 7, ["found", 2])])
    onnx.save(make_model(graph, opset_imports=[make_opsetid("", 17)], ir_version=9), tmp_path / "found.onnx")
    model = as_model(session(tmp_path / "found.onnx"))
    assert len(model(np.array([[1, 1, 0, 1]], np.float32))["y"]) == 3
    with pytest.raises(DataError, match="no axis of samples"):
        model(np.array([[0, 1, 0, 0], [1, 1, 0, 1]], np.float32))


def test_a_sample_is_given_as_often_as_a_model_takes_it_at_once() -> None:
    program = Program("four", {"x": TensorType("f32", (4, 2))}, ("x",), (), {})
    given = Task("accuracy").example(program, FakeView(np.array([[1, 2], [3, 4]], "f"), None))
    assert given["x"].tolist() == 4 * [[1, 2]]


def test_a_sample_of_other_numbers_than_the_model_s_is_refused_at_once() -> None:
    program = Program("floats", {"x": TensorType("f32", (4, 2))}, ("x",), (), {})
    with pytest.raises(DataError, match=r"does not fit the model.*uint8"):
        Task("accuracy").example(program, FakeView(np.array([[1, 2], [3, 4]], "u1"), None))
    casting = Task("score", evaluation=lambda model, view: 1.0)
    assert casting.example(program, FakeView(np.array([[1, 2]], "u1"), None))["x"].dtype == np.float32


def test_classes_are_not_told_of_answers_at_several_places() -> None:
    with pytest.raises(DataError, match=r"several places of a sample.*--measure fidelity"):
        classify(FakeSession(np.ones((3, 4, 8, 8), np.float32)), FakeView(np.zeros((3, 2), np.int64), None))
