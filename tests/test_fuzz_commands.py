"""A small part of benchmarks/trust/fuzz_commands.py, and what it found."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import onnx
import pytest
from benchmarks.trust import fuzz_commands

from command_line import tiny_model
from forked import Commands
from tensmith.engine.base import first_line


def test_hostile_models_work_or_are_refused_in_one_sentence(commands: Commands) -> None:
    first = random.Random(2).randrange(10**6)
    found = {
        (number, name): outcome.fault
        for number in range(first, first + 8)
        for name, outcome in fuzz_commands.check(number, commands)
    }
    assert {place: fault for place, fault in found.items() if fault} == {}


def test_weights_of_old_opsets_are_computed_on_import(commands: Commands, tmp_path: Path) -> None:
    """They are inputs too, and come from ConstantOfShape and Identity."""
    (tmp_path / "old.onnx").write_bytes(fuzz_commands.seeds()[4])
    for command in ("load", "explain", "compile"):
        assert commands(command, "old.onnx", folder=tmp_path).code == 0


def sized(*shape: int) -> onnx.ModelProto:
    model = tiny_model()
    for dim, size in zip(model.graph.input[0].type.tensor_type.shape.dim, shape):
        dim.dim_value = size
    return model


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (sized(0, 3, 8, 8), "no native kernel"),
        (sized(1, 3, 0, 8), "a window of 3 elements reaches over the end"),
        (tiny_model(w=np.full((8, 3, 3, 3), np.nan)), "'w' holds NaN"),
    ],
)
def test_nonsense_is_refused(model: onnx.ModelProto, words: str, commands: Commands, tmp_path: Path) -> None:
    onnx.save(model, tmp_path / "m.onnx")
    outcome = commands("compile", "m.onnx", "--output", "out", folder=tmp_path)
    assert outcome.fault is None and outcome.code == 1 and words in outcome.stderr
    assert not (tmp_path / "out").exists()


def test_negative_sizes_are_open_ones(commands: Commands, tmp_path: Path) -> None:
    onnx.save(sized(-5, 3, 8, 8), tmp_path / "m.onnx")
    outcome = commands("compile", "m.onnx", "--output", "out", folder=tmp_path)
    assert outcome.code == 0 and "x.0=1" in outcome.stdout


def test_no_line_of_a_traceback_is_an_engine_error() -> None:
    told = 'Traceback (most recent call last):\n  File "<frozen runpy>", line 198\nValueError: no such op\n'
    assert first_line(RuntimeError(told)) == "ValueError: no such op"
