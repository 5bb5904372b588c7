"""Batch normalization folded into the convolution or matrix product on either side of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from tensmith.formula.expr import tensor
from tensmith.formula.poly import Dim, Poly
from tensmith.rewrite.pattern import PatternRule
from tensmith.rewrite.rule import exact
from tensmith.rewrite.term import Case, Match, Term, Use, Var, ops

X, W, B = Var("x"), Var("w", static=True), Var("b", static=True, optional=True)
SCALE, SHIFT = Var("scale", static=True), Var("shift", static=True)
MEAN, VARIANCE = Var("mean", static=True), Var("variance", static=True)
_STATISTICS = ("scale", "shift", "mean", "variance")


def batch_norm(x: Term) -> Use:
    """A batch norm with constant statistics."""
    return ops.batch_normalization(x, SCALE, SHIFT, MEAN, VARIANCE, attrs="bn")


def factor(m: Match | Case) -> Use:
    """scale / sqrt(variance + epsilon): what a batch norm multiplies by, one number a channel."""
    epsilon = m.number(m.attrs["bn"]["epsilon"], like=VARIANCE)
    return ops.div(SCALE, ops.sqrt(ops.add(VARIANCE, epsilon)))


def along_axis(vector: Term, axis: int, rank: int) -> Use:
    """A vector as a tensor of `rank` with its elements along `axis`."""
    return ops.unsqueeze(vector, np.array([d for d in range(rank) if d != axis], dtype=np.int64))


@exact("batch_norm_into_conv")
class BatchNormIntoConv(PatternRule):
    """batch_normalization(conv(x, w, b)) = conv(x, w * f, (b - mean) * f + shift).

    f = scale / sqrt(variance + epsilon), one factor an output channel (Jacob et al. 2018, section 3.2).
    """

    order = 20

    def left(self) -> Use:
        """A batch norm over a convolution with constant weights."""
        return batch_norm(ops.conv(X, W, B, attrs="conv"))

    def right(self, m: Match | Case) -> Term:
        """The factor goes into the weights, the rest into the bias."""
        return self._folded(m, MEAN)

    def wrong(self, m: Match | Case) -> Term:
        """Adds the scale where the mean belongs."""
        return self._folded(m, SCALE)

    def _folded(self, m: Match | Case, mean: Var) -> Use:
        f = factor(m)
        centred = ops.sub(B, mean) if m.has(B) else ops.neg(mean)
        weights = ops.mul(W, along_axis(f, 0, len(m.shape(W))))
        return ops.conv(X, weights, ops.add(ops.mul(centred, f), SHIFT), attrs=m.attrs["conv"])

    def cases(self) -> Iterable[Case]:
        """One to three spatial dimensions, with and without bias."""
        filters = Poly.symbol("G") * Poly.symbol("K")
        for n in (1, 2, 3):
            for bias in (True, False):
                yield conv_case(n, bias, dict.fromkeys(_STATISTICS, (filters,)))


@exact("batch_norm_before_conv")
class BatchNormBeforeConv(PatternRule):
    """conv(batch_normalization(x), w, b) = conv(x, w * f, b + sum(w * (shift - mean * f))), without padding.

    Padding would put zeros where the batch norm puts `shift`.
    """

    order = 21

    def left(self) -> Use:
        """An ungrouped convolution over a batch norm."""
        return ops.conv(batch_norm(X), W, B, attrs="conv")

    def check(self, m: Match) -> str | None:
        """No padding, one group."""
        attrs = m.attrs["conv"]
        if attrs["auto_pad"] not in ("NOTSET", "VALID") or any(attrs["pads"] or ()):
            return "the convolution pads with zeros, which a batch norm does not map to zeros"
        return "the convolution is grouped" if attrs["group"] != 1 else None

    def right(self, m: Match | Case) -> Term:
        """The factor goes into the weights; what the shift adds to each window goes into the bias."""
        return self._folded(m, ops.sub)

    def wrong(self, m: Match | Case) -> Term:
        """Adds the mean instead of taking it away."""
        return self._folded(m, ops.add)

    def _folded(self, m: Match | Case, combine: Callable[..., Use]) -> Use:
        f, rank = factor(m), len(m.shape(W))
        offset = along_axis(combine(SHIFT, ops.mul(MEAN, f)), 1, rank)
        rest = np.arange(1, rank, dtype=np.int64)
        bias = ops.reduce_sum(ops.mul(W, offset), rest, attrs={"keepdims": 0})
        weights = ops.mul(W, along_axis(f, 1, rank))
        return ops.conv(X, weights, ops.add(B, bias) if m.has(B) else bias, attrs=m.attrs["conv"])

    def cases(self) -> Iterable[Case]:
        """One and two spatial dimensions, with and without bias."""
        channels = Poly.symbol("C")
        for n in (1, 2):
            for bias in (True, False):
                statistics = dict.fromkeys(_STATISTICS, (channels,))
                yield conv_case(n, bias, statistics, grouped=False, padded=False)


class _Gemm(PatternRule):
    """The rules of gemm: alpha and beta are 1, x is not transposed."""

    def check(self, m: Match) -> str | None:
        """See the class."""
        return plain_gemm(m)

    def cases(self) -> Iterable[Case]:
        """Weights either way round, with and without bias."""
        size = Poly.symbol(self.size)
        for transposed in (0, 1):
            for bias in (True, False):
                yield gemm_case(transposed, bias, dict.fromkeys(_STATISTICS, (size,)))

    # The size the statistics have: K, the columns of y, or C, those of x.
    size = "K"


@exact("batch_norm_into_gemm")
class BatchNormIntoGemm(_Gemm):
    """batch_normalization(x @ w + b) = x @ (w * f) + (b - mean) * f + shift."""

    order = 22

    def left(self) -> Use:
        """A batch norm over a gemm."""
        return batch_norm(ops.gemm(X, W, B, attrs="gemm"))

    def right(self, m: Match | Case) -> Term:
        """As for a convolution."""
        return self._folded(m, MEAN)

    def wrong(self, m: Match | Case) -> Term:
        """Adds the scale where the mean belongs."""
        return self._folded(m, SCALE)

    def _folded(self, m: Match | Case, mean: Var) -> Use:
        f, attrs = factor(m), m.attrs["gemm"]
        centred = ops.sub(B, mean) if m.has(B) else ops.neg(mean)
        weights = ops.mul(W, along_axis(f, 0 if attrs["transB"] else 1, 2))
        return ops.gemm(X, weights, ops.add(ops.mul(centred, f), SHIFT), attrs=attrs)


@exact("batch_norm_before_gemm")
class BatchNormBeforeGemm(_Gemm):
    """batch_normalization(x) @ w + b = x @ (f * w) + b + (shift - mean * f) @ w."""

    order = 22
    size = "C"

    def left(self) -> Use:
        """A gemm over a batch norm."""
        return ops.gemm(batch_norm(X), W, B, attrs="gemm")

    def right(self, m: Match | Case) -> Term:
        """The factor scales the rows of w."""
        return self._folded(m, ops.sub(SHIFT, ops.mul(MEAN, factor(m))))

    def wrong(self, m: Match | Case) -> Term:
        """Forgets that the mean is scaled too."""
        return self._folded(m, ops.sub(SHIFT, MEAN))

    def _folded(self, m: Match | Case, offset: Use) -> Use:
        attrs = m.attrs["gemm"]
        weights = ops.mul(W, along_axis(factor(m), 1 if attrs["transB"] else 0, 2))
        bias = ops.matmul(W, offset) if attrs["transB"] else ops.matmul(offset, W)
        return ops.gemm(X, weights, ops.add(B, bias) if m.has(B) else bias, attrs=attrs)


def plain_gemm(m: Match) -> str | None:
    """None if a gemm captured as "gemm" has alpha = beta = 1 and an x that is not transposed."""
    attrs = m.attrs["gemm"]
    scaled = attrs["alpha"] != 1 or (m.has(B) and attrs["beta"] != 1)
    return "the gemm scales or transposes what it multiplies" if scaled or attrs["transA"] else None


def conv_case(
    n: int,
    bias: bool,
    others: Mapping[str, tuple[Dim, ...]],
    *,
    grouped: bool = True,
    padded: bool = True,
    square: bool = False,
) -> Case:
    """A convolution of n spatial dimensions, everything symbolic, and `others` by shape."""
    s = Poly.symbol
    groups = s("G") if grouped else Poly.of(1)
    filters = groups * s("C" if square else "K")
    tensors = {
        "x": tensor("x", s("N"), groups * s("C"), *(s(f"H{d}") for d in range(n))),
        "w": tensor("w", filters, s("C"), *(s(f"R{d}") for d in range(n))),
        **{name: tensor(name, *shape) for name, shape in others.items()},
    }
    if bias:
        tensors["b"] = tensor("b", filters)
    attrs = {
        "strides": tuple(s(f"s{d}") for d in range(n)),
        "dilations": tuple(s(f"d{d}") for d in range(n)),
        "pads": tuple(s(f"p{d}") if padded else 0 for d in range(2 * n)),
        "group": groups if grouped else 1,
    }
    name = f"{n}d{' with bias' if bias else ''}"
    lower = {f"p{d}": 0 for d in range(2 * n)} if padded else {}
    return Case(name, tensors, {"conv": attrs, "bn": {"epsilon": 2.0**-17}}, {}, lower)


def gemm_case(transposed: int, bias: bool, others: Mapping[str, tuple[Dim, ...]]) -> Case:
    """x [N, C] @ w [C, K] + b [K], w the other way round if `transposed`, and `others` by shape."""
    n, c, k = map(Poly.symbol, "NCK")
    tensors = {
        "x": tensor("x", n, c),
        "w": tensor("w", *((k, c) if transposed else (c, k))),
        **{name: tensor(name, *shape) for name, shape in others.items()},
    }
    if bias:
        tensors["b"] = tensor("b", k)
    name = f"{'w transposed' if transposed else 'plain'}{' with bias' if bias else ''}"
    return Case(name, tensors, {"gemm": {"transB": transposed}, "bn": {"epsilon": 2.0**-17}})
