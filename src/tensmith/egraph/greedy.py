"""An extraction at once, without a bound: classes are settled in rising order of what they cost.

As Knuth's generalization of Dijkstra's algorithm (Information Processing Letters 6(1), 1977), with costs that
count what is shared once. A class reads only what was settled before it, so the choice has no cycle.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping

from tensmith.egraph.reduce import Selection, bits

# (class, position) -> what is asked for it instead of its cost.
Prices = Mapping[tuple[int, int], float]


def greedy(selection: Selection, prices: Prices | None = None) -> dict[int, int]:
    """The node of each class that can be computed, by position."""
    readers: dict[int, list[tuple[int, int]]] = {}
    missing: dict[tuple[int, int], int] = {}
    queue: list[tuple[float, int, int]] = []
    choice: dict[int, int] = {}
    closures: dict[int, int] = {}  # class -> the classes that its choice reads, and itself
    paid: dict[int, float] = {}  # class -> the price of its own node

    def offer(c: int, at: int) -> None:
        option = selection.options[c][at]
        closure = 0
        for child in bits(option.reads):
            closure |= closures[child]
        own = prices.get((c, option.position), option.cost) if prices else option.cost
        offered[c, at] = closure, own
        heapq.heappush(queue, (own + sum(paid[member] for member in bits(closure)), c, at))

    offered: dict[tuple[int, int], tuple[int, float]] = {}
    for c, options in selection.options.items():
        for at, option in enumerate(options):
            missing[c, at] = option.reads.bit_count()
            for child in bits(option.reads):
                readers.setdefault(child, []).append((c, at))
            if not option.reads:
                offer(c, at)
    while queue:
        _, c, at = heapq.heappop(queue)
        if c in choice:
            continue
        closure, paid[c] = offered[c, at]
        choice[c], closures[c] = selection.options[c][at].position, closure | 1 << c
        for reader in readers.get(c, ()):
            missing[reader] -= 1
            if not missing[reader] and reader[0] not in choice:
                offer(*reader)
    return choice
