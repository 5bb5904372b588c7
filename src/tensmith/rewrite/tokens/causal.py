"""Does no row of a decoder's values depend on a later token? Shown for texts of every length, or not.

A value's rows are its axes whose size is made of the number of tokens. An element is settled where it is the
same in every text that begins with the tokens up to its last row, however long the text. Whether all elements
of a value are, its op's formula tells: what it reads must be settled and lie no later, and of a sum or
maximum over all rows the later terms must be what joining leaves as it is, as behind a causal mask.

That is so for texts that the model takes, and real numbers of which none is infinite but in masks; exp(-inf)
is 0. What else is taken for granted is said in a sentence each (`Causality.assumed`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from tensmith.errors import ProgramError
from tensmith.formula.bounds import Ranges
from tensmith.formula.expr import fresh
from tensmith.formula.poly import Poly, split_multiple
from tensmith.ir import Program
from tensmith.rewrite.tokens.rows import TokenRows
from tensmith.rewrite.tokens.settled import (
    FINITE,
    UNSURE,
    Element,
    Late,
    SettledElements,
    is_unsure,
    number_of,
    same_number,
)

SIZES = (
    "sizes are as they are inferred: slices lie inside what they cut, ranges are not empty, whole numbers "
    "divide, and no open size is 1 where another one meets it"
)


@dataclass
class Causality:
    """What is known of a program of tokens. assumed: what was taken for granted, a sentence each."""

    rows: TokenRows
    assumed: set[str] = field(default_factory=set)
    _found: dict[str, Element] = field(default_factory=dict)
    _subscripts: set[str] = field(default_factory=set)
    _axes: dict[str, dict[int, Poly]] = field(default_factory=dict)
    _same: dict[str, Element] = field(default_factory=dict)

    @staticmethod
    def of(program: Program) -> Causality:
        """ModelError where the program does not read tokens [batch, length]."""
        return Causality(TokenRows(program))

    @cached_property
    def late(self) -> str:
        """Why a value that outputs depend on may depend on later tokens, by its node; "" if none does."""
        needed = {self.rows.tokens, *self.program.outputs}
        for name, type_ in self.program.inputs.items():
            if type_.dims[1] != self.length:
                return f"input '{name}' has a length of its own"
        for node in reversed(self.program.nodes):
            if needed.intersection(node.outputs):
                needed.update(node.inputs)
        looked_at = needed.intersection(self.rows.told.union(self.program.outputs))
        reasons = []
        for node in self.program.nodes:
            if needed.intersection(node.outputs) and self.program.presumes(node):
                self.assumed.add(SIZES)
            for value in filter(looked_at.__contains__, node.outputs):
                found = self._found[value] = self._settled(value)
                reasons += [f"{node.label}: {found.reason}"] if isinstance(found, Late) else []
        return next(iter(reasons), "")

    @property
    def program(self) -> Program:
        """The program."""
        return self.rows.program

    @cached_property
    def length(self) -> Poly:
        """The number of tokens."""
        return Poly.symbol(self.rows.length)

    def of_all(self, value: str) -> Element:
        """The number that all elements of a value that tokens tell are, or what is known of them, as far as
        `late` has come."""
        return self._found.get(value, FINITE)

    def axes(self, value: str) -> dict[int, Poly]:
        """The axes of rows of a value, and how many blocks of all rows lie along each, one behind the other.

        ProgramError where rows lie there with something else.
        """
        if value in self._axes:
            return self._axes[value]
        found: dict[int, Poly] = {}
        for axis in self.rows.axes(value):
            size = Poly.of(self.program.type(value).dims[axis])
            found[axis], rest = split_multiple(size, self.length)
            if rest.terms or self.counts(found[axis]):
                raise ProgramError(f"'{value}' has an axis of {size}")
        self._axes[value] = found
        return found

    def counts(self, number: Poly) -> bool:
        """Whether a number is made of anything but subscripts and other sizes of inputs: of the number of
        tokens, or of what is not known here."""
        return not number.symbols() <= self._subscripts | self._sizes

    def subscript(self, kind: str) -> str:
        """The name of a new one."""
        name = fresh(kind)
        self._subscripts.add(name)
        return name

    def same(self, constant: str) -> Element:
        """The number that all elements of a constant are."""
        if constant not in self._same:
            self._same[constant] = same_number(self.program.constants[constant])
        return self._same[constant]

    @cached_property
    def _sizes(self) -> frozenset[str]:
        dims = (Poly.of(dim) for type_ in self.program.inputs.values() for dim in type_.dims)
        return frozenset(symbol for dim in dims for symbol in dim.symbols()) - {self.rows.length}

    def _settled(self, value: str) -> Element:
        """As of_all: by those elements whose last row is along one axis, and along the next."""
        states: list[Element] = []
        try:
            rows = {axis: Poly.symbol(self.subscript("row")) for axis in self.axes(value)}
            for last in rows.values() or [Poly.of(-1)]:
                found = self._element(value, rows, last)
                if isinstance(found, Late):
                    return found
                if isinstance(found, Poly) and self.counts(found):
                    return Late("it is made of the number of tokens")
                states.append(found)
        except ProgramError as error:
            return Late(str(error), unsure=True)
        if number_of(states[0]) is not None and states.count(states[0]) == len(states):
            return states[0]
        return UNSURE if any(map(is_unsure, states)) else FINITE

    def _element(self, value: str, rows: dict[int, Poly], last: Poly) -> Element:
        """Any element of those whose last row is `last`."""
        extents: dict[str, Poly] = {}
        at: list[Poly] = []
        times = self.axes(value)
        for axis, size in enumerate(self.program.type(value).dims):
            if size == 1:
                at.append(Poly.of(0))
                continue
            other = self.subscript("at")
            if axis not in rows:
                extents[other] = Poly.of(size)
                at.append(Poly.symbol(other))
                continue
            (name,) = rows[axis].symbols()
            extents[name] = self.length if rows[axis] == last else last + 1
            at.append(rows[axis])
            if times[axis] != 1:
                extents[other] = times[axis]
                at[-1] = Poly.symbol(other) * self.length + rows[axis]
        return SettledElements(self, Ranges(extents), [*rows.values()], last).element(value, tuple(at))
