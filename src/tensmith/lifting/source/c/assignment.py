"""Writing: =, +=, ++ and --, on variables, elements and pointers."""

from __future__ import annotations

from tensmith.formula.expr import Expr, Num, SourcePosition, variable
from tensmith.formula.types import BOOL, MachineType
from tensmith.lifting import loops
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.c.arithmetic import apply, cast, common, integer, promoted
from tensmith.lifting.source.c.context import LoweringContext, refuse_shared
from tensmith.lifting.source.c.cursor import Cursor, children, operator, position
from tensmith.lifting.source.c.evaluate import (
    address,
    decayed,
    evaluate,
    expression,
    load,
    place,
    place_type,
    spelled,
    value,
)
from tensmith.lifting.source.c.memory import moved
from tensmith.lifting.source.c.places import (
    Address,
    ArrayRegion,
    ElementPlace,
    Place,
    Pointer,
    PointerPlace,
    ScalarPlace,
    StructPlace,
    Value,
    is_number,
)
from tensmith.lifting.source.c.records import plain_fields
from tensmith.lifting.source.c.types import is_pointer


def store(
    context: LoweringContext, target: ScalarPlace | ElementPlace, new: Expr, where: SourcePosition
) -> loops.Statement:
    """The statement that writes a number of the target's type."""
    if isinstance(target, ScalarPlace):
        if target.fixed:
            raise Refusal(target.fixed, where)
        return loops.Assign(target.name, new, where)
    context.bytes.discard(target.array)
    if not context.arrays[target.array].written:
        reason = f"{target.array} is declared const, and written through a cast"
        raise Refusal(f"{reason}: declare it without const", where)
    return loops.Store(target.array, target.indices, new, where)


def assign(context: LoweringContext, cursor: Cursor, left: Cursor, right: Cursor) -> Value:
    """left = right."""
    where = position(cursor)
    if is_pointer(left.type):
        pointer, made = context.watched(lambda: address(context, right))
        target = place(context, left)
        refuse_shared(loops.writes(made) & loops.reads(target), where)
        if not isinstance(target, PointerPlace):
            reason = f"`{spelled(left)}` makes an array point elsewhere"
            raise Refusal(f"{reason}: copy the elements, or use a local pointer", where)
        repoint(context, target, pointer, where)
        return target
    source, made = context.watched(lambda: evaluate(context, right))
    if isinstance(source, StructPlace):
        return copy_struct(context, place(context, left), source, where)
    new = load(context, source, right) if isinstance(source, ScalarPlace | ElementPlace) else source
    to, on_the_way = context.watched(lambda: number_place(context, left))
    refuse_shared(loops.writes(made) & loops.reads(to) | loops.writes(on_the_way) & loops.reads(new), where)
    if isinstance(to, ScalarPlace):
        context.reads.add(to.name)
    if not is_number(new):
        raise Refusal(f"`{spelled(right)}` is not a number", where)
    context.emit(store(context, to, cast(new, place_type(context, to), where), where))
    return to


def repoint(context: LoweringContext, target: PointerPlace, pointer: Pointer, where: SourcePosition) -> None:
    """p = pointer, at once; what is postponed must not move p as well."""
    check_own(target, where)
    context.point(target.key, target.name, pointer, where)
    context.reads |= loops.reads(context.pointers[target.key])


def check_own(target: PointerPlace, where: SourcePosition) -> None:
    """A pointer that moves is the function's own: nobody else sees where it points in the end."""
    if target.fixed:
        raise Refusal(target.fixed, where)


def number_place(context: LoweringContext, cursor: Cursor) -> ScalarPlace | ElementPlace:
    target = place(context, cursor)
    if isinstance(target, ScalarPlace | ElementPlace):
        return target
    what = "an array" if isinstance(target, ArrayRegion) else "more than a number"
    raise Refusal(f"`{spelled(cursor)}` is {what}: write its elements one by one", position(cursor))


def copy_struct(context: LoweringContext, target: Place, source: StructPlace, where: SourcePosition) -> Value:
    """s = t, field by field."""
    if not isinstance(target, StructPlace):
        raise Refusal("a struct is assigned to what is not one", where)
    for field in plain_fields(source.declaration, source.declaration):
        pair = [context.fields.get((side.name, field.spelling)) for side in (target, source)]
        if not all(isinstance(side, ScalarPlace) for side in pair):
            raise Refusal("a struct with arrays is copied: copy its fields one by one", where)
        to, old = pair
        assert isinstance(to, ScalarPlace) and isinstance(old, ScalarPlace)
        context.emit(store(context, to, variable(old.name, old.type, where), where))
    return target


@expression("COMPOUND_ASSIGNMENT_OPERATOR")
def compound(context: LoweringContext, cursor: Cursor) -> Value:
    """left op= right: computed in the common type of both, converted back."""
    left, right = children(cursor)
    sign, where = operator(cursor)[:-1], position(cursor)
    by, made = context.watched(lambda: value(context, right))
    if is_pointer(left.type):
        return move(context, place(context, left), by, cursor, sign)
    target, on_the_way = context.watched(lambda: number_place(context, left))
    old = load(context, target, left)
    refuse_shared(loops.writes(made) & loops.reads(old) | loops.writes(on_the_way) & loops.reads(by), where)
    kind = place_type(context, target)
    new = cast(updated(old, sign, by, where), kind, where)
    context.emit(store(context, target, new, where))
    return target


def updated(old: Expr, sign: str, by: Expr, where: SourcePosition) -> Expr:
    """old op by, in the type that C computes in."""
    shift = sign in ("left_shift", "right_shift")
    kind = promoted(old.type) if shift else common(old.type, by.type)
    return apply(sign, (cast(old, kind), cast(by, kind)), kind, where)


def move(context: LoweringContext, target: Place, by: Expr, cursor: Cursor, sign: str) -> Value:
    """p += k, p -= k, ++p, --p."""
    if not isinstance(target, PointerPlace):
        reason = f"`{spelled(cursor)}` makes an array point elsewhere"
        raise Refusal(f"{reason}: use a local pointer", position(cursor))
    pointer = moved(decayed(context, target, cursor), by, cursor, sign)
    repoint(context, target, pointer, position(cursor))
    return target


def step(context: LoweringContext, cursor: Cursor, sign: str) -> Value:
    """++x, --x at once; x++, x-- when the expression around is over, with the old value."""
    operand, where = children(cursor)[0], position(cursor)
    direction = "add" if sign.endswith("++") else "sub"
    if is_pointer(operand.type):
        return step_pointer(context, cursor, place(context, operand), sign, direction)
    target = number_place(context, operand)
    kind = place_type(context, target)
    if kind == BOOL:
        raise Refusal("a bool is counted up: assign true", where)
    old = number(context, target, where)
    new = cast(updated(old, direction, one(kind, where), where), kind, where)
    effect = store(context, target, new, where)
    if sign.startswith("pre"):
        context.emit(effect)
        return target
    if isinstance(target, ScalarPlace):
        context.later.append((target.name, effect))
    else:
        context.later.insert(0, (f"{target.array}[]", effect))
    return old


def number(context: LoweringContext, target: ScalarPlace | ElementPlace, where: SourcePosition) -> Expr:
    """The old value, which x++ itself may read."""
    if isinstance(target, ScalarPlace):
        return variable(target.name, target.type, where)
    return loops.Load(target.array, target.indices, place_type(context, target), where)


def one(kind: MachineType, where: SourcePosition) -> Num:
    return Num(1.0, kind, where) if kind.kind == "float" else Num(1, promoted(kind), where)


def step_pointer(context: LoweringContext, cursor: Cursor, target: Place, sign: str, direction: str) -> Value:
    """p++, ++p and the like."""
    where = position(cursor)
    if sign.startswith("pre") or not isinstance(target, PointerPlace):
        return move(context, target, integer(1, where), cursor, direction)
    check_own(target, where)
    old = context.pointer(target.key, target.name, where)
    with context.block() as effect:
        new = moved(old, integer(1, where), cursor, direction)
        context.point(target.key, target.name, new, where)
    context.later.extend(
        (statement.name, statement) for statement in effect if isinstance(statement, loops.Assign)
    )
    assert isinstance(old, Address)
    return old
