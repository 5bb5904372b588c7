"""Delinearisation: seeing flat memory as a matrix, after Maslov (1992) and Grosser et al. (ICS 2015).

The factors of loop counters in the subscripts of an array suggest strides; a chain of strides is good where
every subscript but the first stays below the quotient of its neighbours at every access.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, pairwise

from tensmith.formula.poly import FloorDiv, Poly, long_division
from tensmith.lifting.loops import Array
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
    raw: Mapping[str, Poly],
    looked_up: Container[str],
    stored: Container[str],
) -> dict[str, StridedMemory]:
    """The grid of each parameter's array that is accessed.

    extents: declared ones after the first, of flat arrays; raw: sizes in terms of parameters; looked_up: of
    what data says to read, memory of one length stays as it is, and so does what is not `stored` to, where
    rows would have to be longer than what is read of them.
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
            grids[name] = StridedMemory(name, _strides(subscripts[name], raw, name in stored))
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


def _strides(
    accesses: Sequence[tuple[Poly, Scope]], raw: Mapping[str, Poly], stored: bool
) -> tuple[Poly, ...]:
    """The longest chain that fits as it is, else the one that requires the least; () for a plain array."""
    candidates, needed = _candidates(accesses)
    if not candidates:
        return ()
    plain = {candidate: len(candidate.substitute(raw).terms) for candidate in candidates}
    best: tuple[tuple[int, ...], tuple[Poly, ...]] | None = None
    for chain in _chains(candidates):
        if not chain and needed:
            continue
        score = _score((*chain, _ONE), accesses) if chain else (0, 0, 0, 0)
        if score is None:
            continue
        rank = (*score[:-1], sum(plain[stride] for stride in chain), score[-1])
        if best is None or rank < best[0]:
            best = (rank, (*chain, _ONE) if chain else ())
    if best is None or (not stored and best[0][1]):
        return ()
    return best[1]


def _candidates(accesses: Sequence[tuple[Poly, Scope]]) -> tuple[list[Poly], bool]:
    """Factors of counters that may be strides, and whether there must be one."""
    found: dict[Poly, None] = {}
    alone: dict[Poly, None] = {}  # the factor of the only counter may be a diagonal's
    for poly, scope in accesses:
        counters = [name for name, _ in scope.ranges if name in poly.symbols()]
        factors = [factor for name in counters if (factor := poly.coefficient(name)) is not None]
        for factor in factors:
            if factor.constant is None and not any("%" in symbol for symbol in factor.symbols()):
                (found if len(counters) > 1 else alone)[factor] = None
            elif factor.constant is not None and abs(factor.constant) > 1 and len(counters) > 1:
                found[Poly.of(abs(factor.constant))] = None
    needed = bool(found) or bool(alone)
    if not any(factor.constant is None for factor in found):
        found.update(alone)
    positive = {(-factor if _leads_negative(factor) else factor): None for factor in found}
    return sorted(positive, key=_degree, reverse=True)[:_MOST_CANDIDATES], needed


def _leads_negative(poly: Poly) -> bool:
    degrees = [sum(power for _, power in monomial) for monomial, _ in poly.terms]
    return all(c < 0 for degree, (_, c) in zip(degrees, poly.terms) if degree == max(degrees))


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
    axes, long subscripts; None: out of range."""
    crowded = unknown = terms = 0
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
    return (crowded, unknown, -len(strides), terms)
