"""How a run is searched: a table of strategies, each a function from a quest to the candidates it tried.

@strategy("beam")
def beam(quest): return beam_search(quest)
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tensmith.errors import MissingExtra
from tensmith.progress import Progress, silent
from tensmith.registry import Registry
from tensmith.search.candidate import Candidate
from tensmith.search.objective import Objective
from tensmith.search.plan import Plan
from tensmith.search.space import Idea, Space

Try = Callable[[Plan], Candidate]
Prepare = Callable[[Sequence[Plan]], None]

# The model itself, its exact rewrite, its weights in 16 bits and its plain int8 form.
ALWAYS_TRIED = 4
# Of the seconds for estimates, what a search takes that only wants to know the optimum's bound.
BOUNDING = 0.2


@dataclass(frozen=True)
class Quest:
    """What a strategy is given: where to look, how to measure, and until when.

    model: by what the space estimates what nodes take. seconds: what may be spent on estimates alone. tell:
    shows a sentence now and in the report. seed: of what a search leaves to chance. prepare: hears which
    plans are tried soon, where several are known. settled: gives the value that an earlier start of the run
    gave under a name, else the one given: what a clock decided is decided once.
    """

    space: Space
    attempt: Try
    objective: Objective
    original_bytes: float
    time_left: Callable[[], bool]
    model: str = ""
    seconds: float = 0.0
    tell: Progress = silent
    seed: int = 0
    prepare: Prepare = lambda _: None
    settled: Callable[[str, Any], Any] = lambda _, value: value

    def seeds(self) -> Iterator[Idea]:
        """Those of the space, as long as there is time left; the first, and what it began with, always."""
        seeds = list(self.space.seeds())
        self.prepare([seed.plan for seed in seeds])
        for number, seed in enumerate(seeds):
            if number < ALWAYS_TRIED + len(self.space.begun) or self.time_left():
                yield seed


@dataclass(frozen=True)
class Strategy:
    """A search by name; `needs` names a module of the extra `search`, if it needs one."""

    name: str
    needs: str
    run: Callable[[Quest], list[Candidate]]

    def demand(self) -> None:
        """MissingExtra where what it needs is not installed."""
        if self.needs and importlib.util.find_spec(self.needs) is None:
            raise MissingExtra(f"--search {self.name}", "search")


@dataclass(frozen=True)
class TriedIdea:
    """An idea and what became of it."""

    idea: Idea
    candidate: Candidate


STRATEGIES: Registry[Strategy] = Registry("search", "tensmith.search.strategies")


def strategy(name: str, needs: str = "") -> Callable[[Callable[[Quest], list[Candidate]]], Strategy]:
    """Registers a search."""
    return lambda run: STRATEGIES.add(name, Strategy(name, needs, run))
