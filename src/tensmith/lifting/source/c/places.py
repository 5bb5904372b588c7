"""What a C expression denotes besides a number: a variable, an element, a row, a pointer, a struct.

A pointer is never a machine address here: it is an array's name and a subscript, so that `p + k` is a sum of
subscripts and `p < q` compares them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, TypeGuard, get_args

from tensmith.formula.expr import Expr, SourcePosition
from tensmith.formula.types import MachineType
from tensmith.lifting.source.c.arithmetic import offset
from tensmith.lifting.source.c.cursor import Cursor


@dataclass(frozen=True)
class ScalarPlace:
    """A scalar variable; `fixed` says why it must not be assigned to, "" where it may."""

    name: str
    type: MachineType
    fixed: str = ""


@dataclass(frozen=True)
class Subscripted:
    """array[indices]."""

    array: str
    indices: tuple[Expr, ...] = ()


class ElementPlace(Subscripted):
    """An element of an array: as many subscripts as its rank."""


class ArrayRegion(Subscripted):
    """An array (no subscripts), or a row of it: fewer subscripts than its rank."""


@dataclass(frozen=True)
class PointerPlace:
    """A pointer variable, known by its declaration; where it points is the context's knowledge. `fixed` says
    why it must not be moved, "" where it may."""

    key: int
    name: str
    fixed: str = ""


@dataclass(frozen=True)
class StructPlace:
    """A struct; its fields are bound under "name.field"."""

    name: str
    declaration: Cursor


class Address(Subscripted):
    """A pointer's value: the element or row array[indices]; arithmetic moves the last subscript."""

    def moved(self, by: Expr, position: SourcePosition, sign: str = "add") -> Address:
        """This plus or minus an integer."""
        *before, last = self.indices
        return Address(self.array, (*before, offset(last, by, position, sign)))


@dataclass(frozen=True)
class AddressOf:
    """The address of a scalar variable or a struct: good for following it, not for arithmetic."""

    place: ScalarPlace | StructPlace


@dataclass(frozen=True)
class Null:
    """The null pointer."""


@dataclass(frozen=True)
class Heap:
    """Fresh memory of so many bytes, not yet given an element type."""

    bytes: Cursor
    times: Cursor | None
    zeroed: bool
    call: Cursor


Place: TypeAlias = ScalarPlace | ElementPlace | ArrayRegion | PointerPlace | StructPlace
Pointer: TypeAlias = Address | AddressOf | Null | Heap
Value: TypeAlias = Expr | Place | Pointer | None

PLACES, POINTERS = get_args(Place), get_args(Pointer)


def is_number(found: object) -> TypeGuard[Expr]:
    return isinstance(found, Expr)


def is_place(found: object) -> TypeGuard[Place]:
    return isinstance(found, PLACES)
