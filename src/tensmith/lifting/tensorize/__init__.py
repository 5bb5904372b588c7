"""A summary as a TensIR program, the views that feed it, and the places its outputs go to.

affine     the parts of polynomials by index variable, substitution
sizes      which polynomials are extents
build      the program under construction; tensors carry the index variables they vary over
lower      terms -> tensors: operators, reads, positions, cases, folds (products, windows)
guards     views that may lie outside of their arrays are read only where they are needed
outputs    results -> boxes of parameters, and returned values
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

from tensmith.formula.poly import Poly
from tensmith.ir import Node
from tensmith.lifting import assumptions
from tensmith.lifting.lifted import ArrayView, Input, Lifted
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.summarize.plan import at_least_text, display
from tensmith.lifting.summary import Requirement, SizeSymbol, Summary, length_of, length_symbol, measured
from tensmith.lifting.tensorize import gathers, guards, outputs
from tensmith.lifting.tensorize.affine import arrays_read
from tensmith.lifting.tensorize.guards import guarded
from tensmith.lifting.tensorize.lower import Lowering
from tensmith.lifting.tensorize.outputs import Placed

__all__ = ["tensorize"]

_Stated = TypeVar("_Stated", Requirement, SizeSymbol)


def tensorize(summary: Summary) -> Lifted:
    """The tensor program of a summary; raises Refusal where a term has no tensor form."""
    function = summary.function
    if not summary.results:
        raise Refusal("the function writes nothing and returns nothing", function.position, function.name)
    lowering = Lowering(summary)
    read = frozenset(
        name
        for result in summary.results
        for written in result.written
        for name in arrays_read(written.value)
    )
    read |= frozenset(name for name in summary.grids if _gives_sizes(summary, name))
    try:
        placed = [p for result in summary.results for p in outputs.lower(lowering, result, read)]
    except Refusal as refusal:
        position = function.position if refusal.position.line == 0 else refusal.position
        raise Refusal(refusal.reason, position, function.name) from refusal
    _check_asked(lowering)
    names = _named(lowering, placed)
    requires = [_conditional(lowering, entry) for entry in summary.requires]
    sizes = tuple(_conditional(lowering, size) for size in lowering.sizes.all)
    guarding = (*(entry.when for entry in requires), *(size.when for size in sizes))
    conditions = tuple(dict.fromkeys(when for when in guarding if when))
    outputs_ = (*names, *(c for c in conditions if c not in names and c not in lowering.build.inputs))
    stored = {item.output.view for item in placed}  # there wherever they have elements at all

    def inside(view: ArrayView) -> bool:
        return view in stored or gathers.lies_inside(lowering, view)

    program = guarded(lowering.build, function.name, outputs_, inside)
    inputs = tuple(lowering.build.inputs.values())
    return Lifted(
        function,
        program,
        sizes,
        inputs,
        tuple(replace(p.output, name=name) for name, p in zip(names, placed)),
        (*requires, *_reaches(lowering, inputs), *_starts(lowering, inputs)),
        (*summary.assumes, *_assumed(lowering)),
        summary.arithmetic,
    )


def _assumed(lowering: Lowering) -> Iterator[str]:
    """What the tensor form needs beyond what the loops do."""
    if lowering.masked:
        yield assumptions.MASKED()
    if lowering.regrouped:
        yield assumptions.REGROUPED()


def _check_asked(lowering: Lowering) -> None:
    """Refuse what asks something of elements that emitted code does not look at."""
    for kind, name in sorted(lowering.asked - lowering.checked):
        reason, unused = _UNSEEN[kind]
        function = lowering.summary.function
        seen = f"whether {reason.format(name)} is not seen where it is lifted"
        text = f"{seen}: leave out {unused} that nobody uses"
        raise Refusal(text, function.position, function.name)


# What is asked, and what would ask for nothing if it were left out.
_UNSEEN = {
    "nonzero": ("an element of {} that it divides by is 0", "a quotient"),
    "there": ("{} holds every element that data says to read", "a read"),
}


def _named(lowering: Lowering, placed: list[Placed]) -> list[str]:
    """The value of each output under a name of its own, as no two outputs may be one value."""
    names: list[str] = []
    for item in placed:
        name = item.tensor.name
        if name in names or name in lowering.build.inputs or name in lowering.build.constants:
            copy = lowering.build.name(item.output.name)
            lowering.build.nodes.append(Node("identity", (name,), (copy,)))
            name = copy
        names.append(name)
    return names


def _conditional(lowering: Lowering, stated: _Stated) -> _Stated:
    """A requirement or size of a path, with the program's truth value of being there."""
    return replace(stated, when=guards.conjunction(lowering, stated.where).name) if stated.where else stated


def _gives_sizes(summary: Summary, array: str) -> bool:
    """Whether a size or a requirement is made of the lengths of an array, which must be given then."""
    polys = [size.poly for size in summary.sizes]
    polys += [entry.poly for entry in summary.requires if entry.poly is not None]
    return array in measured(symbol for poly in polys for symbol in poly.symbols())


def _reaches(lowering: Lowering, inputs: tuple[Input, ...]) -> list[Requirement]:
    """Lengths that the views of flat arrays need beyond what is required already (masked elements)."""
    found: list[Requirement] = []
    known = list(lowering.summary.requires)
    for view in (given.view for given in inputs if given.view is not None and not given.when):
        need = _reach(view) if len(view.offset) == 1 else None
        if need is None:
            continue
        # A view that holds anything has its extents, each of which is at least 1.
        need = lowering.sizes.filled(need, view.shape)
        extents = [lowering.sizes.filled(extent, view.shape) for extent in view.shape]
        scope = lowering.sizes.scope(need).knowing(extent - 1 for extent in extents)
        scope = scope.knowing(  # a size is at least what it is the positive part of
            lowering.sizes.filled(Poly.symbol(size.symbol) - size.poly, view.shape)
            for size in lowering.sizes.all
            if size.symbol in need.symbols() and not size.where
        )
        lengths = [r.poly for r in known if r.kind == "length" and r.array == view.array and r.poly]
        if any(
            scope.proves(length - need) for length in (*lengths, Poly.symbol(length_symbol(view.array, 0)))
        ):
            continue
        said = f"elements of {view.array} >= {_written_out(lowering, need)}"
        if any(scope.proves(need - length - 1) for length in lengths):
            said += ", more than the source needs"
        requirement = Requirement("length", said, need, view.array, 0)
        known.append(requirement)
        found.append(requirement)
    return found


def _written_out(lowering: Lowering, poly: Poly) -> str:
    """A polynomial as it is shown, over what the function has: sizes are written out."""
    written: dict[str, Poly] = {}
    for size in lowering.sizes.all:  # each over parameters and sizes before it
        if size.poly != Poly.symbol(size.symbol) and not size.where:
            value, alone = size.poly.substitute(written), length_of(str(size.poly)) is not None
            written[size.symbol] = value if alone else Poly.symbol(f"max(0, {display(value)})")
    return display(poly.substitute(written))


def _starts(lowering: Lowering, inputs: tuple[Input, ...]) -> list[Requirement]:
    """What keeps views that hold anything from beginning before their arrays: a[n - 1] where n may be 0."""
    raw = {size.symbol: size.poly for size in lowering.sizes.all}
    rises = [Poly.symbol(name) - poly for name, poly in raw.items() if poly != Poly.symbol(name)]
    found: dict[Poly, Requirement] = {}
    for view in (given.view for given in inputs if given.view is not None and not given.when):
        if (view.array, view.offset) not in lowering.certain:
            continue
        filled = [_multiplied(extent - 1) for extent in view.shape]
        for extent in view.shape:  # a size above 0 is the polynomial that it is the positive part of
            if (poly := raw.get(str(extent), extent)) != extent:
                filled += [poly - extent, extent - poly]
        scope = lowering.sizes.scope().knowing(filled)
        steps = [step for row in view.steps for step in row if scope.proves(step)]
        scope = scope.knowing(step * rise for step in (Poly.of(1), *steps) for rise in rises)
        for first in view.offset:
            if not scope.proves(first) and first.symbols() <= raw.keys():
                poly = first
                for name in reversed(raw):  # each is over parameters and sizes before it
                    poly = poly if raw[name] == Poly.symbol(name) else poly.substitute({name: raw[name]})
                found.setdefault(poly, Requirement("at_least", at_least_text(poly), poly))
    return list(found.values())


def _multiplied(poly: Poly) -> Poly:
    """What is >= 0 where a polynomial is: without its quotient by a number, where it adds just one."""
    for division in poly.divisions():
        quotient = Poly.from_terms({((division, 1),): 1})
        rest = poly - quotient
        if division.bottom.constant and not rest.divisions():
            return rest * division.bottom + division.top
    return poly


def _reach(view: ArrayView) -> Poly | None:
    """One more than the last position of a view; None where a step is negative or unknown."""
    last = view.offset[0]
    for step, size in zip(view.steps[0], view.shape):
        if step.constant is not None and step.constant < 0:
            return None
        last = last + step * (size - 1)
    return last + 1
