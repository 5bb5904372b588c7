"""Training on the digits that ship: what the network of `examples/digits` teaches a program made of it."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tensmith.data import open_dataset
from tensmith.data.preprocess import UNIT
from tensmith.data.split import Splits, split
from tensmith.evaluate.task import Task
from tensmith.frontend.onnx import read_onnx
from tensmith.ir import Program
from tensmith.recovery.feed import Feed
from tensmith.recovery.known import KnownAnswers
from tensmith.recovery.learning import Learning
from tensmith.recovery.network import NetworkSession, TorchNetwork
from tensmith.recovery.training import Recipe, Training, WeightsLoss
from tensmith.rewrite.trail import simplify
from tensmith.search.lessons import weights_loss

_DIGITS = Path(__file__).resolve().parents[1] / "examples" / "digits"
_TASK = Task("accuracy", UNIT)


@cache
def original_digits() -> Program:
    return simplify(read_onnx(_DIGITS / "digits.onnx")).program


@cache
def digit_splits() -> Splits:
    return split(open_dataset(f"npz:{_DIGITS / 'digits.npz'}"), 64, 300, 100, 0)


def training(program: Program, learning: Mapping[str, Learning], recipe: Recipe, state: Path) -> Training:
    """On one thread; its state lies in a file."""
    original, splits = original_digits(), digit_splits()
    teacher = TorchNetwork(original, {}, "cpu")
    standard = _TASK.outcome(NetworkSession(teacher), splits.search, None)

    def lost(session: Any) -> WeightsLoss:
        return weights_loss(_TASK, session, splits.search, standard)

    feed = Feed(splits.fitting, original.inputs, UNIT, 64, 0)
    network = TorchNetwork(program, learning, "cpu")
    return Training(network, KnownAnswers(teacher), feed, "classes", lost, recipe, state, 1)


def interrupted_at(monkeypatch: pytest.MonkeyPatch, number: int, by: signal.Signals = signal.SIGINT) -> None:
    """Ctrl-C, or another signal, in the step of that number, the first one being 1."""
    step, seen = Training._step, [0]

    def stopping(self: Training, *given: Any) -> bool:
        seen[0] += 1
        if seen[0] == number:
            signal.raise_signal(by)
        return step(self, *given)

    monkeypatch.setattr(Training, "_step", stopping)
