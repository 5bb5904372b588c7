"""Activations and bounds: clips and relus that say more than they need to."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tensmith.formula.expr import compute, tensor
from tensmith.formula.poly import Poly
from tensmith.ir import Node, Program, make_node
from tensmith.ir.types import TensorType
from tensmith.rewrite.pattern import PatternRule
from tensmith.rewrite.rule import Edit, NodeRule, exact
from tensmith.rewrite.term import Case, Match, Term, Use, Var, ops
from tensmith.rewrite.values import uniform

X, Y = Var("x"), Var("y")
LOW, HIGH = Var("low", static=True, optional=True), Var("high", static=True, optional=True)
LEAST, MOST = Var("least", static=True, optional=True), Var("most", static=True, optional=True)


def _plane(**others: float) -> dict[str, object]:
    scalars = {name: compute((), lambda value=value: value) for name, value in others.items()}
    return {"x": tensor("x", Poly.symbol("N"), Poly.symbol("C")), **scalars}


@exact("clip_to_relu")
class ClipToRelu(PatternRule):
    """clip(x, 0) = relu(x)."""

    order = 41

    def left(self) -> Use:
        """A clip without an upper bound."""
        return ops.clip(X, LOW, None)

    def check(self, m: Match) -> str | None:
        """Bounded by zero."""
        if not m.type(X).floating or not m.has(LOW):
            return ""
        return None if uniform(m.program, m.values["low"]) == 0 else "the lower bound is not zero"

    def right(self, m: Match | Case) -> Term:
        """The relu."""
        return ops.relu(X)

    def wrong(self, m: Match | Case) -> Term:
        """Of the negative."""
        return ops.neg(ops.relu(ops.neg(X)))

    def cases(self) -> Iterable[Case]:
        """Any matrix."""
        yield Case("plain", _plane(low=0))  # type: ignore[arg-type]


class _Bounds(PatternRule):
    """Bounds inside bounds.

    Sound for an ordered field only, so these rules stand behind the comparison over a prime field, which
    knows of maximum no more than that it is symmetric.
    """

    phase = "fold"
    order = 5


@exact("relu_of_relu")
class ReluOfRelu(_Bounds):
    """relu(relu(x)) = relu(x)."""

    def left(self) -> Use:
        """Two relus."""
        return ops.relu(ops.relu(X))

    def right(self, m: Match | Case) -> Term:
        """One relu."""
        return ops.relu(X)

    def wrong(self, m: Match | Case) -> Term:
        """None."""
        return X

    def cases(self) -> Iterable[Case]:
        """Any matrix."""
        yield Case("plain", _plane())  # type: ignore[arg-type]


def _bounds(m: Match | Case, low: Var, high: Var) -> tuple[float, float] | None:
    """The two bounds of a clip, infinite where left out; None where not known."""
    found = []
    for var, free in ((low, -np.inf), (high, np.inf)):
        value = m.value(var)
        if m.has(var) and value is None:
            return None
        found.append(float(np.asarray(value).reshape(())) if m.has(var) else free)
    return found[0], found[1]


@exact("clip_of_clip")
class ClipOfClip(_Bounds):
    """clip(clip(x, a, b), c, d) = clip(x, clip(a, c, d), clip(b, c, d)), numbers with a <= b and c <= d."""

    def left(self) -> Use:
        """Two clips."""
        return ops.clip(ops.clip(X, LOW, HIGH), LEAST, MOST)

    def check(self, m: Match) -> str | None:
        """Numbers in order."""
        inner, outer = _bounds(m, LOW, HIGH), _bounds(m, LEAST, MOST)
        if inner is None or outer is None:
            return "a bound is not known"
        return (
            None if inner[0] <= inner[1] and outer[0] <= outer[1] else "a lower bound is above an upper one"
        )

    def right(self, m: Match | Case) -> Term:
        """The inner bounds, clipped by the outer."""
        inner, outer = _bounds(m, LOW, HIGH), _bounds(m, LEAST, MOST)
        assert inner is not None and outer is not None
        return self._clip(m, *(min(max(bound, outer[0]), outer[1]) for bound in inner))

    def wrong(self, m: Match | Case) -> Term:
        """The outer bounds alone."""
        outer = _bounds(m, LEAST, MOST)
        assert outer is not None
        return self._clip(m, *outer)

    def _clip(self, m: Match | Case, low: float, high: float) -> Use:
        return ops.clip(X, *(None if np.isinf(bound) else m.number(bound, like=X) for bound in (low, high)))

    def cases(self) -> Iterable[Case]:
        """Overlapping, nested, apart, and open bounds."""
        yield self._case("overlapping", low=0, high=6, least=-1, most=4)
        yield self._case("nested", low=1, high=2, least=0, most=6)
        yield self._case("open", low=1, most=6)

    @staticmethod
    def _case(name: str, **bounds: float) -> Case:
        values = {key: np.asarray(bound) for key, bound in bounds.items()}
        return Case(name, _plane(**bounds), {}, values)  # type: ignore[arg-type]


@exact("clip_of_relu")
class ClipOfRelu(_Bounds):
    """clip(relu(x), a, b) = clip(x, max(a, 0), b), where b is not below 0."""

    def left(self) -> Use:
        """A clip over a relu."""
        return ops.clip(ops.relu(X), LOW, HIGH)

    def check(self, m: Match) -> str | None:
        """Known bounds."""
        bounds = _bounds(m, LOW, HIGH)
        if bounds is None:
            return "a bound is not known"
        return None if bounds[1] >= max(bounds[0], 0) else "the upper bound is below the lower one"

    def right(self, m: Match | Case) -> Term:
        """The clip alone."""
        return self._clip(m, 0)

    def wrong(self, m: Match | Case) -> Term:
        """The relu forgotten."""
        return self._clip(m, -1)

    def _clip(self, m: Match | Case, least: float) -> Use:
        bounds = _bounds(m, LOW, HIGH)
        assert bounds is not None
        high = None if np.isinf(bounds[1]) else m.number(bounds[1], like=X)
        return ops.clip(X, m.number(max(bounds[0], least), like=X), high)

    def cases(self) -> Iterable[Case]:
        """As ReLU6 is written by hand, and with a lower bound."""
        for name, bounds in (("relu6", {"low": -2.0, "high": 6.0}), ("open", {"high": 6.0})):
            yield Case(name, _plane(**bounds), {}, {k: np.asarray(v) for k, v in bounds.items()})  # type: ignore[arg-type]


@exact("square")
class Square(PatternRule):
    """x ** 2 = x * x, except before a mean: engines know normalizations by their pow."""

    order = 42

    def left(self) -> Use:
        """A power."""
        return ops.pow(X, Var("exponent", static=True))

    def check(self, m: Match) -> str | None:
        """The exponent is the number 2."""
        if uniform(m.program, m.values["exponent"]) != 2 or m.program.type(m.nodes[0].output) != m.type(X):
            return ""
        readers = m.program.consumers.get(m.nodes[0].output, ())
        return "it is part of a normalization" if any(r.op == "reduce_mean" for r in readers) else None

    def right(self, m: Match | Case) -> Term:
        """One multiplication."""
        return ops.mul(X, X)

    def wrong(self, m: Match | Case) -> Term:
        """Doubled."""
        return ops.add(X, X)

    def cases(self) -> Iterable[Case]:
        """Any matrix."""
        yield Case("plain", _plane(exponent=2), {}, {"exponent": np.asarray(2.0)})  # type: ignore[arg-type]


@exact("cast_like_to_cast")
class CastLikeToCast(NodeRule):
    """cast_like(x, y) = cast(x) to the element type of y, which typing knows."""

    order = 5
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
