"""What a function computes, and why: closed forms of its outputs and of every variable in every loop.

A closed form is a term: what a variable or an array element holds, as a function of the arguments at entry,
with no state and no loops. It is an expression of `formula.expr` in which every node has a machine type and
every reduction a start. Its operators are those of the loop language; "inf" is infinity. A read without
subscripts is a scalar parameter at entry, one with subscripts an element of a parameter array at entry; where
data says which element, "element" takes a read of the whole array, of no type, and a term a subscript. Sizes
and subscripts are polynomials over index variables, sizes and integer parameters.

A summary is a claim. `conditions` turns it into obligations; nothing else makes it true.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tensmith.formula.expr import Call, Expr, Read, Reduce, SourcePosition
from tensmith.formula.poly import Poly
from tensmith.formula.types import MachineType
from tensmith.lifting.loops import Function

Term: TypeAlias = Expr
# Conditions, and whether they hold.
Path: TypeAlias = tuple[tuple[Term, bool], ...]


_LENGTH = re.compile(r"len\(([^,()]+), (\d+)\)")
_FRESH = re.compile(r"%\d+\b")


def length_symbol(array: str, axis: int) -> str:
    """The symbol of polynomials that stands for an array's length along an axis."""
    return f"len({array}, {axis})"


def length_of(symbol: str) -> tuple[str, int] | None:
    """The array and axis whose length a symbol is; None for other symbols."""
    found = _LENGTH.fullmatch(symbol)
    return None if found is None else (found[1], int(found[2]))


def measured(symbols: Iterable[str]) -> set[str]:
    """The arrays whose lengths are among symbols."""
    return {found[0] for symbol in symbols if (found := length_of(symbol)) is not None}


def as_shown(text: str) -> str:
    """A text with lengths as people write them, len(a), len(a[0]), and counters by their names alone."""
    return _FRESH.sub("", _LENGTH.sub(lambda found: f"len({found[1]}{'[0]' * int(found[2])})", text))


def looked_up(array: str, subscripts: Sequence[Term], type_: MachineType) -> Call:
    """The element of an array at subscripts some of which are data."""
    return Call("element", (Read(array, ()), *subscripts), type_)


def there(array: str, position: SourcePosition) -> str:
    """How it is required that what data says to read at a place of the source is there."""
    return f"{array} holds every element that is read at {position}"


def no_zero(array: str, line: int) -> str:
    """How it is required that nothing on a line of the source is divided by an element that is 0."""
    return f"no element of {array} that is read is 0 (line {line})"


def first(fold: Reduce) -> Term:
    """Where the reduction of a term starts."""
    assert fold.start is not None, "reductions in terms say where they start"
    return fold.start


@dataclass(frozen=True)
class SizeSymbol:
    """A size symbol: max(0, poly), where poly is over integer parameters and lengths of arrays.

    Lengths are symbols "len(NAME, AXIS)". Every loop extent and array extent is a polynomial in sizes,
    integer parameters and outer index variables. A size may be named like the parameter it comes from: in
    every polynomial but `Size.poly` and those of requirements, the name then means the size.

    where: it is 0 unless these conditions, which scalar parameters alone decide, are as given. when: a
    program's truth value of that (`lifted.Input.when`).
    """

    symbol: str
    poly: Poly
    where: Path = ()
    when: str = ""


@dataclass(frozen=True)
class StridedMemory:
    """How a parameter's memory is seen: a flat array through strides, as if it had as many axes.

    Element (i0, i1, ...) lies at sum(strides[k] * ik); 0 <= ik < strides[k-1] / strides[k] for k > 0 is an
    obligation at every access, so that no two subscripts meet. Nested arrays and plain vectors have the
    strides (): their subscripts are their own. All subscripts in terms are grid subscripts.
    """

    array: str
    strides: tuple[Poly, ...] = ()


@dataclass(frozen=True)
class Written:
    """What was written to an array: the elements `at` (polynomials in `indices`), for the indices in a box.

    indices: names of index variables, 0 <= index < extent each; `at`: one grid subscript an axis, each an
    index variable plus or minus an offset, so that no element is written twice by one `Written`. value: the
    term there, over the function's entry state. where: polynomials over indices, sizes and parameters that
    must be >= 0 for the element to be written at all (triangles). Later ones overwrite earlier ones.
    """

    indices: tuple[str, ...]
    extents: tuple[Poly, ...]
    at: tuple[Poly, ...]
    value: Term
    where: tuple[Poly, ...] = ()


@dataclass(frozen=True)
class LoopFacts:
    """The invariant of a loop: every variable it changes as a function of the iteration number.

    counter: the iteration's index variable (0 at entry); outer: the counters of the loops around, outermost
    first, which all facts may mention. trips: number of iterations (0 where negative). scalars: closed forms
    at the start of iteration `counter`. arrays: what the loop has written by then, in terms of the state at
    the function's entry. At exit counter = max(0, trips). The length of a growing local array is a scalar
    here, "len(NAME, AXIS)"; lengths beyond the first hold only where there are rows. Variables and arrays
    that are written before they are read again have no facts.
    """

    label: str
    counter: str
    outer: tuple[str, ...]
    trips: Poly
    scalars: Mapping[str, Term]
    arrays: Mapping[str, tuple[Written, ...]]


@dataclass(frozen=True)
class Requirement:
    """A precondition, checked at run time by what is emitted.

    "at_least": poly >= 0; "equal": poly == 0; "length": the array has at least poly elements along an axis;
    "nonzero": poly != 0, or without one no divisor that is read of the array is 0; "there": the array holds
    every element that data (that of `other`, if it is named) says to read at a place of the source, checked
    of those that are used; "ordered": no NaN in the array or scalar; "apart": two arrays do not overlap (C
    pointers; nothing to check where values are passed). poly is over parameters and lengths as they are
    given, never over sizes, even where a size has a parameter's name.

    where: what the branches that need it have decided, outermost first; it is required, and checked, only
    where all of these conditions are as given. when: a program's truth value of that (`lifted.Input.when`).
    """

    kind: Literal["at_least", "equal", "length", "nonzero", "there", "ordered", "apart"]
    text: str  # as it is shown: "n >= 1", "len(a) >= n"
    poly: Poly | None = None
    array: str = ""
    axis: int = 0
    other: str = ""
    where: Path = ()
    when: str = ""


@dataclass(frozen=True)
class Result:
    """One output: a parameter array's written parts in order, or a value that is returned.

    name: the parameter, or one of `Function.returned`. A returned scalar has one `Written` with no indices; a
    returned or local array lists its own. shape: the extents of a returned array; None for parameters, which
    keep theirs.
    """

    name: str
    type: MachineType
    written: tuple[Written, ...]
    shape: tuple[Poly, ...] | None = None


@dataclass(frozen=True)
class Summary:
    """The claim: sizes, how memory is seen, what each loop keeps true, and what comes out."""

    function: Function
    sizes: tuple[SizeSymbol, ...]
    grids: Mapping[str, StridedMemory]
    loops: tuple[LoopFacts, ...]
    results: tuple[Result, ...]
    arithmetic: Literal["machine integers", "integers", "reals"]
    requires: tuple[Requirement, ...] = ()
    assumes: tuple[str, ...] = ()
    locals: Mapping[str, tuple[Poly, ...]] = field(default_factory=dict)  # extents of local arrays
