"""What must hold at the end: the results are what the summary says, and nothing else was written."""

from __future__ import annotations

from tensmith.formula.types import MachineType
from tensmith.lifting.conditions.execute import Executor
from tensmith.lifting.conditions.state import At, Content, Held, ProofState, claimed_content, select, written
from tensmith.lifting.conditions.world import Malformed
from tensmith.lifting.loops import Array
from tensmith.lifting.summary import Result


def demand_results(executor: Executor, final: ProofState) -> None:
    """Demands of the final state that it holds the summary's results and otherwise the arguments."""
    summary, world = executor.world.summary, executor.world
    results = {result.name: result for result in summary.results}
    if len(results) != len(summary.results):
        raise Malformed("a result is given twice")
    if not results:
        raise Malformed("the function has no result")
    returned = summary.function.returned
    unknown = results.keys() - world.arrays.keys() - returned.keys()
    if unknown:
        raise Malformed(f"'{min(unknown)}' is no array parameter")
    left = {facts.label for facts in summary.loops} - executor.seen
    if left:
        raise Malformed(f"the function has no loop {min(left)}")
    for name, kind in world.arrays.items():
        content = final.arrays[name]
        result = results.get(name)
        if result is not None and result.type != kind.element:
            raise Malformed(f"the result '{name}' does not have the type of its array")
        if content.layers or result is not None:
            _parameter(executor, name, content, result)
    if len(executor.returned) != len(returned) or not results.keys() >= returned.keys():
        raise Malformed("the return value and the results do not agree")
    for (name, type_), (value, lengths) in zip(returned.items(), executor.returned):
        _return(executor, results[name], type_, value, lengths)


def _parameter(executor: Executor, name: str, content: Content, result: Result | None) -> None:
    world, arena, memory = executor.world, executor.world.arena, executor.memories[name]
    position = world.summary.function.position
    at = world.subscripts(memory.rank)
    claimed = claimed_content(world, executor.entry_of(name), result.written if result else ())
    hit = written(world, claimed.layers, at)
    value = select(world, content, at)
    place = executor.places(memory.rank)
    put = [written(world, claimed.layers, place)]
    if any(r.kind == "length" and r.array == name and r.where for r in world.summary.requires):
        # Nothing is asked of elements that a path leaves alone; views are asked about by themselves.
        put.append(arena.negate(arena.eq(select(world, claimed, place), world.read(name, place))))
    with executor.under(*put):
        executor.demand("bounds", name, position, memory.inside(world, place))
    with executor.under(*memory.proper(world, at)):
        if result is not None:
            with executor.under(hit):
                executor.demand("post", name, position, arena.eq(value, select(world, claimed, at)))
        with executor.under(arena.negate(hit)):
            executor.demand("frame", name, position, arena.eq(value, world.read(name, at)))


def _return(
    executor: Executor,
    result: Result,
    returns: MachineType | Array,
    returned: Held | Content,
    lengths: At | None,
) -> None:
    world, arena = executor.world, executor.world.arena
    position = world.summary.function.position
    if isinstance(returned, Held) and not isinstance(returns, Array):
        if len(result.written) != 1 or result.written[0].indices or result.written[0].where:
            raise Malformed("a returned scalar is given as an array")
        value = world.term(result.written[0].value, world.scope)
        if value.sort != returned.value.sort or result.type != returns:
            raise Malformed("the return value does not have its type")
        executor.demand("post", result.name, position, arena.eq(returned.value, value))
        return
    if not isinstance(returned, Content) or lengths is None or not isinstance(returns, Array):
        raise Malformed("the function does not return what it says")
    if result.shape is None or len(result.shape) != len(lengths) or result.type != returns.element:
        raise Malformed("the returned array has no shape")
    shape = tuple(world.poly(extent, world.scope) for extent in result.shape)
    for axis, (extent, length) in enumerate(zip(shape, lengths)):
        # An array without rows has rows of any length.
        same = [arena.eq(lengths[0], world.zero)] if axis else []
        claim = arena.any([*same, arena.eq(extent, length)])
        executor.demand("shape", f"axis {axis} of {result.name}", position, claim)
        executor.demand("shape", f"axis {axis} of {result.name}", position, arena.claim(extent, world.zero))
    _elements(executor, result, returned, shape)


def _elements(executor: Executor, result: Result, returned: Content, shape: At) -> None:
    """Every element of a returned array is given, and right."""
    world, arena = executor.world, executor.world.arena
    position = world.summary.function.position
    at = world.subscripts(len(shape))
    claimed = claimed_content(
        world, lambda _: arena.symbol(f"any.{result.name}", select(world, returned, at).sort), result.written
    )
    hit = written(world, claimed.layers, at)
    place = executor.places(len(shape))
    with executor.under(written(world, claimed.layers, place)):
        inside = [arena.all(arena.below(place, shape)), *(arena.claim(x, world.zero) for x in place)]
        executor.demand("bounds", result.name, position, arena.all(inside))
    with executor.under(*arena.below(at, shape)):
        executor.demand("shape", f"elements of {result.name}", position, hit)
        with executor.under(hit):
            right = arena.eq(select(world, returned, at), select(world, claimed, at))
            executor.demand("post", result.name, position, right)
