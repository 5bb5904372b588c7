"""Equal programs by exact rules: what is simpler first, then a beam over what the other rules open.

The rules are those of models; what takes a program out of the ops that there is text for is no step.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass

from tensmith.egraph.explore import searched_rules
from tensmith.egraph.programs import ArrayHashes, signature
from tensmith.errors import ProgramError
from tensmith.evaluate.count import node_costs
from tensmith.hardware import load_target
from tensmith.hardware.cost import op_seconds
from tensmith.hardware.target import HOST
from tensmith.ir import Node, Program
from tensmith.ir.handlers import Handlers
from tensmith.rewrite.rule import Rule
from tensmith.rewrite.trail import Traced, applied, exhaust, in_phase
from tensmith.superoptimize.text import shares_memory, written

# Seconds of one multiplication inside of a loop over vectors, and how many of them functions take; measured
# on an x86-64 server with 512-bit vectors.
_ELEMENT = 0.15e-9
_WEIGHTS = Handlers[float]()
for _ops, _weight in (
    (("pow",), 24.0), (("exp", "log", "reduce_log_sum"), 7.0), (("sin", "cos"), 6.0), (("tan",), 14.0),
    (("sinh", "cosh", "tanh", "sigmoid", "asin", "acos", "atan"), 14.0), (("sqrt", "div", "reciprocal"), 4.0),
):  # fmt: skip
    _WEIGHTS(*_ops)(_weight)
_WIDTH, _DEPTH, _KEPT, _STEPS = 5, 5, 3, 400


@dataclass(frozen=True)
class EqualForm:
    """A program with the steps that led to it and what it is thought to cost, in seconds."""

    traced: Traced
    cost: float


class _Within(Rule):
    """A rule where it stays among the ops that can be written here."""

    def __init__(self, rule: Rule) -> None:
        self.name, self.rule, self.phase, self.order = rule.name, rule, rule.phase, rule.order

    def candidates(self, program: Program) -> Iterable[str]:
        return self.rule.candidates(program)

    def attempt(self, program: Program, site: str) -> Program | None:
        try:
            after = self.rule.attempt(program, site)
        except ProgramError:
            return None
        return after if after is not None and written(after) else None


def forms(start: Program, seconds: float) -> list[EqualForm]:
    """The cheapest equal programs, cheapest first, then what is simplified alone, then the start.

    Takes about `seconds`.
    """
    began = time.monotonic()
    simpler = [_Within(rule) for rule in in_phase("simplify", "fold")]
    moves = [_Within(rule) for rule in searched_rules()]
    first = _form(exhaust(Traced(start), simpler, _STEPS))
    hashes = ArrayHashes()
    known = {signature(first.traced.program, hashes): first}
    beam = [first]
    for _ in range(_DEPTH):
        found: dict[str, EqualForm] = {}
        for form in beam:
            for step, after in applied(form.traced.program, moves):
                if time.monotonic() - began > seconds:
                    break
                made = _form(exhaust(form.traced.then(after, step), simpler, _STEPS))
                key = signature(made.traced.program, hashes)
                if key not in known:
                    known[key] = found[key] = made
        beam = sorted(found.values(), key=lambda form: form.cost)[:_WIDTH]
        if not beam or time.monotonic() - began > seconds:
            break
    best = sorted(known.values(), key=lambda form: form.cost)[:_KEPT]
    return [*best, *(() if first in best else (first,)), _form(Traced(start))]


def _form(traced: Traced) -> EqualForm:
    return EqualForm(traced, cost(traced.program))


def cost(program: Program) -> float:
    """Seconds that a program is thought to take, for ordering alone.

    Products by the roofline of this machine, functions of elements by what they take inside of a fused loop.
    """
    host = load_target(HOST)
    total = 0.0
    for node, of in node_costs(program):
        if of.macs:
            total += op_seconds(host, of)
        elif not shares_memory(node):
            elements = max(map(math.prod, _shapes(program, node)), default=1)
            total += _ELEMENT * elements * (_WEIGHTS.find(node) or 1)
    return total


def _shapes(program: Program, node: Node) -> list[tuple[int, ...]]:
    return [program.type(name).static or () for name in (*node.inputs, node.output) if name]
