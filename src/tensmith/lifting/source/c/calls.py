"""Calls: methods of vectors, library functions, and helpers of the same file, written out in place."""

from __future__ import annotations

from functools import partial

from tensmith.formula.expr import Num, SourcePosition
from tensmith.lifting.loops import reads, touches, writes
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.c.arithmetic import cast, surely
from tensmith.lifting.source.c.context import CFrame, LoweringContext, check_typed, refuse_shared
from tensmith.lifting.source.c.cursor import Cursor, children, identity, key, kind, position
from tensmith.lifting.source.c.declarations import held
from tensmith.lifting.source.c.evaluate import (
    computed,
    decayed,
    evaluate,
    expression,
    keep_defined,
    load,
    spelled,
    value,
)
from tensmith.lifting.source.c.library import call_library, in_library
from tensmith.lifting.source.c.places import (
    POINTERS,
    ArrayRegion,
    PointerPlace,
    ScalarPlace,
    StructPlace,
    Value,
    is_number,
)
from tensmith.lifting.source.c.records import plain_fields
from tensmith.lifting.source.c.sequence import unsequenced
from tensmith.lifting.source.c.statements import function_body
from tensmith.lifting.source.c.types import (
    is_array,
    is_pointer,
    is_reference,
    record,
    scalar,
    unsupported,
    vector_element,
)
from tensmith.lifting.source.c.vectors import METHODS, constructed, duplicate, region_of, unwrapped
from tensmith.lifting.source.c.writes import body, changes, hands_out, postpones, written

DEPTH = 16  # helpers inside helpers


@expression("CALL_EXPR")
def call(context: LoweringContext, cursor: Cursor) -> Value:
    """Any call; constructors and operators of C++ are calls as well."""
    callee, arguments = cursor.referenced, list(cursor.get_arguments())
    if any(not argument.extent.start.line for argument in arguments):
        raise Refusal(f"{cursor.spelling} takes an argument by default: write it out", position(cursor))
    see_callee(context, cursor, arguments)
    name = cursor.spelling
    if callee is None or callee.kind.name in ("VAR_DECL", "PARM_DECL", "FIELD_DECL"):
        reason = f"`{spelled(cursor)}` calls through a pointer"
        raise Refusal(f"{reason}: call the function by its name", position(cursor))
    if callee.kind.name == "CONSTRUCTOR":
        return construct(context, cursor, arguments)
    if callee.kind.name in ("CXX_METHOD", "CONVERSION_FUNCTION"):
        return method(context, cursor, arguments)
    definition = callee.get_definition()
    by_clang = name.startswith("__builtin_") and callee.location.file is None
    ours = callee.location.is_in_system_header or by_clang
    if ours or name.startswith("operator"):
        return call_library(context, cursor, callee.spelling or name, arguments)
    if definition is None:
        return call_declared(context, cursor, callee, arguments)
    return inlined(context, cursor, definition, arguments)


def see_callee(context: LoweringContext, cursor: Cursor, arguments: list[Cursor]) -> None:
    """The name of what is called: `f`, `(f)`, `v.size`, `std::max<int>`; clang resolves it."""
    given = {identity(argument) for argument in arguments}
    for part in children(cursor):
        if identity(part) in given:
            continue
        while kind(part) in ("UNEXPOSED_EXPR", "PAREN_EXPR") and len(children(part)) == 1:
            part = children(part)[0]
        if kind(part) == "DECL_REF_EXPR":
            context.see(part)
            context.skipped.update(map(identity, children(part)))  # the arguments of templates
        elif kind(part) == "MEMBER_REF_EXPR":
            context.see(part)


def call_declared(context: LoweringContext, cursor: Cursor, callee: Cursor, arguments: list[Cursor]) -> Value:
    """A function that the file declares and does not define: it may be any, whatever its name is."""
    name = callee.spelling
    if in_library(name):
        reason = f"{name} is declared in this file, and may be another function than the library's"
        raise Refusal(f"{reason}: include the header that declares it", position(cursor))
    return call_library(context, cursor, name, arguments)


def construct(context: LoweringContext, cursor: Cursor, arguments: list[Cursor]) -> Value:
    """A vector that is made in an expression, or a copy whose source serves as well."""
    if vector_element(cursor.type) is None:
        copied = callee_copies(cursor.referenced)
        if len(arguments) == 1 and copied:
            return evaluate(context, arguments[0])
        raise Refusal(unsupported(cursor.type, f"`{spelled(cursor)}`"), position(cursor))
    inner = unwrapped(context, cursor)
    if kind(inner) == "CALL_EXPR" and inner.spelling == "vector":
        region = constructed(context, inner)
        context.temporary.add(region.array)
        return region
    return evaluate(context, inner)


def callee_copies(callee: Cursor) -> bool:
    """Whether a constructor is the one that clang adds to copy a plain struct."""
    implied = callee.is_copy_constructor() or callee.is_move_constructor()
    return bool(implied and callee.location == callee.semantic_parent.location)


def method(context: LoweringContext, cursor: Cursor, arguments: list[Cursor]) -> Value:
    """v[i], v.size() and the like."""
    name, first = cursor.spelling, children(cursor)[0]
    if name in ("operator<<", "operator>>"):
        return call_library(context, cursor, name, arguments)
    owner = arguments[0] if name.startswith("operator") else (children(first) or [first])[0]
    if name.startswith("operator"):
        arguments = arguments[1:]
    meaning = METHODS.get(name)
    if not arguments and cursor.referenced.is_static_method():
        return call_library(context, cursor, name, arguments)  # std::numeric_limits
    if meaning is None or vector_element(owner.type) is None:
        made = record(owner.type)
        if made is not None and made.semantic_parent.spelling == "std":
            reason = f"`{spelled(cursor)}` is of a std::{made.spelling}, which is not lifted"
            raise Refusal(f"{reason}: keep its elements in a std::vector or an array", position(cursor))
        reason = f"`{spelled(cursor)}` calls the method {name}"
        raise Refusal(f"{reason}: use subscripts, or a function of this file", position(cursor))
    return meaning(context, cursor, region_of(context, owner), arguments)


def inlined(context: LoweringContext, cursor: Cursor, definition: Cursor, arguments: list[Cursor]) -> Value:
    """The call of a function of this file: its body, here."""
    name, where = definition.spelling, position(cursor)
    if any(frame.function == definition for frame in context.frames):
        raise Refusal(f"{name} calls itself: write the recursion as a loop", where)
    if len(context.frames) > DEPTH:
        raise Refusal(f"more than {DEPTH} helpers inside one another: call fewer", where)
    check_prototype(definition, arguments, where)
    context.lowered[identity(definition)] = definition
    frame = CFrame(definition, written(definition))
    parameters = list(definition.get_arguments())
    context.see(*parameters)
    if len(parameters) != len(arguments):
        raise Refusal(f"{name} takes a variable number of arguments: give it fixed parameters", where)
    statements, known = children(body(definition)), set(context.local)
    context.see(body(definition))
    one = len(statements) == 1 and kind(statements[0]) == "RETURN_STMT"
    direct = one and bool(children(statements[0])) and not changes(statements[0])
    direct = direct and not any(map(postpones, arguments))
    binders = [
        partial(bind, context, frame, parameter, argument, direct)
        for parameter, argument in zip(parameters, arguments, strict=True)
    ]
    with context.apart():
        bindings = unsequenced(context, where, binders)
        arguments_read = context.reads
        context.sequence_point()
    context.reads |= arguments_read
    context.bound.update(bindings)
    context.frames.append(frame)
    try:
        if direct:
            context.see(statements[0])
            with context.block() as inside:
                result = returned(context, children(statements[0])[0], definition)
            used = {each for part in computed(result) for each in surely(part)}
            for _, given in bindings:
                for part in computed(given):
                    if part not in used:
                        keep_defined(context, part, where)
            for made in inside:
                context.emit(made)
            uses(context, result)
            return own(context, result, definition, known, where)
        before = len(context.out)
        with context.apart():
            result = function_body(context, frame, name)
        result = kept(context, result, cursor)
        done = context.out[before:]
        for _, effect in context.later:
            refuse_shared(writes(effect) & touches(done) | reads(effect) & writes(done), where)
        uses(context, (done, result))
        return own(context, result, definition, known, where)
    finally:
        context.frames.pop()


def uses(context: LoweringContext, done: object) -> None:
    """What a call reads: an x++ or a[i]++ elsewhere in the expression may happen before or after."""
    used = reads(done)
    context.reads |= used | {f"{name}[]" for name in used}


def check_prototype(definition: Cursor, arguments: list[Cursor], where: SourcePosition) -> None:
    """Calls of functions without a prototype promote what they pass, and convert nothing."""
    if kind(definition.type) == "FUNCTIONNOPROTO" and arguments:
        reason = f"{definition.spelling} is defined in the old style"
        raise Refusal(f"{reason}: write the types between the parentheses", where)


def returned(context: LoweringContext, cursor: Cursor, definition: Cursor) -> Value:
    """What a helper of one return statement stands for."""
    kind_of = None if is_reference(definition.result_type) else scalar(definition.result_type)
    if kind_of is None:
        return evaluate(context, cursor)
    return cast(value(context, cursor), kind_of, position(cursor))


def kept(context: LoweringContext, result: Value, cursor: Cursor) -> Value:
    """The result of a helper, in a variable: what comes next may change what it was read from."""
    if is_number(result) and not isinstance(result, Num):
        return context.declare(f"{cursor.spelling}_value", result.type, result, position(cursor))
    return result


def own(
    context: LoweringContext, result: Value, definition: Cursor, known: set[str], where: SourcePosition
) -> Value:
    """A vector that a helper returns by value: an array that is not among the `known` ones, or a copy."""
    by_value = vector_element(definition.result_type) is not None and not is_reference(definition.result_type)
    if not isinstance(result, ArrayRegion) or not by_value:
        return result
    if result.indices or result.array in known or result.array not in context.local:
        result = duplicate(context, result, f"{definition.spelling}_value", where)
    context.temporary.add(result.array)
    return result


def bind(
    context: LoweringContext, frame: CFrame, parameter: Cursor, argument: Cursor, direct: bool
) -> tuple[int, Value]:
    """What a helper's parameter stands for."""
    at, name, where = key(parameter), parameter.spelling or "unnamed", position(argument)
    changed = at in frame.written
    if is_pointer(parameter.type) or is_array(parameter.type):
        found = evaluate(context, argument)
        if is_reference(parameter.type) and isinstance(found, PointerPlace):
            return at, found
        if is_reference(parameter.type) and isinstance(found, POINTERS):
            reason = f"{name} is a reference to a pointer's value"
            raise Refusal(f"{reason}: make it a pointer", where)
        target = decayed(context, found, argument)
        check_typed(name, target, where)
        if direct and not changed:
            return at, target
        if changed:
            context.point(at, name, target, where)
        else:
            context.fix(at, name, target, where)
        return at, PointerPlace(at, name)
    if is_reference(parameter.type):
        return at, evaluate(context, argument) if direct else held(context, argument, parameter)
    if vector_element(parameter.type) is not None:
        region = region_of(context, argument)
        temporary = region.array in context.temporary
        context.temporary.discard(region.array)
        shared = not direct and hands_out(frame.function)  # another argument may be the same vector
        if (changed or shared) and not temporary:
            return at, duplicate(context, region, name, where)
        indices = region.indices if direct else (context.kept(name, i, where) for i in region.indices)
        return at, ArrayRegion(region.array, tuple(indices))
    wanted = scalar(parameter.type)
    if wanted is None:
        found = evaluate(context, argument)
        if changed:
            raise Refusal(f"{name}, a struct passed by value, is changed: pass it by reference", where)
        return at, found if direct else struct_copy(context, found, name, argument)
    number = cast(value(context, argument), wanted)
    if not changed and (direct or isinstance(number, Num)):
        return at, number
    variable = context.declare(name, wanted, number, where)
    return at, ScalarPlace(variable.tensor, wanted)


def struct_copy(context: LoweringContext, found: Value, name: str, argument: Cursor) -> Value:
    """A struct passed by value: its fields as they are now, whatever happens to those of the caller."""
    if not isinstance(found, StructPlace):
        return found
    where, copy = position(argument), StructPlace(context.fresh(name), found.declaration)
    for part in plain_fields(found.declaration, argument):
        old = context.fields.get((found.name, part.spelling))
        if isinstance(old, ScalarPlace):
            number = load(context, old, argument)
            new = context.declare(f"{copy.name}.{part.spelling}", old.type, number, where)
            old = ScalarPlace(new.tensor, old.type)
        elif isinstance(old, ArrayRegion):
            reason = f"{name}, a struct with an array in it, is passed by value"
            raise Refusal(f"{reason}: pass it by reference", where)
        elif isinstance(old, PointerPlace):
            target, own = context.pointer(old.key, old.name, where), f"{copy.name}.{part.spelling}"
            old = PointerPlace(hash((copy.name, part.spelling)), own)
            context.fix(old.key, own, target, where)
        if old is not None:
            context.fields[(copy.name, part.spelling)] = old
    return copy
