"""Derives what a function of the loop language computes: closed forms, found by one symbolic execution.

scope, plan        what is known at a place, with small proofs; size symbols
substitution       positions as terms, and what takes the places of symbols
algebra, constants building and simplifying terms
chosen             subscripts that are chosen among positions, as at borders
memory, normal     arrays as boxes of what was written
grids              flat memory as matrices
state, execute, merge   statements over a symbolic state
liveness, counters what the syntax says about a loop
loop               counters and numbers of iterations
iteration, solve, stores, recurrence, place   from one iteration to all: folds, boxes, scans, places
unrolled           folds and boxes of loops unrolled by hand as those of plain loops
claims, lengths, bounds, requirements   what callers must provide
finish             the summary

The function is executed under a plan (sizes and grids) that the execution itself improves; a few runs settle
it.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace

from tensmith.formula.expr import Reduce
from tensmith.formula.poly import Poly
from tensmith.formula.walk import walk
from tensmith.lifting.loops import Array, Function, If, Loop, Statement
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.summarize.bounds import without_value
from tensmith.lifting.summarize.execute import Execution, Guess
from tensmith.lifting.summarize.finish import finish
from tensmith.lifting.summarize.grids import choose
from tensmith.lifting.summarize.liveness import liveness
from tensmith.lifting.summarize.memory import NoValue
from tensmith.lifting.summarize.plan import DerivationPlan, plan_sizes
from tensmith.lifting.summarize.scope import Scope
from tensmith.lifting.summarize.state import Access
from tensmith.lifting.summary import StridedMemory, Summary, length_symbol

_MOST_RUNS = 8
_MOST_LOOPS = 32  # inside one another


def summarize(function: Function, guess: Guess | None = None) -> Summary:
    """What the function computes. Raises Refusal with the place and what to change.

    guess: asked for the closed form of a scalar recurrence that no rule knows; a claim like all the rest.
    """
    try:
        _check_depth(function.body, 0)
        return _shortest(function, guess)
    except Refusal as refusal:
        if refusal.function:
            raise
        raise Refusal(refusal.reason, refusal.position, function.name) from refusal
    except RecursionError:
        reason = "its branches or expressions are nested too deeply; split the function"
        raise Refusal(reason, function.position, function.name) from None


def _check_depth(body: Sequence[Statement], depth: int) -> None:
    """Refuse loops inside one another without end."""
    for statement in body:
        if isinstance(statement, If):
            _check_depth((*statement.then, *statement.otherwise), depth)
        elif isinstance(statement, Loop):
            if depth == _MOST_LOOPS:
                reason = f"more than {_MOST_LOOPS} loops are inside one another; split the function"
                raise Refusal(reason, statement.position)
            _check_depth(statement.body, depth + 1)


def _shortest(function: Function, guess: Guess | None) -> Summary:
    """The summary; shares of one sum are seen as that where results are made of fewer folds then."""
    found, shares = _summarize(function, guess, True)
    if not shares:
        return found
    plain, _ = _summarize(function, guess, False)
    return found if _folds(found) < _folds(plain) else plain


def _folds(summary: Summary) -> int:
    """How many folds results are made of."""
    values = (written.value for result in summary.results for written in result.written)
    return sum(isinstance(part, Reduce) for value in values for part in walk(value))


def _summarize(function: Function, guess: Guess | None, together: bool) -> tuple[Summary, bool]:
    """The summary, and whether variables were seen as shares of one sum."""
    live = liveness(function)
    plan = DerivationPlan(
        never_negative=_unsigned(function), grids={n: StridedMemory(n) for n in function.arrays}
    )
    extents: list[Poly] = []
    accesses: list[Access] = []  # those of runs that were refused are not all there are
    looked_up: set[str] = set()
    for _ in range(_MOST_RUNS):
        run = Execution(function, plan, live, guess, together)
        problem: Refusal | None = None
        try:
            state, returned = run.run()
        except Refusal as refusal:
            problem = refusal
        extents += run.extents
        accesses = [*accesses, *run.accesses] if problem is not None else run.accesses
        better = _improved(run, extents, accesses, looked_up := looked_up | run.looked_up)
        if better == plan and problem is None:
            try:
                return finish(run, state, returned), bool(run.algebra.shares)
            except Refusal as refusal:  # what is returned may be looked up, too
                problem = refusal
                better = _improved(run, extents, accesses, looked_up := looked_up | run.looked_up)
        if better == plan and problem is not None:
            if run.algebra.shares:
                return _summarize(function, guess, False)
            raise without_value(run, problem) if isinstance(problem, NoValue) else problem
        if better.symbols != plan.symbols:
            accesses = []
        plan = better
    raise Refusal(
        "its sizes and subscripts do not settle; bound its loops by plain parameters", function.position
    )


def _unsigned(function: Function) -> frozenset[str]:
    """Names that are never negative by their type, and lengths."""
    found: set[str] = set()
    for name, type_ in function.fields:
        if isinstance(type_, Array):
            found.update(length_symbol(name, axis) for axis in range(type_.rank))
        elif type_.kind == "int" and not type_.signed:
            found.add(name)
    return frozenset(found)


def _improved(
    run: Execution, extents: Sequence[Poly], accesses: Sequence[Access], looked_up: Container[str]
) -> DerivationPlan:
    """The plan that runs suggest; that of the last one where it is as good as it gets."""
    function, plan = run.function, run.plan
    taken = frozenset(run.types) | frozenset(run.arrays)
    sized = plan_sizes(extents, _unsigned(function), taken)
    parameters = function.arrays
    declared = {name: run.rows(name) for name in parameters}
    subscripts = [(a.array, a.at, _written_out(run, a.scope)) for a in accesses if a.array in parameters]
    stored = {access.array for access in accesses if access.stored}
    chosen = choose(parameters, declared, subscripts, plan, looked_up, stored)
    grids = {
        name: StridedMemory(
            name, tuple(stride.substitute(plan.raw).substitute(sized.symbols) for stride in grid.strides)
        )
        for name, grid in {**plan.grids, **chosen}.items()
    }
    return replace(sized, grids=grids)


def _written_out(run: Execution, scope: Scope) -> Scope:
    """A scope with what is claimed, where sizes that are quotients by arguments are written out."""
    quotients = {
        symbol: raw.substitute(run.plan.symbols) - (held - Poly.symbol(symbol))
        for raw, held in run.plan.opaque.items()
        for symbol in held.symbols()
        if any(division.bottom.constant is None for division in raw.divisions())
    }
    ranges = tuple((name, extent.substitute(quotients)) for name, extent in scope.ranges)
    facts = tuple(fact.substitute(quotients) for fact in scope.facts)
    return replace(scope, ranges=ranges, facts=facts).knowing(run.algebra.promised)
