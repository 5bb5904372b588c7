"""Literals, names, conversions, arithmetic, comparisons and choices."""

from __future__ import annotations

from collections.abc import Callable

from tensmith.formula.expr import Call, Expr, Num
from tensmith.formula.functions import BITWISE, COMPARISONS, MIRRORED
from tensmith.formula.types import BOOL
from tensmith.lifting.loops import Assign, If, Statement
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.c.account import dead
from tensmith.lifting.source.c.arithmetic import apply, cast, defined_everywhere, negation
from tensmith.lifting.source.c.context import LoweringContext
from tensmith.lifting.source.c.cursor import (
    Cursor,
    bare,
    children,
    constant,
    identity,
    is_expression,
    kind,
    operator,
    position,
)
from tensmith.lifting.source.c.evaluate import (
    check_type,
    condition,
    converted,
    decayed,
    discarded,
    element,
    evaluate,
    expression,
    holds,
    load,
    place_type,
    spelled,
    value,
)
from tensmith.lifting.source.c.globals import global_constant
from tensmith.lifting.source.c.memory import address_of, arithmetic, choose, compared, retyped
from tensmith.lifting.source.c.places import ElementPlace, Null, ScalarPlace, Value, is_number
from tensmith.lifting.source.c.sequence import unsequenced
from tensmith.lifting.source.c.types import constant_extents, is_array, is_pointer, scalar, unsupported
from tensmith.lifting.source.c.whitelist import OPERATORS


@expression(
    "INTEGER_LITERAL", "FLOATING_LITERAL", "CHARACTER_LITERAL", "CXX_BOOL_LITERAL_EXPR", "CXX_UNARY_EXPR"
)
def literal(context: LoweringContext, cursor: Cursor) -> Value:
    """A literal, or the sizeof of a type or of an expression, which is not evaluated."""
    context.skipped.update(map(identity, children(cursor)))
    found, wanted = constant(cursor), scalar(cursor.type)
    if found is None or wanted is None:
        reason = f"a constant that is not understood, of the type {cursor.type.spelling}"
        raise Refusal(f"{reason}: write a plain number", position(cursor))
    return Num(bool(found) if wanted == BOOL else found, wanted, position(cursor))


@expression("CXX_NULL_PTR_LITERAL_EXPR", "GNU_NULL_EXPR")
def null(context: LoweringContext, cursor: Cursor) -> Value:
    return Null()


@expression("DECL_REF_EXPR")
def name(context: LoweringContext, cursor: Cursor) -> Value:
    """A variable, parameter or constant."""
    declaration = cursor.referenced
    if declaration is None:
        reason = f"`{spelled(cursor)}` is not known, as a template's parameter is not"
        raise Refusal(f"{reason}: write a function with plain parameters", position(cursor))
    if declaration.kind.name == "ENUM_CONSTANT_DECL":
        wanted = scalar(cursor.type)
        assert wanted is not None
        return Num(declaration.enum_value, wanted, position(cursor))
    found = context.binding(declaration)
    if found is None and declaration.kind.name == "VAR_DECL":
        return global_constant(context, declaration, cursor)
    if found is None:
        raise Refusal(unsupported(cursor.type, f"`{cursor.spelling}`"), position(cursor))
    return found


@expression("PAREN_EXPR")
def parentheses(context: LoweringContext, cursor: Cursor) -> Value:
    return evaluate(context, children(cursor)[0])


@expression("UNEXPOSED_EXPR", "CXX_FUNCTIONAL_CAST_EXPR", "CSTYLE_CAST_EXPR", "CXX_STATIC_CAST_EXPR")
@expression("CXX_REINTERPRET_CAST_EXPR", "CXX_CONST_CAST_EXPR")
def conversion(context: LoweringContext, cursor: Cursor) -> Value:
    """A conversion, written or implied: to a scalar type, or of a pointer."""
    inner = [part for part in children(cursor) if is_expression(part)]
    if is_elvis(cursor, inner):
        return elvis(context, cursor, inner)
    if kind(cursor) in EXPLICIT and constant_extents(cursor.type):
        context.skipped.update(map(identity, inner[:-1]))  # extents in the name of a type
        inner = inner[-1:]
    if len(inner) != 1 or (kind(cursor) == "UNEXPOSED_EXPR" and not same_text(cursor, inner[0])):
        reason = "is not understood" if inner else "leaves something out"
        raise Refusal(f"`{spelled(cursor)}` {reason}: write it in plainer terms", position(cursor))
    if cursor.type.get_canonical().kind.name == "VOID":
        discarded(context, inner[0])
        return None
    found = evaluate(context, inner[0])
    decays = is_array(cursor.type) and cursor.type.get_canonical() != inner[0].type.get_canonical()
    if is_pointer(cursor.type) or decays:
        return retyped(context, decayed(context, found, cursor), cursor)
    wanted = scalar(cursor.type)
    if wanted is None:
        return found
    if isinstance(found, ScalarPlace | ElementPlace):
        if place_type(context, found) == wanted:
            return found
        if context.language == "c++" and kind(cursor) in EXPLICIT and kind(inner[-1]) != "UNEXPOSED_EXPR":
            raise Refusal(f"`{spelled(cursor)}` reads a variable as another type", position(cursor))
        found = load(context, found, inner[-1])
    if is_number(found):
        return cast(found, wanted, position(cursor))
    if wanted == BOOL:
        return holds(context, found, inner[-1])
    return found


EXPLICIT = ("CSTYLE_CAST_EXPR", "CXX_STATIC_CAST_EXPR", "CXX_REINTERPRET_CAST_EXPR", "CXX_CONST_CAST_EXPR")


def same_text(cursor: Cursor, inner: Cursor) -> bool:
    """Whether an implicit conversion covers what it converts and not a word more, in macros too."""
    a, b = cursor.extent, inner.extent
    return bool(a.begin_int_data == b.begin_int_data and a.end_int_data == b.end_int_data)


def is_elvis(cursor: Cursor, inner: list[Cursor]) -> bool:
    """Whether this is GNU's `a ?: b`: one node stands for `a` as value, as condition and as result."""
    if kind(cursor) != "UNEXPOSED_EXPR" or len(inner) != 4:
        return False
    return len({identity(bare(part)) for part in inner[:3]}) == 1


def elvis(context: LoweringContext, cursor: Cursor, inner: list[Cursor]) -> Value:
    """a ?: b, where a is computed once."""
    where, wanted = position(cursor), scalar(cursor.type)
    if wanted is None:
        raise Refusal(f"`{spelled(cursor)}` chooses between pointers: use if and else", where)
    first = sequenced(context, value, inner[0])
    context.see(*inner[:3])
    first = context.declare("given", first.type, first, where)
    with context.perhaps() as before:
        other = cast(sequenced(context, value, inner[3]), wanted)
    if not before:
        return Call("where", (cast(first, BOOL), cast(first, wanted), other), wanted, where)
    result = context.declare("choice", wanted, cast(first, wanted), where)
    otherwise = (*before, Assign(result.tensor, other, where))
    context.emit(If(negation(cast(first, BOOL)), otherwise, (), where))
    return result


@expression("UNARY_OPERATOR")
def unary(context: LoweringContext, cursor: Cursor) -> Value:
    """& * + - ~ ! and, elsewhere, ++ and --."""
    (operand,), sign = children(cursor), modelled_operator(cursor)
    if sign == "extension":
        return evaluate(context, operand)
    if sign == "&":
        return address_of(evaluate(context, operand), cursor)
    if sign == "*":
        return element(context, decayed(context, evaluate(context, operand), operand), cursor)
    if sign == "+":
        return value(context, operand)
    if sign in ("neg", "bitwise_not"):
        found = value(context, operand)
        return apply(sign, (found,), found.type, position(cursor))
    if sign == "!":
        return converted(negation(condition(context, operand)), cursor)
    if sign[-2:] in ("++", "--"):
        from tensmith.lifting.source.c.assignment import step

        return step(context, cursor, sign)
    raise AssertionError(sign)


def modelled_operator(cursor: Cursor) -> str:
    """The operator, if it has a meaning here."""
    sign = operator(cursor)
    if problem := OPERATORS[sign].refused:
        raise Refusal(problem, position(cursor))
    return sign


@expression("BINARY_OPERATOR")
def binary(context: LoweringContext, cursor: Cursor) -> Value:
    """Arithmetic, comparisons, && and ||, assignment, the comma."""
    left, right = children(cursor)
    sign = modelled_operator(cursor)
    if sign in ("&&", "||"):
        return converted(logical(context, cursor, sign, left, right), cursor)
    if sign == ",":
        discarded(context, left)
        context.sequence_point()
        return evaluate(context, right)
    if sign == "=":
        from tensmith.lifting.source.c.assignment import assign

        return assign(context, cursor, left, right)
    comparison = MIRRORED.get(sign, sign)
    if is_pointer(left.type) or is_pointer(right.type):
        if comparison in COMPARISONS:
            return converted(compared(context, cursor, sign, left, right), cursor)
        return arithmetic(context, cursor, sign, left, right)
    a, b = unsequenced(
        context, position(cursor), [lambda: value(context, left), lambda: value(context, right)]
    )
    if comparison in COMPARISONS:
        pair = (b, a) if sign in MIRRORED else (a, b)
        return converted(Call(comparison, pair, BOOL, position(cursor)), cursor)
    wanted = scalar(cursor.type)
    if wanted is None or sign not in ARITHMETIC:
        raise Refusal(unsupported(cursor.type, "the result of an operator"), position(cursor))
    return apply(sign, (cast(a, wanted), cast(b, wanted)), wanted, position(cursor))


ARITHMETIC = BITWISE - {"bitwise_not"} | {"mul", "div", "mod", "add", "sub", "left_shift", "right_shift"}


def sequenced(
    context: LoweringContext, ask: Callable[[LoweringContext, Cursor], Expr], cursor: Cursor
) -> Expr:
    """The value of an operand that ends at a sequence point: its side effects are over."""
    with context.apart():
        found = ask(context, cursor)
        if context.later:
            found = context.declare("value", found.type, found, position(cursor))
            context.sequence_point()
        inside = context.reads
    context.reads |= inside
    return found


def logical(context: LoweringContext, cursor: Cursor, sign: str, left: Cursor, right: Cursor) -> Expr:
    """a && b, a || b: the right side only counts, and only happens, where the left one leaves it open."""
    where = position(cursor)
    a = sequenced(context, condition, left)
    if isinstance(a, Num):
        if a.value == (sign == "&&"):
            return sequenced(context, condition, right)
        dead(context, [right])
        return a
    with context.perhaps() as effects:
        b = sequenced(context, condition, right)
    if effects:
        result = context.declare("truth", BOOL, a, where)
        then: tuple[Statement, ...] = (*effects, Assign(result.tensor, b, where))
        context.emit(If(result if sign == "&&" else negation(result), then, (), where))
        return result
    if defined_everywhere(b):
        return Call("and" if sign == "&&" else "or", (a, b), BOOL, where)
    sides = (b, Num(False, BOOL, where)) if sign == "&&" else (Num(True, BOOL, where), b)
    return Call("where", (a, *sides), BOOL, where)


@expression("CONDITIONAL_OPERATOR")
def conditional(context: LoweringContext, cursor: Cursor) -> Value:
    """c ? a : b, of numbers or of pointers into one array."""
    test, first, second = children(cursor)
    where, wanted = position(cursor), scalar(cursor.type)
    chosen = sequenced(context, condition, test)
    if isinstance(chosen, Num):
        taken, never = (first, second) if chosen.value else (second, first)
        dead(context, [never])
        return evaluate(context, taken)
    if is_pointer(cursor.type):
        return choose(context, cursor, chosen, first, second)
    if wanted is None:
        raise Refusal(f"a choice between values of type {cursor.type.spelling}: use if and else", where)
    with context.perhaps() as before_first:
        a = cast(sequenced(context, value, first), wanted)
    with context.perhaps() as before_second:
        b = cast(sequenced(context, value, second), wanted)
    if not before_first and not before_second:
        return Call("where", (chosen, a, b), wanted, where)
    result = context.declare("choice", wanted, None, where)
    then = (*before_first, Assign(result.tensor, a, where))
    otherwise = (*before_second, Assign(result.tensor, b, where))
    context.emit(If(chosen, then, otherwise, where))
    return result


def discard(context: LoweringContext, cursor: Cursor) -> None:
    """An expression statement: what it does counts, and that its value is defined."""
    with context.full_expression():
        if kind(cursor) in EFFECTLESS:
            check_type(cursor)
            context.see(cursor)
            return
        discarded(context, cursor)


EFFECTLESS = ("INTEGER_LITERAL", "DECL_REF_EXPR")
