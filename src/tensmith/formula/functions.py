"""What is known of scalar functions by their names, beside their values, which are an arithmetic's (`arith`).

add, sub, mul, div (of integers toward 0), neg, pow; the sets below; where(truth, a, b); sign and abs; mod
with the sign of the divisor, fmod with that of the dividend; and, or, xor, not of truth values; left_shift,
right_shift; cast to the type of the node; inside(i, n, s), whether 0 <= i < n, and s is said where not. In
closed forms also floor_div, which goes with mod, not_equal, element, of an array at subscripts, and two that
take nothing: inf, above all numbers, and unknown.
"""

from __future__ import annotations

RELATIONS = frozenset({"less", "less_equal", "greater", "greater_equal", "equal"})
# a > b is b < a.
MIRRORED = {"greater": "less", "greater_equal": "less_equal"}
# Comparisons as they are written then, each with the one that holds where it does not: a < b or b <= a.
OPPOSITES = {"less": "less_equal", "less_equal": "less", "equal": "not_equal", "not_equal": "equal"}
COMPARISONS = tuple(OPPOSITES)
# Of one float, a truth value.
PREDICATES = frozenset({"isnan", "isinf", "isposinf", "isneginf"})
# Associative, commutative, idempotent.
EXTREMES = frozenset({"maximum", "minimum"})
# What takes one more term into a reduction.
JOINS = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum"}
# What may leave the range of an integer type, and wraps around where that is unsigned.
WRAPPING = frozenset({"add", "sub", "mul", "neg", "left_shift", "bitwise_not"})
# Of integers alone.
BITWISE = frozenset({"bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"})
# Of floats; integers stay what they are.
ROUNDINGS = frozenset({"floor", "ceil", "round", "trunc"})
# Functions of real numbers that jump.
STEPS = ROUNDINGS | {"sign", "mod", "fmod"}
# Of floats alone; the first have these names in most languages and array libraries.
ELEMENTARY = (
    "exp", "log", "sqrt", "sin", "cos", "tan", "tanh",
    "erf", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh",
)  # fmt: skip
REAL = frozenset({*ELEMENTARY, "log1p"})
# What NumPy calls otherwise: asin -> arcsin, ..., atanh -> arctanh.
NUMPY_NAMES = {
    f"a{name}{end}": f"arc{name}{end}" for name in ("sin", "cos", "tan") for end in ("", "h")
}  # fmt: skip
# Positive on the reals: one may divide by them.
POSITIVE = frozenset({"exp", "sqrt"})
# Of integers, undefined where the last operand is 0.
DIVISIONS = frozenset({"div", "mod", "fmod", "floor_div"})
