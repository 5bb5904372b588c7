"""Trails: the steps from one program to another, recorded while rewriting and replayed to check."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from tensmith.ir import Program
from tensmith.ir.edits import Edit, edited
from tensmith.rewrite.calibration import Calibration
from tensmith.rewrite.method import apply_lossy
from tensmith.rewrite.rule import EVERYWHERE, EXACT, NodeRule, Phase, Rule, Step
from tensmith.rewrite.told import rule_of

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
    program = start.program
    steps: list[Step] = []
    idle, ops = 0, _ops(program)  # how many rules in a row have found nothing
    for rule in itertools.cycle(rules):
        if idle == len(rules) or len(steps) >= limit:
            break
        before = program
        for site in () if _nowhere(rule, ops) else rule.candidates(program):
            after = _after(rule, program, site, owned=program is not start.program)
            if after is not None:
                program = after
                steps.append(Step(rule.name, site))
        idle += 1
        if program is not before:
            idle, ops = 0, _ops(program)
    return start.then(program, *steps)


def _ops(program: Program) -> frozenset[str]:
    return frozenset(node.op for node in program.nodes)


def _nowhere(rule: Rule, ops: frozenset[str]) -> bool:
    """Whether a rule looks at none of these ops."""
    return isinstance(rule, NodeRule) and bool(rule.roots) and ops.isdisjoint(rule.roots)


def _after(rule: Rule, program: Program, site: str, owned: bool) -> Program | None:
    """The program after a rule; one that is owned is not read again."""
    if not isinstance(rule, NodeRule):
        return rule.attempt(program, site)
    found = rule.edit(program, site)
    return edited(program, found, owned) if isinstance(found, Edit) else None


def in_phase(*phases: Phase) -> list[Rule]:
    """The exact rules of some phases, one phase after the other, in the order they are tried."""
    return list(_in_phase(phases, tuple(EXACT)))


@cache
def _in_phase(phases: tuple[Phase, ...], names: tuple[str, ...]) -> list[Rule]:
    found = (EXACT[name] for name in names if EXACT[name].phase in phases)
    return sorted(found, key=lambda rule: (phases.index(rule.phase), rule.order, rule.name))


def simplify(program: Program, *, fold: bool = True) -> Traced:
    """The program with every exact rule that makes it simpler applied, and its constants folded.

    Without `fold` what constants compute stays in the program, so that it equals the start in every
    arithmetic; folding rounds once where the start would have rounded at every step.
    """
    return simplified(Traced(program)) if fold else exhaust(Traced(program), in_phase("simplify"))


def simplified(traced: Traced) -> Traced:
    """What `traced` led to with every exact rule that makes it simpler applied, and its constants folded."""
    simpler = exhaust(traced, in_phase("simplify"))
    folded = exhaust(simpler, in_phase("fold"))
    while folded.trail != simpler.trail:  # a folded constant may turn out to be 0, 1 or another's equal
        simpler = exhaust(folded, in_phase("simplify"))
        folded = exhaust(simpler, in_phase("fold"))
    return folded


def stepped(before: Traced, step: Step) -> Traced:
    """One exact step later, simplified; a step at EVERYWHERE stands for every site of its rule."""
    rule = rule_of(step)
    if step.site == EVERYWHERE:
        return simplified(exhaust(before, [rule]))
    return simplified(before.then(rule.apply(before.program, step.site), step))


def moved(before: Traced, step: Step) -> Traced | None:
    """As `stepped`; None where the step does not apply."""
    if step.site == EVERYWHERE:
        after = stepped(before, step)
        return after if after.trail != before.trail else None
    program = rule_of(step).attempt(before.program, step.site)
    return None if program is None else simplified(before.then(program, step))


def moves(before: Traced, rules: Iterable[Rule]) -> Iterator[tuple[Step, Traced]]:
    """Every step of a rule at a place, and what it leads to."""
    for step, after in applied(before.program, rules):
        yield step, simplified(before.then(after, step))


def applied(program: Program, rules: Iterable[Rule]) -> Iterator[tuple[Step, Program]]:
    """Every step of a rule at a place, and the program after it, which is not simplified."""
    for rule in rules:
        for site in list(rule.candidates(program)):
            after = rule.attempt(program, site)
            if after is not None:
                yield Step(rule.name, site), after


def replay_exact(program: Program, trail: Iterable[Step]) -> Program:
    """The program that the exact steps of `trail` lead to."""
    for step in trail:
        program = rule_of(step).apply(program, step.site)
    return program


def replay(program: Program, trail: Iterable[Step], calibration: Calibration) -> Program:
    """The program that a trail leads to, lossy steps in the light of `calibration`."""
    for step in trail:
        if step.kind == "lossy":
            program = apply_lossy(program, step, calibration)
        else:
            program = rule_of(step).apply(program, step.site)
    return program
