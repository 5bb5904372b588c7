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
# Of one float, a truth value.
PREDICATES = frozenset({"isnan", "isinf", "isposinf", "isneginf"})
# Associative, commutative, idempotent.
EXTREMES = frozenset({"maximum", "minimum"})
# What takes one more term into a reduction.
JOINS = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum"}
# Of integers alone.
BITWISE = frozenset({"bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"})
# Of floats; integers stay what they are.
ROUNDINGS = frozenset({"floor", "ceil", "round", "trunc"})
# Of floats alone.
REAL = frozenset({
    "exp", "log", "log1p", "sqrt", "sin", "cos", "tan", "tanh", "erf", "asin", "acos", "atan", "sinh",
    "cosh", "asinh", "acosh", "atanh",
})  # fmt: skip
# Positive on the reals: one may divide by them.
POSITIVE = frozenset({"exp", "sqrt"})
# Of integers, undefined where the last operand is 0.
DIVISIONS = frozenset({"div", "mod", "fmod", "floor_div"})
