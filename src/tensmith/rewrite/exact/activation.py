"""Activations and bounds: clips and relus that say more than they need to."""

from __future__ import annotations

import numpy as np

from tensmith.ir import Node, Program, make_node
from tensmith.ir.ops.reduction import Reduction
from tensmith.ir.types import TensorType
from tensmith.rewrite.law import floating, law
from tensmith.rewrite.match import Match
from tensmith.rewrite.rule import Edit, NodeRule, exact
from tensmith.rewrite.term import Bindings, Later, Number, Term, Use, Var, ops

X = Var("x")
LOW, HIGH = Var("low", static=True, optional=True), Var("high", static=True, optional=True)
LEAST, MOST = Var("least", static=True, optional=True), Var("most", static=True, optional=True)

Bounds = tuple[float, float]


law("clip_to_relu", ops.clip(X, 0, None), ops.relu(X), -ops.relu(-X), when=floating, order=41)


def _part_of_normalization(m: Match) -> str | None:
    """Engines know normalizations by their pow."""
    readers = m.program.consumers.get(m.nodes[0].output, ())
    reductions = [found for reader in readers if (found := reader.kind(Reduction)) is not None]
    return "it is part of a normalization" if any(r.takes == "mean" for r in reductions) else None


law("square", X**2, X * X, X + X, when=_part_of_normalization, order=42,
    says="x ** 2 = x * x, except before a mean: engines know normalizations by their pow.")  # fmt: skip

# Bounds inside bounds: sound for an ordered field only, so these rules stand behind the comparison over a
# prime field, which knows of maximum no more than that it is symmetric.

law("relu_of_relu", ops.relu(ops.relu(X)), ops.relu(X), X, phase="fold", order=5)


def _bounds(m: Bindings, low: Var, high: Var) -> Bounds | None:
    """The two bounds of a clip, infinite where left out; None where not known."""
    found = []
    for var, free in ((low, -np.inf), (high, np.inf)):
        value = m.value(var)
        if m.has(var) and value is None:
            return None
        found.append(float(np.asarray(value).reshape(())) if m.has(var) else free)
    return found[0], found[1]


def _clip(low: float, high: float) -> Use:
    return ops.clip(X, *(None if np.isinf(bound) else Number(bound) for bound in (low, high)))


def _in_order(m: Match) -> str | None:
    inner, outer = _bounds(m, LOW, HIGH), _bounds(m, LEAST, MOST)
    if inner is None or outer is None:
        return "a bound is not known"
    return None if inner[0] <= inner[1] and outer[0] <= outer[1] else "a lower bound is above an upper one"


def _both(m: Bindings, *, inner_counts: bool) -> Term:
    inner, outer = _bounds(m, LOW, HIGH), _bounds(m, LEAST, MOST)
    assert inner is not None and outer is not None
    return _clip(*(min(max(bound, outer[0]), outer[1]) for bound in inner)) if inner_counts else _clip(*outer)


law("clip_of_clip",
    ops.clip(ops.clip(X, LOW, HIGH), LEAST, MOST),
    Later(lambda m: _both(m, inner_counts=True), "clip(x, clip(a, c, d), clip(b, c, d))"),
    Later(lambda m: _both(m, inner_counts=False), "clip(x, c, d)"),
    when=_in_order, phase="fold", order=5,
    values=[{"low": 0, "high": 6, "least": -1, "most": 4}, {"low": 1, "high": 2, "least": 0, "most": 6},
            {"low": 1, "most": 6}],
    says="clip(clip(x, a, b), c, d) = clip(x, clip(a, c, d), clip(b, c, d)), numbers with a <= b and "
         "c <= d.")  # fmt: skip


def _above_zero(m: Match) -> str | None:
    bounds = _bounds(m, LOW, HIGH)
    if bounds is None:
        return "a bound is not known"
    return None if bounds[1] >= max(bounds[0], 0) else "the upper bound is below the lower one"


def _from(m: Bindings, least: float) -> Term:
    bounds = _bounds(m, LOW, HIGH)
    assert bounds is not None
    return _clip(max(bounds[0], least), bounds[1])


law("clip_of_relu",
    ops.clip(ops.relu(X), LOW, HIGH),
    Later(lambda m: _from(m, 0), "clip(x, max(a, 0), b)"),
    Later(lambda m: _from(m, -1), "clip(x, max(a, -1), b)"),
    when=_above_zero, phase="fold", order=5, values=[{"low": -2, "high": 6}, {"high": 6}],
    says="clip(relu(x), a, b) = clip(x, max(a, 0), b), where b is not below 0.")  # fmt: skip


@exact("cast_like_to_cast", order=5)
class CastLikeToCast(NodeRule):
    """cast_like(x, y) = cast(x) to the element type of y, which typing knows."""

    roots = frozenset({"cast_like"})
    structural = "an element type is no formula: both ops convert by the same function"

    def rewrite(self, program: Program, node: Node) -> Edit | str:
        """A cast that does not read y."""
        target = program.facts[node.inputs[1]].type
        if target is None:
            return "the type to cast to is not known"
        attrs = {"to": _onnx_code(target), "saturate": node.attrs["saturate"]}
        return Edit(remove=(node,), add=(make_node("cast", node.inputs[:1], node.outputs, attrs),))


def _onnx_code(type_: TensorType) -> int:
    from tensmith.ir.onnx_schema import ELEMENT_CODES

    return ELEMENT_CODES[type_.dtype]
