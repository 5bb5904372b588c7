"""Training brings an over-pruned network back, keeps its best weights, and goes on where it was stopped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the torch extra is not installed")

import torch

import digit_lessons
from lossy_samples import Interpreted
from tensmith.data import Subset
from tensmith.data.dataset import DatasetPart, Indices, Inputs, sample_count
from tensmith.data.preprocess import UNIT
from tensmith.data.split import Splits
from tensmith.errors import DataError, EngineError, ProgramError, TensmithError
from tensmith.evaluate.accuracy import as_model
from tensmith.formula.poly import Poly
from tensmith.ir import Program, TensorType
from tensmith.recovery import distill, gradients, known, training
from tensmith.recovery.feed import Feed, Samples, mirrored, parts_of, shifted
from tensmith.recovery.gradients import Gradients
from tensmith.recovery.learnable import learning_constants
from tensmith.recovery.network import NetworkSession, TorchNetwork
from tensmith.recovery.teacher import _are_texts
from tensmith.recovery.training import Outlook, Recipe, Training, WeightsLoss
from tensmith.rewrite.method import apply_lossy
from tensmith.rewrite.rule import Step

STEPS = 60


@pytest.fixture(scope="module")
def original() -> Program:
    return digit_lessons.original_digits()


@pytest.fixture(scope="module")
def splits() -> Splits:
    return digit_lessons.digit_splits()


@pytest.fixture(scope="module")
def pruned(original: Program) -> Program:
    step = Step("magnitude_pruning", params={"sparsity": 0.6}, kind="lossy")
    return apply_lossy(original, step, Interpreted())


@pytest.fixture(autouse=True)
def steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many steps on every machine: each is taken for ten seconds long, and none is waited for.

    One thread: several wait for each other where others work, too.
    """
    torch.set_num_threads(1)
    monkeypatch.setattr(Training, "seconds_a_step", lambda self, *_: (10.0, 0.0))
    monkeypatch.setattr(training, "_LONG", 2)
    monkeypatch.setattr(training, "_DEAD", 0.0)


def lessons(
    original: Program,
    pruned: Program,
    path: Path,
    rates: tuple[float, ...] = (0.03,),
    batch: int = 64,
    growing: bool = False,
) -> Training:
    learning = learning_constants(pruned, True, original if growing else None)
    return digit_lessons.training(pruned, learning, Recipe(0, batch, rates), path)


@pytest.mark.parametrize(("growing", "bfloat16"), [(False, False), (True, False), (False, True)])
def test_an_over_pruned_network_comes_back(
    original: Program, pruned: Program, tmp_path: Path, growing: bool, bfloat16: bool
) -> None:
    course = lessons(original, pruned, tmp_path / "state.npz", growing=growing)
    course._gradients.bfloat16 = bfloat16
    before = course._judge(NetworkSession(TorchNetwork(pruned, {}, "cpu"))).lost
    found = course.course(10 * STEPS)
    assert before > 20 and found.lost < before / 4
    assert not found.stopped and 0 < found.steps <= STEPS and found.bfloat16 == bfloat16
    for name, array in found.arrays.items():
        if name in pruned.constants and pruned.constants[name].ndim > 1:
            zeros = pruned.constants[name] == 0
            assert (array == 0).sum() == zeros.sum()
            assert growing or not array[zeros].any()


def test_later_courses_of_codes_take_smaller_steps(
    original: Program, pruned: Program, tmp_path: Path
) -> None:
    """They begin where one came to rest."""
    training = lessons(original, pruned, tmp_path / "state.npz")
    training._size.target = 1.0
    (first,) = training._rates(1000)
    training._state.courses = 1
    assert training._rates(1000) == [first / 4]


@pytest.mark.parametrize("kept_bytes", [1 << 20, 0])
def test_batches_come_again_and_the_original_is_asked_once(
    original: Program,
    pruned: Program,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kept_bytes: int,
) -> None:
    monkeypatch.setattr(training, "_BATCHES", 6)
    monkeypatch.setattr(known, "_KEPT_BYTES", kept_bytes)
    course, answered = lessons(original, pruned, tmp_path / "state.npz"), []
    network = course._original._network

    def counting(part: Samples) -> list[Any]:
        answered.append(part)
        return network(part)

    monkeypatch.setattr(course._original, "_network", counting)
    steps = course.course(10 * 20).steps
    assert steps > 12 and len(answered) == (6 if kept_bytes else steps) + training._COMPARED


def test_steps_fit_their_time(original: Program, pruned: Program, tmp_path: Path) -> None:
    course = lessons(original, pruned, tmp_path / "state.npz")
    assert course._steps_in(100, 0.5, 0.5) == 100
    course._original.of(0, list(parts_of(course._gradients._feed.at(0), course._network.program, 64)))
    for seconds, steps in ((0, 0), (100, 200)):  # but for the batch whose answers are known
        found = course._steps_in(training._BATCHES + seconds, 0.5, 0.5)
        assert abs(found - training._BATCHES - steps) <= 1


@pytest.mark.parametrize(
    ("seconds", "loss", "taken"), [(0.5, 2.05, True), (0.95, 2.0, False), (0.5, 3.0, False)]
)
def test_bfloat16_is_taken_where_it_is_faster_and_as_good(
    original: Program,
    pruned: Program,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
    loss: float,
    taken: bool,
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(gradients, "_multiplies_bfloat16", lambda device: True)
    monkeypatch.setattr(Gradients, "_times", lambda self, _: (seconds if self.bfloat16 else 1.0, 0.25, 1))
    monkeypatch.setattr(Gradients, "of", lambda self, number: loss if self.bfloat16 else 2.0)
    course = lessons(original, pruned, tmp_path / "state.npz")
    for _ in range(2):  # the second course of a plan finds the same
        assert course.seconds_a_step() == (seconds if taken else 1.0, 0.25)
        assert course._gradients.bfloat16 == taken


def test_zeros_that_grow_begin_without_any_and_come_to_stay(
    original: Program, pruned: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "_GROWN_EVERY", 2)
    course, step = lessons(original, pruned, tmp_path / "state.npz", growing=True), Training._step
    counts: list[list[int]] = []

    def counting(self: Training, *given: Any) -> bool:
        counts.append([int((each.masked == 0).sum()) for each in self._growing])
        return step(self, *given)

    monkeypatch.setattr(Training, "_step", counting)
    course.course(10 * 20)
    wanted = [int((array == 0).sum()) for array in pruned.constants.values() if array.ndim > 1]
    assert sum(counts[0]) < 0.05 * sum(wanted) and counts[-1] == counts[11] == [n for n in wanted if n]
    assert all(before <= after for one, other in pairwise(counts) for before, after in zip(one, other))


def test_a_course_of_growing_zeros_that_ends_early_is_not_lost(
    original: Program, pruned: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    course, step = lessons(original, pruned, tmp_path / "state.npz", growing=True), Training._step
    before = course._judge(NetworkSession(TorchNetwork(pruned, {}, "cpu"))).lost
    monkeypatch.setattr(
        Training, "_step", lambda self, number, rate: number < 25 and step(self, number, rate)
    )
    found = course.course(10 * STEPS)
    assert found.steps == 25 and found.lost < before
    for name, array in found.arrays.items():
        if name in pruned.constants and pruned.constants[name].ndim > 1:
            assert (array == 0).sum() == (pruned.constants[name] == 0).sum()


def test_zeros_are_there_from_the_start_where_that_is_better(
    original: Program, pruned: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, name in enumerate(("_LONG", "_DEAD")):
        with monkeypatch.context() as patch:
            patch.setattr(training, name, 1e6)
            course = lessons(original, pruned, tmp_path / f"{number}.npz", growing=True)
            found = course.course(10 * 8)
        for name, array in found.arrays.items():
            if name in pruned.constants and pruned.constants[name].ndim > 1:
                assert not array[pruned.constants[name] == 0].any()


@pytest.mark.parametrize("growing", [False, True])
def test_a_course_that_was_stopped_ends_as_one_that_was_not(
    original: Program,
    pruned: Program,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    growing: bool,
) -> None:
    make = partial(lessons, original, pruned, growing=growing)
    whole = make(tmp_path / "whole.npz").course(10 * 12)
    digit_lessons.interrupted_at(monkeypatch, 5)
    first = make(tmp_path / "parts.npz")
    part = first.course(10 * 12)
    assert part.stopped and part.steps == 5
    rest = make(tmp_path / "parts.npz").course(10 * 12)
    assert not rest.stopped and rest.steps == whole.steps
    same(whole, rest)


def same(one: Outlook, other: Outlook) -> None:
    assert one.arrays.keys() == other.arrays.keys()
    for name, array in one.arrays.items():
        np.testing.assert_allclose(array, other.arrays[name], rtol=1e-4, atol=1e-5)


def test_the_next_course_goes_on(original: Program, pruned: Program, tmp_path: Path) -> None:
    first = lessons(original, pruned, tmp_path / "state.npz").course(10 * 8)
    again = lessons(original, pruned, tmp_path / "state.npz", batch=16)  # as on another device
    assert again.courses == 1
    second = again.course(10 * 8)
    assert second.steps > first.steps and second.lost <= first.lost
    assert second.batch == first.batch == 64


@pytest.mark.parametrize(("lost", "ended"), [([3, training._UNSEEN], False), (range(3, 99), True)])
def test_batches_whose_loss_is_no_number_teach_nothing_and_many_end_a_course(
    lost: Sequence[int], ended: bool, original: Program, pruned: Program, tmp_path: Path
) -> None:
    course = lessons(original, pruned, tmp_path / "state.npz")
    answered = course._gradients.of

    def failing(number: int) -> float:
        return math.nan if number in lost else answered(number)

    course._gradients.of = failing  # type: ignore[method-assign]
    found = course.course(10 * 18)
    assert all(np.isfinite(array).all() for array in found.arrays.values())
    assert found.steps == 3 if ended else found.steps > 9


def test_what_answers_no_numbers_from_the_start_cannot_be_trained(
    original: Program, pruned: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distillation = gradients.distillation
    monkeypatch.setattr(gradients, "distillation", lambda *a: distillation(*a) * float("nan"))
    with pytest.raises(ProgramError, match="is no number"):
        lessons(original, pruned, tmp_path / "state.npz").course(10 * 8)


def test_a_batch_that_memory_does_not_hold_goes_in_parts(
    original: Program, pruned: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distillation, most = gradients.distillation, [16]

    def small(answers: Any, *told: Any) -> Any:
        if len(answers[0]) > most[0]:
            raise torch.OutOfMemoryError("too many samples")
        return distillation(answers, *told)

    monkeypatch.setattr(gradients, "distillation", small)
    course = lessons(original, pruned, tmp_path / "state.npz")
    course._gradients._fit()
    assert course.course(10 * 8).steps > 0
    most[0] = 0
    with pytest.raises(ProgramError, match="not even one sample"):
        course._gradients._fit()


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 1), (2, 3, 1, 1), (2, 1, 3)])
def test_classes_are_told_once_a_sample(shape: tuple[int, ...]) -> None:
    ours, theirs = torch.tensor([[1.0, 2, 0], [0, 0, 3]]), torch.tensor([[2.0, 1, 0], [0, 0, 2]])
    plain = float(distill.distillation([ours], [theirs], [1.0], "classes", 2))
    shaped = distill.distillation([ours.view(shape)], [theirs.view(shape)], [1.0], "classes", 2)
    assert plain > 0.1 and float(shaped) == pytest.approx(plain)


def test_classes_of_one_sample_need_no_axis_of_samples() -> None:
    ours, theirs = torch.tensor([1.0, 2, 0]), torch.tensor([2.0, 1, 0])
    plain = float(distill.distillation([ours[None]], [theirs[None]], [1.0], "classes", 1))
    assert float(distill.distillation([ours], [theirs], [1.0], "classes", 1)) == pytest.approx(plain) != 0


def test_tokens_are_told_at_each_place() -> None:
    ours, theirs = torch.randn(2, 2, 5, 7, generator=torch.Generator().manual_seed(0))
    flat = [ours.view(10, 7)], [theirs.view(10, 7)]
    tokens = distill.distillation([ours], [theirs], [1.0], "tokens", 2)
    assert float(tokens) == pytest.approx(float(distill.distillation(*flat, [1.0], "classes", 10)))


# Samples


def test_a_step_sees_the_same_samples_every_time(splits: Splits, original: Program) -> None:
    feed = Feed(splits.fitting, original.inputs, UNIT, 16, 0, (mirrored, shifted))
    one, again, other = feed.at(3), feed.at(3), feed.at(4)
    (name,) = original.inputs
    np.testing.assert_array_equal(one[name], again[name])
    assert not np.array_equal(one[name], other[name])
    assert one[name].shape == (16, 1, 8, 8)


class Texts(DatasetPart):
    """Sample n: n + 1 times n."""

    ragged = True

    def __len__(self) -> int:
        return 100

    def inputs(self, indices: Indices) -> Inputs:
        assert len(indices) == 1
        return np.array([[int(index)] * int(index + 1) for index in indices], np.int64)

    def labels(self, indices: Indices) -> None:
        return None


TOKENS = {"tokens": TensorType("i64", (Poly.symbol("n"), Poly.symbol("length")))}


def test_samples_of_several_lengths_are_cut_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensmith.recovery.feed._ELEMENTS", 40)
    view = Subset(Texts(), np.arange(3, 100))
    feed = Feed(view, TOKENS, None, 8, 0)
    lengths = set()
    for step in range(50):
        (batch,) = feed.at(step).values()
        np.testing.assert_array_equal(batch, feed.at(step)["tokens"])
        count, length = batch.shape
        texts = batch[:, 0]
        assert (batch == texts[:, None]).all() and length == texts.min() + 1
        assert sorted(texts) == list(range(texts.min(), texts.min() + count))  # neighbours in length
        assert count == 1 or (count <= 8 and batch.size <= 40)
        lengths.add(length)
    assert len(lengths) > 20


def test_parts_of_texts_come_from_anywhere_in_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensmith.recovery.feed._ELEMENTS", 64)

    class Counted(Texts):
        """Sample n: the numbers up to n."""

        def inputs(self, indices: Indices) -> Inputs:
            return np.array([np.arange(int(index) + 1) for index in indices], np.int64)

    feed = Feed(Subset(Counted(), np.arange(3, 100)), TOKENS, None, 8, 0, longest=8)
    starts, longest, whole = set(), 0, 0
    for step in range(200):
        (batch,) = feed.at(step).values()
        np.testing.assert_array_equal(batch, feed.at(step)["tokens"])
        starts |= set(batch[:, 0].tolist())
        assert (np.diff(batch) == 1).all()
        whole += batch.shape[1] > 8
        longest = max(longest, batch.shape[1])
        assert batch.shape[1] > 8 or batch.shape[0] == 8 or batch.shape[1] < 8
    assert len(starts) > 50 and longest > 50  # places far from a beginning, and far in a text
    assert 20 < whole < 80


def test_only_texts_of_one_open_length_are_taken_in_parts() -> None:
    """A vector of a fixed size is no text; a batch of a fixed size may need more whole texts than some of the
    elements allow."""
    batch, length, other = map(Poly.symbol, ("n", "length", "other"))
    texts, mask = TensorType("i64", (batch, length)), TensorType("f32", (batch, length))
    assert _are_texts({"tokens": texts}) and _are_texts({"tokens": texts, "mask": mask})
    assert not _are_texts({"tokens": texts, "speaker": TensorType("f32", (batch, 256))})
    assert not _are_texts({"tokens": texts, "speaker": TensorType("f32", (batch, other))})
    assert not _are_texts({"tokens": TensorType("i64", (2, length))})
    assert not _are_texts({"tokens": TensorType("i64", (batch, 128))})


def test_a_network_answers_a_single_sample_alone(original: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts of many lengths come one by one: filled up to what it takes at a time, each would cost many."""
    network, seen, run = TorchNetwork(original, {}, "cpu"), list[int](), NetworkSession.run

    def counting(self: NetworkSession, inputs: Any) -> Any:
        seen.append(sample_count(inputs))
        return run(self, inputs)

    monkeypatch.setattr(NetworkSession, "run", counting)
    model = as_model(NetworkSession(network))
    for count in (1, 64, 3):
        assert len(model({"images": np.zeros((count, 1, 8, 8), np.float32)})["logits"]) == count
    assert seen == [1, 64, 3]


def test_only_changes_that_the_original_bears_are_made(splits: Splits, original: Program) -> None:
    """Digits are no longer themselves in a mirror."""
    network = TorchNetwork(original, {}, "cpu")

    def classes(samples: Samples) -> np.ndarray:  # type: ignore[type-arg]
        return NetworkSession(network).run(samples)[original.outputs[0]].argmax(1)

    feed = Feed(splits.fitting, original.inputs, UNIT, 16, 0)
    assert mirrored not in feed.changed_as_borne(classes).changes


def test_weights_are_not_chosen_by_the_luck_of_a_few_samples(
    original: Program, pruned: Program, tmp_path: Path
) -> None:
    course = lessons(original, pruned, tmp_path / "state.npz")
    told = iter([WeightsLoss(0.1, 0.9), WeightsLoss(0.5, 0.4), WeightsLoss(0.2, 0.5)])
    course._judge = lambda session: next(told, WeightsLoss(0.0, 1.0))
    assert course.course(10 * STEPS).lost == 0.5


def test_a_course_on_a_machine_that_became_slow_ends_in_its_time(
    original: Program, pruned: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    course, step = lessons(original, pruned, tmp_path / "state.npz"), Training._step

    def slow(self: Training, number: int, rate: float) -> bool:
        clock[0] += 20.0  # twice of what it was taken for
        return step(self, number, rate)

    monkeypatch.setattr(Training, "_step", slow)
    monkeypatch.setattr(training.time, "monotonic", lambda: clock[0])
    found = course.course(10 * STEPS)
    assert STEPS / 3 < found.steps <= STEPS / 2 + STEPS / training._FEWEST_LOOKS / 2
    assert not found.stopped and clock[0] < 1.3 * 10 * STEPS


def test_no_sample_to_fit_to_is_one_to_judge_by(splits: Splits) -> None:
    def of(view: Subset) -> set[tuple[int, int]]:
        return {(id(view.part), int(index)) for index in view.indices}

    assert of(splits.calibration) < of(splits.fitting)
    assert of(splits.fitting).isdisjoint(of(splits.search) | of(splits.held_out))
    assert of(splits.search).isdisjoint(of(splits.held_out))


def test_a_course_that_ends_before_its_time_keeps_what_it_learned(
    original: Program, pruned: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that makes its steps fewer than half of those that were planned, while zeros still come."""
    course = lessons(original, pruned, tmp_path / "state.npz", growing=True)
    before = course._judge(NetworkSession(TorchNetwork(pruned, {}, "cpu"))).lost
    clock, step = [0.0], Training._step

    def slow(self: Training, number: int, rate: float) -> bool:
        clock[0] += 25.0
        return step(self, number, rate)

    monkeypatch.setattr(training.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(Training, "_step", slow)
    found = course.course(10 * STEPS)
    assert found.steps < STEPS / 2 and found.lost < before and course._grown


def test_all_zeros_are_there_where_a_course_becomes_half_as_long(
    original: Program, pruned: Program, tmp_path: Path
) -> None:
    course = lessons(original, pruned, tmp_path / "state.npz", growing=True)
    course._state.growing, course._state.steps, course._state.step = True, 100, 40
    course._grow()
    assert not course._grown
    course._state.steps, course._state.step = 60, 41
    course._grow()
    assert course._grown


def test_weights_that_are_no_numbers_are_not_kept(original: Program, pruned: Program, tmp_path: Path) -> None:
    course = lessons(original, pruned, tmp_path / "state.npz")
    course._look()
    kept = course._state.best
    with torch.no_grad():
        course._network.parameters[next(iter(kept))].tensor.fill_(math.nan)
    course._judge = lambda session: WeightsLoss(-1.0, -1.0)
    course._look()
    assert course._state.best is kept


@pytest.mark.parametrize("kind", [EngineError, DataError])
def test_answers_that_are_no_numbers_cost_a_look_and_not_the_course(
    original: Program, pruned: Program, tmp_path: Path, kind: type[TensmithError]
) -> None:
    course = lessons(original, pruned, tmp_path / "state.npz")
    judge, looks = course._judge, []

    def failing_after_the_first(session: Any) -> WeightsLoss:
        looks.append(session)
        if len(looks) > 1:
            raise kind("the model's answers are not numbers")
        return judge(session)

    course._judge = failing_after_the_first
    found = course.course(10 * 8)
    assert len(looks) > 1 and found.steps == 8
    assert all(np.isfinite(array).all() for array in found.arrays.values())

    broken = lessons(original, pruned, tmp_path / "broken.npz")
    broken._judge = failing_after_the_first
    with pytest.raises(kind, match="not numbers"):
        broken.course(10 * 8)


def test_what_cannot_be_trained_or_read_is_told(original: Program, pruned: Program, tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match="none of its weights can learn"):
        digit_lessons.training(original, {}, Recipe(0), tmp_path / "state.npz")
    course = lessons(original, pruned, tmp_path / "state.npz")
    course.course(20.0)
    (tmp_path / "state.npz").write_bytes(b"PK damaged")
    assert lessons(original, pruned, tmp_path / "state.npz").courses == 0
