"""A lifted function: a TensIR program, the views that feed it, and where its outputs go.

This is all that a backend reads. The emitted function takes the source's parameters in the source's order,
checks `requires`, binds `sizes`, builds each `Input` from a parameter, runs the program, and puts each
`Output` into a copy of its parameter (or returns it).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

from tensmith.formula.poly import Poly
from tensmith.formula.types import MachineType
from tensmith.ir import Program
from tensmith.ir.part import alive
from tensmith.lifting.loops import Function
from tensmith.lifting.returned import returned_place
from tensmith.lifting.summary import Requirement, SizeSymbol

# What a slice that goes to the end of an axis ends at.
TO_THE_END = 2**63 - 1


@dataclass(frozen=True)
class ArrayView:
    """A box of an array: element (i0, i1, ...) of the view is array[offset[a] + sum(steps[a][k] * ik)].

    One offset and one row of steps for each axis a of the parameter as the caller passes it (1 axis for flat
    memory); shape: one extent for each axis k of the view. Steps of flat memory are its strides; steps of
    nested memory are mostly 1 on one axis and 0 on the others. Several view axes may move along one array
    axis (a window: element (i, k) at array[i + k]), and one along several (a diagonal).

    The whole of it lies inside the array wherever it is read at all (`Input.when`). What only a path writes
    has a size of that path, and no elements elsewhere.
    """

    array: str
    offset: tuple[Poly, ...]
    steps: tuple[tuple[Poly, ...], ...]
    shape: tuple[Poly, ...]

    @property
    def polys(self) -> tuple[Poly, ...]:
        """All polynomials that it is made of."""
        return (*self.offset, *self.shape, *(step for row in self.steps for step in row))

    @property
    def run(self) -> tuple[int, ...] | None:
        """Axes of a view of flat memory, outermost first, where together they are one unbroken run."""
        if len(self.offset) != 1:
            return None
        for order in permutations(range(len(self.shape))):
            stride = Poly.of(1)
            for axis in reversed(order):
                if self.steps[0][axis] != stride and self.shape[axis] != 1:
                    break
                stride = stride * self.shape[axis]
            else:
                return order
        return None

    @property
    def corner(self) -> bool:
        """Whether axis k of it walks axis k of the array, forwards and alone."""
        axes = range(len(self.offset))
        return self.steps == tuple(tuple(Poly.of(int(a == k)) for k in axes) for a in axes)

    @property
    def front(self) -> bool:
        """Whether it begins at the array's first element and leaves no gaps: a run of flat memory, axes in
        order, or a corner of another."""
        if any(offset != 0 for offset in self.offset):
            return False
        return self.run == tuple(range(len(self.shape))) if len(self.offset) == 1 else self.corner


@dataclass(frozen=True)
class Input:
    """An input of the program: a view of an array parameter, a scalar (a 0-d tensor), or positions.

    scalar: the name of a scalar parameter ("n", "s.x"). positions: the extent e of the i64 vector
    0, 1, ..., e-1, whose elements are positions as values, and whose size is a size as a value. Exactly one
    of the three says where the input comes from.

    when: a 0-d truth value of the program (among its outputs) that guards the view: where it is false,
    nothing of the array is read, and no output depends on the elements, which may be any numbers. "": the
    view may always be read.
    """

    name: str
    view: ArrayView | None = None
    scalar: str | None = None
    positions: Poly | None = None
    when: str = ""

    @property
    def polys(self) -> tuple[Poly, ...]:
        """All polynomials that say what it is."""
        return (
            *(self.view.polys if self.view else ()),
            *([] if self.positions is None else [self.positions]),
        )


@dataclass(frozen=True)
class Output:
    """An output of the program and its place: `view` of a parameter; where it is None, it is returned.

    whole: the view is all of the array, so the caller may pass None for it and nothing of it is read.
    """

    name: str
    type: MachineType
    view: ArrayView | None = None
    whole: bool = False


@dataclass(frozen=True)
class Lifted:
    """See the module. Size symbols and integer parameters are the symbols of the program's shapes.

    sizes: to be bound in order; a polynomial may be over sizes bound before it, and over parameters as they
    are, where a size has a parameter's name. notes: what else is said of the result, wherever that is shown.
    """

    function: Function
    program: Program
    sizes: tuple[SizeSymbol, ...]
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    requires: tuple[Requirement, ...]
    assumes: tuple[str, ...]
    arithmetic: str
    notes: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """The name of the source's file, of characters that end no comment and no string anywhere."""
        return re.sub(r"[^\w .+-]", "_", Path(self.function.file).name)

    @property
    def written(self) -> dict[str, list[Output]]:
        """The outputs of each array that is written, in the order of the parameters."""
        placed = [(output.view.array, output) for output in self.outputs if output.view is not None]
        arrays = {name for name, _ in placed}
        return {
            name: [output for array, output in placed if array == name]
            for name in self.function.arrays
            if name in arrays
        }

    @property
    def returned(self) -> dict[str, Output]:
        """The outputs that are returned, in order, by the names of `Function.returned`."""
        return dict(zip(self.function.returned, (each for each in self.outputs if each.view is None)))


@dataclass(frozen=True)
class EmittedFiles:
    """What a backend wrote: relative file name -> content.

    notes: what a user must know of the files, stated with the assumptions ("checked on a functional model").
    """

    files: Mapping[str, bytes]
    notes: tuple[str, ...] = ()


def result_name(returned: str) -> str:
    """What targets call a value that is returned: "result"; "result_1" and so on of several."""
    place = returned_place(returned)
    return f"result_{place}" if place else "result"


def reads_arrays(program: Program, inputs: Iterable[Input], value: str) -> bool:
    """Whether elements of arrays are among what a value of a program is computed from."""
    needed = {name for node in alive(program.nodes, (value,)) for name in node.inputs} | {value}
    return any(given.view is not None and given.name in needed for given in inputs)


def lookups(lifted: Lifted, value: str) -> list[Requirement]:
    """What is required of lookups in the array that a value of the program is a view of."""
    arrays = {given.view.array for given in lifted.inputs if given.view is not None and given.name == value}
    return [each for each in lifted.requires if each.kind == "there" and (not arrays or each.array in arrays)]
