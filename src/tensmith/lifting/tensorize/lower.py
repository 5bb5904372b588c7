"""Terms as tensors: a term over index variables becomes a tensor over as many of them as it depends on."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

from tensmith.formula.expr import Call, Choose, Num, Read, Reduce, Size, fresh, substitute
from tensmith.formula.poly import Poly
from tensmith.formula.types import MachineType
from tensmith.lifting.loops import dtype_of
from tensmith.lifting.summary import StridedMemory, Summary, Term
from tensmith.lifting.tensorize import cases, folds, gathers, operators, positions
from tensmith.lifting.tensorize.affine import linear
from tensmith.lifting.tensorize.borders import Reach, reach
from tensmith.lifting.tensorize.build import Build, Tensor
from tensmith.lifting.tensorize.reads import view_of
from tensmith.lifting.tensorize.sizes import Sizes

# A condition, and what it is where something is chosen.
Chosen: TypeAlias = tuple[Tensor, bool]


@dataclass
class Lowering:
    """The program so far, and the terms already lowered.

    guarded: inside a branch of a selection, where a divisor may be 0 at positions that are not chosen.
    choices: what is chosen there, as far as it is known over the index variables at hand.
    tests: what is at least 0 there.
    checked: arrays whose elements are divisors that emitted code looks at, wherever they are divided by.
    masked: inside a sum over fewer positions than are computed, whose other elements are multiplied by 0.
    regrouped: whether sizes and arguments of 64 bits are added or multiplied otherwise than in the source.
    certain: arrays and offsets of the views that are read whatever a selection chooses.
    boxes: index variables of the boxes that are written.
    reach: of arrays that the whole term reads; bordered: what is read of them where it is inside.
    """

    summary: Summary
    build: Build = field(default_factory=Build)
    guarded: bool = False
    choices: tuple[Chosen, ...] = ()
    tests: tuple[Poly, ...] = ()
    checked: set[tuple[str, str]] = field(default_factory=set)
    masked: bool = False
    regrouped: bool = False
    certain: set[tuple[str, tuple[Poly, ...]]] = field(default_factory=set)
    boxes: list[str] = field(default_factory=list)
    reach: Reach = field(default_factory=dict)
    bordered: dict[Read, Tensor] = field(default_factory=dict)
    _done: dict[tuple[Term, bool, tuple[Chosen, ...]], Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sizes = Sizes(self.summary)
        entries = self.summary.requires
        kinds = ("nonzero", "there")
        self.asked = frozenset((r.kind, r.array) for r in entries if r.kind in kinds and r.poly is None)
        self.build.parameters = frozenset(p.name for p in self.summary.function.parameters)

    def index(self, variable: str, extent: Poly) -> Poly:
        """Adds an index variable to the space; its extent, 0 where it would be negative."""
        assert not self.counts_otherwise(variable, extent), f"{variable} has two extents"
        return self.build.extents.setdefault(variable, self.sizes.extent(extent))

    def counts_otherwise(self, variable: str, extent: Poly) -> bool:
        """Whether the variable is in the space with another extent."""
        known = self.build.extents.get(variable)
        return known is not None and known != self.sizes.extent(extent)

    def counted(self, variable: str, extent: Poly, body: Term, outer: str | None = None) -> tuple[str, Term]:
        """Adds a fold's variable; it and the body, under a fresh name where the variable counts otherwise, or
        is in the space before that of a fold around it.

        One closed form, taken at two iterations, gives folds over one variable with two extents. Sums of rows
        are made before their total, whose axes stay in the order of its loops.
        """
        before = outer is not None and self.build.ordered((variable, outer))[0] == variable
        if before or self.counts_otherwise(variable, extent):
            name = fresh("k")
            variable, body = name, substitute(body, {variable: Poly.symbol(name)})
        self.index(variable, extent)
        return variable, body

    def lower(self, term: Term) -> Tensor:
        """The tensor of a term; where a choice is made by it, what it is made by serves on both sides."""
        if isinstance(term, Read) and term in self.bordered:
            return self.bordered[term]
        always = self._done.get((term, False, ()))
        if always is not None:
            return always
        key = (term, self.guarded, self.choices)
        if key not in self._done:
            self._done[key] = self._lower(term)
        return self._done[key]

    def lower_whole(self, term: Term) -> Tensor:
        """The tensor of a term that is no part of another one."""
        self.reach = reach(term)
        return self.lower(term)

    def lower_guarded(self, term: Term, *choices: Chosen, tests: tuple[Poly, ...] = ()) -> Tensor:
        """The tensor of a term whose value is not used at every position, but where choices are made.

        tests: what is at least 0 where they are.
        """
        before = self.guarded, self.choices, self.tests
        self.guarded, self.choices, self.tests = True, (*self.choices, *choices), (*self.tests, *tests)
        try:
            return self.lower(term)
        finally:
            self.guarded, self.choices, self.tests = before

    def lower_elsewhere(self, term: Term, left: Collection[str]) -> Tensor:
        """The tensor of a term over others in the place of index variables that are left: choices are known
        there if none varies over these."""
        before = self.choices, self.tests
        if any(axis in left for condition, _ in self.choices for axis in condition.axes):
            self.choices = ()
        self.tests = ()
        try:
            return self.lower(term)
        finally:
            self.choices, self.tests = before

    def _lower(self, term: Term) -> Tensor:
        match term:
            case Num(value, type_):
                return self.number(Fraction(value), type_)
            case Size(poly, type_):
                return positions.value(self, poly, dtype_of(type_))
            case Read(name, (), type_):
                return self.build.scalar(name, type_)
            case Read():
                return self.read(term)
            case Call():
                return operators.lower(self, term)
            case Reduce():
                return folds.lower(self, term)
            case Choose():
                return cases.lower(self, term)
        raise TypeError(f"not a term: {term!r}")

    def number(self, value: Fraction, type_: MachineType) -> Tensor:
        """A constant of the type."""
        exact = float(value) if type_.kind == "float" else int(value)
        return self.build.constant(exact, dtype_of(type_))

    def read(self, term: Read) -> Tensor:
        """An input that holds the elements read, one for each value of the variables in the subscripts; what
        is at quotients and remainders of them is gathered, and so is what may lie outside of the array."""
        if any(linear(index, self.build.extents) is None for index in term.indices):
            return gathers.gathered(self, term)
        if len(term.indices) > 1 and (found := gathers.by_axis(self, term)) is not None:
            return found
        axes = self.build.ordered(symbol for index in term.indices for symbol in index.symbols())
        view = view_of(self.grid(term.tensor), term.indices, self.build.extents, axes)
        tested = self.guarded and any(condition.axes for condition, _ in self.choices)
        if tested and len(view.offset) == 1 and gathers.lies_outside(self, term, view):
            return gathers.gathered(self, term)
        if not self.guarded:
            self.certain.add((view.array, view.offset))
        return self.build.view(view, dtype_of(term.type), axes)

    def grid(self, array: str) -> StridedMemory:
        """How an array is seen."""
        return self.summary.grids.get(array, StridedMemory(array))
