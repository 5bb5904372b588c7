"""Truth values in terms: simplified, and found again in the numbers 0 and 1 that C makes of them."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

from tensmith.formula.expr import Call, Num, uncast
from tensmith.formula.types import BOOL
from tensmith.lifting.summary import Term

TRUE, FALSE = Num(Fraction(1), BOOL), Num(Fraction(0), BOOL)
_OF_BITS = {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "not_equal"}


def both(a: Term, b: Term) -> Term:
    """a and b."""
    if FALSE in (a, b):
        return FALSE
    return b if a in (TRUE, b) else a if b == TRUE else Call("and", (a, b), BOOL)


def either(a: Term, b: Term) -> Term:
    """a or b."""
    if TRUE in (a, b):
        return TRUE
    return b if a in (FALSE, b) else a if b == FALSE else Call("or", (a, b), BOOL)


def opposite(a: Term) -> Term:
    """not a."""
    if a in (TRUE, FALSE):
        return TRUE if a == FALSE else FALSE
    return a.args[0] if isinstance(a, Call) and a.function == "not" else Call("not", (a,), BOOL)


def bit(term: Term) -> Term | None:
    """Whether a number is 1, where it surely is 0 or 1; a truth value itself."""
    match term:
        case Num(value, _):
            return (TRUE if value else FALSE) if value in (0, 1) else None
        case Call("cast", (inner,), type_) if type_.kind == "int":
            return bit(inner) if inner.type.kind != "float" else None
        case Call("where", (condition, left, right), _):
            a, b = bit(left), bit(right)
            if a is None or b is None:
                return None
            return either(both(condition, a), both(opposite(condition), b))
    return term if term.type.kind == "bool" else None


def simplified(operator: str, arguments: tuple[Term, ...]) -> Term | None:
    """The truth value of a logical operator, or of a comparison of a bit with 0 or 1; of a bitwise operator
    on bits whether it gives 1. None where nothing is simpler."""
    match operator, arguments:
        case "and", (a, b):
            return both(a, b)
        case "or", (a, b):
            return either(a, b)
        case "not", (a,):
            return opposite(a)
        case (("equal" | "not_equal"), (a, Num(value, type_))) if type_.kind == "int" and value in (0, 1):
            found = bit(a)
            return found if found is None or (value == 1) == (operator == "equal") else opposite(found)
        case (("bitwise_and" | "bitwise_or" | "bitwise_xor"), (left, right)):
            x, y = bit(left), bit(right)
            if x is None or y is None:
                return None
            return simplified(_OF_BITS[operator], (x, y)) or Call(_OF_BITS[operator], (x, y), BOOL)
    return None


def extreme(condition: Term, then: Term, otherwise: Term) -> Literal["max", "min"] | None:
    """What a choice is: select(a < b, b, a) the maximum, select(a < b, a, b) the minimum, but for NaN."""
    if not (isinstance(condition, Call) and condition.function in ("less", "less_equal")):
        return None
    pairs = (condition.args, (then, otherwise))
    compared, chosen = (tuple(uncast(each, _widens) for each in pair) for pair in pairs)
    return "min" if chosen == compared else "max" if chosen == compared[::-1] else None


def of_numbers(condition: Term) -> Term:
    """A condition of fmax or fmin without its question whether one of the two is NaN."""
    match condition:
        case Call("or", (ordered, Call("not_equal", (a, b)))) if a == b:
            return ordered
    return condition


def _widens(cast: Call) -> bool:
    """Whether a conversion keeps every value."""
    return cast.type.holds(cast.args[0].type)
