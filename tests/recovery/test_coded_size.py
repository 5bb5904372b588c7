"""The bits of codes have gradients, are near what the file takes, and stay where a price holds them."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the torch extra is not installed")
import torch

import digit_lessons
from lossy_samples import Interpreted
from tensmith.ir import Program
from tensmith.recovery import training
from tensmith.recovery.coded_size import CodedSize
from tensmith.recovery.learnable import learning_constants
from tensmith.recovery.learning import LearningGrid
from tensmith.recovery.training import Recipe, Training
from tensmith.rewrite.archives import read_arrays, write_arrays
from tensmith.rewrite.lossy.weights import weighted_layers
from tensmith.rewrite.method import apply_lossy
from tensmith.rewrite.rule import Step


def grid(seed: int = 0, spread: float = 1.5) -> LearningGrid:
    codes = np.rint(np.random.default_rng(seed).laplace(0, spread, (64, 96))).clip(-127, 127).astype(np.int8)
    return LearningGrid(("w", "s"), codes, np.full(64, 0.25, np.float32), {"axis": 0}, False)


def test_bits_are_what_codes_take_by_how_often_each_is_there() -> None:
    learned = grid()
    codes = learned.written()["w"]
    _, counts = np.unique(np.abs(codes), return_counts=True)
    entropy = -(counts * np.log2(counts / codes.size)).sum() + np.count_nonzero(codes)
    assert CodedSize([learned]).bits() == pytest.approx(entropy, rel=1e-2)
    assert CodedSize([]).bits() == 0


def test_codes_without_zeros_and_with_gaps_take_what_they_take() -> None:
    signs = np.where(np.arange(4096).reshape(64, 64) % 2, 1, -1).astype(np.int8)
    signs[0, 0] = 9  # and none between
    learned = LearningGrid(("w", "s"), signs, np.full(64, 0.25, np.float32), {"axis": 0}, False)
    size = CodedSize([learned])
    assert size.bits() == pytest.approx(signs.size, rel=0.02)
    size.aim(0.5 * size.bits(), math.nan)
    with torch.no_grad():
        learned.numbers[1, 1] = math.nan
    size.follow()
    assert size.level > 0 and math.isfinite(size._price)


def test_gradients_draw_weights_to_shorter_codes_and_scales_wider() -> None:
    learned = grid()
    size = CodedSize([learned])
    before = size.bits()
    size.aim(before, 1.0)
    size.add_gradients()
    weights, scale = learned.numbers, learned.parameters["scale"].tensor
    between = weights.abs() > 0.3  # no whole number of steps lies so near to 0
    assert weights.grad is not None and bool(((weights.grad * weights)[between] >= 0).all())
    assert scale.grad is not None and float(scale.grad.sum()) < 0
    with torch.no_grad():
        weights -= 0.3 * weights.grad.sign()
    assert size.bits() < 0.9 * before


@pytest.mark.parametrize("shared", [True, False])
def test_what_codes_stand_for_stays_as_large(shared: bool) -> None:
    scales = np.full(64, 0.25, np.float32) if shared else np.linspace(0.2, 0.3, 64, dtype=np.float32)
    learned = LearningGrid(("w", "s"), grid().written()["w"], scales, {"axis": 0}, False)
    size = CodedSize([learned])
    with torch.no_grad():
        learned.numbers.add_(0.2 * (torch.rand(learned.numbers.shape, generator=torch.manual_seed(0)) - 0.5))
        before = learned.value().clone()
        size.reach(1.2 * size.bits())
        codes = learned.codes()
        along, whole = (before * codes).sum(1), (codes * codes).sum(1)
        nearest = along.sum() / whole.sum() if shared else along / whole
    assert torch.allclose(learned.scales().detach(), nearest, rtol=1e-4)


@pytest.mark.parametrize("share", [0.75, 1.25])
def test_scales_reach_a_target(share: float) -> None:
    learned = grid()
    size = CodedSize([learned])
    with torch.no_grad():  # as training leaves them: anywhere between two codes
        learned.numbers.add_(0.2 * (torch.rand(learned.numbers.shape, generator=torch.manual_seed(0)) - 0.5))
    target = share * size.bits()
    size.reach(target)
    assert size.bits() == pytest.approx(target, rel=0.01)
    with torch.no_grad():
        kept, before = learned.codes(), learned.value()
    learned.come_near(before)
    assert torch.equal(learned.codes(), kept) and torch.allclose(learned.value(), before)


def test_a_price_rises_where_there_are_too_many_bits_and_falls_where_there_are_few() -> None:
    learned = grid()
    size = CodedSize([learned])
    prices = []
    for share in (0.9, 1.1):
        size.aim(share * size.bits(), 1.0)
        before = size.level
        size.follow()
        prices.append((size.level / before, size._price / before))
    assert min(prices[0]) > 1 > max(prices[1]) > 0


@pytest.fixture
def few_bits(monkeypatch: pytest.MonkeyPatch) -> Program:
    """Digits of some bits a weight, that train in as many steps on every machine."""
    torch.set_num_threads(1)
    monkeypatch.setattr(Training, "seconds_a_step", lambda self, *_: (10.0, 0.0))
    original = digit_lessons.original_digits()
    worth = {layer.site: 1.0 for layer in weighted_layers(original)}
    params = {"default_bits": 8, "rounding": "coded", "price": 20.0, "stored": "codes", "worth": worth}
    return apply_lossy(original, Step("weight_only", params=params, kind="lossy"), Interpreted())


def lessons(program: Program, state: Path) -> Training:
    recipe = Recipe(0, 64, (0.02,), budget=20.0)
    return digit_lessons.training(program, learning_constants(program, False), recipe, state)


def test_codes_take_no_more_than_at_first_and_fewer_where_little_is_lost(
    few_bits: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "_COUNTED_EVERY", 1)
    course = lessons(few_bits, tmp_path / "state.npz")
    bits = [course._size.bits()]
    for _ in range(2):
        found = course.course(10 * 150)
        bits.append(course._size.bits())
    assert found.lost < 10 and bits[1] <= 1.02 * bits[0] and bits[2] < 0.95 * bits[1]


def test_a_stopped_course_of_codes_goes_on_at_its_step_target_and_price(
    few_bits: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = lessons(few_bits, tmp_path / "whole.npz").course(10 * 40)
    digit_lessons.interrupted_at(monkeypatch, 21)
    first = lessons(few_bits, tmp_path / "parts.npz")
    part = first.course(10 * 40)
    again = lessons(few_bits, tmp_path / "parts.npz")
    assert part.stopped and part.steps == again._state.step == 21
    assert again._size.stands == first._size.stands and again._size.target > 0
    rest = again.course(10 * 40)
    assert not rest.stopped and rest.steps == whole.steps


@pytest.mark.parametrize(
    ("name", "value"), [("pause", 0), ("batch", -1), ("level", np.nan), ("steps", np.inf)]
)
def test_a_damaged_file_of_training_is_none(
    few_bits: Program, tmp_path: Path, name: str, value: float
) -> None:
    path = tmp_path / "state.npz"
    lessons(few_bits, path).course(10 * 8)
    assert lessons(few_bits, path).courses == 1
    write_arrays(path, {**read_arrays(path, 1 << 30, "training"), f"stands/{name}": np.asarray(value)})
    assert lessons(few_bits, path).courses == 0


def test_fewer_bits_are_left_to_the_price_and_more_begin_at_finer_codes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Coarser codes would cost what was learned, and a later course is not sure of its loss.

    An unlucky drop asks for no bits: what is compared varies less.
    """
    learned = grid()
    size = CodedSize([learned])
    size.aim(size.bits(), 0.1)
    reached: list[float] = []
    monkeypatch.setattr(size, "reach", reached.append)
    state = SimpleNamespace(lost=2.0, compared=0.0, off=math.inf, bits=1000.0)
    course: Any = SimpleNamespace(_state=state, _size=size, _recipe=Recipe(0, budget=0.5))
    assert Training._reached_target(course) == pytest.approx(900) and not reached
    state.compared = 0.3
    assert Training._reached_target(course) == pytest.approx(1000) and not reached
    state.lost = state.compared = 0.47
    state.off = 0.01  # samples that tell it well: nearly all of the budget
    assert Training._reached_target(course) < 1000
    state.lost, state.compared, state.off = 2.0, 0.6, math.inf
    assert reached == [Training._reached_target(course)] and reached[0] == pytest.approx(1122, rel=1e-3)
    state.lost, state.off = 0.9, 1.0  # samples that tell it about as well: between both
    assert 1122 < Training._reached_target(course) < 1250
    state.lost = 0.1  # a lucky one says nothing
    assert Training._reached_target(course) == pytest.approx(1122, rel=1e-3)


def test_weights_within_the_budget_are_not_given_up_for_others_beyond() -> None:
    best = {"w": np.zeros(1)}
    state = SimpleNamespace(lost=0.4, compared=9.0, bits=1e9, best=best)
    network = SimpleNamespace(program=SimpleNamespace(inputs={}, outputs=()))
    course: Any = SimpleNamespace(
        _grown=True, _parameters=lambda: {"w": np.ones(1)}, _state=state, _network=network,
        _gradients=SimpleNamespace(at_once=1),
        _size=SimpleNamespace(bits=lambda: 1.0, target=1.0), _recipe=Recipe(0, budget=0.5),
        _judge=lambda session: training.WeightsLoss(0.6, 0.0),
    )  # fmt: skip
    course._cost = lambda compared, bits: Training._cost(course, compared, bits)
    Training._look(course)
    assert state.best is best
    course._judge = lambda session: training.WeightsLoss(0.5, 0.0)
    Training._look(course)
    assert state.best is not best and state.lost == 0.5
    course._recipe, state.lost = Recipe(0), -0.1  # no budget: what compares best stays, whatever its luck
    course._judge = lambda session: training.WeightsLoss(0.1, 0.0)
    Training._look(course)
    assert state.lost == 0.1
