"""The cheapest program of an e-graph, what is computed once counted once, with a proved bound.

First what needs no solver (reduce), then, again and again, a relaxation of the integer program: its bound
and the best choice so far tell of most nodes that they are in no better one. What is left is solved in whole
numbers, and the cycles of every solution are excluded until one has none.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from tensmith.egraph.graph import Choice, EGraph
from tensmith.egraph.greedy import greedy
from tensmith.egraph.reduce import Selection, only_below, selection_of, simplify
from tensmith.egraph.solve import Solved, relaxed, solved
from tensmith.egraph.unfounded import UnfoundedSet, broken
from tensmith.errors import UsageError

# Relative: costs that are closer are equal, as sums in another order are; the solver's own tolerances are a
# tenth of it.
SAME = 1e-6
# A further round of bounding must leave so much less than the last one.
_SHRINKS = 0.95
# So many rounds in a row may exclude sets while the bound rises by less than this share of the cost.
_IDLE, _RISES = 15, 1e-4


@dataclass(frozen=True)
class Extracted:
    """A choice, what it costs, and what no choice costs less than."""

    choice: Choice
    cost: float
    bound: float
    seconds: float

    @property
    def optimal(self) -> bool:
        """Whether it is proved that nothing costs less, beyond rounding."""
        return self.cost - self.bound <= SAME * self.cost

    @property
    def gap(self) -> float:
        """By which share of its cost an optimum may be cheaper."""
        return max(0.0, 1 - self.bound / self.cost) if self.cost else 0.0


def extract(graph: EGraph, seconds: float = 60.0) -> Extracted:
    """The cheapest choice that is found within so many seconds, and a bound.

    UsageError where no choice computes the roots without a cycle; MissingExtra without a solver.
    """
    search = _Search(graph, time.monotonic(), seconds)
    search.run()
    spent = time.monotonic() - search.started
    return Extracted(search.choice, search.cost, min(search.bound, search.cost), spent)


@dataclass
class _Search:
    """The best choice so far and the best bound; `selection` is what may still hold a better one."""

    graph: EGraph
    started: float
    seconds: float
    choice: Choice = field(default_factory=dict)
    cost: float = math.inf
    bound: float = 0.0
    unfounded: set[UnfoundedSet] = field(default_factory=set)

    def run(self) -> None:
        """Until the bound meets the cost, or the time is up."""
        selection = selection_of(self.graph)
        if not simplify(selection):
            raise UsageError("the e-graph has no program without a cycle for its roots")
        self.bound = selection.paid
        self._offer(selection, greedy(selection))
        if self._narrowed(selection):
            self._decide(selection)
        else:
            self.bound = self.cost

    @property
    def _left(self) -> float:
        return self.started + self.seconds - time.monotonic()

    @property
    def _most(self) -> float:
        """What an extraction may cost and still be no worse than the best one."""
        return self.cost * (1 + SAME / 10)

    def _narrowed(self, selection: Selection) -> bool:
        """Drops what no better choice has, by relaxations; False where nothing is left."""
        idle, size = 0, math.inf
        while self._left > 0 and idle < _IDLE:
            bound, before = self.bound, selection.size
            if selection.size < _SHRINKS * size:
                only_below(selection, self._most)
                if not simplify(selection):
                    return False
                size = selection.size
            found = relaxed(selection, self.unfounded, self._left)
            self._learn(selection, found)
            if math.isinf(found.bound):
                return False
            new = broken(selection, found.shares)
            self.unfounded.update(new)
            for c, options in selection.options.items():
                selection.options[c] = [
                    o
                    for o in options
                    if selection.paid + found.bound + found.raises.get((c, o.position), 0.0) <= self._most
                ]
            if not new and selection.size >= _SHRINKS * before:
                break
            rises = self.bound > bound + _RISES * self.cost
            idle = 0 if rises or selection.size < _SHRINKS * before else idle + 1
        only_below(selection, self._most)
        return simplify(selection)

    def _decide(self, selection: Selection) -> None:
        """Solves what is left in whole numbers, until a solution holds no unfounded set that is new."""
        self._offer(selection, greedy(selection))  # all there is where nothing is left open
        while self._left > 0 and not self._closed:
            found = solved(selection, self.unfounded, self._left)
            self._learn(selection, found)
            new = set(broken(selection, found.shares)) - self.unfounded
            if not new:
                return
            self.unfounded |= new

    def _learn(self, selection: Selection, found: Solved) -> None:
        """Raises the bound, and tries a solution: as it is, and with others where its nodes fail."""
        self.bound = max(self.bound, min(found.bound + selection.paid, self.cost))
        if found.shares:
            taken = {c: position for (c, position), share in found.shares.items() if share > 0.5}
            with contextlib.suppress(UsageError):  # shares, or a cycle
                self._offer(selection, taken)
            prices = {
                (c, o.position): o.cost * (1 - 0.999 * found.shares[c, o.position])
                for c, options in selection.options.items()
                for o in options
            }
            self._offer(selection, greedy(selection, prices))

    @property
    def _closed(self) -> bool:
        return self.cost - self.bound <= SAME / 10 * self.cost

    def _offer(self, selection: Selection, choice: Mapping[int, int]) -> None:
        whole = selection.whole(choice)
        cost = self.graph.cost(whole)
        if cost < self.cost:
            self.choice, self.cost = {c: whole[c] for c in self.graph.reached(whole)}, cost
