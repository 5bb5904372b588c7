"""What callers must provide, from how parameters are used: lengths, divisors, order, separation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tensmith.formula.expr import Call, Num, Read, Reduce, uncast
from tensmith.formula.poly import Poly
from tensmith.formula.types import MachineType
from tensmith.formula.walk import loads, walk
from tensmith.lifting.loops import may_share
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.summarize.bounds import below, bounds, from_zero, left_alone
from tensmith.lifting.summarize.claims import branches, claims, shown
from tensmith.lifting.summarize.execute import Execution
from tensmith.lifting.summarize.plan import display
from tensmith.lifting.summarize.state import Divisor
from tensmith.lifting.summarize.substitution import varies
from tensmith.lifting.summarize.wording import under
from tensmith.lifting.summary import Requirement, Result, Term, length_symbol, no_zero, there
from tensmith.lifting.text import text


def requirements(
    run: Execution, folds: Iterable[Term], results: tuple[Result, ...]
) -> tuple[Requirement, ...]:
    """All requirements of a run. folds: the terms of the summary."""
    written = frozenset(result.name for result in results)
    left = frozenset(result.name for result in results if left_alone(run, result))
    found: dict[tuple[object, ...], Requirement] = {}
    every = [
        *run.plan.requires,
        *claims(run),
        *bounds(run, left),
        *_divisors(run),
        *_there(run),
        *_ordered(folds),
        *_apart(run, written),
    ]
    for requirement in every:
        found.setdefault((requirement.kind, requirement.text), requirement)
    return tuple(each for each in found.values() if not _implied(each, found.values()))


def _implied(requirement: Requirement, others: Iterable[Requirement]) -> bool:
    """Whether it is a bound that another one, or no number at all, goes beyond, as n >= -1 beside n >= 0, or
    that a length is its own."""
    if requirement.kind == "length" and requirement.poly is not None:
        return requirement.poly == Poly.symbol(length_symbol(requirement.array, requirement.axis))
    if requirement.kind != "at_least" or requirement.poly is None or requirement.where:
        return False
    polys = [o.poly for o in others if o.kind == "at_least" and o.poly is not None and not o.where]
    rooms = [requirement.poly.constant, *((requirement.poly - other).constant for other in polys)]
    return any(room is not None and room > 0 for room in rooms) or requirement.poly == 0


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
            raw, where = shown(poly, run), branches(run, divisor.scope)
            yield Requirement("nonzero", under(f"{display(raw)} != 0", where), raw, where=where)
        elif any(loads(term)):  # of counters and sizes the proof will tell
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
            yield from from_zero(run, found, subscript, branches(run, found.scope))
            yield from below(run, found, subscript, size, branches(run, found.scope))
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
