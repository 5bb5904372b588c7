"""Functions of elements as C over vectors of floats: another reading of what ctext prints as scalars.

Truth values are masks: all bits of a lane, or none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from tensmith.ctext.dialect import C
from tensmith.ctext.scalar import library_name
from tensmith.errors import EngineError
from tensmith.formula.expr import Call, Expr, Num, Read
from tensmith.kernel.epilogue import literal

# What operators are called that are not functions of the mathematical library, or have better ones here.
_WORDS: Mapping[str, str] = {
    "add": "({0} + {1})", "sub": "({0} - {1})", "mul": "({0} * {1})", "div": "({0} / {1})", "neg": "(-{0})",
    "maximum": "vmaximum({0}, {1})", "minimum": "vminimum({0}, {1})", "abs": "vabs({0})", "exp": "vexp({0})",
    "log": "vlog({0})", "log1p": "vlog1p({0})", "erf": "verf({0})", "tanh": "vtanh({0})",
    "where": "vselect({0}, {1}, {2})",
    "less": "({0} < {1})", "less_equal": "({0} <= {1})", "greater": "({0} > {1})",
    "greater_equal": "({0} >= {1})", "equal": "({0} == {1})", "isnan": "({0} != {0})",
    "and": "({0} & {1})", "or": "({0} | {1})", "not": "(~{0})",
}  # fmt: skip
_BOUNDS = {"maximum": "vmax", "minimum": "vmin"}
# Powers of two within have a reciprocal that is a normal number too.
_INVERTIBLE = (1e-30, 1e30)


def vector_text(expr: Expr, named: Callable[[str], str]) -> str:
    """The C of an expression of floats, given that of its parameters by name.

    What is divided by a power of two is multiplied, and so is what is divided for erf, an approximation. A
    bound that is a number needs no look whether x is one: vmax and vmin give x if it is NaN. EngineError for
    what has no instruction and no function.
    """

    def text(part: Expr) -> str:
        match part:
            case Read(name, ()):
                return named(name)
            case Num(value, "f32"):
                return f"splat({literal(float(value))})"
            case Call("mul", (Num(-1), x)):
                return f"(-{text(x)})"
            case Call("div", (Num(1), x)):
                return f"(1.0f / {text(x)})"
            case Call("div", (x, Num(value))) if inverse := _inverse(float(value)):
                return f"({text(x)} * splat({literal(inverse)}))"
            case Call("erf", (Call("div", (x, Num(value))),)) if value:
                return f"verf({text(x)} * splat({literal(1 / float(value))}))"
            case Call(function, (x, Num(value) as bound)) if function in _BOUNDS and value == value:
                return f"{_BOUNDS[function]}({text(bound)}, {text(x)})"
            case Call("where", (Call("less", (x, Num(0))), Call("mul", (Num() as a, y)), z)) if x == y == z:
                return f"vleaky({text(x)}, {text(a)})"
            case Call("cast", (x,), "f32") if x.type == "bool":
                return f"vselect({text(x)}, splat(1), splat(0))"
            case Call(function, args, "f32" | "bool") if function in _WORDS:
                return _WORDS[function].format(*map(text, args))
            case Call(function, (x,), "f32") if library_name(function, "f32", C):
                return f"EACH({library_name(function, 'f32', C)}, {text(x)})"
        raise EngineError(f"there is no C over vectors for {part}")

    return text(expr)


def _inverse(number: float) -> float | None:
    """One over a number, where that is exact: both are powers of two, and normal."""
    if abs(math.frexp(number)[0]) != 0.5:
        return None
    return 1 / number if _INVERTIBLE[0] < abs(number) < _INVERTIBLE[1] else None
