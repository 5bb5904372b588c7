"""What keeps every access inside its array."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tensmith.formula.poly import Poly, long_division
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.summarize.claims import at_least, branches, canonical, shown
from tensmith.lifting.summarize.execute import Execution
from tensmith.lifting.summarize.grids import split
from tensmith.lifting.summarize.lengths import Lengths, Need, as_long, length, note
from tensmith.lifting.summarize.memory import NoValue
from tensmith.lifting.summarize.plan import display
from tensmith.lifting.summarize.scope import Scope
from tensmith.lifting.summarize.state import Access, Lookup
from tensmith.lifting.summarize.substitution import varies
from tensmith.lifting.summarize.writing import by_scalars, writing
from tensmith.lifting.summary import Path, Requirement, Result, Written, length_symbol


def bounds(run: Execution, left: frozenset[str]) -> Iterator[Requirement]:
    """Of all accesses. left: arrays that some paths leave alone (`left_alone`)."""
    lengths: Lengths = {}
    for access in run.accesses:
        access = replace(access, scope=access.scope.knowing(run.algebra.promised))
        where = _around(run, access, left)
        if access.array in run.locals:
            yield from _inside_local(run, access, where)
        else:
            yield from _inside(run, access, where, lengths)
    for (array, axis), needs in lengths.items():
        for need in needs:
            yield from length(run, array, axis, need)


def _inside(run: Execution, access: Access, where: Path, lengths: Lengths) -> Iterator[Requirement]:
    """What keeps an access inside a parameter's array under branches; the lengths it needs are noted."""
    for step in _steps(access):
        if not access.scope.proves(step):
            yield at_least(step, run, where)
            access = replace(access, scope=access.scope.knowing((step,)))
    grid = run.plan.grids.get(access.array)
    if run.arrays[access.array].memory == "nested" and (grid is None or len(grid.strides) < 2):
        for axis, subscript in enumerate(access.at):
            yield from from_zero(run, access, subscript, where)
            known = _length_at(run, access, axis)
            if not _proves(run, access, known - 1 - subscript):
                high = _highest(run, access, subscript, axis)
                if not where and _beyond(run, access, axis, high):
                    raise _ends_before(run, access, subscript, high)
                note(run, lengths, access, axis, Need(high + 1, where))
    else:
        yield from _flat(run, access, where, lengths)


def _steps(access: Access) -> Iterator[Poly]:
    """What counters are multiplied by in subscripts that is not known to be negative or not."""
    found = dict[Poly, None]()
    for subscript in access.at:
        for name, _ in access.scope.ranges:
            factor = subscript.coefficient(name)
            if factor is not None and not varies(factor) and access.scope.decides(factor) is None:
                # Over an upper half, an outer counter has the step from row to row and 1.
                rising = all(coefficient > 0 for _, coefficient in factor.terms)
                found[factor - dict(factor.terms).get((), 0) if rising else factor] = None
    yield from sorted(found, key=lambda factor: sum(power for atoms, _ in factor.terms for _, power in atoms))


def _proves(run: Execution, access: Access | Lookup, poly: Poly) -> bool:
    """Whether poly >= 0 at an access, where sizes that are not 0 are what they are the sizes of."""
    if access.scope.proves(poly):
        return True
    low = access.scope.lower(poly)
    if low is None:
        return False
    values = {}
    for raw, held in run.plan.opaque.items():
        for symbol in held.symbols():
            if access.scope.proves(Poly.symbol(symbol) - 1):
                values[symbol] = raw.substitute(run.plan.symbols) - (held - Poly.symbol(symbol))
    return access.scope.proves(low.substitute(values))


def _length_at(run: Execution, access: Access, axis: int) -> Poly:
    """A length in size symbols, where the access is made under conditions that they hold under."""
    name = length_symbol(access.array, axis)
    known = run.plan.symbols.get(name, Poly.symbol(name))
    cut = known.symbols() & run.algebra.alone - run.algebra.exact
    return known if all(access.scope.proves(Poly.symbol(s) - 1) for s in cut) else Poly.symbol(name)


def _flat(run: Execution, access: Access, where: Path, lengths: Lengths) -> Iterator[Requirement]:
    strides, at = (
        run.plan.grids[access.array].strides or (Poly.of(1),),
        run.in_memory(access.array, access.at),
    )
    if len(at) < len(access.at):  # rows by the array's type, in memory that is seen as one axis
        for subscript in access.at:
            yield from from_zero(run, access, subscript, where)
        for subscript, size in zip(access.at[1:], run.rows(access.array), strict=True):
            yield from below(run, access, subscript, size, where)
        last = run.in_memory(access.array, tuple(_highest(run, access, subscript) for subscript in access.at))
        note(run, lengths, access, 0, Need(last[0] + 1, where))
        return
    at = at if len(at) == len(strides) else split(at[0], strides, access.scope)
    if len(access.at) == 1 and any(poly.divisions() for poly in at) and not access.at[0].divisions():
        at, strides = access.at, (Poly.of(1),)  # quotient and remainder are in range by themselves
    for subscript in at:
        yield from from_zero(run, access, subscript, where)
    flat = Poly.of(0)
    for axis, subscript in enumerate(at):
        if axis:
            size = long_division(strides[axis - 1], strides[axis])[0]
            yield from below(run, access, subscript, size, where)
        flat = flat + strides[axis] * _highest(run, access, subscript)
    note(run, lengths, access, 0, Need(flat + 1, where))


def _inside_local(run: Execution, access: Access, where: Path) -> Iterator[Requirement]:
    # Where it grows, its elements are only found where something was appended.
    for subscript, extent in zip(access.at, run.locals[access.array]):
        if extent != 0 and not subscript.divisions():  # remainders are in range by themselves
            yield from from_zero(run, access, subscript, where)
            yield from below(run, access, subscript, extent, where)


def from_zero(run: Execution, access: Access | Lookup, subscript: Poly, where: Path) -> Iterator[Requirement]:
    """What keeps a subscript from being negative."""
    if access.scope.proves(subscript):
        if not where and not varies(subscript) and not Scope(run.plan.never_negative).proves(subscript):
            yield at_least(subscript, run)  # the program reads it once, whether the loop runs or not
        return
    low = access.scope.lower(subscript)
    if low is None or low.constant is not None:
        raise _unbounded(access, f"{display(shown(subscript, run))} may be negative")
    yield at_least(low, run, where)


def below(
    run: Execution, access: Access | Lookup, subscript: Poly, size: Poly, where: Path
) -> Iterator[Requirement]:
    """What keeps a subscript below a size."""
    room = size - 1 - subscript
    if _proves(run, access, room):
        return
    low = access.scope.lower(room)
    if low is None or low.constant is not None:
        raise _ends_before(run, access, subscript, size)
    yield at_least(low, run, where)


def without_value(run: Execution, missing: NoValue) -> Refusal:
    """The refusal of a read without a value, by the subscripts of the source where these can be told."""
    reads = [access for access in run.accesses if access.array == missing.array and not access.stored]
    here = [access for access in reads if access.position == missing.position]
    for access in here or reads:  # what is found where a loop is solved has the loop's place
        for subscript in access.at:
            low = access.scope.lower(subscript)
            if low is not None and low.constant is not None and low.constant < 0:
                return _unbounded(access, f"{display(shown(subscript, run))} may be negative")
    named = {"".join(f"[{display(shown(each, run))}]" for each in access.at) for access in here}
    if len(named) != 1:
        return missing
    return NoValue(missing.array, missing.position, missing.array + named.pop())


def _beyond(run: Execution, access: Access, axis: int, high: Poly) -> bool:
    """Whether a bound asks an array to be longer than it is, which no caller can promise."""
    room = Poly.symbol(length_symbol(access.array, axis)) - 1 - shown(high, run)
    return room.constant is not None and room.constant < 0


def _highest(run: Execution, access: Access, subscript: Poly, axis: int | None = None) -> Poly:
    """The least bound of a subscript; of several where it is not known which is, the shortest for callers
    that they can promise, for the length along an axis."""
    low = None if access.scope.proves(subscript) else access.scope.lower(subscript)
    scope = access.scope if low is None else access.scope.knowing((low,))  # it is required (`from_zero`)
    high = scope.upper(subscript)
    if high is None:
        raise _unbounded(access, f"how large {display(subscript)} gets is not clear")
    bounds = [high, *scope.uppers(subscript)]
    if axis is not None:
        bounds = [each for each in bounds if not _beyond(run, access, axis, each)] or [high]
    high, *others = bounds
    for other in others:
        if len(shown(other, run).terms) < len(shown(high, run).terms) and not scope.proves(other - high):
            high = other
    return high


def _ends_before(run: Execution, access: Access | Lookup, subscript: Poly, reached: Poly) -> Refusal:
    most, end = (display(shown(poly, run)) for poly in (subscript, reached))
    return _unbounded(access, f"{most} may reach {end}, where the array or its row ends")


def _unbounded(access: Access | Lookup, why: str) -> Refusal:
    return Refusal(
        f"that this subscript of '{access.array}' stays inside the array cannot be shown: {why}; "
        "bound the loop by the array's length",
        access.position,
    )


def _around(run: Execution, access: Access, left: frozenset[str]) -> Path:
    """The branches around an access. What is written is there on every path, as the elements that a branch
    leaves alone are a result too; unless the array is one of those `left` alone as a whole."""
    if not access.stored:
        return branches(run, access.scope)
    if access.array not in left:
        return ()
    return tuple(step for step in branches(run, access.scope) if by_scalars(step[0]))


def left_alone(run: Execution, result: Result) -> bool:
    """Whether every box of an array is written on some paths only, on which a store asks for its length.

    Where one box is written on all paths, or on paths that no store is asked on alone, all stay required.
    """
    if result.name not in run.arrays:
        return False
    left, lengths = frozenset((result.name,)), dict[tuple[str, int], list[Need]]()
    for access in run.accesses:
        if access.stored and access.array == result.name:
            for _ in _inside(run, access, _around(run, access, left), lengths):
                continue
    boxes = [(written, writing(result.name, written)) for written in result.written]
    return all(
        paths and all(_asked(run, result.name, written, path, lengths) for path in paths)
        for written, paths in boxes
    )


def _asked(run: Execution, array: str, written: Written, path: Path, lengths: Lengths) -> bool:
    """Whether what stores need makes an array as long as a box, wherever the box is written on a path."""
    inside = Scope(run.plan.never_negative).binding(*zip(written.indices, written.extents))
    taken = canonical(run, path)
    inside = inside.knowing(step for step in taken if isinstance(step, Poly))

    def holds(need: Need) -> bool:
        steps = canonical(run, need.where)
        return all(step in taken or (isinstance(step, Poly) and inside.proves(step)) for step in steps)

    strides = run.plan.grids[array].strides
    highest = [inside.upper(subscript) for subscript in written.at]
    if strides and None not in highest:
        highest = [sum((s * h for s, h in zip(strides, highest) if h is not None), Poly.of(0))]
    return all(
        high is not None and any(holds(need) and as_long(run, need.poly, high + 1) for need in needs)
        for axis, high in enumerate(highest)
        if (needs := lengths.get((array, axis)))
    )
