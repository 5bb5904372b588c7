"""A report says how its run is made again, and never a command that would do something else."""

from __future__ import annotations

from pathlib import Path

from tensmith.config import make_config
from tensmith.deploy.write import repeating
from tensmith.evaluate.task import Task

FILE = Path("my runs/config.yaml")


def test_a_run_of_the_command_line() -> None:
    told = repeating(FILE, make_config(model="m.onnx", data="npz:d.npz"), Task("accuracy"))
    assert told == "tensmith compress --config 'my runs/config.yaml' --output NEW"


def test_what_a_configuration_does_not_hold() -> None:
    judged = Task("score", evaluation=lambda model, view: 1.0)
    told = repeating(FILE, make_config(model="m.onnx", data="npz:d.npz"), judged)
    assert (
        told
        == "tensmith.compress(...) in Python with its evaluation, which my runs/config.yaml does not hold"
    )
    assert "its data and its evaluation" in repeating(FILE, make_config(model="m.onnx"), judged)
    assert "with its data," in repeating(FILE, make_config(model="m.onnx"), Task("accuracy"))
