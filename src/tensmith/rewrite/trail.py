"""Trails: the steps from one program to another, recorded while rewriting and replayed to check."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tensmith.ir import Program
from tensmith.rewrite.rule import EXACT, Rule, Step

Trail: TypeAlias = tuple[Step, ...]


@dataclass(frozen=True)
class Traced:
    """A program and the trail that led to it from the start."""

    program: Program
    trail: Trail = ()

    def then(self, program: Program, *steps: Step) -> Traced:
        """The next program, `steps` later."""
        return Traced(program, (*self.trail, *steps))


def exhaust(start: Traced, rules: Sequence[Rule], limit: int = 20_000) -> Traced:
    """Applies `rules`, in order and again, until none of them applies anywhere.

    Every rule must make the program simpler by some measure, or this would not end; `limit` bounds the
    steps all the same.
    """
    traced = start
    changed = True
    while changed and len(traced.trail) - len(start.trail) < limit:
        changed = False
        for rule in rules:
            while True:
                sites = list(rule.sites(traced.program))
                before = len(traced.trail)
                for site in sites:
                    if rule.applies(traced.program, site):
                        step = Step(rule.name, site)
                        traced = traced.then(rule.apply(traced.program, site), step)
                if len(traced.trail) == before:
                    break
                changed = True
    return traced


def in_phase(phase: str) -> list[Rule]:
    """The exact rules of a phase, in the order they are tried."""
    return sorted((rule for rule in EXACT.values() if rule.phase == phase), key=lambda r: (r.order, r.name))


def simplify(program: Program) -> Traced:
    """The program with every exact rule that makes it simpler applied, constants folded last."""
    return exhaust(exhaust(Traced(program), in_phase("simplify")), in_phase("fold"))


def replay_exact(
    program: Program, trail: Iterable[Step], on_step: Callable[[Step], None] | None = None
) -> Program:
    """The program that the exact steps of `trail` lead to."""
    for step in trail:
        program = EXACT[step.rule].apply(program, step.site)
        if on_step is not None:
            on_step(step)
    return program
