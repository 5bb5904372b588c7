"""In words: why a recurrence has no closed form, and why a loop has no known number of iterations."""

from __future__ import annotations

from fractions import Fraction

from tensmith.formula.expr import Call, Num, Read, Size
from tensmith.formula.functions import BITWISE, COMPARISONS, DIVISIONS
from tensmith.formula.walk import loads, parts, walk
from tensmith.lifting.summarize.substitution import symbols
from tensmith.lifting.summary import Term
from tensmith.lifting.text import SIGNS, text

_BITWISE = BITWISE | {"left_shift", "right_shift"}


def in_vain(name: str, own: str, after: Term) -> str | None:
    """Why v' = after has no closed form, where that is plain; None where one may be found.

    own: what `after` calls the value before.
    """
    by = factor(own, after)
    if by is not None and abs(by) not in (0, 1) and any(loads(after)):
        return (
            f"'{name}' is multiplied by {_shown(by)} and added to in every iteration, a linear recurrence, "
            "which no tensor operation computes; sum the elements times powers of the factor from an array, "
            "or leave this loop as it is"
        )
    if by is None and any(loads(after)) and (times := _times(own, after)) is not None:
        return (
            f"'{name}' is multiplied by {times} and added to in every iteration, a linear recurrence, which "
            "no tensor operation computes; leave this loop as it is, and lift what stands around it"
        )
    return _rounded(name, own, after) or _bitwise(name, own, after)


def _times(own: str, term: Term) -> str | None:
    """What the value before is multiplied by in a sum of other things; None where it stands elsewhere."""
    match term:
        case Call("cast" | "neg", (inner,)):
            return _times(own, inner)
        case Call("add" | "sub", (left, right)) if (own in symbols(left)) != (own in symbols(right)):
            return _times(own, left if own in symbols(left) else right)
        case Call("mul", (left, right)) if (own in symbols(left)) != (own in symbols(right)):
            inner, by = (left, right) if own in symbols(left) else (right, left)
            return (
                text(by) if isinstance(inner, Read) and not any("@" in each for each in symbols(by)) else None
            )
    return None


def factor(own: str, term: Term) -> Fraction | None:
    """c, where the term is c * v + what does not depend on v."""
    if own not in symbols(term):
        return Fraction(0)
    match term:
        case Read(indices=()):
            return Fraction(1)
        case Size(poly, _):
            found = poly.coefficient(own)
            return None if found is None or found.constant is None else Fraction(found.constant)
        case Call("cast", (inner,), type_) if type_.kind == inner.type.kind:
            return factor(own, inner)
        case Call(("add" | "sub") as operator, (left, right), _):
            a, b = factor(own, left), factor(own, right)
            return None if a is None or b is None else a + b if operator == "add" else a - b
        case Call("neg", (inner,), _):
            found_inner = factor(own, inner)
            return None if found_inner is None else -found_inner
        case Call("mul", (left, right), _):
            if isinstance(left, Num):
                left, right = right, left
            a = factor(own, left)
            return a * Fraction(right.value) if a is not None and isinstance(right, Num) else None
        case Call("left_shift", (left, Num(by)), _) if 0 <= by < 64:
            a = factor(own, left)
            return None if a is None else a * 2 ** int(by)
    return None


def _rounded(name: str, own: str, after: Term) -> str | None:
    for part in walk(after):
        if isinstance(part, Call) and part.function == "cast" and part.type.kind == "int":
            (inner,) = part.args
            if inner.type.kind == "float" and own in symbols(inner):
                return (
                    f"'{name}' is cut off to an integer in every iteration after floats took part in it; "
                    "let it be a float, and convert it after the loop"
                )
    return None


def _bitwise(name: str, own: str, after: Term) -> str | None:
    for part in walk(after):
        if (
            isinstance(part, Call)
            and part.function in _BITWISE
            and any(own in symbols(p) for p in parts(part))
        ):
            return (
                f"'{name}' is joined by {SIGNS[part.function]} to its value in the iteration before, bit "
                "by bit, which no tensor operation does for all iterations; leave this loop as it is"
            )
    return None


def _shown(value: Fraction) -> str:
    return str(value) if value.denominator == 1 else f"{float(value):.6g}"


# Numbers of iterations


def uncounted(condition: Term, suffix: str) -> str:
    """Why it is not known how often a condition holds; names that end in `suffix` vary freely."""
    inside = list(walk(condition))
    changed = sorted(name.removesuffix(suffix) for name in symbols(condition) if name.endswith(suffix))
    if changed:
        return f"'{changed[0]}', which its condition tests, does not change by one constant step an iteration"
    for part in inside:
        match part:
            case Read(array, (_, *_)):
                return f"its condition reads '{array.partition('@')[0]}', so that data decides"
            case Call(operator, (_, divisor)) if operator in DIVISIONS and not isinstance(divisor, Num):
                return "its condition divides by what is no constant and no argument"
            case Call(operator, (left, _)) if operator in COMPARISONS and left.type.kind == "float":
                return "its condition compares floats"
            case Call("or"):
                return "its condition holds in either of two cases"
    return "its condition is no comparison of integers that + - * make of counters and parameters"
