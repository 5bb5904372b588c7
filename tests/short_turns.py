"""Contenders are timed briefly where tests run them: no test is about how sure a latency is.

A run on a small model times a dozen pairs, each for half a second of turns of 30 ms; a point that is verified
with its data is timed for 3 s.
"""

from __future__ import annotations

_TURN, _AGAIN = 0.004, 0.3  # seconds


def take_short_turns() -> None:
    """From now on this process, and what is forked from it, times models briefly."""
    from tensmith.deploy import again
    from tensmith.evaluate import latency
    from tensmith.search import race

    latency._TURN_SECONDS = race._TURN_SECONDS = _TURN
    again._LATENCY_SECONDS = _AGAIN
