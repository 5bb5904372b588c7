"""Spaces of equal programs: what exact rules make of one, and how far its cheapest is from the optimum.

A move is one step of a rule at one place, then everything that makes a program simpler (trail.stepped), so
that a program found is a list of steps and replays. Two spaces are walked alike:

- exhaustive: every program that moves lead to, each once by what it computes in which way. The bound is the
  least cost of all of them, where all were seen.
- saturation: an e-graph of all programs seen. A program is gone on from only if it shows a node beside nodes
  that no program before it showed, so that changes in different places do not multiply; the e-graph stands
  for their combinations. The bound is that of its extraction, over all these combinations.

Both end at their limits with what was found till then, and say which limit it was.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field

from tensmith.egraph.extract import SAME, extract
from tensmith.egraph.programs import ArrayHashes, Cost, Key, ProgramGraph, chosen, signature, windows
from tensmith.egraph.solve import solver
from tensmith.ir import Program
from tensmith.rewrite.rule import Rule, Step
from tensmith.rewrite.trail import Traced, in_phase, moved, moves, simplified

# Of the time, for walking; the rest is for extraction.
_WALKING = 0.6


@dataclass(frozen=True)
class Reach:
    """How far a walk may go: moves from the start, programs seen, nodes of the e-graph, seconds in all."""

    depth: int = 12
    programs: int = 100_000
    nodes: int = 50_000
    seconds: float = 60.0


@dataclass(frozen=True)
class Explored:
    """The cheapest program found, the moves to it, what it costs, and what none of the space costs less than.

    cheapest: the moves to this and other programs that were gone on from, the cheapest first. programs: how
    many were seen; size: nodes and classes of the e-graph, or no e-graph. ended: why the walk went no
    further, "" where there was nothing more to see.
    """

    best: Traced
    moves: tuple[Step, ...]
    cheapest: tuple[tuple[Step, ...], ...]
    start_cost: float
    cost: float
    bound: float
    rules: int
    programs: int
    size: tuple[int, int] | None
    ended: str
    seconds: float

    @property
    def gap(self) -> float | None:
        """By which share of the optimum the program found may be dearer; None where no bound is known."""
        return max(0.0, self.cost / self.bound - 1) if self.bound > 0 else None


def saturate(program: Program, cost: Cost, reach: Reach = Reach()) -> Explored:
    """The cheapest program of the e-graph that exact rules make, as far as it can be reached by moves."""
    return _Walk(program, cost, reach, True).run()


def enumerate_all(program: Program, cost: Cost, reach: Reach = Reach()) -> Explored:
    """The cheapest of all programs that exact rules lead to."""
    return _Walk(program, cost, reach, False).run()


def equal_forms(program: Program, cost: Cost, reach: Reach) -> tuple[tuple[Step, ...], ...]:
    """Moves to other programs, the cheapest first; together they show all that saturation finds of nodes."""
    walk = _Walk(program, cost, reach, True)
    walk.begin()
    walk.walk()
    return tuple(visit.moves for visit in sorted(walk.visits, key=lambda v: v.cost) if visit.moves)


def searched_rules() -> list[Rule]:
    """The exact rules whose steps are moves."""
    return in_phase("offer", "form")


@dataclass(frozen=True)
class _Visit:
    """A program of the walk, the moves to it and the visit before, the class at which the last was made, the
    nodes that it was the first to show, and the classes of its values."""

    traced: Traced
    moves: tuple[Step, ...]
    cost: float
    before: _Visit | None
    place: int | None
    shown: frozenset[Key] = frozenset()
    classes: Mapping[str, int] = field(default_factory=dict)


@dataclass
class _Walk:
    """A walk through a space: with an e-graph to saturate, or through all programs."""

    program: Program
    cost: Cost
    reach: Reach
    saturating: bool
    hashes: ArrayHashes = field(default_factory=ArrayHashes)
    started: float = 0.0
    visits: list[_Visit] = field(default_factory=list)
    waiting: list[tuple[float, int]] = field(default_factory=list)
    seen: set[Hashable] = field(default_factory=set)
    nodes: set[Key] = field(default_factory=set)
    known: set[str] = field(default_factory=set)
    ended: str = ""

    def __post_init__(self) -> None:
        self.graph = ProgramGraph(self.hashes) if self.saturating else None
        self.rules = searched_rules()

    def run(self) -> Explored:
        """Walks, extracts, and goes on from what extraction put together, until nothing is new."""
        if self.saturating:
            solver()  # what is missing is said before the work
        self.begin()
        bound = 0.0
        while True:
            self.walk()
            if self.graph is None:
                best = min(self.visits, key=lambda visit: visit.cost)
                bound = 0.0 if self.ended else best.cost
                break
            egraph, keys = self.graph.egraph()
            found = extract(egraph, max(self._left, 1.0))
            bound = found.bound
            together = self._put_together(chosen(egraph, keys, found.choice), found.cost)
            best = min(self.visits, key=lambda visit: visit.cost)
            if not together:
                break
        return Explored(
            best.traced,
            best.moves,
            tuple(visit.moves for visit in sorted(self.visits, key=lambda visit: visit.cost)),
            self.visits[0].cost,
            best.cost,
            min(bound, best.cost),
            len(self.rules),
            len(self.known),
            self.graph.size if self.graph else None,
            self.ended,
            time.monotonic() - self.started,
        )

    def begin(self) -> None:
        """Meets the program itself, simplified."""
        self.started = time.monotonic()  # rules that were not proved yet have been by now
        self._meet(simplified(Traced(self.program)), (), None, None)

    @property
    def _left(self) -> float:
        return self.started + self.reach.seconds - time.monotonic()

    def walk(self) -> None:
        """Goes on from what waits, the cheapest first, or the nearest where all programs are wanted."""
        deep = False
        while self.waiting and not self.ended:
            visit = self.visits[heapq.heappop(self.waiting)[1]]
            if len(visit.moves) >= self.reach.depth:
                deep = True
                continue
            for step, after in moves(visit.traced, self.rules):
                self._meet(after, (*visit.moves, step), visit, visit.classes.get(step.site))
                self.ended = self._over()
                if self.ended:
                    return
        if deep:
            self.ended = f"its depth of {self.reach.depth} moves"

    def _over(self) -> str:
        """Which limit is met."""
        if self.started + _WALKING * self.reach.seconds < time.monotonic():
            return f"its time of {self.reach.seconds:g} s"
        if len(self.known) >= self.reach.programs:
            return f"its limit of {self.reach.programs} programs"
        if self.graph is not None and len(self.nodes) >= self.reach.nodes:
            return f"its limit of {self.reach.nodes} nodes"
        return ""

    def _meet(
        self, traced: Traced, moves: tuple[Step, ...], before: _Visit | None, place: int | None
    ) -> bool:
        """Takes note of a program; whether it was new, and waits to be gone on from."""
        name = signature(traced.program, self.hashes)
        if name in self.known:
            return False
        self.known.add(name)
        costs = self.cost(traced.program)
        total = price(traced.program, costs)
        if self.graph is None:
            self.visits.append(_Visit(traced, moves, total, before, place))
            heapq.heappush(self.waiting, (len(moves), len(self.visits) - 1))
            return True
        added = self.graph.add(traced.program, costs)
        shows = set(windows(traced.program, added.keys))
        new = frozenset(added.keys.values()) - self.nodes
        if shows <= self.seen and self.visits and total >= min(visit.cost for visit in self.visits):
            return False
        self.seen |= shows
        self.nodes |= new
        self.visits.append(_Visit(traced, moves, total, before, place, new, added.classes))
        heapq.heappush(self.waiting, (total, len(self.visits) - 1))
        return True

    def _put_together(self, wanted: frozenset[Key], cost: float) -> bool:
        """Tries to reach an extraction by moves: those that first showed its nodes, and those before them,
        one after the other from the start, each where its class is. Whether a new program was met."""
        assert self.graph is not None
        if min(visit.cost for visit in self.visits) <= cost * (1 + SAME):
            return False
        wanted = frozenset(map(self.graph.canonical, wanted))
        needed = [v for v in self.visits if not wanted.isdisjoint(map(self.graph.canonical, v.shown))]
        new = self._replayed(needed)
        behind = {id(v): v for visit in needed for v in _line(visit)}
        return self._replayed([v for v in self.visits if id(v) in behind]) or new

    def _replayed(self, visits: list[_Visit]) -> bool:
        """Makes the last moves of visits one after the other, as far as they apply."""
        assert self.graph is not None
        traced, made = self.visits[0].traced, self.visits[0].moves
        new = False
        for visit in visits:
            if not visit.moves or self._left < 0:
                continue
            for site in self._sites(traced.program, visit):
                after = moved(traced, step := Step(visit.moves[-1].rule, site))
                if after is not None:
                    traced, made = after, (*made, step)
                    new |= self._meet(traced, made, visit, visit.place)
                    break
        return new

    def _sites(self, program: Program, visit: _Visit) -> list[str]:
        """Where the last move of a visit may be made in another program."""
        if visit.place is None or self.graph is None:
            return [visit.moves[-1].site]
        classes = self.graph.add(program, self.cost(program)).classes
        place = self.graph.leader(visit.place)
        return [name for name, c in classes.items() if c == place]


def _line(visit: _Visit | None) -> Iterator[_Visit]:
    """A visit and those before it."""
    while visit is not None:
        yield visit
        visit = visit.before


def price(program: Program, costs: Mapping[str, float]) -> float:
    """What a program costs: what constants alone compute is computed before it runs."""
    static = program.static_values
    return math.fsum(costs.get(node.output, 0.0) for node in program.nodes if node.output not in static)
