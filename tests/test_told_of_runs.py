"""What a run tells of its samples and its time is so."""

from __future__ import annotations

import time

import pytest

from tensmith import compression
from tensmith.search.candidate import Candidate
from tensmith.search.plan import UNTOUCHED


@pytest.mark.parametrize(
    ("samples", "half"),
    [((64, 64, 1024, 1024), 64), ((64, 1024), 64), ((64, 256, 1024), 256), ((64, 256, 1024, 2000), 256)],
)
def test_half_of_the_candidates_were_judged_on_at_most_so_many(samples: tuple[int, ...], half: int) -> None:
    voice = compression._Voice(lambda _: None)
    compression._tell_of_samples([Candidate("c", UNTOUCHED, "accepted", samples=n) for n in samples], voice)
    (told,) = voice.notes
    assert f"half of them on at most {half}:" in told
    assert 2 * sum(each <= half for each in samples) >= len(samples)


def test_a_run_says_by_how_much_it_was_late() -> None:
    now = time.monotonic()
    assert compression._over(now + 5) == compression._over(now - 0.5) == ""
    assert compression._over(now - 17) == ": 17 s over the time budget"
