"""The typed loop language both front ends end in: scalars, arrays, assignments, branches, one kind of loop.

A `for`, a `while`, a comprehension and a pointer walk all become `Loop`: a condition and a body. Pointers
into an array become integer offsets into it. Conversions that the source language makes silently (promotion,
the cast at a store) are written out. Every expression and statement keeps its place in the source,
which does not count where two are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from typing import Any, Literal, TypeAlias

from tensmith.formula.expr import NOWHERE, Call, Expr, Origin, Read, SourcePosition
from tensmith.formula.functions import OPPOSITES
from tensmith.formula.types import I64, INT, MachineType
from tensmith.lifting.returned import returned_name


def new_label(base: str, position: SourcePosition, taken: set[str]) -> str:
    """A loop's label: "i@12:5", and "i@12:5#2" where the same source loop is written out twice."""
    return new_name(f"{base}@{position}", taken)


def new_name(stem: str, taken: set[str]) -> str:
    """The stem, or the stem and a number; from now on `taken`."""
    name, number = stem, 2
    while name in taken:
        name, number = f"{stem}#{number}", number + 1
    taken.add(name)
    return name


def dtype_of(type_: MachineType) -> MachineType:
    """TensIR's element type; unbounded integers are computed in 64 bits."""
    return I64 if type_ == INT else type_


def may_share(one: MachineType, other: MachineType) -> bool:
    """Whether C allows memory of one type to be read or written as another: as the signed or unsigned type of
    its size, or as characters (C11 6.5p7, C++17 [basic.lval])."""
    if one.kind == other.kind and one.bits == other.bits:
        return True
    return any(each.kind == "int" and each.bits == 8 for each in (one, other))


@dataclass(frozen=True)
class Array:
    """The type of an array.

    memory "flat": row-major contiguous memory behind a pointer or a C array; `extents[0]` may be None, the
    others are expressions over earlier parameters (a pointer has rank 1). memory "nested": vectors of
    vectors, lists of lists, pointers to pointers, NumPy arrays; extents are None and `Length` asks for them;
    rows are taken to be of equal length, which is stated.
    """

    element: MachineType
    rank: int = 1
    memory: Literal["flat", "nested"] = "flat"
    extents: tuple[Expr | None, ...] = (None,)
    written: bool = True  # False where the source promises not to (const)

    @property
    def axes(self) -> int:
        """How many lengths it is passed with: one for flat memory, its rank for nested."""
        return 1 if self.memory == "flat" else self.rank


def element_of(type_: MachineType | Array) -> MachineType:
    """The type of a scalar, or of an array's elements."""
    return type_.element if isinstance(type_, Array) else type_


@dataclass(frozen=True)
class Struct:
    """A struct of plain fields, in order. Its fields are variables named "parameter.field"."""

    name: str
    fields: tuple[tuple[str, MachineType | Array], ...]


@dataclass(frozen=True)
class Parameter:
    """A parameter of the source function."""

    name: str
    type: MachineType | Array | Struct
    position: SourcePosition = field(default=NOWHERE, compare=False)

    @property
    def fields(self) -> tuple[tuple[str, MachineType | Array], ...]:
        """Itself, or a struct's scalars and arrays under "parameter.field"."""
        if isinstance(self.type, Struct):
            return tuple((f"{self.name}.{name}", type_) for name, type_ in self.type.fields)
        return ((self.name, self.type),)


# Expressions are those of `formula.expr`, and know their machine types, after the source language's own
# promotion, and their places. Floats are at their exact binary value, infinite ones among them. A scalar
# variable or parameter is a `Read` without subscripts (a struct's field is "s.x"). An operator or function is
# a `Call`:
#     add sub mul neg abs minimum maximum pow; div (of integers truncating) and fmod, floor_div and mod;
#     less less_equal equal not_equal (bool; greater-than is written the other way round), and or not (bool,
#     both sides defined), where(condition, a, b); left_shift right_shift bitwise_and bitwise_or bitwise_xor
#     bitwise_not; floor ceil round; the functions of one real number (functions.ELEMENTARY); cast.
# Operands already have the operator's common type; comparisons take operands of one type. A cast wraps to
# fewer bits, and truncates a float toward zero. Of memory, whose subscripts are no polynomials yet:


@dataclass(frozen=True)
class Load(Expr):
    """array[indices], as many subscripts as the array's rank."""

    array: str
    indices: tuple[Expr, ...]
    type: MachineType
    origin: Origin = field(default="", compare=False)


@dataclass(frozen=True)
class Length(Expr):
    """The length of an array along an axis: v.size(), v[0].size(), len(a), a.shape[1].

    row: the subscripts of the row that was asked, which has to be there (Python's a[0] of no rows raises).
    """

    array: str
    axis: int
    type: MachineType = I64
    origin: Origin = field(default="", compare=False)
    row: tuple[Expr, ...] = ()


def opposite(comparison: Call) -> Call | None:
    """The comparison that holds where one does not; None for other calls, and orders of floats, as NaN has
    none."""
    match comparison:
        case Call("equal" | "not_equal" as relation):
            return replace(comparison, function=OPPOSITES[relation])
        case Call("less" | "less_equal" as relation, (a, b)) if a.type.kind != "float":
            return replace(comparison, function=OPPOSITES[relation], args=(b, a))
    return None


# Statements.


@dataclass(frozen=True)
class Declare:
    """A local scalar, `value` None where the source leaves it undefined."""

    name: str
    type: MachineType
    value: Expr | None
    position: SourcePosition = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Allocate:
    """A local array: `extents` elements an axis, each `fill` (None: undefined); extent 0 grows by Append.

    natural: the source fails where an extent is negative, as C and NumPy do and Python's lists do not.
    """

    name: str
    type: Array
    extents: tuple[Expr, ...]
    fill: Expr | None
    position: SourcePosition = field(default=NOWHERE, compare=False)
    natural: bool = False


@dataclass(frozen=True)
class Assign:
    """variable = value; the value has the variable's type."""

    name: str
    value: Expr
    position: SourcePosition = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Store:
    """array[indices] = value; the value has the array's element type."""

    array: str
    indices: tuple[Expr, ...]
    value: Expr
    position: SourcePosition = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Append:
    """array.push_back(value); `value` is the name of a local array where a row is appended."""

    array: str
    value: Expr | str
    position: SourcePosition = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class If:
    """A branch."""

    condition: Expr
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()
    position: SourcePosition = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Loop:
    """while (condition) { body }. `label` is unique in the function: "i@12:5"."""

    condition: Expr
    body: tuple[Statement, ...]
    label: str
    position: SourcePosition = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Return:
    """What a function returns: an expression, or the name of an array. The last statements of a function, one
    for each value."""

    value: Expr | str
    position: SourcePosition = field(default=NOWHERE, compare=False)


Statement: TypeAlias = Declare | Allocate | Assign | Store | Append | If | Loop | Return


@dataclass(frozen=True)
class Function:
    """A function in the loop language. A `Return` stands at the end or nowhere.

    returns: the type of what it returns; those of several values, as Python's tuples hold.
    noted: what the front end had to assume ("rows of base have equal length"), stated with every result.
    """

    name: str
    parameters: tuple[Parameter, ...]
    returns: MachineType | Array | tuple[MachineType | Array, ...] | None
    body: tuple[Statement, ...]
    language: Literal["c", "c++", "python"]
    file: str
    position: SourcePosition = field(default=NOWHERE, compare=False)
    noted: tuple[str, ...] = ()

    @property
    def fields(self) -> tuple[tuple[str, MachineType | Array], ...]:
        """Every scalar and array that comes in, in order; see `Parameter.fields`."""
        return tuple(field for parameter in self.parameters for field in parameter.fields)

    @property
    def returned(self) -> dict[str, MachineType | Array]:
        """The types of what it returns, by name (`returned_name`)."""
        if self.returns is None:
            return {}
        if not isinstance(self.returns, tuple):
            return {returned_name(): self.returns}
        return {returned_name(place): type_ for place, type_ in enumerate(self.returns, 1)}

    @property
    def arrays(self) -> dict[str, Array]:
        """The arrays among `fields`."""
        return {name: type_ for name, type_ in self.fields if isinstance(type_, Array)}


def nodes(part: object) -> Iterator[object]:
    """All that a part of a function is made of, itself first, then what is inside of it in order: statements,
    expressions, types; each once, without positions."""
    stack: list[Any] = [part]
    seen: set[int] = set()
    while stack:
        found = stack.pop()
        if id(found) in seen:
            continue
        seen.add(id(found))
        kind: Any = type(found)
        if kind is tuple or kind is list:
            stack += reversed(found)
        elif kind is MachineType:
            yield found
        elif names := _named(kind):
            yield found
            stack += [getattr(found, name) for name in reversed(names)]


@cache
def _named(kind: type) -> tuple[str, ...]:
    """The fields of a class that is part of functions."""
    known = is_dataclass(kind) and kind is not SourcePosition
    return tuple(field.name for field in fields(kind)) if known else ()


def statements(part: object) -> Iterator[Statement]:
    """All statements, those inside others too."""
    return (node for node in nodes(part) if isinstance(node, Statement))


def reads(part: object) -> set[str]:
    """The variables and arrays that a part of a function reads."""
    found = set()
    for node in nodes(part):
        match node:
            case Read(name) | Load(name) | Length(name):
                found.add(name)
            case Append(_, str() as name) | Return(str() as name):
                found.add(name)
    return found


def writes(part: object) -> set[str]:
    """The variables and arrays of others that a part of a function changes."""
    found = set()
    for node in nodes(part):
        match node:
            case Assign(name) | Store(name) | Append(name):
                found.add(name)
    return found - declares(part)


def declares(part: object) -> set[str]:
    """The variables and arrays of a part of a function's own."""
    return {node.name for node in statements(part) if isinstance(node, Declare | Allocate)}


def touches(part: object) -> set[str]:
    """The variables and arrays of others that a part of a function reads or changes."""
    return reads(part) | writes(part)
