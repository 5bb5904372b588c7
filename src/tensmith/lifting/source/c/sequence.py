"""Operands in an order that C leaves open: none may change what another reads or changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tensmith.formula.expr import SourcePosition
from tensmith.lifting import loops
from tensmith.lifting.source.c.context import LoweringContext, refuse_shared

Found = TypeVar("Found")


def unsequenced(
    context: LoweringContext, where: SourcePosition, evaluations: Sequence[Callable[[], Found]]
) -> list[Found]:
    """The values of operands, evaluated one after the other.

    Raises:
        Refusal: another order would give other values.
    """
    results: list[Found] = []
    effects: list[list[loops.Statement]] = []
    for evaluation in evaluations:
        before = len(context.out)
        results.append(evaluation())
        effects.append(context.out[before:])
    for number, statements in enumerate(effects):
        changed = loops.writes(statements)
        for other in range(len(results)) if changed else ():
            if other != number:
                touched = loops.reads(results[other]) | loops.touches(effects[other])
                refuse_shared(changed & touched, where)
    return results
