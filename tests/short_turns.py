"""Contenders take shorter turns where tests run them: no test is about how sure a latency is.

A run on a small model times a dozen of pairs, each for half a second of turns of 30 ms.
"""

from __future__ import annotations

_SECONDS = 0.004


def take_short_turns() -> None:
    """From now on this process, and what is forked from it, times models in short turns."""
    from tensmith.evaluate import latency
    from tensmith.search import race

    latency._TURN_SECONDS = race._TURN_SECONDS = _SECONDS
