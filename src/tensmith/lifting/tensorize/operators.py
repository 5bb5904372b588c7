"""Operators on elements as TensIR ops; each of the loop language's meanings is kept to the letter."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tensmith.formula.expr import Call, Num
from tensmith.formula.functions import BITWISE, ELEMENTARY
from tensmith.lifting.loops import dtype_of
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.summarize.constants import infinite
from tensmith.lifting.summarize.logic import extreme
from tensmith.lifting.summary import Term
from tensmith.lifting.tensorize import gathers
from tensmith.lifting.tensorize.affine import arrays_read
from tensmith.lifting.tensorize.build import Tensor
from tensmith.lifting.tensorize.continued import continued

if TYPE_CHECKING:
    from tensmith.lifting.tensorize.lower import Lowering

# Operator -> TensIR op of the same meaning, where its name is another.
_NAMED = {"maximum": "max", "minimum": "min", "less_equal": "less_or_equal"}
_SAME = frozenset({
    *BITWISE, *ELEMENTARY, "add", "sub", "mul", "abs", "maximum", "minimum", "floor", "ceil",
    "round",
})  # fmt: skip
_BOOLEAN = frozenset({"less", "less_equal", "equal", "or", "and", "not"})


def op_of(operator: str) -> str:
    """The TensIR op that an operator is."""
    return _NAMED.get(operator, operator)


Meaning: TypeAlias = "Callable[[Lowering, Call], Tensor]"


def lower(lowering: Lowering, term: Call) -> Tensor:
    """The tensor of an operator applied to terms."""
    operator, build = term.function, lowering.build
    if (fold := continued(term, build.extents)) is not None:
        return lowering.lower(fold)
    if operator in _SPECIAL:
        return _SPECIAL[operator](lowering, term)
    arguments = [lowering.lower(argument) for argument in term.args]
    if operator in _BOOLEAN | _SAME:
        dtype = "bool" if operator in _BOOLEAN else dtype_of(term.type)
        return build.elementwise(op_of(operator), *arguments, dtype=dtype)
    raise Refusal(f"operator '{operator}' has no tensor form")


def _cast(lowering: Lowering, term: Call) -> Tensor:
    return lowering.build.cast(lowering.lower(term.args[0]), dtype_of(term.type))


def _infinity(lowering: Lowering, term: Call) -> Tensor:
    return lowering.build.constant(np.inf, dtype_of(term.type))


def _negative(lowering: Lowering, term: Call) -> Tensor:
    if infinite(term):
        return lowering.build.constant(-np.inf, dtype_of(term.type))
    return lowering.build.elementwise("neg", lowering.lower(term.args[0]))


def _not_equal(lowering: Lowering, term: Call) -> Tensor:
    a, b = map(lowering.lower, term.args)
    return lowering.build.elementwise("not", lowering.build.elementwise("equal", a, b, dtype="bool"))


# Division


def _divisor(lowering: Lowering, term: Term) -> Tensor:
    """The divisor; where its value may not be used, 1 in its place, or in the place of 0."""
    tensor = lowering.lower(term)
    if isinstance(term, Num) or tensor.dtype[0] not in "iu":
        return tensor
    build = lowering.build
    asked = lowering.asked & {("nonzero", array) for array in arrays_read(term)}
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


def _dividing(op: str, **attrs: Any) -> Meaning:
    def meaning(lowering: Lowering, term: Call) -> Tensor:
        a, b = lowering.lower(term.args[0]), _divisor(lowering, term.args[1])
        return lowering.build.elementwise(op, a, b, **attrs)

    return meaning


def _floor_divide(lowering: Lowering, term: Call) -> Tensor:
    """(a - a mod b) / b, which is exact on integers; floor(a / b) on floats."""
    build = lowering.build
    a, b = lowering.lower(term.args[0]), _divisor(lowering, term.args[1])
    if a.dtype[0] == "f":
        return build.elementwise("floor", build.elementwise("div", a, b))
    return build.elementwise("div", build.elementwise("sub", a, build.elementwise("mod", a, b)), b)


# Selection


def _select(lowering: Lowering, term: Call) -> Tensor:
    condition, a, b = term.args
    kind = extreme(condition, a, b)
    if kind is not None and a.type.kind == "int":  # NaN decides among floats
        return lowering.build.elementwise(kind, lowering.lower(a), lowering.lower(b))
    mask = lowering.lower(condition)
    chosen = [lowering.lower_guarded(part, (mask, side)) for part, side in ((a, True), (b, False))]
    return lowering.build.elementwise("where", mask, *chosen, dtype=chosen[0].dtype)


# Powers, shifts


def _power(lowering: Lowering, term: Call) -> Tensor:
    """A product for exponents 2 to 4, as repeated multiplication is what they mean."""
    base, exponent = term.args
    tensor = lowering.build.cast(lowering.lower(base), dtype_of(term.type))
    if isinstance(exponent, Num) and exponent.value in (2, 3, 4):
        square = lowering.build.elementwise("mul", tensor, tensor)
        other = {2: None, 3: tensor, 4: square}[int(exponent.value)]
        return square if other is None else lowering.build.elementwise("mul", square, other)
    return lowering.build.elementwise("pow", tensor, lowering.lower(exponent))


def _shift(direction: str) -> Meaning:
    def meaning(lowering: Lowering, term: Call) -> Tensor:
        a, b = map(lowering.lower, term.args)
        return lowering.build.elementwise(
            "bit_shift", a, lowering.build.cast(b, a.dtype), direction=direction
        )

    return meaning


_SPECIAL: dict[str, Meaning] = {
    "cast": _cast,
    "inf": _infinity,
    "neg": _negative,
    "not_equal": _not_equal,
    "div": _dividing("div"),
    "fmod": _dividing("mod", fmod=1),
    "floor_div": _floor_divide,
    "mod": _dividing("mod"),
    "where": _select,
    "element": gathers.element,
    "pow": _power,
    "left_shift": _shift("LEFT"),
    "right_shift": _shift("RIGHT"),
}
