"""Parts of a program in equal forms: what a search changes below the layer.

A region is a stretch of a few nodes, cut out as a program of its own and saturated by the exact rules. What
it may become is a list of moves, and these are made in the whole program: a form is exact steps like all
others, which replay, and whose proof is the chain of their rules.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from tensmith.egraph.explore import Reach, equal_forms, price, searched_rules
from tensmith.egraph.extract import SAME
from tensmith.egraph.programs import ArrayHashes, Cost, signature
from tensmith.errors import ProgramError
from tensmith.ir import Program
from tensmith.ir.part import cut_out
from tensmith.rewrite.rule import Step
from tensmith.rewrite.trail import Traced, moved, moves

_NODES = 8
# No limit of time: a resumed search must find the same forms.
_REACH = Reach(depth=4, programs=60, nodes=2000, seconds=math.inf)
_KEPT_PROGRAMS = 48
# What rules make of a name (Program.fresh).
_FRESH = re.compile(r"(\.\d+)+$")


@dataclass(frozen=True)
class Formed:
    """A program after exact steps, and those of them that applied."""

    program: Program
    steps: tuple[Step, ...] = ()


@dataclass
class Regions:
    """Equal forms of the parts of one simplified program; `cost` is what its nodes are estimated to take."""

    program: Program
    cost: Cost
    hashes: ArrayHashes = field(default_factory=ArrayHashes)
    _formed: dict[Hashable, Formed] = field(default_factory=dict)
    _estimates: dict[Hashable, float] = field(default_factory=dict)
    _moves: dict[Hashable, list[Step]] = field(default_factory=dict)
    _forms: dict[Hashable, tuple[tuple[Step, ...], ...]] = field(default_factory=dict)

    def formed(self, steps: Sequence[Step]) -> Formed:
        """The program after exact steps, each made where it applies to what those before it led to."""
        if not steps:
            return Formed(self.program)
        key = _key(steps)
        made = self._formed.pop(key, None)
        if made is None:
            before = self.formed(steps[:-1])
            after = moved(Traced(before.program), steps[-1])
            made = Formed(after.program, (*before.steps, steps[-1])) if after else before
            while len(self._formed) >= _KEPT_PROGRAMS:
                self._formed.pop(next(iter(self._formed)))
        self._formed[key] = made  # the last that was asked for
        return made

    def estimate(self, steps: Sequence[Step]) -> float:
        """What the program after exact steps is estimated to cost."""
        key = _key(steps)
        if key not in self._estimates:
            program = self.formed(steps).program
            self._estimates[key] = price(program, self.cost(program))
        return self._estimates[key]

    def forms(self, steps: Sequence[Step], start: int) -> tuple[tuple[Step, ...], ...]:
        """Moves to equal forms of the region at node `start` after exact steps, the cheapest first."""
        key = (_key(steps), start)
        if key not in self._forms:
            self._forms[key] = self._found(self.formed(steps).program, start)
        return self._forms[key]

    def moves(self, steps: Sequence[Step]) -> list[Step]:
        """Single steps to programs that are not estimated dearer, each program once, the cheapest first.

        An offer that there is one place for is none: it is made everywhere.
        """
        key = _key(steps)
        if key not in self._moves:
            self._moves[key] = self._moves_found(self.formed(steps).program, self.estimate(steps))
        return self._moves[key]

    def _moves_found(self, program: Program, most: float) -> list[Step]:
        found: dict[str, tuple[float, Step]] = {}
        for rule in searched_rules():
            made = list(moves(Traced(program), [rule]))
            if rule.phase == "offer" and len(made) == 1:
                continue
            for step, after in made:
                cost = price(after.program, self.cost(after.program))
                if cost <= most * (1 + SAME):
                    found.setdefault(signature(after.program, self.hashes), (cost, step))
        return [step for _, step in sorted(found.values(), key=lambda each: each[0])]

    def _found(self, program: Program, start: int) -> tuple[tuple[Step, ...], ...]:
        try:
            region = cut_out(program, program.nodes[start : start + _NODES])
        except ProgramError:  # it reads a value whose type nobody knows
            return ()
        return equal_forms(region, self.cost, _REACH)

    def of_both(self, ours: Sequence[Step], theirs: Sequence[Step], start: int, end: int) -> list[Step]:
        """Their steps at the nodes from `start` to `end`, and ours at all others."""
        inside = {name for node in self.program.nodes[start:end] for name in node.outputs}
        return [
            *(step for step in ours if origin(step) not in inside),
            *(step for step in theirs if origin(step) in inside),
        ]


def origin(step: Step) -> str:
    """The value of the first program at which a step acts, or from which its place was made."""
    return _FRESH.sub("", step.site)


def _key(steps: Sequence[Step]) -> Hashable:
    return tuple((step.rule, step.site) for step in steps)
