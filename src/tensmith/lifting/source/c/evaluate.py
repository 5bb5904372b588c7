"""What an expression denotes: one handler for each kind of cursor, found in a table, and the ways to ask.

evaluate: whatever it is; value: a number; address: a pointer; place: what can be written to; condition: a
bool. Side effects are emitted on the way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tensmith.formula.expr import Expr, Num, SourcePosition, is_cast, variable
from tensmith.formula.types import BOOL, MachineType
from tensmith.lifting import assumptions, loops
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.c import places as c_places
from tensmith.lifting.source.c.arithmetic import cast, defined_everywhere, integer, truth
from tensmith.lifting.source.c.context import LoweringContext
from tensmith.lifting.source.c.cursor import Cursor, bare, children, kind, operator, position
from tensmith.lifting.source.c.types import scalar
from tensmith.lifting.source.c.whitelist import PROPERTIES, cursor_meaning, type_meaning
from tensmith.registry import entered_in

Handler: TypeAlias = Callable[[LoweringContext, Cursor], c_places.Value]
EXPRESSIONS: dict[str, Handler] = {}
expression = entered_in(EXPRESSIONS)


def evaluate(context: LoweringContext, cursor: Cursor) -> c_places.Value:
    """What the expression denotes."""
    name = kind(cursor)
    handler = EXPRESSIONS.get(name)
    if handler is None:
        default = f"an expression that is not understood ({name.lower()}): write it in plainer terms"
        raise Refusal(cursor_meaning(name).refused or default, position(cursor))
    check_type(cursor)
    context.see(cursor)
    return handler(context, cursor)


def check_type(cursor: Cursor) -> None:
    """Refuse an expression whose type has no meaning here."""
    kind_of = cursor.type.get_canonical()
    problem = type_meaning(kind(kind_of)).refused
    if kind_of.is_volatile_qualified():
        problem = PROPERTIES["volatile"]
    if problem:
        raise Refusal(f"`{spelled(cursor)}` is {problem}", position(cursor))


def value(context: LoweringContext, cursor: Cursor) -> Expr:
    """The number an expression stands for."""
    found = evaluate(context, cursor)
    if isinstance(found, c_places.ScalarPlace | c_places.ElementPlace):
        return load(context, found, cursor)
    if c_places.is_number(found):
        return found
    raise Refusal(f"`{spelled(cursor)}` is used as a number: it is {described(found)}", position(cursor))


def condition(context: LoweringContext, cursor: Cursor) -> Expr:
    """Whether an expression is true."""
    return holds(context, evaluate(context, cursor), cursor)


def holds(context: LoweringContext, found: c_places.Value, cursor: Cursor) -> Expr:
    """Whether a value is true; pointers that are not known to be null are taken not to be."""
    if isinstance(found, c_places.ScalarPlace | c_places.ElementPlace):
        found = load(context, found, cursor)
    if isinstance(found, c_places.PointerPlace):
        found = decayed(context, found, cursor)
    if isinstance(found, c_places.Null):
        return Num(False, BOOL, position(cursor))
    if isinstance(found, c_places.Address | c_places.AddressOf | c_places.ArrayRegion):
        keep_defined(context, found, position(cursor))
        return not_null(context, cursor, True)
    if c_places.is_number(found):
        return truth(found)
    raise Refusal(f"`{spelled(cursor)}` is used as a condition", position(cursor))


def address(context: LoweringContext, cursor: Cursor) -> c_places.Pointer:
    """Where a pointer expression points; arrays decay to their first element."""
    return decayed(context, evaluate(context, cursor), cursor)


def decayed(context: LoweringContext, found: c_places.Value, cursor: Cursor) -> c_places.Pointer:
    if isinstance(found, c_places.ArrayRegion):
        return c_places.Address(found.array, (*found.indices, integer(0, position(cursor))))
    if isinstance(found, c_places.PointerPlace):
        pointer = context.pointer(found.key, found.name, position(cursor))
        context.reads |= loops.reads(pointer)
        return pointer
    if isinstance(found, c_places.Address | c_places.AddressOf | c_places.Null | c_places.Heap):
        return found
    if isinstance(found, Num) and found.value == 0:
        return c_places.Null()
    if is_cast(found) and isinstance(found.args[0], Num) and found.args[0].value == 0:
        return c_places.Null()
    reason = f"`{spelled(cursor)}` is used as a pointer: numbers are not addresses"
    raise Refusal(reason, position(cursor))


def place(context: LoweringContext, cursor: Cursor) -> c_places.Place:
    """What an expression that is written to or bound to a reference names."""
    found = evaluate(context, cursor)
    if c_places.is_place(found):
        return found
    raise Refusal(f"`{spelled(cursor)}` names no variable or element", position(cursor))


def load(
    context: LoweringContext, source: c_places.ScalarPlace | c_places.ElementPlace, cursor: Cursor
) -> Expr:
    """The number a variable or element holds."""
    if isinstance(source, c_places.ScalarPlace):
        context.reads.add(source.name)
        return variable(source.name, source.type, position(cursor))
    context.bytes.discard(source.array)
    return loops.Load(source.array, source.indices, context.arrays[source.array].element, position(cursor))


def discarded(context: LoweringContext, cursor: Cursor) -> None:
    """Evaluate an expression whose value nobody uses: it must be defined all the same."""
    found = evaluate(context, cursor)
    if isinstance(found, c_places.ElementPlace) and names_element(cursor):
        found = load(context, found, cursor)
    keep_defined(context, found, position(cursor))


def names_element(cursor: Cursor) -> bool:
    """Whether an expression that names an element reads it, as an assignment to one does not."""
    cursor = bare(cursor)
    while kind(cursor) == "BINARY_OPERATOR" and operator(cursor) == ",":
        cursor = bare(children(cursor)[1])
    if kind(cursor) == "UNARY_OPERATOR":
        return operator(cursor) == "*"
    return kind(cursor) in ("ARRAY_SUBSCRIPT_EXPR", "MEMBER_REF_EXPR", "CALL_EXPR")


def keep_defined(context: LoweringContext, found: c_places.Value, where: SourcePosition) -> None:
    """Let a value that is computed and not used, or a place that is named, be needed to be defined."""
    for part in computed(found):
        if not defined_everywhere(part):
            context.declare("unused", part.type, part, where)


def computed(found: c_places.Value) -> tuple[Expr, ...]:
    """The numbers behind a value: itself, or the subscripts of a place."""
    if isinstance(found, c_places.ElementPlace | c_places.ArrayRegion | c_places.Address):
        return found.indices
    return (found,) if c_places.is_number(found) else ()


def place_type(context: LoweringContext, target: c_places.ScalarPlace | c_places.ElementPlace) -> MachineType:
    return target.type if isinstance(target, c_places.ScalarPlace) else context.arrays[target.array].element


def element(context: LoweringContext, pointer: c_places.Pointer, cursor: Cursor) -> c_places.Place:
    """What a pointer points to: *p."""
    if isinstance(pointer, c_places.AddressOf):
        return pointer.place
    if not isinstance(pointer, c_places.Address):
        what = "the null pointer" if isinstance(pointer, c_places.Null) else "memory without a type"
        raise Refusal(f"`{spelled(cursor)}` follows {what}", position(cursor))
    full = len(pointer.indices) == context.arrays[pointer.array].rank
    return (c_places.ElementPlace if full else c_places.ArrayRegion)(pointer.array, pointer.indices)


def not_null(context: LoweringContext, cursor: Cursor, result: bool) -> Expr:
    context.note(assumptions.POINTERS())
    return Num(result, BOOL, position(cursor))


def converted(found: Expr, cursor: Cursor) -> Expr:
    """The expression in the type that clang gives the cursor."""
    wanted = scalar(cursor.type)
    return found if wanted is None else cast(found, wanted, position(cursor))


def spelled(cursor: Cursor) -> str:
    """The source text of an expression, shortened."""
    text = " ".join(token.spelling for token, _ in zip(cursor.get_tokens(), range(13), strict=False))
    return text if len(text) <= 40 else text[:37] + "..."


def described(found: c_places.Value) -> str:
    match found:
        case (
            c_places.Address()
            | c_places.AddressOf()
            | c_places.PointerPlace()
            | c_places.Null()
            | c_places.Heap()
        ):
            return "a pointer"
        case c_places.ArrayRegion():
            return "an array"
        case c_places.StructPlace():
            return "a struct"
    return "no value"
