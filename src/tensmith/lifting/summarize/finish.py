"""From a finished run to the summary: what comes out, what was assumed, in which arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from tensmith.formula.expr import NOWHERE, Call, Choose, Expr, Num, Read, Reduce, fresh, is_cast
from tensmith.formula.functions import COMPARISONS, STEPS
from tensmith.formula.poly import Poly
from tensmith.formula.types import MachineType
from tensmith.formula.walk import walk
from tensmith.lifting import assumptions
from tensmith.lifting.loops import Function, Loop, nodes, statements
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.summarize.constants import infinite, number
from tensmith.lifting.summarize.execute import Execution
from tensmith.lifting.summarize.memory import Contents, StoredBox, meet
from tensmith.lifting.summarize.requirements import requirements
from tensmith.lifting.summarize.scope import Scope
from tensmith.lifting.summarize.state import State, undefined_name
from tensmith.lifting.summarize.substitution import symbols
from tensmith.lifting.summary import LoopFacts, Result, Summary, Term, Written, first


def finish(run: Execution, state: State, returned: Sequence[Expr | str]) -> Summary:
    """The summary of a run whose plan held."""
    results = tuple(_results(run, state, returned))
    if not results:
        raise Refusal(
            "the function has no result: it returns nothing and writes to no parameter", run.function.position
        )
    order = {
        s.label: n for n, s in enumerate(s for s in statements(run.function.body) if isinstance(s, Loop))
    }
    loops = tuple(sorted((found.facts for found in run.found), key=lambda facts: order[facts.label]))
    _defined(results, run)
    terms = list(_terms(results, loops))
    return Summary(
        run.function,
        run.plan.sizes,
        {name: run.plan.grids[name] for name in run.function.arrays},
        loops,
        results,
        arithmetic_of(run.function),
        requirements(run, terms, results),
        (*assumed(run.function), *_compared(terms)),
        dict(run.locals),
    )


# Results


def _compared(terms: Iterable[Term]) -> tuple[str, ...]:
    """Computed floats may be NaN though no input is: inf - inf."""
    folds = (part for term in terms for part in walk(term) if isinstance(part, Reduce))
    floats = (f for f in folds if f.kind in ("max", "min") and f.type.kind == "float")
    return () if all(map(_given, floats)) else (assumptions.COMPARED(),)


def _given(term: Term) -> bool:
    """Whether a float is one of the inputs, or of the source's own, or an extreme of such: then it is NaN
    only where an input is."""
    if isinstance(term, Reduce):
        return term.kind in ("max", "min") and _given(term.body) and _given(first(term))
    if isinstance(term, Call) and is_cast(term):
        return _given(term.args[0])
    return isinstance(term, Read | Num) or infinite(term) != 0


def _results(run: Execution, state: State, returned: Sequence[Expr | str]) -> Iterator[Result]:
    for name, type_ in run.function.arrays.items():
        contents = state.arrays[name]
        if contents.boxes:
            yield Result(name, type_.element, tuple(box.written for box in contents.boxes))
    scope = Scope(run.plan.never_negative)
    for name, given in zip(run.function.returned, returned):
        if not isinstance(given, str):
            value = run.evaluate(given, state, scope)
            yield Result(name, value.type, (Written((), (), (), value),))
            continue
        contents = state.arrays[given]
        shape = tuple(_length(run, state, given, axis) for axis in range(contents.rank))
        whole = _whole(run, contents, shape, scope)
        yield Result(name, contents.element, tuple(box.written for box in whole), shape)


def _length(run: Execution, state: State, array: str, axis: int) -> Poly:
    held = run.length(array, axis, state)
    if isinstance(held, Poly):
        return held
    if isinstance(held, Choose):  # rows of one length; there may be none
        held = held.then
    return run.position_of(held, Scope(run.plan.never_negative), run.function.position)


def _whole(
    run: Execution, contents: Contents, shape: tuple[Poly, ...], scope: Scope
) -> tuple[StoredBox, ...]:
    """The boxes of a returned array, the values it began with first, without what later ones cover."""
    names = tuple(fresh("i") for _ in shape)
    at = tuple(map(Poly.symbol, names))
    inside = scope.binding(*zip(names, shape))
    if contents.fill is None and run.locals.get(contents.name, shape)[:1] == (Poly.of(0),):
        # All of it was appended; that the boxes cover it is for the proof to say.
        contents = replace(contents, fill=number(0, contents.element))
    full = replace(contents, boxes=(), kept=0)
    covered = replace(contents, kept=0).read(at, inside, NOWHERE) if contents.boxes else None
    needs_base = covered is None or _falls_through(contents, at, inside)
    if not needs_base:
        return contents.boxes
    if not contents.base and contents.fill is None:
        if all(extent == 0 for extent in shape[:1]):
            return contents.boxes
        raise Refusal(f"not every element of '{contents.name}' gets a value", NOWHERE)
    base = StoredBox(names, shape, at, full.below(at, inside, NOWHERE))
    return (base, *contents.boxes)


def _falls_through(contents: Contents, at: tuple[Poly, ...], scope: Scope) -> bool:
    for box in contents.boxes:
        met = meet(box, at, scope)
        if met is not None and not met[1]:
            return False
    return True


def _terms(results: tuple[Result, ...], loops: tuple[LoopFacts, ...]) -> Iterator[Term]:
    for result in results:
        yield from (written.value for written in result.written)
    for facts in loops:
        yield from facts.scalars.values()
        for boxes in facts.arrays.values():
            yield from (written.value for written in boxes)


def _defined(results: tuple[Result, ...], run: Execution) -> None:
    """Refuse where an output needs what no statement gave a value, or what is known of no loop's end."""
    for result in results:
        for written in result.written:
            named = set(symbols(written.value))
            for poly in (*written.extents, *written.at, *written.where, *(result.shape or ())):
                named |= poly.symbols()
            for name in sorted(named):
                variable = undefined_name(name)
                if variable is not None:
                    raise Refusal(
                        f"'{variable}' may be read before it has a value; give it one where it is declared",
                        run.function.position,
                    )
                if name.startswith("exit%"):
                    raise Refusal(
                        "the result depends on how often a loop ran whose first value may be above its last; "
                        "bound it so that it never is",
                        run.function.position,
                    )


# Arithmetic and assumptions


def arithmetic_of(function: Function) -> Literal["machine integers", "integers", "reals"]:
    """ "reals" where a float takes part anywhere in the function."""
    if any(isinstance(node, MachineType) and node.kind == "float" for node in nodes(function)):
        return "reals"
    return "integers" if function.language == "python" else "machine integers"


def _truncates(cast: Call) -> bool:
    return cast.type.kind == "int" and cast.args[0].type.kind == "float"


def _other_base(call: Call) -> bool:
    """Whether a call is log(x) / log(base), as front ends say log2 and log10."""
    match call:
        case Call("div", (Call("log"), Call("log", (Num(),)))):
            return True
    return False


def _jumps(call: Call) -> bool:
    """Whether a rounding of a float may make another number of it altogether."""
    steps = STEPS.union(COMPARISONS)
    return (
        call.args[:1] != ()
        and call.args[0].type.kind == "float"
        and (call.function in steps or (is_cast(call) and _truncates(call)))
    )


def _shifts_by_data(call: Call) -> bool:
    return call.function in ("left_shift", "right_shift") and not isinstance(call.args[1], Num)


def assumed(function: Function) -> tuple[str, ...]:
    """What every result for a function assumes of it, what its front end notes first."""
    parts = list(nodes(function))
    scalars = {part for part in parts if isinstance(part, MachineType)}
    found = list(function.noted)
    if any(scalar.kind == "float" for scalar in scalars):
        found.append(assumptions.REALS())
    if any(is_cast(part) and _truncates(part) for part in parts):
        found.append(assumptions.TRUNCATED())
    calls = [part for part in parts if isinstance(part, Call)]
    if any(map(_other_base, calls)) and any(map(_jumps, calls)):
        found.append(assumptions.LOGARITHMS())
    if function.language == "python":
        if any(isinstance(part, Call) and part.function == "div" for part in parts):
            found.append(assumptions.FLOAT_DIVISORS())
        if any(scalar.kind == "int" for scalar in scalars):
            found.append(assumptions.INTEGERS())
    else:
        if any(scalar.kind == "int" and scalar.signed for scalar in scalars):
            found.append(assumptions.SIGNED())
        if any(isinstance(part, Call) and _shifts_by_data(part) for part in parts):
            found.append(assumptions.SHIFTED())
    return tuple(dict.fromkeys(found))
