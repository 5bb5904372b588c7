"""What callers must provide, from how parameters are used: lengths, divisors, order, separation."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from tensmith.formula.expr import Call, Choose, Num, Read, Reduce, uncast
from tensmith.formula.poly import FloorDiv, Poly, floor_div, long_division, map_divisions
from tensmith.formula.types import MachineType
from tensmith.formula.walk import walk
from tensmith.lifting.loops import may_share
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.summarize.algebra import symbols, varies
from tensmith.lifting.summarize.execute import Execution
from tensmith.lifting.summarize.grids import split
from tensmith.lifting.summarize.plan import at_least_text, display
from tensmith.lifting.summarize.scope import Scope
from tensmith.lifting.summarize.state import Access, Divisor, Lookup
from tensmith.lifting.summarize.wording import under
from tensmith.lifting.summarize.writing import at_least_zero, by_scalars, writing
from tensmith.lifting.summary import (
    Path,
    Requirement,
    Result,
    Term,
    Written,
    as_shown,
    length_symbol,
    no_zero,
    there,
)
from tensmith.lifting.text import text


def requirements(
    run: Execution, folds: Iterable[Term], results: tuple[Result, ...]
) -> tuple[Requirement, ...]:
    """All requirements of a run. folds: the terms of the summary."""
    written = frozenset(result.name for result in results)
    left = frozenset(result.name for result in results if _left_alone(run, result))
    found: dict[tuple[object, ...], Requirement] = {}
    every = [
        *run.plan.requires,
        *_claims(run),
        *_bounds(run, left),
        *_divisors(run),
        *_there(run),
        *_ordered(folds),
        *_apart(run, written),
    ]
    for requirement in every:
        found.setdefault((requirement.kind, requirement.text), requirement)
    return tuple(each for each in found.values() if not _implied(each, found.values()))


def _implied(requirement: Requirement, others: Iterable[Requirement]) -> bool:
    """Whether it is a bound that another one, or no number at all, goes beyond: n >= -1 beside n >= 0."""
    if requirement.kind != "at_least" or requirement.poly is None or requirement.where:
        return False
    bounds = [o.poly for o in others if o.kind == "at_least" and o.poly is not None and not o.where]
    rooms = [requirement.poly.constant, *((requirement.poly - bound).constant for bound in bounds)]
    return any(room is not None and room > 0 for room in rooms) or requirement.poly == 0


def at_least(poly: Poly, run: Execution, where: Path = ()) -> Requirement:
    """poly >= 0 under branches; a factor that is never negative is left out."""
    raw = _shown(poly, run)
    if len(raw.terms) == 1 and raw.terms[0][1] > 0:
        ((monomial, _),) = raw.terms
        rest = tuple((atom, power) for atom, power in monomial if atom not in run.plan.never_negative)
        if rest:
            raw = Poly.from_terms({rest: 1})
    return Requirement("at_least", under(at_least_text(raw), where), raw, where=where)


def _shown(poly: Poly, run: Execution) -> Poly:
    """The polynomial with sizes that are not named like their parameter written out, -1 // n as it is for n
    that is claimed to be above 0."""
    raw = {symbol: raw for symbol, raw in run.plan.raw.items() if raw != Poly.symbol(symbol)}
    divisors = {(claim + 1).substitute(raw) for claim in run.algebra.promised}

    def known(division: FloorDiv) -> Poly:
        just = division.top == -1 and division.bottom in divisors
        return Poly.of(-1) if just else floor_div(division.top, division.bottom)

    return map_divisions(poly.substitute(raw), known)


def _claims(run: Execution) -> Iterator[Requirement]:
    scope = Scope(run.plan.never_negative)
    for poly, here in dict.fromkeys((*run.algebra.claims, *run.algebra.fits)):
        if (not scope.proves(poly) or poly.symbols() & run.algebra.alone) and not varies(poly):
            yield at_least(poly, run, _branches(run, here))
    for size in run.plan.sizes:
        if size.symbol in run.algebra.exact:
            yield Requirement("at_least", at_least_text(size.poly), size.poly)


# Bounds of subscripts


def _bounds(run: Execution, left: frozenset[str]) -> Iterator[Requirement]:
    """left: arrays that some paths leave alone (`_left_alone`)."""
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
            yield from _length(run, array, axis, need)


def _inside(run: Execution, access: Access, where: Path, lengths: Lengths) -> Iterator[Requirement]:
    """What keeps an access inside a parameter's array under branches; the lengths it needs are noted."""
    for step in _steps(access):
        if not access.scope.proves(step):
            yield at_least(step, run, where)
            access = replace(access, scope=access.scope.knowing((step,)))
    grid = run.plan.grids.get(access.array)
    if run.arrays[access.array].memory == "nested" and (grid is None or len(grid.strides) < 2):
        for axis, subscript in enumerate(access.at):
            yield from _from_zero(run, access, subscript, where)
            known = _length_at(run, access, axis)
            if not _proves(run, access, known - 1 - subscript):
                _note(run, lengths, access, axis, Need(_highest(run, access, subscript) + 1, where))
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
            yield from _from_zero(run, access, subscript, where)
        for subscript, size in zip(access.at[1:], run.rows(access.array), strict=True):
            yield from _below(run, access, subscript, size, where)
        last = run.in_memory(access.array, tuple(_highest(run, access, subscript) for subscript in access.at))
        _note(run, lengths, access, 0, Need(last[0] + 1, where))
        return
    at = at if len(at) == len(strides) else split(at[0], strides, access.scope)
    if len(access.at) == 1 and any(poly.divisions() for poly in at) and not access.at[0].divisions():
        at, strides = access.at, (Poly.of(1),)  # quotient and remainder are in range by themselves
    for subscript in at:
        yield from _from_zero(run, access, subscript, where)
    flat = Poly.of(0)
    for axis, subscript in enumerate(at):
        if axis:
            size = long_division(strides[axis - 1], strides[axis])[0]
            yield from _below(run, access, subscript, size, where)
        flat = flat + strides[axis] * _highest(run, access, subscript)
    _note(run, lengths, access, 0, Need(flat + 1, where))


def _inside_local(run: Execution, access: Access, where: Path) -> Iterator[Requirement]:
    # Where it grows, its elements are only found where something was appended.
    for subscript, extent in zip(access.at, run.locals[access.array]):
        if extent != 0 and not subscript.divisions():  # remainders are in range by themselves
            yield from _from_zero(run, access, subscript, where)
            yield from _below(run, access, subscript, extent, where)


def _from_zero(
    run: Execution, access: Access | Lookup, subscript: Poly, where: Path
) -> Iterator[Requirement]:
    if access.scope.proves(subscript):
        if not where and not varies(subscript) and not Scope(run.plan.never_negative).proves(subscript):
            yield at_least(subscript, run)  # the program reads it once, whether the loop runs or not
        return
    low = access.scope.lower(subscript)
    if low is None or low.constant is not None:
        raise _unbounded(access, f"{display(subscript)} may be negative")
    yield at_least(low, run, where)


def _below(
    run: Execution, access: Access | Lookup, subscript: Poly, size: Poly, where: Path
) -> Iterator[Requirement]:
    room = size - 1 - subscript
    if _proves(run, access, room):
        return
    low = access.scope.lower(room)
    if low is None or low.constant is not None:
        raise _unbounded(
            access, f"{display(subscript)} may reach {display(size)}, where the array or its row ends"
        )
    yield at_least(low, run, where)


def _highest(run: Execution, access: Access, subscript: Poly) -> Poly:
    """The least bound of a subscript; of several where it is not known which is, the shortest for callers."""
    low = None if access.scope.proves(subscript) else access.scope.lower(subscript)
    scope = access.scope if low is None else access.scope.knowing((low,))  # it is required (`_from_zero`)
    high = scope.upper(subscript)
    for other in scope.uppers(subscript):
        if high is not None and len(_shown(other, run).terms) < len(_shown(high, run).terms):
            high = high if scope.proves(other - high) else other
    if high is None:
        raise _unbounded(access, f"how large {display(subscript)} gets is not clear")
    return high


@dataclass(frozen=True)
class Need:
    """A length that an array needs where branches are taken. ran: sizes that are at least 1 there."""

    poly: Poly
    where: Path = ()
    ran: frozenset[str] = frozenset()


Lengths: TypeAlias = dict[tuple[str, int], list[Need]]


def _note(run: Execution, lengths: Lengths, access: Access, axis: int, need: Need) -> None:
    """Keep a needed length, unless one kept is as long; drop those that this one exceeds."""
    kept = lengths.setdefault((access.array, axis), [])
    ran = frozenset(
        size.symbol for size in run.plan.sizes if access.scope.proves(Poly.symbol(size.symbol) - 1)
    )
    need = replace(need, ran=ran)
    while (other := next((o for o in kept if _otherwise(run, o, need)), None)) is not None:
        kept.remove(other)  # both branches need it
        need = Need(
            need.poly, tuple(step for step in need.where if step in other.where), need.ran & other.ran
        )
    if any(_covers(run, other, need) for other in kept):
        return
    kept[:] = [other for other in kept if not _covers(run, need, other)]
    kept.append(need)


def _covers(run: Execution, one: Need, other: Need) -> bool:
    """Whether one need holds wherever another does, and is as long."""
    return set(one.where) <= set(other.where) and _as_long(run, one.poly, other.poly, other.ran)


def _otherwise(run: Execution, one: Need, other: Need) -> bool:
    """Whether two needs are alike but for which way one branch goes."""
    a, b = set(one.where) - set(other.where), set(other.where) - set(one.where)
    return (
        len(a) == len(b) == 1
        and {(condition, not holds) for condition, holds in a} == b
        and _as_long(run, one.poly, other.poly, other.ran)
        and _as_long(run, other.poly, one.poly, one.ran)
    )


def _branches(run: Execution, scope: Scope) -> Path:
    """The branches around a read that arguments decide, as they were at entry.

    What loops decide is not among them: a requirement that leaves it out is stronger.
    """
    return tuple(dict.fromkeys(step for step in scope.path if _by_arguments(run, step[0])))


def _around(run: Execution, access: Access, left: frozenset[str]) -> Path:
    """The branches around an access. What is written is there on every path, as the elements that a branch
    leaves alone are a result too; unless the array is one of those `left` alone as a whole."""
    if not access.stored:
        return _branches(run, access.scope)
    if access.array not in left:
        return ()
    return tuple(step for step in _branches(run, access.scope) if by_scalars(step[0]))


# What some paths leave alone


def _left_alone(run: Execution, result: Result) -> bool:
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
    taken = _canonical(run, path)
    inside = inside.knowing(step for step in taken if isinstance(step, Poly))

    def holds(need: Need) -> bool:
        steps = _canonical(run, need.where)
        return all(step in taken or (isinstance(step, Poly) and inside.proves(step)) for step in steps)

    strides = run.plan.grids[array].strides
    highest = [inside.upper(subscript) for subscript in written.at]
    if strides and None not in highest:
        highest = [sum((s * h for s, h in zip(strides, highest) if h is not None), Poly.of(0))]
    return all(
        high is not None and any(holds(need) and _as_long(run, need.poly, high + 1) for need in needs)
        for axis, high in enumerate(highest)
        if (needs := lengths.get((array, axis)))
    )


def _canonical(run: Execution, path: Path) -> frozenset[Poly | tuple[Term, bool]]:
    """The steps of a path, integer comparisons as polynomials that are >= 0."""
    algebra, found = run.algebra.aside(), set[Poly | tuple[Term, bool]]()
    for condition, holds in path:
        poly = at_least_zero(condition) if holds else None
        ask = algebra.positional if holds else algebra.negated
        polys = ((poly,),) if poly is not None else ask(condition, Scope(run.plan.never_negative))
        found |= set(polys[0]) if polys is not None and len(polys) == 1 else {_plain(condition, holds)}
    return frozenset(found)


def _plain(condition: Term, holds: bool) -> tuple[Term, bool]:
    """A step that is no negation."""
    match condition:
        case Call("not", (inner,)):
            return _plain(inner, not holds)
        case Call("not_equal"):
            return replace(condition, function="equal"), not holds
    return condition, holds


# Conditions


def _by_arguments(run: Execution, condition: Term) -> bool:
    """Whether a condition is over parameters, and elements of arrays at fixed places."""
    for part in walk(condition):
        match part:
            case Read(array, (_, *_)):
                if array not in run.arrays:
                    return False
            case Reduce() | Choose() | Call("unknown"):
                return False
    return not any(mark in name for name in symbols(condition) for mark in "%@ ")


def _as_long(run: Execution, longer: Poly, shorter: Poly, ran: Collection[str] | None = None) -> bool:
    """Whether one length suffices for another as callers see them.

    A size that is not its parameter may be more than what is shown for it, and what is read outside of a
    loop is read where the parameter that it runs to is negative, too. ran: sizes that are at least 1 where
    the shorter is needed; None: all.
    """
    raw = _shown(longer, run) - _shown(shorter, run)
    outside = shorter.constant is not None
    other = {
        size.symbol
        for size in run.plan.sizes
        if outside
        or size.poly != Poly.symbol(size.symbol)
        or not (ran is None or size.symbol in ran or size.symbol in shorter.symbols())
    }
    return Scope(run.plan.never_negative - other, facts=tuple(_claimed(run))).proves(raw)


def _claimed(run: Execution) -> Iterator[Poly]:
    """What is required to be >= 0 apart from subscripts."""
    for requirement in (*run.plan.requires, *_claims(run)):
        if requirement.poly is not None and not requirement.where:
            yield requirement.poly


def _length(run: Execution, array: str, axis: int, need: Need) -> Iterator[Requirement]:
    raw = _shown(need.poly, run)
    if len(run.plan.grids[array].strides) > 1:
        # Rows are counted in sizes: a parameter in it that loops run to must be its size, at least 0.
        path = [step for step in _canonical(run, need.where) if isinstance(step, Poly)]
        known = Scope().knowing(path)
        for size in run.plan.sizes:
            written_out = size.symbol in raw.symbols() - need.poly.symbols()
            if written_out and size.poly == Poly.symbol(size.symbol) and not known.proves(size.poly):
                yield at_least(size.poly, run, need.where)
    nested = run.arrays[array].memory == "nested"
    shown = as_shown(length_symbol(array, axis)) if nested else f"elements of {array}"
    text = under(f"{shown} >= {display(raw)}", need.where)
    yield Requirement("length", text, raw, array, axis, where=need.where)


def _unbounded(access: Access | Lookup, why: str) -> Refusal:
    return Refusal(
        f"that this subscript of '{access.array}' stays inside the array cannot be shown: {why}; "
        "bound the loop by the array's length",
        access.position,
    )


# Divisors, order, separation


def _divisors(run: Execution) -> Iterator[Requirement]:
    claimed = {poly for poly, scope in run.algebra.claims if not scope.path}
    for divisor in run.divisors:
        term = divisor.term
        if isinstance(term, Num) and term.value != 0:
            continue
        poly = run.algebra.poly(term)
        if poly is not None and (divisor.scope.proves(poly - 1) or divisor.scope.refutes(poly)):
            continue
        if _excluded(divisor) or (poly is not None and poly - 1 in claimed):
            continue
        if poly is not None and not varies(poly):
            raw, where = _shown(poly, run), _branches(run, divisor.scope)
            yield Requirement("nonzero", under(f"{display(raw)} != 0", where), raw, where=where)
        else:
            divided = uncast(term, _keeps_bits)
            if not (isinstance(divided, Read) and divided.indices):
                raise Refusal(
                    "that this divisor is not 0 can be neither shown nor asked of the caller; "
                    "test for it in a branch around the division",
                    divisor.position,
                )
            array = divided.tensor.partition("@")[0]
            yield Requirement("nonzero", no_zero(array, divisor.position.line), None, array)


def _keeps_bits(cast: Call) -> bool:
    """Whether a conversion of integers makes none but 0 a 0."""
    source = cast.args[0].type
    return cast.type.kind == source.kind == "int" and (cast.type.bits or 64) >= (source.bits or 64)


def _excluded(divisor: Divisor) -> bool:
    """Whether the path to the division has excluded zero: a test d == 0, or a == c for the divisor a - c."""
    for condition, holds in divisor.scope.path:
        match condition, holds:
            case (Call("equal", (a, b)), False) | (Call("not_equal" | "less", (a, b)), True):
                difference = _linear(a) - _linear(b)
                if _linear(divisor.term) in (difference, -difference):
                    return True
    return False


def _linear(term: Term) -> Poly:
    """An integer term as a polynomial in what it adds."""
    match term:
        case Num(value, MachineType("int")):
            return Poly.of(int(value))
        case Call("cast", (inner,), MachineType("int", bits)) if bits is None or bits >= 32:
            return _linear(inner)
        case Call("sub", (a, b), MachineType("int")):
            return _linear(a) - _linear(b)
        case Call("add", (a, b), MachineType("int")):
            return _linear(a) + _linear(b)
        case Call("neg", (a,), MachineType("int")):
            return -_linear(a)
    return Poly.symbol(text(term))


def _there(run: Execution) -> Iterator[Requirement]:
    """What data says to read."""
    for found in run.lookups:
        subscripts = found.term.args[1:]
        reads = (part for each in subscripts for part in walk(each) if isinstance(part, Read))
        saying = next((read.tensor for read in reads if read.type.kind != "float"), "")
        for subscript, size in found.inside:
            yield from _from_zero(run, found, subscript, _branches(run, found.scope))
            yield from _below(run, found, subscript, size, _branches(run, found.scope))
        yield Requirement("there", there(found.array, found.position), None, found.array, other=saying)


def _ordered(terms: Iterable[Term]) -> Iterator[Requirement]:
    """Maxima and minima of floats need numbers that compare."""
    for term in terms:
        for part in walk(term):
            if isinstance(part, Reduce) and part.kind in ("max", "min") and part.type.kind == "float":
                for inner in walk(part):
                    read = inner.args[0] if isinstance(inner, Call) and inner.function == "element" else inner
                    if isinstance(read, Read) and inner.type.kind == "float":
                        yield Requirement("ordered", f"no NaN in {read.tensor}", None, read.tensor)


def _apart(run: Execution, written: frozenset[str]) -> Iterator[Requirement]:
    parameters = run.function.arrays
    names = list(parameters)
    for n, name in enumerate(names):
        for other in names[n + 1 :]:
            if may_share(parameters[name].element, parameters[other].element) and {name, other} & written:
                yield Requirement("apart", f"{name} and {other} do not overlap", None, name, 0, other)
