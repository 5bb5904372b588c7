"""Activations that exporters write as groups of small ops, as the one op that kernels exist for.

Engines know many of these groups by sight, and miss them where a quantizer or another order of the factors
stands between; so the one op is an offer, and the search keeps it where it measures faster.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from tensmith.formula.expr import compute, tensor
from tensmith.formula.poly import Poly
from tensmith.ir.ops.elementwise import single
from tensmith.rewrite.pattern import PatternRule
from tensmith.rewrite.rule import exact
from tensmith.rewrite.term import Case, Match, Term, Use, Var, ops
from tensmith.rewrite.values import uniform

X = Var("x")
HALF, ONE, ROOT = Var("half", static=True), Var("one", static=True), Var("root", static=True)
_NUMBERS = {"half": 0.5, "one": 1.0, "root": single(math.sqrt(2))}


class _Group(PatternRule):
    """A group of ops over one tensor x and numbers that must be what they are in `_NUMBERS`."""

    phase = "offer"
    numbers: tuple[Var, ...] = ()

    def check(self, m: Match) -> str | None:
        """The numbers of the group; x is of floats and gives the result its type."""
        if not m.type(X).floating or m.program.type(m.nodes[0].output) != m.type(X):
            return ""
        wrong = [v.name for v in self.numbers if uniform(m.program, m.values[v.name]) != _NUMBERS[v.name]]
        return f"'{wrong[0]}' is another number" if wrong else None

    def cases(self) -> Iterable[Case]:
        """Any matrix."""
        names = [var.name for var in self.numbers]
        scalars = {name: compute((), lambda name=name: _NUMBERS[name]) for name in names}
        matrix = {"x": tensor("x", Poly.symbol("N"), Poly.symbol("C"))}
        yield Case("plain", {**matrix, **scalars}, {}, {name: np.asarray(_NUMBERS[name]) for name in names})


class _Gelu(_Group):
    numbers = (HALF, ONE, ROOT)

    def right(self, m: Match | Case) -> Term:
        """One gelu."""
        return ops.gelu(X)

    def wrong(self, m: Match | Case) -> Term:
        """Its approximation by tanh."""
        return ops.gelu(X, attrs={"approximate": "tanh"})


def _bent() -> Use:
    return ops.add(ops.erf(ops.div(X, ROOT)), ONE)


@exact("gelu_half_first")
class GeluHalfFirst(_Gelu):
    """(x / 2) * (1 + erf(x / sqrt 2)) = gelu(x)."""

    def left(self) -> Use:
        """x is halved first."""
        return ops.mul(ops.mul(X, HALF), _bent())


@exact("gelu_half_last")
class GeluHalfLast(_Gelu):
    """(x * (1 + erf(x / sqrt 2))) / 2 = gelu(x)."""

    def left(self) -> Use:
        """The product is halved."""
        return ops.mul(ops.mul(X, _bent()), HALF)


@exact("hard_swish_from_sigmoid")
class HardSwishFromSigmoid(_Group):
    """x * hard_sigmoid(x, 1/6, 1/2) = hard_swish(x)."""

    def left(self) -> Use:
        """x times its hard sigmoid."""
        return ops.mul(X, ops.hard_sigmoid(X, attrs={"alpha": single(1 / 6), "beta": 0.5}))

    def right(self, m: Match | Case) -> Term:
        """One hard swish."""
        return ops.hard_swish(X)

    def wrong(self, m: Match | Case) -> Term:
        """The soft one."""
        return ops.mul(X, ops.sigmoid(X))


@exact("swish_from_sigmoid")
class SwishFromSigmoid(_Group):
    """x * sigmoid(x) = swish(x)."""

    def left(self) -> Use:
        """x times its sigmoid."""
        return ops.mul(X, ops.sigmoid(X))

    def right(self, m: Match | Case) -> Term:
        """One swish."""
        return ops.swish(X)

    def wrong(self, m: Match | Case) -> Term:
        """The hard one."""
        return ops.hard_swish(X)
