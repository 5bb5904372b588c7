"""A trial training that is cut costs itself at most, and nothing of it stays in a run's folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the torch extra is not installed")

import digit_lessons
from command_line import TIMEOUT_S
from digit_runs import run, train_few_steps, trained_point
from tensmith.compression import Interrupted
from tensmith.search.lessons import Lessons

# A trial of a dozen steps, with a look after every sixth one; what comes after it is as short.
STEP, RECOVER, STOPPED_AT = 2.0, 300, 8
KILLED = f"""
import signal, sys
from pathlib import Path
import pytest
import digit_lessons, digit_runs
patch = pytest.MonkeyPatch()
digit_runs.train_few_steps(patch, {STEP})
digit_lessons.interrupted_at(patch, {STOPPED_AT}, signal.SIGKILL)
digit_runs.run(Path(sys.argv[1]), recover={RECOVER}, plan=sys.argv[2])
"""


def killed(out: Path, plan: Path) -> None:
    """A run that is killed in its trial."""
    tests = os.pathsep.join([str(Path(digit_lessons.__file__).parent), os.environ.get("PYTHONPATH", "")])
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, out, plan], timeout=TIMEOUT_S, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": tests},
    )  # fmt: skip
    assert ended.returncode == -signal.SIGKILL, ended.stderr


def stopped(out: Path, plan: Path) -> None:
    """A run that Ctrl-C ends in its trial."""
    with pytest.MonkeyPatch.context() as patch:
        digit_lessons.interrupted_at(patch, STOPPED_AT)
        with pytest.raises(Interrupted) as ended:
            run(out, recover=RECOVER, plan=plan)
    assert ended.value.front.points


@pytest.mark.parametrize("end", [killed, stopped])
def test_a_trial_that_was_cut_is_gone_on_with_and_leaves_nothing(
    end: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does one of a plan that no longer promises most."""
    train_few_steps(monkeypatch, STEP)
    plan = tmp_path / "coarse.yaml"  # what promises most is known before the trial
    plan.write_text("steps:\n- {rule: int8, params: {default_bits: 2}}\n")
    end(tmp_path / "out", plan)
    (left,) = (tmp_path / "out" / "trained").glob("pilot-*")
    left.with_name("pilot-of-another.npz").write_bytes(left.read_bytes())

    trials, pilot = [], Lessons.pilot

    def watched(self: Lessons, *given: Any) -> Any:
        trials.append(pilot(self, *given))
        return trials[-1]

    monkeypatch.setattr(Lessons, "pilot", watched)
    front = run(tmp_path / "out", recover=RECOVER, plan=plan, resume=True)
    assert len(trials) == 1 and not trials[0].stopped
    assert trained_point(front).metrics["accuracy_drop"].value < 50  # by chance it would lose nearly 90
    assert not [*(tmp_path / "out" / "trained").glob("*pilot-*")]
