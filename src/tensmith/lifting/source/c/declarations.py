"""Local variables: scalars, arrays with their initialisers, pointers, references, structs, vectors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tensmith.formula.expr import Expr, Num, SourcePosition
from tensmith.formula.types import MachineType
from tensmith.lifting.loops import Allocate, Array, Store
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.c.arithmetic import cast, integer, zero
from tensmith.lifting.source.c.context import LoweringContext
from tensmith.lifting.source.c.cursor import (
    Cursor,
    bare,
    children,
    identity,
    initializer,
    is_expression,
    key,
    kind,
    position,
)
from tensmith.lifting.source.c.evaluate import address, evaluate, load, place, spelled, value
from tensmith.lifting.source.c.expressions import EXPLICIT
from tensmith.lifting.source.c.globals import check_steady
from tensmith.lifting.source.c.places import (
    POINTERS,
    ArrayRegion,
    ElementPlace,
    PointerPlace,
    ScalarPlace,
    StructPlace,
    Value,
    is_number,
)
from tensmith.lifting.source.c.records import check_number_field, plain_fields
from tensmith.lifting.source.c.sequence import listed
from tensmith.lifting.source.c.types import (
    Shape,
    constant_extents,
    is_array,
    is_pointer,
    is_reference,
    plain,
    record,
    scalar,
    shape,
    unsupported,
    vector_element,
)
from tensmith.lifting.source.c.vectors import declare_vector
from tensmith.lifting.source.c.whitelist import (
    PROPERTIES,
    STORAGE,
    Meaning,
    cursor_meaning,
    type_meaning,
)

ELEMENTS = 4096  # of an initialiser; more is data, not code


def declare(context: LoweringContext, cursor: Cursor) -> None:
    """A variable of a declaration statement; other declarations (types, usings) say nothing."""
    if kind(cursor) != "VAR_DECL":
        return check_silent(cursor)
    context.see(cursor)
    where, name, at = position(cursor), cursor.spelling, key(cursor)
    fixed = cursor.type.is_const_qualified() or constant_array(cursor)
    check_storage(cursor, fixed)
    first, emitted = initializer(cursor), len(context.out)
    with context.full_expression():
        if is_reference(cursor.type):
            assert first is not None
            context.bound[at] = held(context, first, cursor)
        elif is_array(cursor.type):
            context.bound[at] = declare_array(context, cursor, first, name)
        elif is_pointer(cursor.type):
            declare_pointer(context, cursor, first)
        elif vector_element(cursor.type) is not None:
            context.bound[at] = declare_vector(context, cursor, first, name)
        elif (kind_of := scalar(cursor.type)) is not None:
            given = None if first is None else initial(context, first, kind_of)
            variable = context.declare(name, kind_of, given, where)
            context.bound[at] = ScalarPlace(variable.tensor, kind_of)
        elif (declaration := record(cursor.type)) is not None and declaration.kind.name != "UNION_DECL":
            context.bound[at] = declare_struct(context, cursor, declaration, first)
        else:
            raise Refusal(unsupported(cursor.type, name), where)
    if cursor.storage_class.name == "STATIC":
        check_steady(context, context.out[emitted:], name, where)


def check_silent(cursor: Cursor) -> None:
    """A declaration that is no variable must be known to do nothing."""
    found = cursor_meaning(kind(cursor))
    if not found.harmless:
        raise Refusal(found.refused or "a declaration that is not understood", position(cursor))
    if kind(cursor) == "TYPEDEF_DECL" and not constant_extents(cursor.underlying_typedef_type):
        reason = "a type whose length is known at run time only"
        raise Refusal(f"{reason}: declare the array with its length", position(cursor))


def check_storage(cursor: Cursor, fixed: bool) -> None:
    """A variable lives in the function, or is a constant."""
    where, name = position(cursor), cursor.spelling
    storage = cursor.storage_class.name
    unknown = Meaning(refused="stored in a way that is not known here: use a local variable")
    problem = STORAGE.get(storage, unknown).refused
    if storage == "STATIC" and not fixed:
        reason = f"{name} is static: it keeps its value from call to call"
        raise Refusal(f"{reason}; make it a parameter or a constant", where)
    if storage == "EXTERN" and not fixed:
        raise Refusal(f"{name} is a variable outside the function: pass it as a parameter", where)
    if cursor.tls_kind.name != "NONE" and not fixed:
        problem = PROPERTIES["thread-local"]
    kind_of = cursor.type.get_canonical()
    if kind_of.is_volatile_qualified():
        problem = PROPERTIES["volatile"]
    elif type_meaning(kind(kind_of)).refused:
        raise Refusal(unsupported(cursor.type, name), where)
    if problem:
        raise Refusal(f"{name} is {problem}", where)


def only(context: LoweringContext, cursor: Cursor) -> Cursor:
    """The expression in `int x{3}`."""
    inner = bare(cursor)
    if kind(inner) != "INIT_LIST_EXPR":
        return cursor
    context.see(inner)
    parts = children(inner)
    if len(parts) != 1:
        raise Refusal("a number is initialised with a list: give it one value", position(cursor))
    return parts[0]


def constant_array(cursor: Cursor) -> bool:
    """Whether a variable is an array of constants."""
    found = shape(cursor.type, position(cursor)) if is_array(cursor.type) else None
    return found is not None and found.const


def held(context: LoweringContext, first: Cursor, declared: Cursor) -> Value:
    """What a reference refers to: subscripts are evaluated now, and a copy of a number is a variable."""
    name, known = declared.spelling or "unnamed", set(context.names)
    found = evaluate(context, first)
    if is_number(found) and is_place_in_c(first):
        reason = f"`{spelled(first)}` refers to one of several variables"
        raise Refusal(f"{reason}: use a value instead of a reference", position(first))
    copied = is_copy(first) and may_copy(declared)
    if copied and isinstance(found, ScalarPlace | ElementPlace):
        found = load(context, found, first)
    shared = isinstance(found, StructPlace) and found.name in known
    shared |= isinstance(found, ArrayRegion) and found.array in known
    if isinstance(found, POINTERS) or (copied and shared):
        reason = f"{name} refers to a copy, or to a pointer's value"
        raise Refusal(f"{reason}: declare a variable instead of a reference", position(first))
    if isinstance(found, ElementPlace | ArrayRegion):
        context.temporary.discard(found.array)
        indices = tuple(context.kept(f"{name}_at", index, position(first)) for index in found.indices)
        return type(found)(found.array, indices)
    if is_number(found):
        kept = context.declare(name, found.type, found, position(first))
        return ScalarPlace(kept.tensor, kept.type)
    return found


def may_copy(declared: Cursor) -> bool:
    """Whether a reference may be one to a copy: of constants, or with &&."""
    constant = plain(declared.type).is_const_qualified()
    return constant or kind(declared.type.get_canonical()) != "LVALUEREFERENCE"


def is_copy(cursor: Cursor) -> bool:
    """Whether an expression that C++ gives a reference stands for a copy of a variable, not for itself.

    Of numbers, a conversion that names the variable only adds const, and one that reads it takes const off.
    """
    while kind(cursor) in ("UNEXPOSED_EXPR", "PAREN_EXPR", "CXX_FUNCTIONAL_CAST_EXPR", *EXPLICIT):
        reads = kind(cursor) == "UNEXPOSED_EXPR" and scalar(cursor.type) is not None
        if reads and not cursor.type.get_canonical().is_const_qualified():
            return True
        cursor = [part for part in children(cursor) if is_expression(part)][-1]
    return kind(cursor) == "CALL_EXPR" and not is_place_in_c(cursor)


def is_place_in_c(cursor: Cursor) -> bool:
    """Whether C++ binds a reference to what the expression names, and not to a copy of its value."""
    inner = bare(cursor)
    if kind(inner) == "CALL_EXPR":
        return inner.referenced is not None and is_reference(inner.referenced.result_type)
    return kind(inner) == "CONDITIONAL_OPERATOR"


def declare_pointer(context: LoweringContext, cursor: Cursor, first: Cursor | None) -> None:
    """T *p = ...: where it points is kept in integer variables."""
    at, name, where = key(cursor), cursor.spelling, position(cursor)
    context.bound[at] = PointerPlace(at, name)
    if first is None:
        context.pointers.pop(at, None)
        return
    target = address(context, only(context, first))
    if at in context.frame.written:
        context.point(at, name, target, where)
    else:
        context.fix(at, name, target, where)


def extents(context: LoweringContext, cursor: Cursor, found: Shape) -> tuple[Expr | None, ...]:
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
            if size is not None:
                context.skipped.add(identity(size))
            result.append(integer(extent, position(cursor)))
            continue
        if size is None:
            raise Refusal("a variable-length array behind a typedef: write it out", position(cursor))
        result.append(value(context, size))
    return tuple(result)


def declare_array(context: LoweringContext, cursor: Cursor, first: Cursor | None, name: str) -> Value:
    """T t[n], T t[2][3] = {{1, 2, 3}}."""
    where = position(cursor)
    found = shape(cursor.type, where)
    if found is None or found.memory == "nested":
        raise Refusal(unsupported(cursor.type, name), where)
    sizes = []
    for size in extents(context, cursor, found):
        if size is None:
            raise Refusal(f"{name} has no size", where)
        fixed = isinstance(size, Num)
        sizes.append(size if fixed else context.declare(f"{name}_size", size.type, size, where))
    array = Array(found.element, found.rank, "flat", tuple(sizes))
    unique = context.array(name, array)
    given = None if first is None else initial_elements(context, first, found, where)
    fill = zero(found.element, where) if given is not None and len(given) < total(found) else None
    context.emit(Allocate(unique, array, tuple(sizes), fill, where))
    for at, new in (given or {}).items():
        context.emit(Store(unique, tuple(integer(index, where) for index in at), new, where))
    return ArrayRegion(unique)


def total(found: Shape) -> int:
    count = 1
    for extent in found.extents:
        count *= extent or 0
    return abs(count)


def initial_elements(
    context: LoweringContext, first: Cursor, found: Shape, where: SourcePosition
) -> dict[tuple[int, ...], Expr]:
    """The elements that an initialiser lists, without the zeros it starts from."""
    if kind(first) != "INIT_LIST_EXPR":
        raise Refusal("an array is initialised with what is not a list: fill it in a loop", where)
    parts: dict[tuple[int, ...], Callable[[], Expr]] = {}

    def visit(cursor: Cursor, at: tuple[int, ...]) -> None:
        if len(at) == found.rank:
            parts[at] = partial(initial, context, cursor, found.element)
            return
        context.see(cursor)
        if kind(cursor) != "INIT_LIST_EXPR":
            raise Refusal("an initialiser without inner braces: give every row its own", position(cursor))
        for index, part in enumerate(children(cursor)):
            check_plain_part(part)
            visit(part, (*at, index))

    visit(first, ())
    if len(parts) > ELEMENTS:
        raise Refusal(f"an initialiser of more than {ELEMENTS} elements: pass the data as a parameter", where)
    given = dict(zip(parts, listed(context, where, list(parts.values())), strict=True))
    return {at: each for at, each in given.items() if not is_plain_zero(each)}


def initial(context: LoweringContext, cursor: Cursor, wanted: MachineType) -> Expr:
    """What an initialiser, or an entry of one, gives a number; {} is zero."""
    inner = bare(cursor)
    if kind(inner) == "INIT_LIST_EXPR" and not children(inner):
        context.see(inner)
        return zero(wanted, position(cursor))
    return cast(value(context, only(context, cursor)), wanted)


def is_plain_zero(given: Expr) -> bool:
    """Whether a number is 0 and not -0."""
    return isinstance(given, Num) and given.value == 0 and str(given.value)[0] != "-"


def check_plain_part(part: Cursor) -> None:
    """A part of an initialiser stands for the element or field at its own place."""
    designated = kind(part) == "UNEXPOSED_EXPR" and part.type.get_canonical().kind.name == "VOID"
    if designated or not is_expression(part):
        raise Refusal("a designated initialiser: list the elements in order", position(part))


def declare_struct(
    context: LoweringContext, cursor: Cursor, declaration: Cursor, first: Cursor | None
) -> Value:
    """A local struct of scalars: one variable a field."""
    where, name = position(cursor), context.fresh(cursor.spelling)
    target = StructPlace(name, declaration)
    inner = None if first is None else bare(first)
    entries: list[Cursor] = []
    source: Value = None
    if inner is not None and kind(inner) == "INIT_LIST_EXPR":
        context.see(inner)
        entries = children(inner)
    elif inner is not None and kind(inner) == "CALL_EXPR" and not list(inner.get_arguments()):
        context.see(inner)
    elif inner is not None:
        source = place(context, inner)
        if not isinstance(source, StructPlace):
            raise Refusal(f"{cursor.spelling} is made by a constructor: set its fields", where)
    parts, kinds = plain_fields(declaration, cursor), []
    for part in parts:
        check_number_field(part)
        element = scalar(part.type)
        if element is None:
            reason = f"{cursor.spelling} is a local struct whose field {part.spelling} is no number"
            raise Refusal(f"{reason}: use separate variables", where)
        kinds.append(element)
    for entry in entries:
        check_plain_part(entry)
    made = [partial(initial, context, entry, element) for entry, element in zip(entries, kinds, strict=False)]
    values: list[Expr] = listed(context, where, made)
    for part, element in zip(parts, kinds, strict=True):
        given: Expr | None = None
        if isinstance(source, StructPlace):
            old = context.fields[(source.name, part.spelling)]
            assert isinstance(old, ScalarPlace)
            given = load(context, old, cursor)
        elif inner is not None and kind(inner) == "INIT_LIST_EXPR":
            given = values.pop(0) if values else zero(element, where)
        variable = context.declare(f"{name}.{part.spelling}", element, given, where)
        context.fields[(name, part.spelling)] = ScalarPlace(variable.tensor, element)
    return target
