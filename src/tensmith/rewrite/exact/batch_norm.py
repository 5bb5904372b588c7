"""Batch normalization folded into the convolution before it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tensmith.formula.expr import tensor
from tensmith.formula.poly import Poly
from tensmith.rewrite.pattern import PatternRule
from tensmith.rewrite.rule import exact
from tensmith.rewrite.term import Case, Match, Term, Use, Var, ops

X, W, B = Var("x"), Var("w", static=True), Var("b", static=True, optional=True)
SCALE, SHIFT = Var("scale", static=True), Var("shift", static=True)
MEAN, VARIANCE = Var("mean", static=True), Var("variance", static=True)


@exact("batch_norm_into_conv")
class BatchNormIntoConv(PatternRule):
    """batch_normalization(conv(x, w, b)) = conv(x, w * f, (b - mean) * f + shift).

    f = scale / sqrt(variance + epsilon), one factor an output channel (Jacob et al. 2018, section 3.2).
    """

    def left(self) -> Use:
        """A batch norm over a convolution with constant weights."""
        return ops.batch_normalization(
            ops.conv(X, W, B, attrs="conv"), SCALE, SHIFT, MEAN, VARIANCE, attrs="bn"
        )

    def right(self, m: Match | Case) -> Term:
        """The factor goes into the weights, the rest into the bias."""
        return self._folded(m, MEAN)

    def wrong(self, m: Match | Case) -> Term:
        """Adds the scale where the mean belongs."""
        return self._folded(m, SCALE)

    def _folded(self, m: Match | Case, mean: Var) -> Use:
        epsilon = np.float32(m.attrs["bn"]["epsilon"])
        factor = ops.div(SCALE, ops.sqrt(ops.add(VARIANCE, epsilon)))
        axes = np.arange(1, len(m.shape(W)), dtype=np.int64)
        centred = ops.sub(B, mean) if m.has(B) else ops.neg(mean)
        bias = ops.add(ops.mul(centred, factor), SHIFT)
        return ops.conv(X, ops.mul(W, ops.unsqueeze(factor, axes)), bias, attrs=m.attrs["conv"])

    def cases(self) -> Iterable[Case]:
        """One to three spatial dimensions, with and without bias."""
        for n in (1, 2, 3):
            for bias in (True, False):
                yield conv_case(
                    n,
                    bias,
                    {
                        name: (Poly.symbol("G") * Poly.symbol("K"),)
                        for name in ("scale", "shift", "mean", "variance")
                    },
                )


def conv_case(n: int, bias: bool, others: dict[str, tuple[Poly, ...]]) -> Case:
    """A grouped convolution of n spatial dimensions, everything symbolic, and `others` by shape."""
    s = Poly.symbol
    groups, filters = s("G"), s("G") * s("K")
    spatial = [s(f"H{d}") for d in range(n)]
    tensors = {
        "x": tensor("x", s("N"), groups * s("C"), *spatial),
        "w": tensor("w", filters, s("C"), *(s(f"R{d}") for d in range(n))),
        **{name: tensor(name, *shape) for name, shape in others.items()},
    }
    if bias:
        tensors["b"] = tensor("b", filters)
    attrs = {
        "strides": tuple(s(f"s{d}") for d in range(n)),
        "dilations": tuple(s(f"d{d}") for d in range(n)),
        "pads": tuple(s(f"p{d}") for d in range(2 * n)),
        "group": groups,
    }
    lower = {f"p{d}": 0 for d in range(2 * n)}
    return Case(
        f"{n}d{' with bias' if bias else ''}",
        tensors,
        {"conv": attrs, "bn": {"epsilon": 2.0**-17}},
        {},
        lower,
    )
