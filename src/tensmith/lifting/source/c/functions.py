"""A whole function: its parameters as scalars, arrays and structs, its body, what it returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tensmith.formula.expr import Expr, SourcePosition
from tensmith.formula.types import I64, MachineType
from tensmith.lifting import assumptions, loops
from tensmith.lifting.limit import Deadline
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.c import loops as c_loops  # noqa: F401  (it registers its handlers)
from tensmith.lifting.source.c import places as c_places
from tensmith.lifting.source.c import types as c_types
from tensmith.lifting.source.c.account import check_account
from tensmith.lifting.source.c.arithmetic import integer
from tensmith.lifting.source.c.calls import check_prototype
from tensmith.lifting.source.c.context import CFrame, LoweringContext
from tensmith.lifting.source.c.cursor import Cursor, identity, key, position
from tensmith.lifting.source.c.declarations import extents
from tensmith.lifting.source.c.evaluate import keep_defined
from tensmith.lifting.source.c.pragmas import Hazard
from tensmith.lifting.source.c.records import plain_fields
from tensmith.lifting.source.c.statements import function_body
from tensmith.lifting.source.c.vectors import duplicate
from tensmith.lifting.source.c.whitelist import PROPERTIES
from tensmith.lifting.source.c.writes import body, written
from tensmith.lifting.source.defined import check_defined


def lower(
    cursor: Cursor, file: str, language: str, deadline: Deadline, hazards: Sequence[Hazard]
) -> loops.Function:
    """A function definition in the loop language.

    Raises:
        Refusal: something in it has no meaning there.
    """
    where, name = position(cursor), cursor.spelling
    if cursor.type.kind.name == "FUNCTIONPROTO" and cursor.type.is_function_variadic():
        raise Refusal("a variable number of arguments: give it fixed parameters", where)
    check_prototype(cursor, list(cursor.get_arguments()), where)
    context = LoweringContext(file, language, deadline)
    frame = CFrame(cursor, written(cursor))
    context.frames.append(frame)
    context.lowered[identity(cursor)] = cursor
    parameters = list(cursor.get_arguments())
    context.see(body(cursor), *parameters)
    context.names.update(parameter.spelling for parameter in parameters)
    with context.block() as statements:
        made = [parameter(context, frame, each, at) for at, each in enumerate(parameters)]
        result = function_body(context, frame, name)
        returns = finish(context, result, where)
    everything = (*context.hoisted, *statements)
    note_shared(context, parameters, made, loops.writes(everything))
    check_defined(everything, made)
    check_account(context, hazards)
    final = tuple(settled(context, each) for each in made)
    assert language in ("c", "c++")
    return loops.Function(
        name, final, returns, everything, "c" if language == "c" else "c++", file, where, tuple(context.notes)
    )


def note_shared(
    context: LoweringContext, cursors: Sequence[Cursor], made: Sequence[loops.Parameter], changed: set[str]
) -> None:
    """What is said of memory that callers could pass twice, where a write to one name changes another.

    Numbers behind references and in structs of the caller are read as if they never changed, rows of a
    pointer to pointers as if each were its own. (Two arrays: `Requirement`s of kind "apart".)
    """
    arrays = {name: array for name, array in context.arrays.items() if name in changed - context.local}
    for cursor, each in zip(cursors, made, strict=True):
        if c_types.is_reference(cursor.type) or c_types.is_pointer(cursor.type):
            kinds = [each.type] if isinstance(each.type, MachineType) else []
            if isinstance(each.type, loops.Struct):
                kinds = [kind_of for _, kind_of in each.type.fields if isinstance(kind_of, MachineType)]
            if any(loops.may_share(kind_of, array.element) for kind_of in kinds for array in arrays.values()):
                context.note(assumptions.OUTSIDE(each.name))
    vectors = {
        each.name for cursor, each in zip(cursors, made) if c_types.vector_element(cursor.type) is not None
    }
    for name, array in arrays.items():
        if array.memory == "nested" and array.rank > 1 and name not in vectors:
            context.note(assumptions.ROWS_APART(name))


def finish(
    context: LoweringContext, result: c_places.Value, where: SourcePosition
) -> MachineType | loops.Array | None:
    """The final `Return`, and the type of what it returns."""
    if result is None:
        return None
    if c_places.is_number(result):
        context.emit(loops.Return(result, result.position))
        return result.type
    if isinstance(result, c_places.ArrayRegion) and result.indices:
        result = duplicate(context, result, "result", where)
    if isinstance(result, c_places.ArrayRegion) and (
        context.arrays[result.array].memory == "nested" or result.array in context.local
    ):
        context.emit(loops.Return(result.array, where))
        array = context.arrays[result.array]
        return replace(array, extents=(None,) * array.rank)
    raise Refusal("returns a pointer to memory that it did not make: write into a parameter instead", where)


def settled(context: LoweringContext, made: loops.Parameter) -> loops.Parameter:
    """A parameter with the element types that casts in the body gave its arrays."""
    if isinstance(made.type, loops.Array):
        return loops.Parameter(made.name, context.arrays[made.name], made.position)
    if isinstance(made.type, loops.Struct):
        fields = tuple(
            (name, context.arrays[f"{made.name}.{name}"] if isinstance(kind_of, loops.Array) else kind_of)
            for name, kind_of in made.type.fields
        )
        return loops.Parameter(made.name, loops.Struct(made.type.name, fields), made.position)
    return made


def parameter(context: LoweringContext, frame: CFrame, cursor: Cursor, number: int) -> loops.Parameter:
    """Bind a parameter to what it stands for."""
    where, at = position(cursor), key(cursor)
    name = cursor.spelling or context.fresh(f"unnamed_{number + 1}")
    if c_types.plain(cursor.type).is_volatile_qualified():
        raise Refusal(f"{name} is {PROPERTIES['volatile']}", where)
    found = c_types.shape(cursor.type, where)
    if found is not None and c_types.vector_element(cursor.type) is not None:
        return vector_parameter(context, frame, cursor, name, found)
    if found is not None and not (c_types.is_reference(cursor.type) and c_types.is_pointer(cursor.type)):
        array = loops.Array(
            found.element, found.rank, found.memory, first_open(context, cursor, found), not found.const
        )
        context.arrays[name] = array
        if found.bytes:
            context.bytes.add(name)
        context.bound[at] = c_places.PointerPlace(at, name)
        point_to_first(context, at, name, at in frame.written, where)
        return loops.Parameter(name, array, where)
    kind_of = c_types.scalar(cursor.type)
    if kind_of is not None and c_types.is_reference(cursor.type) and at in frame.written:
        array = loops.Array(kind_of, 1, "flat", (integer(1, where),))
        context.arrays[name] = array
        context.bound[at] = c_places.ElementPlace(name, (integer(0, where),))
        context.note(assumptions.REFERENCE(name))
        return loops.Parameter(name, array, where)
    if kind_of is not None:
        context.types[name] = kind_of
        context.bound[at] = c_places.ScalarPlace(name, kind_of)
        return loops.Parameter(name, kind_of, where)
    declaration = c_types.record(cursor.type)
    if declaration is None or declaration.kind.name == "UNION_DECL":
        raise Refusal(c_types.unsupported(cursor.type, name), where)
    return struct_parameter(context, frame, cursor, name, declaration)


def first_open(context: LoweringContext, cursor: Cursor, found: c_types.Shape) -> tuple[Expr | None, ...]:
    """The extents of an array parameter: the first is what the caller brings."""
    if found.memory == "nested":
        return (None,) * found.rank
    known = extents(context, cursor, found)
    keep_defined(context, known[0], position(cursor))
    return (None, *known[1:])


def point_to_first(context: LoweringContext, at: int, name: str, walks: bool, where: SourcePosition) -> None:
    """A pointer that comes in points to the first element of the array of its name; one that walks gets a
    subscript of its own."""
    start: Expr = integer(0, where)
    if walks:
        start = context.declare(f"{name}_at", I64, start, where)
        context.slots[at, name, 1] = (start.tensor,)
    context.pointers[at] = c_places.Address(name, (start,))


def vector_parameter(
    context: LoweringContext, frame: CFrame, cursor: Cursor, name: str, found: c_types.Shape
) -> loops.Parameter:
    """std::vector by value (a copy, if it is changed) or by reference."""
    where, at = position(cursor), key(cursor)
    by_reference = c_types.is_reference(cursor.type)
    constant = c_types.plain(cursor.type).is_const_qualified() or not by_reference
    array = loops.Array(found.element, found.rank, "nested", (None,) * found.rank, not constant)
    context.arrays[name] = array
    context.bound[at] = c_places.ArrayRegion(name)
    if found.rank > 1:
        context.note(assumptions.ROWS(name))
    if not by_reference and at in frame.written:
        context.bound[at] = duplicate(context, c_places.ArrayRegion(name), name, where)
    return loops.Parameter(name, array, where)


def struct_parameter(
    context: LoweringContext, frame: CFrame, cursor: Cursor, name: str, declaration: Cursor
) -> loops.Parameter:
    """A struct by value, pointer or reference: one variable or array a field."""
    where, at = position(cursor), key(cursor)
    if declaration.get_definition() is None:
        raise Refusal(f"{name} is a struct whose fields are not known: define it in this file", where)
    place = c_places.StructPlace(name, declaration.get_definition())
    shared = c_types.is_reference(cursor.type) or c_types.is_pointer(cursor.type)
    if c_types.is_pointer(cursor.type):
        context.bound[at] = c_places.PointerPlace(at, name)
        context.pointers[at] = c_places.AddressOf(place)
    else:
        context.bound[at] = place
    parts = plain_fields(place.declaration, cursor)
    context.names.update(f"{name}.{part.spelling}" for part in parts)
    fields: list[tuple[str, MachineType | loops.Array]] = []
    for part in parts:
        made = field(context, part, name, shared, not shared and at in frame.written)
        if made is not None:
            fields.append((part.spelling, made))
    return loops.Parameter(name, loops.Struct(place.declaration.spelling or name, tuple(fields)), where)


def field(
    context: LoweringContext, cursor: Cursor, struct: str, shared: bool, walks: bool
) -> MachineType | loops.Array | None:
    """A field as a variable or array; None where its type has none, which matters if it is used.

    shared: the caller sees what fields are set to; walks: pointers among them may move.
    """
    name, where, at = f"{struct}.{cursor.spelling}", position(cursor), hash((struct, cursor.spelling))
    kind_of = c_types.scalar(cursor.type)
    if kind_of is not None and not cursor.is_bitfield():
        fixed = f"{name} is written through a pointer: return the value, or use a pointer to a number"
        context.types[name] = kind_of
        context.fields[(struct, cursor.spelling)] = c_places.ScalarPlace(
            name, kind_of, fixed if shared else ""
        )
        return kind_of
    found = None if cursor.is_bitfield() else c_types.shape(cursor.type, where)
    if found is None:
        return None
    inside = c_types.is_array(cursor.type) or c_types.vector_element(cursor.type) is not None
    sizes = tuple(
        integer(extent, where) if extent is not None and extent >= 0 else None for extent in found.extents
    )
    changeable = not found.const and (shared or not inside)
    array = loops.Array(found.element, found.rank, found.memory, sizes, changeable)
    context.arrays[name] = array
    if found.bytes:
        context.bytes.add(name)
    target: c_places.Value = c_places.ArrayRegion(name)
    if not inside:
        fixed = f"{name} is a pointer of the caller's and moves: move a local copy of it"
        target = c_places.PointerPlace(at, name, fixed if shared else "")
        point_to_first(context, at, name, walks, where)
    context.fields[(struct, cursor.spelling)] = target
    return array
