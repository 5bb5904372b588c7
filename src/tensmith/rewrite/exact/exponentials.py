"""Exponentials, logarithms and roots: one for two. All hold over the reals alone, so their phase is "fold".

Measure: calls of such functions, then other operations on values that vary. Those that take one of a product
or a quotient are forms all the same, as this may be beyond what a type holds where its parts are not.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tensmith.rewrite.law import family, floating, law
from tensmith.rewrite.term import Var, ops

X, Y = Var("x"), Var("y")
exp, log, sqrt = ops.exp, ops.log, ops.sqrt
_fold: dict[str, Any] = {"phase": "fold", "order": 6, "when": floating}
real: Any = partial(law, **_fold)
reals: Any = partial(family, **_fold)

real("exp_times_exp", exp(X) * exp(Y), exp(X + Y), exp(X * Y))
real("exp_over_exp", exp(X) / exp(Y), exp(X - Y), exp(Y - X))
real("reciprocal_of_exp", ops.reciprocal(exp(X)), exp(-X), exp(X))
real("quotient_by_exp", X / exp(Y), X * exp(-Y), X * exp(Y))
real("exp_of_log", exp(log(X)), X, -X)
real("log_of_exp", log(exp(X)), X, -X)
real("square_of_exp", exp(X) ** 2, exp(X + X), exp(X))
real("log_plus_log", log(X) + log(Y), log(X * Y), log(X + Y), phase="form")
real("log_minus_log", log(X) - log(Y), log(X / Y), log(Y / X), phase="form")
real("log_of_reciprocal", log(ops.reciprocal(X)), -log(X), log(X))
real("log_of_root", log(sqrt(X)), log(X) * 0.5, log(X) * 2)
real("log_of_scaled_exp", log(exp(X) * Y), X + log(Y), X * log(Y))
real("root_times_root", sqrt(X) * sqrt(Y), sqrt(X * Y), sqrt(X + Y), phase="form")
real("root_over_root", sqrt(X) / sqrt(Y), sqrt(X / Y), sqrt(Y / X), phase="form")
real("root_squared", sqrt(X) ** 2, X, -X)
real("root_of_square", sqrt(X * X), ops.abs(X), X)
real("root_of_squared", sqrt(X**2), ops.abs(X), X)
real("over_own_root", X / sqrt(X), sqrt(X), X * X)
real("own_root_over", sqrt(X) / X, ops.reciprocal(sqrt(X)), sqrt(X))
real("reciprocal_of_root_of_reciprocal", ops.reciprocal(sqrt(ops.reciprocal(X))), sqrt(X), X)
real("sigmoid_complement", 1 - ops.sigmoid(X), ops.sigmoid(-X), ops.sigmoid(X))
real("tanh_from_sigmoid", ops.sigmoid(X + X) * 2 - 1, ops.tanh(X), ops.tanh(X + X))
real("sigmoid_from_tanh", ops.tanh(X * 0.5) * 0.5 + 0.5, ops.sigmoid(X), ops.sigmoid(X + X))
reals(
    "odd_functions",
    [(f(-X), -f(X), f(X)) for f in (ops.tanh, ops.erf, ops.sin, ops.sinh, ops.atan, ops.asinh)],
    order=7,
    says="tanh(-x) = -tanh(x), and so of erf, sin, sinh, atan and asinh: the sign moves on to what takes it.",
)
reals(
    "even_functions",
    [(f(-X), f(X), -f(X)) for f in (ops.abs, ops.cos, ops.cosh)],
    says="|-x| = |x|, and so of cos and cosh.",
)
