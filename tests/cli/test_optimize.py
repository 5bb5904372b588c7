"""`tensmith optimize` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import tensmith
from tensmith.cli.optimize import optimize
from tensmith.superoptimize import alone

SOURCE = """
import numpy as np

def total(x, y):
    return np.sum(np.outer(x, y))

def chosen(x):
    return x if x.sum() > 0 else -x
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "k.py").write_text(SOURCE)
    return tmp_path


def test_a_program_and_what_is_known_of_it(folder: Path) -> None:
    options = ("--example", "x=f64[900]", "--example", "y=f64[800]", "--seconds", "2", "--json")
    result = tensmith("optimize", "k.py", "--function", "total", *options, folder=folder)
    document = json.loads(result.stdout)
    assert result.returncode in (0, 1) and document["function"] == "total"
    assert document["equality"]["by"].startswith("over the reals")
    assert document["speedup"]["evidence"] == "measured"
    assert document["difference"]["value"] < 1e-9


def test_a_refusal_says_why(folder: Path) -> None:
    result = tensmith("optimize", "k.py", "--function", "chosen", "--example", "x=f64[9]", folder=folder)
    assert result.returncode == 1
    assert "chosen: the original stays: what it does depends on a value" in result.stdout


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x + 10**10**9", "does not end within 0.1 s"),
        ("x + len([0] * 10**12)", "takes too much memory"),
    ],
)
def test_what_does_not_end_is_ended(
    text: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alone, "_STARTING", 1e6)  # it ends itself
    (tmp_path / "k.py").write_text(f"def f(x):\n    return {text}\n")
    found = optimize(tmp_path / "k.py", "f", ["x=f64[9]"], seconds=0.1)
    assert found.exit_code == 1 and sentence in found.document["reason"]


def test_what_ends_is_let_through(folder: Path) -> None:
    alone.demand_ending(folder / "k.py", "total", ["x=f64[9]", "y=f64[8]"], {"x": "positive"}, 5.0)
    alone.demand_ending(folder / "k.py", "chosen", ["x=f64[9]"], {}, 5.0)  # says itself what is wrong


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--function", "none", "--example", "x=f64[9]"), "its functions: total, chosen"),
        (("--function", "chosen", "--example", "z=1"), "'z', which is no parameter"),
        (("--function", "chosen", "--example", "x=f99[9]"), "is no number, and no array"),
        (("--function", "chosen", "--example", "x=f64[9]", "--seconds", "inf"), "less than or equal to"),
        (("--function", "chosen", "--example", "x=1", "--domain", "x=green"), "no promise is called 'green'"),
    ],
)
def test_wrong_options_are_told(options: tuple[str, ...], sentence: str, folder: Path) -> None:
    result = tensmith("optimize", "k.py", *options, folder=folder)
    assert result.returncode == 2 and sentence in " ".join(result.stderr.split())
