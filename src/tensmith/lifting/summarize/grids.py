"""Delinearisation: seeing flat memory as a matrix, after Maslov (1992) and Grosser et al. (ICS 2015).

The factors of loop counters in the subscripts of an array suggest strides; a chain of strides is good where
every subscript but the first stays below the quotient of its neighbours at every access.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from math import gcd

from tensmith.formula.poly import FloorDiv, Monomial, Poly, long_division
from tensmith.lifting.loops import Array
from tensmith.lifting.summarize.plan import DerivationPlan
from tensmith.lifting.summarize.scope import Scope
from tensmith.lifting.summary import StridedMemory

_ONE = Poly.of(1)
_MOST_CANDIDATES = 6
_MOST_STEPS = 3


def split(poly: Poly, strides: Sequence[Poly], scope: Scope) -> tuple[Poly, ...]:
    """Grid subscripts of a flat one: quotients by the strides, largest first.

    A counter that sweeps over whole rows is divided: A[p] for p < rows * columns is row p // columns.
    """
    sweep = _swept(poly, strides, scope)
    if sweep is not None:
        return sweep
    found = []
    for stride in strides[:-1]:
        quotient, poly = long_division(poly, stride)
        for _ in range(_MOST_STEPS):  # a remainder of polynomials may be strides off
            step = -1 if scope.proves(-poly - 1, 0) else int(scope.proves(poly - stride, 0))
            quotient, poly = quotient + step, poly - stride * step
            if not step:
                break
        found.append(quotient)
    return (*found, poly)


def _swept(poly: Poly, strides: Sequence[Poly], scope: Scope) -> tuple[Poly, ...] | None:
    """The subscripts of a counter whose range is some number of whole rows, more than one."""
    for name, extent in scope.ranges:
        if poly == Poly.symbol(name) and len(strides) > 1:
            if long_division(extent, strides[0])[1] != 0 or scope.proves(strides[0] - extent):
                return None
            quotients = [Poly(((((FloorDiv(poly, stride), 1),), 1),)) for stride in strides[:-1]] + [poly]
            rows = [long_division(a, b)[0] for a, b in pairwise(strides)]
            return (quotients[0], *(q - size * p for (p, q), size in zip(pairwise(quotients), rows)))
    return None


def unswept(
    divisions: Iterable[FloorDiv], extent: Poly, names: Callable[[], str]
) -> tuple[tuple[tuple[str, Poly], ...], Poly, dict[FloorDiv, Poly]] | None:
    """A swept counter as one index an axis: (index, extent) pairs, the counter and its divisions over them.

    extent: of the whole sweep. None where the divisions are not those of a grid.
    """
    strides = sorted({division.bottom for division in divisions}, key=_degree, reverse=True)
    chain = [*strides, _ONE]
    parts = [long_division(a, b) for a, b in pairwise((extent, *chain))]
    if any(rest != 0 for _, rest in parts):
        return None
    indices = [(names(), size) for size, _ in parts]
    values = {}
    for division in divisions:
        quotient = Poly.of(0)
        for (name, _), stride in zip(indices, chain):
            whole, rest = long_division(stride, division.bottom)
            quotient = quotient + (whole * Poly.symbol(name) if rest == 0 else 0)
        values[division] = quotient
    counter = Poly.of(0)
    for (name, _), stride in zip(indices, chain):
        counter = counter + stride * Poly.symbol(name)
    return tuple(indices), counter, values


def choose(
    arrays: Mapping[str, Array],
    extents: Mapping[str, tuple[Poly, ...]],
    accesses: Iterable[tuple[str, tuple[Poly, ...], Scope]],
    plan: DerivationPlan,
    looked_up: Container[str],
    stored: Container[str],
) -> dict[str, StridedMemory]:
    """The grid of each parameter's array that is accessed.

    extents: declared ones after the first, of flat arrays; plan: that of the accesses; looked_up: of what
    data says to read, memory of one length stays as it is, and so does what is not `stored` to, where rows
    would have to be longer than what is read of them.
    """
    subscripts: dict[str, list[tuple[Poly, Scope]]] = {}
    for array, at, scope in accesses:
        if arrays[array].axes == 1 and len(at) == 1:
            subscripts.setdefault(array, []).append((at[0], scope))
    grids = {}
    for name, type_ in arrays.items():
        if type_.axes == 1 and name in looked_up:
            grids[name] = StridedMemory(name, as_it_lies(type_))
        elif type_.memory == "flat" and type_.rank > 1:
            grids[name] = StridedMemory(name, row_major(extents[name]))
        elif name in subscripts:
            grids[name] = StridedMemory(name, _strides(subscripts[name], plan, name in stored))
    return grids


def as_it_lies(array: Array) -> tuple[Poly, ...]:
    """The strides by which flat memory is seen as one axis."""
    return (_ONE,) if array.rank > 1 else ()


def row_major(extents: Sequence[Poly]) -> tuple[Poly, ...]:
    """Row-major strides of the extents after the first."""
    strides = [_ONE]
    for extent in reversed(extents):
        strides.append(strides[-1] * extent)
    return tuple(reversed(strides))


def _strides(accesses: Sequence[tuple[Poly, Scope]], plan: DerivationPlan, stored: bool) -> tuple[Poly, ...]:
    """The longest chain that fits as it is, else the one that requires the least; () for a plain array."""
    candidates, shares, needed = _candidates(accesses, plan)
    if not candidates:
        return ()
    plain = {candidate: len(candidate.substitute(plan.raw).terms) for candidate in candidates}
    best: tuple[tuple[int, ...], tuple[Poly, ...]] | None = None
    for chain in _chains(candidates):
        if (not chain and needed) or _splits_rows(chain, shares):
            continue
        score = _score((*chain, _ONE), accesses) if chain else (0, 0, 0, 0, 0)
        if score is None:
            continue
        rank = (*score[:-1], sum(plain[stride] for stride in chain), score[-1])
        strides = (*chain, _ONE) if chain else ()
        if best is None or _better(rank, strides, *best, accesses):
            best = (rank, strides)
    if best is None or (not stored and best[0][1]):
        return ()
    return best[1]


def _better(
    rank: tuple[int, ...],
    strides: tuple[Poly, ...],
    known: tuple[int, ...],
    others: tuple[Poly, ...],
    accesses: Sequence[tuple[Poly, Scope]],
) -> bool:
    """Whether a chain is better than another one: of two that need as many requirements, the one by which
    the array need not be as long."""
    if rank[:2] == known[:2] and strides and others:
        if _tighter(strides, others, accesses) and not _tighter(others, strides, accesses):
            return True
        if _tighter(others, strides, accesses) and not _tighter(strides, others, accesses):
            return False
    return rank < known


def _tighter(
    strides: tuple[Poly, ...], others: tuple[Poly, ...], accesses: Sequence[tuple[Poly, Scope]]
) -> bool:
    """Whether no access seems to reach further by some strides than by others."""
    for poly, scope in accesses:
        reach, other = _reach(poly, strides, scope), _reach(poly, others, scope)
        if reach is None or other is None or not scope.proves(other - reach):
            return False
    return True


def _reach(poly: Poly, strides: tuple[Poly, ...], scope: Scope) -> Poly | None:
    """How far an access seems to reach where each of its subscripts by strides is the highest."""
    found = Poly.of(0)
    for stride, subscript in zip(strides, split(poly, strides, scope)):
        high = scope.upper(subscript)
        if high is None:
            return None
        found = found + stride * high
    return found


def _candidates(
    accesses: Sequence[tuple[Poly, Scope]], plan: DerivationPlan
) -> tuple[list[Poly], frozenset[Poly], bool]:
    """What may be strides, which of these are shares of factors, and whether there must be one.

    They are the factors of counters. Where an inner loop starts at an outer counter, as over an upper half
    (j = i + t), that counter has the stride and what it adds to the column: in i*n + j, i has n + 1. Where
    every other row is read, it has two strides: in 2*y*w + x, y has 2*w.
    """
    found: dict[Poly, None] = {}
    alone: dict[Poly, None] = {}  # the factor of the only counter may be a diagonal's
    for poly, scope in accesses:
        counters = [name for name, _ in scope.ranges if name in poly.symbols()]
        factors = [factor for name in counters for factor in _factors(poly, name)]
        for factor in factors:
            if factor.constant is None and not any("%" in symbol for symbol in factor.symbols()):
                (found if len(counters) > 1 else alone)[factor] = None
            elif factor.constant is not None and abs(factor.constant) > 1 and len(counters) > 1:
                found[Poly.of(abs(factor.constant))] = None
    needed = bool(found) or bool(alone)
    leads = [_leading(factor.substitute(plan.raw)).substitute(plan.symbols) for factor in found]
    if not any(factor.constant is None for factor in found):
        found.update(alone)
    positive = {(-factor if _leads_negative(factor) else factor): None for factor in found}
    kept = sorted(positive, key=_degree, reverse=True)[:_MOST_CANDIDATES]
    leads = [-lead if _leads_negative(lead) else lead for lead in leads]
    shares = [share for factor in kept if factor.constant is None for share in _shares(factor)]
    more = [each for each in dict.fromkeys((*leads, *shares)) if each not in kept]
    more = more[: _MOST_CANDIDATES - len(kept)]
    return sorted((*kept, *more), key=_degree, reverse=True), frozenset(shares).difference(kept), needed


def _factors(poly: Poly, name: str) -> Iterator[Poly]:
    """What a counter is multiplied by; what its quotients are, where it stands in these alone."""
    plain: dict[Monomial, int] = {}
    divided: list[Poly] = []
    for monomial, coefficient in poly.terms:
        for atom, _ in monomial:
            rest = tuple(each for each in monomial if each[0] != atom)
            if atom == name:
                plain[rest] = coefficient
            elif isinstance(atom, FloorDiv) and name in atom.symbols():
                divided.append(Poly.from_terms({rest: coefficient}))
    yield from [Poly.from_terms(plain)] if plain else divided


def _shares(factor: Poly) -> Iterator[Poly]:
    """The quotients of a factor by the numbers that divide it."""
    common = gcd(*(coefficient for _, coefficient in factor.terms))
    for number in range(2, common + 1):
        if common % number == 0:
            yield Poly.from_terms({monomial: c // number for monomial, c in factor.terms})


def _splits_rows(chain: Sequence[Poly], shares: Container[Poly]) -> bool:
    """Whether a stride is a number of times a share of a factor, as which it is one too many."""
    return any(b in shares and long_division(a, b)[0].constant is not None for a, b in pairwise(chain))


def _leads_negative(poly: Poly) -> bool:
    return all(c < 0 for _, c in _leading(poly).terms)


def _leading(poly: Poly) -> Poly:
    """The terms of the highest degree."""
    degrees = [sum(power for _, power in monomial) for monomial, _ in poly.terms]
    return Poly.from_terms({m: c for degree, (m, c) in zip(degrees, poly.terms) if degree == max(degrees)})


def _degree(poly: Poly) -> tuple[int, int]:
    return max(
        (sum(power for _, power in monomial), abs(coefficient)) for monomial, coefficient in poly.terms
    )


def _chains(candidates: Sequence[Poly]) -> Iterator[tuple[Poly, ...]]:
    """Strides, each a multiple of the next."""
    for length in range(len(candidates), -1, -1):
        for chain in combinations(candidates, length):
            if all(long_division(a, b)[1] == 0 for a, b in pairwise(chain)):
                yield chain


def _score(strides: tuple[Poly, ...], accesses: Sequence[tuple[Poly, Scope]]) -> tuple[int, ...] | None:
    """What is bad, worst first: axes with several scaled counters, subscripts that need a requirement, few
    axes, lengths that end in an unknown row, long subscripts; None: out of range."""
    crowded = unknown = terms = 0
    longest: list[tuple[Poly, Scope]] = []
    for poly, scope in accesses:
        at = split(poly, strides, scope)
        counters = {name for name, _ in scope.ranges}
        for axis, subscript in enumerate(at):
            terms += len(subscript.terms)
            mine = subscript.symbols() & counters
            scaled = [n for n in mine if (c := subscript.coefficient(n)) is None or c.constant is None]
            crowded += len(mine) > 1 and bool(scaled)
            if axis and not subscript.divisions():
                size, rest = long_division(strides[axis - 1], strides[axis])
                low, high = scope.decides(subscript), scope.decides(size - 1 - subscript)
                if low is False or high is False or rest != 0:
                    return None
                if not low or not high:
                    if strides[axis].constant is not None and strides[axis - 1].constant is not None:
                        return None
                    unknown += 1
        reach, anywhere = _reach(poly, strides, scope), Scope(scope.sizes)
        if reach is not None and not any(anywhere.proves(other - reach) for other, _ in longest):
            longest = [kept for kept in longest if not anywhere.proves(reach - kept[0])]
            longest.append((reach, scope))
    rests = ((long_division(reach + 1, strides[0])[1], scope) for reach, scope in longest)
    # Proofs take from the rows before where the last one's end is below 0 by the signs of its terms alone.
    unclear = sum(
        not scope.proves(rest) and not Scope(scope.sizes).proves(-rest - 1, 0) for rest, scope in rests
    )
    # Where nothing is required, several scaled counters are a window that moves by an argument.
    return (crowded if unknown else 0, unknown, -len(strides), unclear, terms)
