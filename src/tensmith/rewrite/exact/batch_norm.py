"""Batch normalization folded into the convolution or matrix product on either side of it."""

from __future__ import annotations

from typing import Any

from tensmith.rewrite.exact.products import B, W, X, conv, gemm, seen, unpadded
from tensmith.rewrite.given import conv_instances, gemm_instances
from tensmith.rewrite.law import law
from tensmith.rewrite.match import Match
from tensmith.rewrite.right_sides import along, attribute
from tensmith.rewrite.term import Later, Term, Use, Var, ops

SCALE, SHIFT = Var("scale", static=True), Var("shift", static=True)
MEAN, VARIANCE = Var("mean", static=True), Var("variance", static=True)
# What a batch norm multiplies by, one number a channel.
FACTOR = SCALE / ops.sqrt(VARIANCE + attribute("norm", "epsilon"))
OFFSET = SHIFT - MEAN * FACTOR
SAMPLE = {"norm": {"epsilon": 2.0**-17}}


def statistics(size: str) -> dict[str, Any]:
    """The shapes of what a batch norm reads beside x."""
    return dict.fromkeys(("scale", "shift", "mean", "variance"), size)


def batch(x: Term, scale: Term = SCALE, shift: Term = SHIFT, mean: Term = MEAN) -> Use:
    """A batch norm with constant statistics."""
    return ops.batch_normalization(x, scale, shift, mean, VARIANCE, attrs="norm")


def _turned(row: Term, column: Term) -> Later:
    """What scales a gemm's weights, whichever way round they lie."""
    return Later(lambda m: column if m.attrs["gemm"]["transB"] else row, "f")


# After it: the factor goes into the weights, the rest into the bias (Jacob et al. 2018, section 3.2).

law("batch_norm_into_conv",
    batch(conv(X, W, B)),
    conv(X, W * along(FACTOR, 0, W), (B - MEAN) * FACTOR + SHIFT),
    conv(X, W * along(FACTOR, 0, W), (B - SCALE) * FACTOR + SHIFT),
    given=conv_instances((1, 2, 3), **statistics("G*K")), sample=SAMPLE, order=20)  # fmt: skip
law("batch_norm_into_gemm",
    batch(gemm(X, W, B)),
    gemm(X, W * _turned(FACTOR, along(FACTOR, 0, W)), (B - MEAN) * FACTOR + SHIFT),
    gemm(X, W * _turned(FACTOR, along(FACTOR, 0, W)), (B - SCALE) * FACTOR + SHIFT),
    given=gemm_instances(**statistics("K")), sample=SAMPLE, order=22)  # fmt: skip

# Before it: the factor scales what each filter reads of a channel; what the shift adds goes into the bias.


def _unpadded(m: Match) -> str | None:
    padded = "the convolution pads with zeros, which a batch norm does not map to zeros"
    return None if unpadded(m.attrs["conv"]) else padded


law("batch_norm_before_conv",
    conv(batch(X), W, B),
    conv(X, W * along(FACTOR, 1, W), B + seen(OFFSET)),
    conv(X, W * along(FACTOR, 1, W), B + seen(SHIFT + MEAN * FACTOR)),
    given=conv_instances((1, 2), grouped=False, padded=False, **statistics("C")),
    when=_unpadded, sample=SAMPLE, order=21,
    says="conv(batch_normalization(x), w, b) = conv(x, w * f, b + sum(w * (shift - mean * f))), without "
         "padding, which would put zeros where the batch norm puts `shift`.")  # fmt: skip
law("batch_norm_before_gemm",
    gemm(batch(X), W, B),
    gemm(X, W * _turned(along(FACTOR, 0, W), FACTOR), B + _turned(OFFSET @ W, W @ OFFSET)),
    gemm(X, W * _turned(along(FACTOR, 0, W), FACTOR),
         B + _turned((SHIFT - MEAN) @ W, W @ (SHIFT - MEAN))),
    given=gemm_instances(**statistics("C")), sample=SAMPLE, order=22,
    says="batch_normalization(x) @ w + b = x @ (f * w) + b + (shift - mean * f) @ w.")  # fmt: skip
