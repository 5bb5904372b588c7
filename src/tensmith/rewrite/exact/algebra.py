"""Sums, products and quotients of elements, with fewer operations in them.

Measure: operations on values that vary. Every simplification removes one, or turns one on them into one on
constants. What multiplies values that vary and were not multiplied before is a form all the same: its product
may be beyond what a type holds.
"""

from __future__ import annotations

from tensmith.ir.ops.reduction import Reduction
from tensmith.rewrite.given import Instance
from tensmith.rewrite.law import family, floating, law
from tensmith.rewrite.match import Match
from tensmith.rewrite.right_sides import everywhere, filled
from tensmith.rewrite.term import Term, Use, Var, ops

X, Y, Z, V = Var("x"), Var("y"), Var("z"), Var("v")
C, D = Var("c", static=True), Var("d", static=True)


def varying(m: Match) -> str | None:
    """Floats that are not computed from constants alone, and whose shape the constants do not change."""
    constants = [m.values[name] for name in ("c", "d") if name in m.values]
    if floating(m) is not None or m.values["x"] in m.program.static_values:
        return ""
    if any(name not in m.program.constants for name in constants):
        return "a constant is computed"
    shape = m.type(X).shape
    same = shape is not None and m.program.type(m.nodes[0].output).shape == shape
    return None if same else "a constant broadcasts the value"


def _sized(m: Match) -> str | None:
    return floating(m) if m.type(X).static is not None else "the shape is not known"


# Signs

law("neg_of_neg", ops.neg(-X), X, -X, when=floating, order=1)
family("add_of_negative", [(X + (-Y), X - Y, Y - X), (X - (-Y), X + Y, X - Y)], when=floating)
law("sum_of_negatives", (-X) + (-Y), -(X + Y), X + Y, when=floating)
law("negative_of_difference", -(X - Y), Y - X, X - Y, when=floating)
family(
    "product_of_negatives", [((-X) * (-Y), X * Y, -(X * Y)), ((-X) / (-Y), X / Y, -(X / Y))], when=floating
)
family(
    "negate_constant",
    [
        (-(X * C), X * (-C), X * C),
        (-(X / C), X / (-C), X / C),
        ((-X) * C, X * (-C), X * C),
        ((-X) / C, X / (-C), X / C),
        (-(X + C), (-C) - X, (-C) + X),
        (C - (-X), X + C, C - X),
    ],
    when=varying,
)
law("negative_first", (-X) + Y, Y - X, X - Y, when=floating)
law("negative_out", (-X) - Y, -(X + Y), Y - X, when=floating, phase="form")

# What cancels

family(
    "cancel_added",
    [((X + Y) - Y, X, Y), ((X - Y) + Y, X, Y), (X - (X - Y), Y, X), (X - (X + Y), -Y, Y)],
    when=floating,
)
family(
    "cancel_factor",
    [((X * Y) / Y, X, Y), ((X / Y) * Y, X, Y), (X / (X * Y), ops.reciprocal(Y), Y), (X / (X / Y), Y, X)],
    when=floating,
)
law("difference_with_itself", X - X, filled(0, X), filled(1, X), when=_sized)
law("quotient_by_itself", X / X, filled(1, X), filled(0, X), when=_sized)
law("collect_opposites", (X + Y) + (X - Y), X + X, Y + Y, when=floating)
law("difference_of_opposites", (X + Y) - (X - Y), Y + Y, X + X, when=floating)

# Constants come together

family(
    "subtract_constants",
    [
        ((X + C) - D, X + (C - D), X + (C + D)),
        ((X - C) + D, X + (D - C), X + (C - D)),
        ((X - C) - D, X - (C + D), X - (C - D)),
        ((C - X) - D, (C - D) - X, (C + D) - X),
        ((C - X) + D, (C + D) - X, (C - D) - X),
        (C - (X + D), (C - D) - X, (C + D) - X),
        (C - (X - D), (C + D) - X, (C - D) - X),
        (C - (D - X), X + (C - D), X + (D - C)),
    ],
    when=varying,
    order=43,
)
family(
    "divide_constants",
    [
        ((X * C) / D, X * (C / D), X * (D / C)),
        ((X / C) * D, X * (D / C), X * (C / D)),
        ((X / C) / D, X / (C * D), X / (C / D)),
        ((C / X) * D, (C * D) / X, (C / D) / X),
        ((C / X) / D, (C / D) / X, (C * D) / X),
        (C / (X * D), (C / D) / X, (C * D) / X),
        (C / (X / D), (C * D) / X, (C / D) / X),
    ],
    when=varying,
    order=43,
)
family(
    "constants_of_both",
    [
        ((X + C) + (Y + D), (X + Y) + (C + D), (X + Y) + (C - D)),
        ((X + C) - (Y + D), (X - Y) + (C - D), (X - Y) + (C + D)),
    ],
    when=varying,
    order=44,
)
family(
    "factors_of_both",
    [
        ((X * C) * (Y * D), (X * Y) * (C * D), (X * Y) * (C / D)),
        ((X * C) / (Y * D), (X / Y) * (C / D), (X / Y) * (C * D)),
    ],
    when=varying,
    phase="form",
)
family(
    "collect_multiples",
    [
        (X * C + X * D, X * (C + D), X * (C * D)),
        (X * C - X * D, X * (C - D), X * (C + D)),
        (X * C + X, X * (C + 1), X * C),
        (X * C - X, X * (C - 1), X * C),
        (X - X * C, X * (1 - C), X * C),
    ],
    when=varying,
    order=44,
)
law("constant_behind_product", (X * C) * Y, (X * Y) * C, (X * Y) / C, when=floating, phase="form")
law("shift_behind_scale", (X + C) * D, X * D + C * D, X * D + C, when=varying, phase="form")
law("divide_by_constant", X / C, X * ops.reciprocal(C), X * C, when=varying, phase="form")
law("subtract_constant", X - C, X + (-C), X + C, when=varying, phase="form")

# Common factors

family(
    "factor_out",
    [
        (X * Z + Y * Z, (X + Y) * Z, (X - Y) * Z),
        (X * Z - Y * Z, (X - Y) * Z, (X + Y) * Z),
        (X / Z + Y / Z, (X + Y) / Z, (X - Y) / Z),
        (X / Z - Y / Z, (X - Y) / Z, (X + Y) / Z),
        (X * Z + X, X * (Z + 1), X * Z),
        (X * Z - X, X * (Z - 1), X * Z),
    ],
    when=floating,
    order=45,
)
family(
    "distribute",
    [(X * (Y + Z), X * Y + X * Z, X * Y + Z), (X * (Y - Z), X * Y - X * Z, X * Y - Z)],
    when=floating,
    phase="form",
)
law("difference_of_squares", X * X - Y * Y, (X + Y) * (X - Y), (X - Y) * (X - Y), when=floating, phase="form")
law(
    "square_of_sum",
    (X + Y) * (X + Y),
    X * X + (X * Y + (X * Y + Y * Y)),
    X * X + Y * Y,
    when=floating,
    phase="form",
)
law("product_of_squares", (X * X) * (Y * Y), (X * Y) ** 2, (X * X) * Y, when=floating, phase="form")
law("square_of_scaled", (X * C) ** 2, (X**2) * (C * C), (X**2) * C, when=varying, phase="form")
family(
    "regroup",
    [((X + Y) + Z, X + (Y + Z), X + (Y - Z)), ((X * Y) * Z, X * (Y * Z), X * (Y / Z))],
    when=floating,
    phase="form",
)

# Quotients

law("reciprocal_of_reciprocal", ops.reciprocal(ops.reciprocal(X)), X, ops.reciprocal(X), when=floating)
law("reciprocal_of_quotient", ops.reciprocal(X / Y), Y / X, X / Y, when=floating)
law("quotient_of_one", 1 / X, ops.reciprocal(X), X, when=floating)
law("divide_by_reciprocal", X / ops.reciprocal(Y), X * Y, X / Y, when=floating)
law(
    "quotient_of_quotient",
    (X / Y) / Z,
    X / (Y * Z),
    X / (Y / Z),
    when=floating,
    phase="form",
    says="(x / y) / z = x / (y * z): a product costs less than a quotient.",
)
law("divide_by_quotient", X / (Y / Z), (X * Z) / Y, (X * Y) / Z, when=floating, phase="form")
law("quotients_divided", (X / Y) / (Z / V), (X * V) / (Y * Z), (X * Z) / (Y * V), when=floating, phase="form")
law(
    "product_of_quotients",
    (X / Y) * (Z / V),
    (X * Z) / (Y * V),
    (X * V) / (Y * Z),
    when=floating,
    phase="form",
)
law(
    "product_of_reciprocals",
    ops.reciprocal(X) * ops.reciprocal(Y),
    ops.reciprocal(X * Y),
    X * Y,
    when=floating,
    phase="form",
)
law("power_of_half", X**0.5, ops.sqrt(X), X * X, when=floating)
law("power_of_minus_one", X**-1, ops.reciprocal(X), -X, when=floating)
law("power_of_zero", X**0, filled(1, X), filled(0, X), when=_sized)
family(
    "powers_multiplied",
    [
        ((X * X) * X, X**3, X**2),
        ((X * X) * (X * X), X**4, X**3),
        (X**2 * X, X**3, X**2),
        ((X**2) ** 2, X**4, X**3),
    ],
    when=floating,
    phase="form",
)


def _part_of_normalization(m: Match) -> str | None:
    """Engines know normalizations by their pow."""
    readers = m.program.consumers.get(m.nodes[0].output, ())
    reductions = [found for reader in readers if (found := reader.kind(Reduction)) is not None]
    return "it is part of a normalization" if any(r.takes == "mean" for r in reductions) else None


law("square", X**2, X * X, X + X, when=_part_of_normalization, order=42,
    says="x ** 2 = x * x, except before a mean: engines know normalizations by their pow.")  # fmt: skip
law("cube", X**3, (X * X) * X, X * X, when=floating, phase="form")

# Zeros


def _fixed(m: Match) -> str | None:
    return floating(m) if m.program.type(m.nodes[0].output).static is not None else "the shape is not known"


family(
    "product_with_zero",
    [(X * 0, everywhere(0), everywhere(1)), (0 / X, everywhere(0), everywhere(1))],
    when=_fixed,
    says="x * 0 = 0 and 0 / x = 0, of numbers.",
)
law("from_zero", 0 - X, -X, X, when=floating)

# Selection

WHERE = [Instance("matrix", {"": "M N", "p": "M N"}, dtypes={"p": "bool", "q": "bool"})]
P, Q = Var("p"), Var("q")


def _where(p: Term, x: Term, y: Term) -> Use:
    return ops.where(p, x, y)


law("where_of_equals", _where(P, X, X), X, -X, given=WHERE, phase="fold", order=5)
law(
    "where_of_not",
    _where(Use("not", (P,)), X, Y),
    _where(P, Y, X),
    _where(P, X, Y),
    given=WHERE,
    phase="fold",
    order=5,
)
family(
    "where_of_where",
    [
        (_where(P, _where(P, X, Y), Z), _where(P, X, Z), _where(P, Y, Z)),
        (_where(P, X, _where(P, Y, Z)), _where(P, X, Z), _where(P, X, Y)),
    ],
    given=WHERE,
    phase="fold",
    order=5,
)
law(
    "where_nested",
    _where(P, _where(Q, X, Y), Y),
    _where(Use("and", (P, Q)), X, Y),
    _where(Use("or", (P, Q)), X, Y),
    given=WHERE,
    phase="fold",
    order=6,
)
