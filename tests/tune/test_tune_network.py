"""Tuning a network: one budget of time and trials, whoever spends it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from small_networks import Clock, two_layers

from own_cache import own_cache
from tensmith.kernel import Kernel, host_isa
from tensmith.kernel.timings import Timings
from tensmith.tune.network import TuningTarget, tune
from tensmith.tune.search import Budget, TuningSearch
from tensmith.tune.tvm.metaschedule import MetaSchedule

_SECONDS = 0.05


class Other:
    """Stands for MetaSchedule: it notes what it is left."""

    trials, failures = 0, ()

    def run(self, search: TuningSearch, budget: Budget, stopped: Callable[[], bool]) -> None:
        """The second phase."""
        self.left = budget


class SlowClock(Clock):
    """Each measurement takes a while."""

    def __call__(self, kernel: Kernel, memory: int, span: float) -> float:
        """As Clock's."""
        time.sleep(_SECONDS)
        return super().__call__(kernel, memory, span)


@pytest.mark.parametrize(
    ("trials", "ours", "theirs"), [(0, 0, 0), (1, 1, 0), (5, 2, 3), (None, 2, None)], ids=str
)
def test_guesses_and_metaschedule_share_one_budget(
    trials: int | None, ours: int, theirs: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_cache(tmp_path / "cache", monkeypatch)
    timings, clock, other = Timings(), SlowClock(), Other()
    budget = Budget(600.0, trials)
    place = TuningTarget(host_isa(), timings, clock)
    tune(two_layers(), place, tmp_path / "made", budget, other=cast("MetaSchedule", other))
    assert len(clock.asked) == ours
    assert other.left.trials == theirs
    assert other.left.seconds <= budget.seconds - ours * _SECONDS
