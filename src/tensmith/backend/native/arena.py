"""One block of memory for everything that lives only during a run: offsets by lifetimes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tensmith.kernel.buffer import aligned


class Lifetime(NamedTuple):
    """Bytes that are needed from step `first` to step `last`, both included."""

    bytes: int
    first: int
    last: int


def arrange(spans: Mapping[str, Lifetime]) -> tuple[dict[str, int], int]:
    """An offset for each span such that spans alive together do not overlap, and the bytes of them all.

    Greedy by size, each at the lowest gap that fits (Pisarchyk and Lee, 2020).
    """
    placed: list[tuple[int, int, Lifetime]] = []
    offsets: dict[str, int] = {}
    for name, span in sorted(spans.items(), key=lambda item: (-item[1].bytes, item[0])):
        size, at = aligned(span.bytes), 0
        for start, end, other in sorted(placed):
            if other.last < span.first or span.last < other.first:
                continue
            if at + size <= start:
                break
            at = max(at, end)
        offsets[name] = at
        placed.append((at, at + size, span))
    return offsets, max((end for _, end, _ in placed), default=0)
