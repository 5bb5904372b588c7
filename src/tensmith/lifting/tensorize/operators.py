"""Operators on elements as TensIR ops; each of the loop language's meanings is kept to the letter."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tensmith.lifting.loops import Scalar
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.tensorize.affine import arrays_read
from tensmith.lifting.tensorize.build import Tensor, dtype_of
from tensmith.lifting.terms import Operation, Term, TermNumber, infinite

if TYPE_CHECKING:
    from tensmith.lifting.tensorize.lower import Lowering

# Operator -> TensIR op of the same meaning.
_SAME = {
    "add": "add", "sub": "sub", "mul": "mul", "abs": "abs", "min": "min", "max": "max",
    "band": "bitwise_and", "bor": "bitwise_or", "bxor": "bitwise_xor", "bnot": "bitwise_not",
    "exp": "exp", "log": "log", "sqrt": "sqrt", "sin": "sin", "cos": "cos", "tan": "tan", "tanh": "tanh",
    "floor": "floor", "ceil": "ceil",
}  # fmt: skip
_BOOLEAN = {"lt": "less", "le": "less_or_equal", "eq": "equal", "or": "or", "and": "and", "not": "not"}

Meaning: TypeAlias = "Callable[[Lowering, Operation], Tensor]"


def lower(lowering: Lowering, term: Operation) -> Tensor:
    """The tensor of an operator applied to terms."""
    operator, build = term.operator, lowering.build
    if operator in _SPECIAL:
        return _SPECIAL[operator](lowering, term)
    arguments = [lowering.lower(argument) for argument in term.arguments]
    if operator in _BOOLEAN:
        return build.elementwise(_BOOLEAN[operator], *arguments, dtype="bool")
    if operator in _SAME:
        return build.elementwise(_SAME[operator], *arguments, dtype=dtype_of(term.type))
    raise Refusal(f"operator '{operator}' has no tensor form")


def _cast(lowering: Lowering, term: Operation) -> Tensor:
    return lowering.build.cast(lowering.lower(term.arguments[0]), dtype_of(term.type))


def _infinity(lowering: Lowering, term: Operation) -> Tensor:
    return lowering.build.constant(np.inf, dtype_of(term.type))


def _negative(lowering: Lowering, term: Operation) -> Tensor:
    if infinite(term):
        return lowering.build.constant(-np.inf, dtype_of(term.type))
    return lowering.build.elementwise("neg", lowering.lower(term.arguments[0]))


def _not_equal(lowering: Lowering, term: Operation) -> Tensor:
    a, b = map(lowering.lower, term.arguments)
    return lowering.build.elementwise("not", lowering.build.elementwise("equal", a, b, dtype="bool"))


# Division


def _divisor(lowering: Lowering, term: Term) -> Tensor:
    """The divisor; where its value may not be used, 1 in its place, or in the place of 0."""
    tensor = lowering.lower(term)
    if isinstance(term, TermNumber) or tensor.dtype[0] not in "iu":
        return tensor
    build, asked = lowering.build, lowering.asked & set(arrays_read(term))
    if not lowering.guarded or (asked and lowering.choices):
        lowering.checked |= asked
    if not lowering.guarded:
        return tensor
    if asked and lowering.choices:
        one = build.constant(1, tensor.dtype)
        for condition, side in reversed(lowering.choices):
            sides = (tensor, one) if side else (one, tensor)
            tensor = build.elementwise("where", condition, *sides, dtype=tensor.dtype)
        return tensor
    zero = build.elementwise("equal", tensor, build.constant(0, tensor.dtype), dtype="bool")
    return build.elementwise("where", zero, build.constant(1, tensor.dtype), tensor, dtype=tensor.dtype)


def _divide(lowering: Lowering, term: Operation) -> Tensor:
    a, b = lowering.lower(term.arguments[0]), _divisor(lowering, term.arguments[1])
    return lowering.build.elementwise("div", a, b)


def _remainder(lowering: Lowering, term: Operation) -> Tensor:
    a, b = lowering.lower(term.arguments[0]), _divisor(lowering, term.arguments[1])
    return lowering.build.elementwise("mod", a, b, fmod=1)


def _floor_remainder(lowering: Lowering, term: Operation) -> Tensor:
    a, b = lowering.lower(term.arguments[0]), _divisor(lowering, term.arguments[1])
    return lowering.build.elementwise("mod", a, b)


def _floor_divide(lowering: Lowering, term: Operation) -> Tensor:
    """(a - a mod b) / b, which is exact on integers; floor(a / b) on floats."""
    build = lowering.build
    a, b = lowering.lower(term.arguments[0]), _divisor(lowering, term.arguments[1])
    if a.dtype[0] == "f":
        return build.elementwise("floor", build.elementwise("div", a, b))
    return build.elementwise("div", build.elementwise("sub", a, build.elementwise("mod", a, b)), b)


# Selection


def widened(term: Term) -> Term:
    """The term inside casts that keep every value."""
    while isinstance(term, Operation) and term.operator == "cast":
        inner = term.arguments[0]
        source, target = inner.type, term.type
        if source.kind != "int" or target.kind != "int" or not _holds(target, source):
            break
        term = inner
    return term


def _holds(target: Scalar, source: Scalar) -> bool:
    """Whether every value of `source` is one of `target`."""
    if target.bits is None or source.bits is None:
        return target.bits is None
    if target.signed == source.signed:
        return target.bits >= source.bits
    return target.signed and target.bits > source.bits


def _select(lowering: Lowering, term: Operation) -> Tensor:
    condition, a, b = term.arguments
    if (extreme := _extreme(condition, a, b)) is not None:
        return lowering.build.elementwise(extreme, lowering.lower(a), lowering.lower(b))
    mask = lowering.lower(condition)
    chosen = [lowering.lower_guarded(part, (mask, side)) for part, side in ((a, True), (b, False))]
    return lowering.build.elementwise("where", mask, *chosen, dtype=chosen[0].dtype)


def _extreme(condition: Term, a: Term, b: Term) -> str | None:
    """ "min" or "max" where a selection is one; of integers alone, as NaN decides the others."""
    if not (isinstance(condition, Operation) and condition.operator in ("lt", "le") and a.type.kind == "int"):
        return None
    left, right = map(widened, condition.arguments)
    if (left, right) == (widened(a), widened(b)):
        return "min"
    return "max" if (left, right) == (widened(b), widened(a)) else None


# Powers, rounding, shifts


def _power(lowering: Lowering, term: Operation) -> Tensor:
    """A product for exponents 2 to 4, as repeated multiplication is what they mean."""
    base, exponent = term.arguments
    tensor = lowering.build.cast(lowering.lower(base), dtype_of(term.type))
    if isinstance(exponent, TermNumber) and exponent.value in (2, 3, 4):
        square = lowering.build.elementwise("mul", tensor, tensor)
        other = {2: None, 3: tensor, 4: square}[int(exponent.value)]
        return square if other is None else lowering.build.elementwise("mul", square, other)
    return lowering.build.elementwise("pow", tensor, lowering.lower(exponent))


def _round(lowering: Lowering, term: Operation) -> Tensor:
    """To nearest; halves to even in Python, away from zero in C."""
    build, x = lowering.build, lowering.lower(term.arguments[0])
    if lowering.summary.function.language == "python":
        return build.cast(build.elementwise("round", x), dtype_of(term.type))
    size = build.elementwise("abs", x)
    whole = build.elementwise("floor", size)
    half = lowering.number(Fraction(1, 2), term.arguments[0].type)
    above = build.elementwise("less_or_equal", half, build.elementwise("sub", size, whole), dtype="bool")
    rounded = build.elementwise("add", whole, build.cast(above, x.dtype))
    return build.cast(build.elementwise("mul", build.elementwise("sign", x), rounded), dtype_of(term.type))


def _shift(direction: str) -> Meaning:
    def meaning(lowering: Lowering, term: Operation) -> Tensor:
        a, b = map(lowering.lower, term.arguments)
        return lowering.build.elementwise(
            "bit_shift", a, lowering.build.cast(b, a.dtype), direction=direction
        )

    return meaning


_SPECIAL: dict[str, Meaning] = {
    "cast": _cast,
    "inf": _infinity,
    "neg": _negative,
    "ne": _not_equal,
    "div": _divide,
    "tdiv": _divide,
    "tmod": _remainder,
    "fdiv": _floor_divide,
    "fmod": _floor_remainder,
    "select": _select,
    "pow": _power,
    "round": _round,
    "shl": _shift("LEFT"),
    "shr": _shift("RIGHT"),
}
