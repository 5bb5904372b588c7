"""Activations from their parts, and activations that say more than they need to.

Measure: operations on values that vary. Those that need the order of numbers are in the phase "fold".
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tensmith.ir.ops.elementwise import single
from tensmith.rewrite.law import family, floating, law, of_32_bits
from tensmith.rewrite.match import Match
from tensmith.rewrite.term import Bindings, Later, Number, Term, Use, Var, ops
from tensmith.rewrite.values import uniform

X = Var("x")
C, LOW, HIGH = Var("c", static=True), Var("low", static=True), Var("high", static=True)
_fold: dict[str, Any] = {"phase": "fold", "order": 8}
real: Any = partial(law, **_fold)


def number(m: Bindings, var: Var) -> float:
    """The one number that a constant is; no number where it is none."""
    if isinstance(m, Match):
        found = uniform(m.program, m.values[var.name])
        return float("nan") if found is None else found
    return float(np.asarray(m.value(var)).reshape(-1)[0])


def one_number(m: Match) -> str | None:
    """None if c is one number beside floats, of no larger shape."""
    if floating(m) is not None or np.isnan(number(m, C)):
        return "the constant is not one number"
    return None if m.type(C).rank == 0 or m.shape(C) == (1,) else "the constant is not one number"


def attribute_number(m: Match) -> str | None:
    """None if c is such a number, and one that an attribute holds."""
    return of_32_bits(m) or one_number(m) or _unrounded(m)


def _unrounded(m: Match) -> str | None:
    return None if single(number(m, C)) == number(m, C) else "the constant would be rounded"


# From their parts

family(
    "sigmoid_from_exp",
    [
        (1 / (ops.exp(-X) + 1), ops.sigmoid(X), ops.sigmoid(-X)),
        (ops.reciprocal(ops.exp(-X) + 1), ops.sigmoid(X), ops.sigmoid(-X)),
    ],
    when=floating,
    order=39,
)
law("swish_from_exp", X / (ops.exp(-X) + 1), X * ops.sigmoid(X), ops.sigmoid(X), when=floating, order=39)
law("softsign_from_abs", X / (ops.abs(X) + 1), ops.softsign(X), X, when=of_32_bits, order=39)
law(
    "mish_from_softplus",
    X * ops.tanh(ops.softplus(X)),
    ops.mish(X),
    ops.tanh(X),
    when=floating,
    order=39,
    phase="form",
)
_with_number = partial(law, when=attribute_number, order=39, phase="form")
_with_number(
    "hard_sigmoid_from_clip",
    ops.clip(X * C + 0.5, 0, 1),
    Later(
        lambda m: ops.hard_sigmoid(X, attrs={"alpha": single(number(m, C)), "beta": 0.5}),
        "hard_sigmoid(x, c, 1/2)",
    ),
    Later(
        lambda m: ops.hard_sigmoid(X, attrs={"alpha": single(number(m, C)), "beta": 1.0}),
        "hard_sigmoid(x, c, 1)",
    ),
    values=[{"c": 0.25}, {"c": 0.5}],
)
_with_number(
    "thresholded_from_where",
    ops.where(ops.greater(X, C), X, 0),
    Later(lambda m: ops.thresholded_relu(X, attrs={"alpha": single(number(m, C))}), "thresholded_relu(x, c)"),
    ops.relu(X),
    values=[{"c": 0.25}, {"c": 2.0}],
)
_LEAKY = Later(lambda m: ops.leaky_relu(X, attrs={"alpha": single(number(m, C))}), "leaky_relu(x, c)")
real(
    "leaky_from_max",
    ops.max(X, X * C),
    _LEAKY,
    ops.relu(X),
    values=[{"c": 0.25}, {"c": 0.5}],
    when=lambda m: (
        attribute_number(m) or (None if 0 <= number(m, C) <= 1 else "the slope is not between 0 and 1")
    ),
)
real(
    "leaky_from_relu",
    ops.relu(X) - ops.relu(-X) * C,
    _LEAKY,
    ops.relu(X),
    values=[{"c": 0.25}, {"c": -2.0}],
    when=attribute_number,
)
law(
    "prelu_to_leaky",
    ops.prelu(X, C),
    _LEAKY,
    ops.leaky_relu(X, attrs={"alpha": 3.0}),
    values=[{"c": 0.25}, {"c": -2.0}],
    when=lambda m: _slope(m),
    order=39,
)


def _slope(m: Match) -> str | None:
    if floating(m) is not None or np.isnan(number(m, C)):
        return "the slope is not one number"
    if m.program.type(m.nodes[0].output) != m.type(X):
        return "the slope broadcasts"
    return _unrounded(m)


def _leaky(m: Bindings, *captures: str) -> float:
    return float(np.prod([m.attrs[name]["alpha"] for name in captures]))


real(
    "leaky_of_leaky",
    ops.leaky_relu(ops.leaky_relu(X, attrs="inner"), attrs="outer"),
    Later(lambda m: ops.leaky_relu(X, attrs={"alpha": _leaky(m, "inner", "outer")}), "leaky_relu(x, a * b)"),
    Later(lambda m: ops.leaky_relu(X, attrs={"alpha": _leaky(m, "inner")}), "leaky_relu(x, a)"),
    sample={"inner": {"alpha": 0.25}, "outer": {"alpha": 0.5}},
    when=lambda m: (
        None
        if m.attrs["inner"]["alpha"] >= 0
        and single(_leaky(m, "inner", "outer")) == _leaky(m, "inner", "outer")
        else "a slope is negative, or their product is rounded"
    ),
    says="leaky_relu(leaky_relu(x, a), b) = leaky_relu(x, a * b), a not negative.",
)
real(
    "relu_of_leaky",
    ops.relu(ops.leaky_relu(X, attrs="inner")),
    ops.relu(X),
    X,
    sample={"inner": {"alpha": 0.25}},
    when=lambda m: None if m.attrs["inner"]["alpha"] >= 0 else "the slope is negative",
)
real(
    "leaky_of_relu",
    ops.leaky_relu(ops.relu(X), attrs="outer"),
    ops.relu(X),
    X,
    sample={"outer": {"alpha": 0.25}},
)
law("leaky_of_slope_one", ops.leaky_relu(X, attrs={"alpha": 1.0}), ops.identity(X), -X, phase="fold", order=8)
law("leaky_of_slope_zero", ops.leaky_relu(X, attrs={"alpha": 0.0}), ops.relu(X), X, phase="fold", order=8)
law(
    "celu_of_one",
    ops.celu(X, attrs={"alpha": 1.0}),
    ops.elu(X),
    ops.elu(X, attrs={"alpha": 2.0}),
    when=of_32_bits,
    order=39,
)
law("elu_of_zero", ops.elu(X, attrs={"alpha": 0.0}), ops.relu(X), X, phase="fold", order=8)

# Bounds


def _two(m: Match) -> str | None:
    low, high = number(m, LOW), number(m, HIGH)
    single_ = all(m.type(v).rank == 0 for v in (LOW, HIGH))
    return (
        None if floating(m) is None and single_ and low <= high else "the bounds are not two numbers in order"
    )


BOUNDS = [{"low": -1.0, "high": 2.0}, {"low": 0.0, "high": 6.0}]
_to_clip = partial(law, right=ops.clip(X, LOW, HIGH), wrong=ops.clip(X, LOW), when=_two, values=BOUNDS)
_to_clip("min_of_max_to_clip", ops.min(ops.max(X, LOW), HIGH), order=40)
_to_clip("max_of_min_to_clip", ops.max(ops.min(X, HIGH), LOW), **_fold)
law(
    "min_of_relu_to_clip",
    ops.min(ops.relu(X), HIGH),
    ops.clip(X, 0, HIGH),
    ops.clip(X, 0),
    order=40,
    when=lambda m: None if floating(m) is None and m.type(HIGH).rank == 0 and number(m, HIGH) >= 0 else "",
    values=[{"high": 6.0}],
)
real(
    "relu_of_clip",
    ops.relu(ops.clip(X, LOW, HIGH)),
    ops.clip(X, 0, HIGH),
    ops.clip(X, LOW, HIGH),
    values=[{"low": -1.0, "high": 2.0}],
    when=lambda m: (
        _two(m) or (None if number(m, LOW) <= 0 <= number(m, HIGH) else "0 is not between the bounds")
    ),
)
real(
    "clip_of_negative",
    -ops.clip(-X, LOW, HIGH),
    ops.clip(X, -HIGH, -LOW),
    ops.clip(X, LOW, HIGH),
    values=BOUNDS,
    when=_two,
)
real(
    "clip_of_shifted",
    ops.clip(X + C, LOW, HIGH) - C,
    ops.clip(X, LOW - C, HIGH - C),
    ops.clip(X, LOW, HIGH),
    values=[{"low": -1.0, "high": 2.0, "c": 0.5}],
    when=lambda m: _two(m) or one_number(m),
)
law("clip_to_relu", ops.clip(X, 0, None), ops.relu(X), -ops.relu(-X), when=floating, order=41)

# Bounds inside bounds: sound for an ordered field only, so these rules stand behind the comparison over a
# prime field, which knows of maximum no more than that it is symmetric.

Bounds = tuple[float, float]
INNER = Var("low", static=True, optional=True), Var("high", static=True, optional=True)
OUTER = Var("least", static=True, optional=True), Var("most", static=True, optional=True)

law("relu_of_relu", ops.relu(ops.relu(X)), ops.relu(X), X, phase="fold", order=5)


def _bounds(m: Bindings, pair: tuple[Var, Var]) -> Bounds | None:
    """The two bounds of a clip, infinite where left out; None where not known."""
    found = []
    for var, free in zip(pair, (-np.inf, np.inf)):
        value = m.value(var)
        if m.has(var) and value is None:
            return None
        found.append(np.asarray(value).reshape(()).item() if m.has(var) else free)
    return found[0], found[1]


def _clip(low: float, high: float) -> Use:
    return ops.clip(X, *(None if np.isinf(bound) else Number(bound) for bound in (low, high)))


def _in_order(m: Match) -> str | None:
    inner, outer = _bounds(m, INNER), _bounds(m, OUTER)
    if inner is None or outer is None:
        return "a bound is not known"
    return None if inner[0] <= inner[1] and outer[0] <= outer[1] else "a lower bound is above an upper one"


def _both(m: Bindings, *, inner_counts: bool) -> Term:
    inner, outer = _bounds(m, INNER), _bounds(m, OUTER)
    assert inner is not None and outer is not None
    return _clip(*(min(max(bound, outer[0]), outer[1]) for bound in inner)) if inner_counts else _clip(*outer)


law("clip_of_clip",
    ops.clip(ops.clip(X, *INNER), *OUTER),
    Later(lambda m: _both(m, inner_counts=True), "clip(x, clip(a, c, d), clip(b, c, d))"),
    Later(lambda m: _both(m, inner_counts=False), "clip(x, c, d)"),
    when=_in_order, phase="fold", order=5,
    values=[{"low": 0, "high": 6, "least": -1, "most": 4}, {"low": 1, "high": 2, "least": 0, "most": 6},
            {"low": 1, "most": 6}],
    says="clip(clip(x, a, b), c, d) = clip(x, clip(a, c, d), clip(b, c, d)), numbers with a <= b and "
         "c <= d.")  # fmt: skip


def _above_zero(m: Match) -> str | None:
    bounds = _bounds(m, INNER)
    if bounds is None:
        return "a bound is not known"
    return None if bounds[1] >= max(bounds[0], 0) else "the upper bound is below the lower one"


def _from(m: Bindings, least: float) -> Term:
    bounds = _bounds(m, INNER)
    assert bounds is not None
    return _clip(max(bounds[0], least), bounds[1])


law("clip_of_relu",
    ops.clip(ops.relu(X), *INNER),
    Later(lambda m: _from(m, 0), "clip(x, max(a, 0), b)"),
    Later(lambda m: _from(m, -1), "clip(x, max(a, -1), b)"),
    when=_above_zero, phase="fold", order=5, values=[{"low": -2, "high": 6}, {"high": 6}],
    says="clip(relu(x), a, b) = clip(x, max(a, 0), b), where b is not below 0.")  # fmt: skip
