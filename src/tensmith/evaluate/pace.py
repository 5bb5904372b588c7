"""How fast a run goes on this machine today: what is left to do is estimated from what was done."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict, deque
from collections.abc import Iterator

# What is timed: starting an engine with a file, judging a sample, building a program, checking the exact
# beginning of a trail, and trying a plan, all of it.
START, SAMPLE, BUILD, CHECK, ATTEMPT = "start", "sample", "build", "check", "attempt"
# A machine is busier at one time than at another: what was long ago says little.
_REMEMBERED = 5


class Pace:
    """Seconds that the last few of each part of a run took, by name; 0 as long as none was timed."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_REMEMBERED))

    @contextlib.contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Notes what the block took; a block that fails says nothing."""
        began = time.monotonic()
        yield
        self.note(part, time.monotonic() - began)

    def note(self, part: str, seconds: float) -> None:
        """Notes what a part took."""
        self._seconds[part].append(seconds)

    def longest(self, part: str) -> float:
        """What the next `part` may take."""
        return max(self._seconds[part], default=0.0)

    def usual(self, part: str) -> float:
        """What each of many `part`s will take."""
        return sum(self._seconds[part]) / max(1, len(self._seconds[part]))

    def several(self, part: str, count: int) -> float:
        """What `count` of `part` may take: one of them as long as any did, the others what is usual."""
        return self.longest(part) + (count - 1) * self.usual(part) if count else 0.0
