"""Operands in an order that C leaves open: none may change what another reads or changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tensmith.formula.expr import Expr, Num, SourcePosition
from tensmith.lifting import loops
from tensmith.lifting.source.c.context import Found, LoweringContext, refuse_shared


def unsequenced(
    context: LoweringContext, where: SourcePosition, evaluations: Sequence[Callable[[], Found]]
) -> list[Found]:
    """The values of operands, evaluated one after the other.

    Raises:
        Refusal: another order would give other values.
    """
    watched = [context.watched(evaluation) for evaluation in evaluations]
    results, effects = [found for found, _ in watched], [made for _, made in watched]
    for number, statements in enumerate(effects):
        changed = loops.writes(statements)
        for other in range(len(results)) if changed else ():
            if other != number:
                touched = loops.reads(results[other]) | loops.touches(effects[other])
                refuse_shared(changed & touched, where)
    return results


def listed(
    context: LoweringContext, where: SourcePosition, evaluations: Sequence[Callable[[], Expr]]
) -> list[Expr]:
    """The values of a list in braces: in order in C++, in one that is left open in C (C17 6.7.9)."""

    def alone(evaluation: Callable[[], Expr]) -> Expr:
        with context.apart():
            found = evaluation()
            if context.later:
                found = context.declare("listed", found.type, found, where)
            context.sequence_point()
        return found

    if context.language != "c++":
        return unsequenced(context, where, [partial(alone, evaluation) for evaluation in evaluations])
    results: list[Expr] = []
    held = 0
    for evaluation in evaluations:
        with context.block() as effects:
            found = alone(evaluation)
        if effects:
            for number in range(held, len(results)):
                if not isinstance(given := results[number], Num):
                    results[number] = context.declare("listed", given.type, given, where)
            held = len(results)
        for made in effects:
            context.emit(made)
        results.append(found)
    return results
