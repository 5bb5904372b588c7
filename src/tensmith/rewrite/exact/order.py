"""Maxima, minima, comparisons and magnitudes. The order of numbers is what a field lacks: phase "fold".

Measure: operations on values that vary.
"""

from __future__ import annotations

from tensmith.rewrite.exact.exponentials import real, reals
from tensmith.rewrite.given import Instance
from tensmith.rewrite.law import family, floating, law
from tensmith.rewrite.match import Match
from tensmith.rewrite.term import Term, Use, Var, ops
from tensmith.rewrite.values import uniform

X, Y, Z = Var("x"), Var("y"), Var("z")
C = Var("c", static=True)
PAIRS = ((ops.max, ops.min), (ops.min, ops.max))

reals("extreme_of_equals", [(f(X, X), X, -X) for f, _ in PAIRS])
reals(
    "extreme_of_shifted",
    [(f(X + Z, Y + Z), f(X, Y) + Z, g(X, Y) + Z) for f, g in PAIRS]
    + [(f(X - Z, Y - Z), f(X, Y) - Z, g(X, Y) - Z) for f, g in PAIRS],
)
reals("extreme_of_negatives", [(f(-X, -Y), -g(X, Y), -f(X, Y)) for f, g in PAIRS])
reals("extreme_from_negatives", [(-f(-X, Y), g(X, -Y), f(X, -Y)) for f, g in PAIRS], order=7)
reals("extreme_of_extreme_with", [(f(f(X, Y), Y), f(X, Y), g(X, Y)) for f, g in PAIRS])
reals(
    "absorb", [(f(g(X, Y), Y), Y, X) for f, g in PAIRS], says="max(min(x, y), y) = y, and so the other way."
)
reals("three_extremes", [(f(f(X, Y), Z), f(X, Y, Z), g(X, Y, Z)) for f, g in PAIRS])
real("larger_plus_smaller", ops.max(X, Y) + ops.min(X, Y), X + Y, X - Y)
real("larger_times_smaller", ops.max(X, Y) * ops.min(X, Y), X * Y, X + Y)
real("larger_minus_smaller", ops.max(X, Y) - ops.min(X, Y), ops.abs(X - Y), X - Y)
real("larger_of_opposites", ops.max(X, -X), ops.abs(X), X)
law("max_to_relu", ops.max(X, 0), ops.relu(X), X, when=floating)

# Rectifiers

real("relu_minus_relu", ops.relu(X) - ops.relu(-X), X, -X)
real("relu_plus_relu", ops.relu(X) + ops.relu(-X), ops.abs(X), X)
real("relu_of_abs", ops.relu(ops.abs(X)), ops.abs(X), X)
reals(
    "relu_of_positive",
    [(ops.relu(f(X)), f(X), -f(X)) for f in (ops.exp, ops.sigmoid)],
    says="relu(exp(x)) = exp(x), and so of what is never negative.",
)
real("max_with_own_part", ops.relu(X) - X, ops.relu(-X), ops.relu(X))
real("product_of_rectified", ops.relu(X) * ops.relu(X), ops.relu(X) * X, X * X)


def _positive(m: Match) -> str | None:
    value = uniform(m.program, m.values["c"])
    if floating(m) is not None or value is None or not value > 0:
        return "the factor is not one positive number"
    return None


real(
    "scale_before_relu",
    ops.relu(X) * C,
    ops.relu(X * C),
    ops.relu(X),
    when=_positive,
    values=[{"c": 0.25}, {"c": 3.0}],
    order=8,
    says="relu(x) * c = relu(x * c), c one positive number: what makes x may take the factor.",
)
real("difference_of_rectified", ops.relu(X - Y) + Y, ops.max(X, Y), ops.min(X, Y))
real("difference_from_rectified", X - ops.relu(X - Y), ops.min(X, Y), ops.max(X, Y))

# Magnitudes

real("abs_of_abs", ops.abs(ops.abs(X)), ops.abs(X), X)
real("square_of_abs", ops.abs(X) * ops.abs(X), X * X, X)
real("product_of_abs", ops.abs(X) * ops.abs(Y), ops.abs(X * Y), X * Y)
real("abs_of_difference", ops.abs(X - Y) + (X + Y), ops.max(X, Y) * 2, ops.min(X, Y) * 2)

# Comparisons

SIGNS = (ops.less, ops.greater, ops.less_or_equal, ops.greater_or_equal, ops.equal)
reals(
    "compare_shifted",
    [(f(X + Z, Y + Z), f(X, Y), f(Y, X + 1)) for f in SIGNS],
    says="x + z < y + z is x < y, and so of the other relations.",
)
reals(
    "compare_negatives",
    [
        (ops.less(-X, -Y), ops.less(Y, X), ops.less(X, Y)),
        (ops.less_or_equal(-X, -Y), ops.less_or_equal(Y, X), ops.less_or_equal(X, Y)),
        (ops.equal(-X, -Y), ops.equal(X, Y), ops.equal(X, -Y)),
    ],
)
reals(
    "not_of_comparison",
    [
        (Use("not", (ops.less(X, Y),)), ops.greater_or_equal(X, Y), ops.greater(X, Y)),
        (Use("not", (ops.greater(X, Y),)), ops.less_or_equal(X, Y), ops.less(X, Y)),
        (Use("not", (ops.less_or_equal(X, Y),)), ops.greater(X, Y), ops.greater_or_equal(X, Y)),
        (Use("not", (ops.greater_or_equal(X, Y),)), ops.less(X, Y), ops.less_or_equal(X, Y)),
    ],
)
reals(
    "compare_with_extreme",
    [
        (ops.greater(ops.max(X, Y), Y), ops.greater(X, Y), ops.greater(Y, X)),
        (ops.less(ops.min(X, Y), Y), ops.less(X, Y), ops.less(Y, X)),
    ],
)
reals(
    "where_to_extreme",
    [
        (ops.where(ops.less(X, Y), X, Y), ops.min(X, Y), ops.max(X, Y)),
        (ops.where(ops.greater(X, Y), X, Y), ops.max(X, Y), ops.min(X, Y)),
        (ops.where(ops.less_or_equal(X, Y), X, Y), ops.min(X, Y), ops.max(X, Y)),
        (ops.where(ops.greater_or_equal(X, Y), X, Y), ops.max(X, Y), ops.min(X, Y)),
    ],
)
reals(
    "where_to_relu",
    [
        (ops.where(ops.greater(X, 0), X, 0), ops.relu(X), X),
        (ops.where(ops.less(X, 0), 0, X), ops.relu(X), X),
        (ops.where(ops.less_or_equal(X, 0), 0, X), ops.relu(X), X),
    ],
)
reals(
    "where_to_abs",
    [(ops.where(ops.less(X, 0), -X, X), ops.abs(X), X), (ops.where(ops.greater(X, 0), X, -X), ops.abs(X), X)],
)

# Truth values

P, Q = Var("p"), Var("q")
_TRUTHS = [Instance("truths", {"p": "M N", "q": "M N"}, dtypes={"p": "bool", "q": "bool"})]


def no(p: Term) -> Use:
    """not p."""
    return Use("not", (p,))


def both(p: Term, q: Term) -> Use:
    """p and q."""
    return Use("and", (p, q))


def either(p: Term, q: Term) -> Use:
    """p or q."""
    return Use("or", (p, q))


law("not_of_not", no(no(P)), P, no(P), given=_TRUTHS)
family(
    "de_morgan",
    [
        (both(no(P), no(Q)), no(either(P, Q)), no(both(P, Q))),
        (either(no(P), no(Q)), no(both(P, Q)), no(either(P, Q))),
    ],
    given=_TRUTHS,
)
family("truth_twice", [(both(P, P), P, no(P)), (either(P, P), P, no(P))], given=_TRUTHS, phase="fold")
family(
    "truth_absorbed",
    [(both(either(P, Q), Q), Q, P), (either(both(P, Q), Q), Q, P)],
    given=_TRUTHS,
    phase="fold",
)
law("not_of_xor", no(ops.xor(P, no(Q))), ops.xor(P, Q), either(P, Q), given=_TRUTHS)
