"""Local variables: scalars, arrays with their initialisers, pointers, references, structs, vectors."""

from __future__ import annotations

from tensmith.lifting.loops import (
    BOOL,
    Allocate,
    Array,
    Constant,
    Expr,
    Position,
    Store,
)
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.c_arithmetic import cast, integer
from tensmith.lifting.source.c_context import Context
from tensmith.lifting.source.c_cursor import (
    Cursor,
    bare,
    children,
    initializer,
    is_expression,
    key,
    kind,
    position,
)
from tensmith.lifting.source.c_evaluate import address, evaluate, load, place, value
from tensmith.lifting.source.c_places import (
    ElementPlace,
    PointerPlace,
    Region,
    ScalarPlace,
    StructPlace,
    Value,
    is_number,
)
from tensmith.lifting.source.c_types import (
    Shape,
    is_array,
    is_pointer,
    is_reference,
    record,
    scalar,
    shape,
    unsupported,
    vector_element,
)
from tensmith.lifting.source.c_vectors import declare_vector

ELEMENTS = 4096  # of an initialiser; more is data, not code


def declare(context: Context, cursor: Cursor) -> None:
    """A variable of a declaration statement; other declarations (types, usings) say nothing."""
    if kind(cursor) != "VAR_DECL":
        return
    where, name, at = position(cursor), cursor.spelling, key(cursor)
    fixed = cursor.type.is_const_qualified() or constant_array(cursor)
    if cursor.storage_class.name == "STATIC" and not fixed:
        reason = f"{name} is static: it keeps its value from call to call"
        raise Refusal(f"{reason}; make it a parameter or a constant", where)
    if cursor.type.is_volatile_qualified():
        raise Refusal(f"{name} is volatile: its reads and writes mean more than its value", where)
    first = initializer(cursor)
    with context.full_expression():
        if is_reference(cursor.type):
            assert first is not None
            context.bound[at] = held(context, first, name)
        elif is_array(cursor.type):
            context.bound[at] = declare_array(context, cursor, first, name)
        elif is_pointer(cursor.type):
            declare_pointer(context, cursor, first)
        elif vector_element(cursor.type) is not None:
            context.bound[at] = declare_vector(context, cursor, first, name)
        elif (kind_of := scalar(cursor.type)) is not None:
            given = None if first is None else cast(value(context, only(first)), kind_of)
            variable = context.declare(name, kind_of, given, where)
            context.bound[at] = ScalarPlace(variable.name, kind_of)
        elif (declaration := record(cursor.type)) is not None and declaration.kind.name != "UNION_DECL":
            context.bound[at] = declare_struct(context, cursor, declaration, first)
        else:
            raise Refusal(unsupported(cursor.type, name), where)


def only(cursor: Cursor) -> Cursor:
    """The expression in `int x{3}`."""
    inner = bare(cursor)
    return children(inner)[0] if kind(inner) == "INIT_LIST_EXPR" and children(inner) else cursor


def constant_array(cursor: Cursor) -> bool:
    """Whether a variable is an array of constants."""
    found = shape(cursor.type, position(cursor)) if is_array(cursor.type) else None
    return found is not None and found.const


def held(context: Context, first: Cursor, name: str) -> Value:
    """What a reference refers to: subscripts are evaluated now."""
    found = evaluate(context, first)
    if isinstance(found, ElementPlace | Region):
        indices = tuple(context.kept(f"{name}_at", index, position(first)) for index in found.indices)
        return type(found)(found.array, indices)
    if is_number(found):
        kept = context.declare(name, found.type, found, position(first))
        return ScalarPlace(kept.name, kept.type)
    return found


def declare_pointer(context: Context, cursor: Cursor, first: Cursor | None) -> None:
    """T *p = ...: where it points is kept in integer variables."""
    at, name, where = key(cursor), cursor.spelling, position(cursor)
    context.bound[at] = PointerPlace(at, name)
    if first is None:
        context.pointers.pop(at, None)
        return
    target = address(context, only(first))
    if at in context.frame.written:
        context.point(at, name, target, where)
    else:
        context.fix(at, name, target, where)


def extents(context: Context, cursor: Cursor, found: Shape) -> tuple[Expr | None, ...]:
    """The extents of an array type: constants, or the expressions of a variable-length array."""
    sized = [child for child in children(cursor) if is_expression(child)]
    bounds = [extent for extent in found.extents if extent is not None]
    sizes = list(reversed(sized[: len(bounds)]))  # the innermost stands first
    result: list[Expr | None] = []
    for extent in found.extents:
        if extent is None:
            result.append(None)
            continue
        size = sizes.pop(0) if sizes else None
        if extent >= 0:
            result.append(integer(extent, position(cursor)))
            continue
        if size is None:
            raise Refusal("a variable-length array behind a typedef: write it out", position(cursor))
        result.append(value(context, size))
    return tuple(result)


def declare_array(context: Context, cursor: Cursor, first: Cursor | None, name: str) -> Value:
    """T t[n], T t[2][3] = {{1, 2, 3}}."""
    where = position(cursor)
    found = shape(cursor.type, where)
    if found is None or found.memory == "nested":
        raise Refusal(unsupported(cursor.type, name), where)
    sizes = []
    for size in extents(context, cursor, found):
        if size is None:
            raise Refusal(f"{name} has no size", where)
        fixed = isinstance(size, Constant)
        sizes.append(size if fixed else context.declare(f"{name}_size", size.type, size, where))
    array = Array(found.element, found.rank, "flat", tuple(sizes))
    unique = context.array(name, array)
    listed = None if first is None else initial_elements(context, first, found, where)
    fill = None
    if listed is not None and len(listed) < total(found):
        fill = Constant(0.0 if found.element.kind == "float" else 0, found.element, where)
        if found.element == BOOL:
            fill = Constant(False, BOOL, where)
    context.emit(Allocate(unique, array, tuple(sizes), fill, where))
    for at, given in (listed or {}).items():
        context.emit(Store(unique, tuple(integer(index, where) for index in at), given, where))
    return Region(unique)


def total(found: Shape) -> int:
    count = 1
    for extent in found.extents:
        count *= extent or 0
    return abs(count)


def initial_elements(
    context: Context, first: Cursor, found: Shape, where: Position
) -> dict[tuple[int, ...], Expr]:
    """The elements that an initialiser lists, without the zeros it starts from."""
    if kind(first) != "INIT_LIST_EXPR":
        raise Refusal("an array is initialised with what is not a list: fill it in a loop", where)
    listed: dict[tuple[int, ...], Expr] = {}
    values = 0

    def visit(cursor: Cursor, at: tuple[int, ...]) -> None:
        nonlocal values
        if len(at) == found.rank:
            values += 1
            given = cast(value(context, only(cursor)), found.element)
            if not (isinstance(given, Constant) and given.value == 0 and str(given.value)[0] != "-"):
                listed[at] = given
            return
        if kind(cursor) != "INIT_LIST_EXPR":
            raise Refusal("an initialiser without inner braces: give every row its own", position(cursor))
        for index, part in enumerate(children(cursor)):
            if not is_expression(part):
                raise Refusal("a designated initialiser: list the elements in order", position(part))
            visit(part, (*at, index))

    visit(first, ())
    if values > ELEMENTS:
        raise Refusal(f"an initialiser of more than {ELEMENTS} elements: pass the data as a parameter", where)
    return listed


def declare_struct(context: Context, cursor: Cursor, declaration: Cursor, first: Cursor | None) -> Value:
    """A local struct of scalars: one variable a field."""
    where, name = position(cursor), context.fresh(cursor.spelling)
    target = StructPlace(name, declaration)
    inner = None if first is None else bare(first)
    listed: list[Cursor] = []
    source: Value = None
    if inner is not None and kind(inner) == "INIT_LIST_EXPR":
        listed = children(inner)
    elif inner is not None and not (kind(inner) == "CALL_EXPR" and not list(inner.get_arguments())):
        source = place(context, inner if kind(inner) != "CALL_EXPR" else next(inner.get_arguments()))
    for number, part in enumerate(declaration.type.get_fields()):
        element = scalar(part.type)
        if element is None:
            reason = f"{cursor.spelling} is a local struct whose field {part.spelling} is no number"
            raise Refusal(f"{reason}: use separate variables", where)
        given: Expr | None = None
        if isinstance(source, StructPlace):
            old = context.fields[(source.name, part.spelling)]
            assert isinstance(old, ScalarPlace)
            given = load(context, old, cursor)
        elif number < len(listed):
            given = cast(value(context, listed[number]), element)
        elif listed:
            given = cast(integer(0, where), element)
        variable = context.declare(f"{name}.{part.spelling}", element, given, where)
        context.fields[(name, part.spelling)] = ScalarPlace(variable.name, element)
    return target
