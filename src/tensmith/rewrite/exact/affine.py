"""Additions and multiplications by constants, folded into the convolution or matrix product beside them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from tensmith.formula.expr import compute
from tensmith.formula.poly import Dim, Poly
from tensmith.rewrite.exact.batch_norm import B, W, X, conv_case, gemm_case, plain_gemm
from tensmith.rewrite.pattern import PatternRule
from tensmith.rewrite.rule import exact
from tensmith.rewrite.term import Case, Match, Term, Use, Var, ops
from tensmith.rewrite.values import uniform

C, ZEROS = Var("c", static=True), Var("zeros", static=True)
# Weights that need not be constant.
WEIGHTS = Var("w")


def per_channel(m: Match, rank: int) -> str | None:
    """None if c has one number for each filter of w, along axis 1 of a tensor of `rank`."""
    shape = m.shape(C)
    padded = (1,) * (rank - len(shape)) + tuple(shape)
    if padded == (1, m.shape(W)[0], *(1,) * (rank - 2)):
        return None
    return f"the constant of shape {list(shape)} is not one number a channel"


def _vector() -> Use:
    return ops.reshape(C, np.array([-1], dtype=np.int64))


def _column(rank: int) -> Use:
    return ops.reshape(C, np.array([-1] + [1] * (rank - 1), dtype=np.int64))


class _AfterConv(PatternRule):
    """conv followed by an elementwise op with a constant of one number a channel."""

    order = 24

    def check(self, m: Match) -> str | None:
        """One number a channel."""
        return per_channel(m, len(m.shape(W)))

    def cases(self) -> Iterable[Case]:
        """One to three spatial dimensions, with and without bias."""
        filters = Poly.symbol("G") * Poly.symbol("K")
        for n in (1, 2, 3):
            for bias in (True, False):
                shape: tuple[Dim, ...] = (filters, *(1,) * n)
                yield conv_case(n, bias, {"c": tuple(map(Poly.of, shape))})


@exact("add_into_conv")
class AddIntoConv(_AfterConv):
    """conv(x, w, b) + c = conv(x, w, b + c)."""

    def left(self) -> Use:
        """An addition over a convolution."""
        return ops.add(ops.conv(X, W, B, attrs="conv"), C)

    def right(self, m: Match | Case) -> Term:
        """The constant joins the bias."""
        bias = ops.add(B, _vector()) if m.has(B) else _vector()
        return ops.conv(X, W, bias, attrs=m.attrs["conv"])

    def wrong(self, m: Match | Case) -> Term:
        """Takes the constant away."""
        return ops.conv(
            X, W, ops.sub(B, _vector()) if m.has(B) else ops.neg(_vector()), attrs=m.attrs["conv"]
        )


@exact("sub_into_conv")
class SubIntoConv(_AfterConv):
    """conv(x, w, b) - c = conv(x, w, b - c)."""

    def left(self) -> Use:
        """A subtraction over a convolution."""
        return ops.sub(ops.conv(X, W, B, attrs="conv"), C)

    def right(self, m: Match | Case) -> Term:
        """The constant leaves the bias."""
        bias = ops.sub(B, _vector()) if m.has(B) else ops.neg(_vector())
        return ops.conv(X, W, bias, attrs=m.attrs["conv"])

    def wrong(self, m: Match | Case) -> Term:
        """Adds the constant."""
        return ops.conv(X, W, ops.add(B, _vector()) if m.has(B) else _vector(), attrs=m.attrs["conv"])


@exact("mul_into_conv")
class MulIntoConv(_AfterConv):
    """conv(x, w, b) * c = conv(x, w * c, b * c)."""

    def left(self) -> Use:
        """A multiplication over a convolution."""
        return ops.mul(ops.conv(X, W, B, attrs="conv"), C)

    def right(self, m: Match | Case) -> Term:
        """The constant scales filters and bias."""
        bias = ops.mul(B, _vector()) if m.has(B) else None
        return ops.conv(X, ops.mul(W, _column(len(m.shape(W)))), bias, attrs=m.attrs["conv"])

    def wrong(self, m: Match | Case) -> Term:
        """Scales twice."""
        bias = ops.mul(B, _vector()) if m.has(B) else None
        column = _column(len(m.shape(W)))
        return ops.conv(X, ops.mul(ops.mul(W, column), column), bias, attrs=m.attrs["conv"])


@exact("div_into_conv")
class DivIntoConv(_AfterConv):
    """conv(x, w, b) / c = conv(x, w / c, b / c)."""

    def left(self) -> Use:
        """A division over a convolution."""
        return ops.div(ops.conv(X, W, B, attrs="conv"), C)

    def right(self, m: Match | Case) -> Term:
        """The constant divides filters and bias."""
        bias = ops.div(B, _vector()) if m.has(B) else None
        return ops.conv(X, ops.div(W, _column(len(m.shape(W)))), bias, attrs=m.attrs["conv"])

    def wrong(self, m: Match | Case) -> Term:
        """Multiplies."""
        bias = ops.div(B, _vector()) if m.has(B) else None
        return ops.conv(X, ops.mul(W, _column(len(m.shape(W)))), bias, attrs=m.attrs["conv"])


@exact("mul_before_conv")
class MulBeforeConv(PatternRule):
    """conv(x * c, w, b) = conv(x, w * c, b): zeros stay zeros, so padding does not matter."""

    order = 24

    def left(self) -> Use:
        """An ungrouped convolution over a multiplication."""
        return ops.conv(ops.mul(X, C), W, B, attrs="conv")

    def check(self, m: Match) -> str | None:
        """One number for each channel of x, one group."""
        if m.attrs["conv"]["group"] != 1:
            return "the convolution is grouped"
        rank, shape = len(m.shape(W)), m.shape(C)
        if len(m.shape(X)) != rank or tuple(shape[-rank + 1 :]) != (m.shape(W)[1], *(1,) * (rank - 2)):
            return f"the constant of shape {list(shape)} is not one number a channel"
        return None if len(shape) < rank or shape[0] == 1 else "the constant differs between images"

    def right(self, m: Match | Case) -> Term:
        """The constant scales what each filter reads of a channel."""
        return ops.conv(X, ops.mul(W, self._row(m)), B, attrs=m.attrs["conv"])

    def wrong(self, m: Match | Case) -> Term:
        """Scales the wrong axis."""
        return ops.conv(X, ops.mul(W, _column(len(m.shape(W)))), B, attrs=m.attrs["conv"])

    def _row(self, m: Match | Case) -> Use:
        return ops.reshape(C, np.array([1, -1] + [1] * (len(m.shape(W)) - 2), dtype=np.int64))

    def cases(self) -> Iterable[Case]:
        """One and two spatial dimensions, with and without bias; as many filters as channels."""
        for n in (1, 2):
            for bias in (True, False):
                shape = (Poly.symbol("C"), *(Poly.of(1),) * n)
                yield conv_case(n, bias, {"c": shape}, grouped=False, square=True)


class _AfterGemm(PatternRule):
    """gemm followed by an elementwise op with a constant row."""

    order = 24

    def check(self, m: Match) -> str | None:
        """A plain gemm, and one number a column."""
        shape = m.shape(C)
        columns = m.shape(W)[0 if m.attrs["gemm"]["transB"] else 1]
        if tuple(shape[-1:]) != (columns,) or any(dim != 1 for dim in shape[:-1]) or len(shape) > 2:
            return f"the constant of shape {list(shape)} is not one number a column"
        return plain_gemm(m)

    def cases(self) -> Iterable[Case]:
        """Weights either way round, with and without bias."""
        for transposed in (0, 1):
            for bias in (True, False):
                yield gemm_case(transposed, bias, {"c": (Poly.symbol("K"),)})


@exact("add_into_gemm")
class AddIntoGemm(_AfterGemm):
    """(x @ w + b) + c = x @ w + (b + c)."""

    def left(self) -> Use:
        """An addition over a gemm."""
        return ops.add(ops.gemm(X, W, B, attrs="gemm"), C)

    def right(self, m: Match | Case) -> Term:
        """The constant joins the bias."""
        bias = ops.add(B, _vector()) if m.has(B) else _vector()
        return ops.gemm(X, W, bias, attrs=m.attrs["gemm"])

    def wrong(self, m: Match | Case) -> Term:
        """Takes the constant away."""
        bias = ops.sub(B, _vector()) if m.has(B) else ops.neg(_vector())
        return ops.gemm(X, W, bias, attrs=m.attrs["gemm"])


@exact("mul_into_gemm")
class MulIntoGemm(_AfterGemm):
    """(x @ w + b) * c = x @ (w * c) + b * c."""

    def left(self) -> Use:
        """A multiplication over a gemm."""
        return ops.mul(ops.gemm(X, W, B, attrs="gemm"), C)

    def right(self, m: Match | Case) -> Term:
        """The constant scales columns and bias."""
        return ops.gemm(
            X, self._weights(m), ops.mul(B, _vector()) if m.has(B) else None, attrs=m.attrs["gemm"]
        )

    def wrong(self, m: Match | Case) -> Term:
        """Scales twice."""
        scaled = ops.mul(self._weights(m), self._side(m))
        return ops.gemm(X, scaled, ops.mul(B, _vector()) if m.has(B) else None, attrs=m.attrs["gemm"])

    def _weights(self, m: Match | Case) -> Use:
        return ops.mul(W, self._side(m))

    def _side(self, m: Match | Case) -> Use:
        return _column(2) if m.attrs["gemm"]["transB"] else _vector()


class _ZeroBias(PatternRule):
    """A bias of zeros is left out."""

    order = 6

    def check(self, m: Match) -> str | None:
        """All zeros."""
        return None if uniform(m.program, m.values["zeros"]) == 0 else ""


@exact("zero_bias_of_conv")
class ZeroBiasOfConv(_ZeroBias):
    """conv(x, w, 0) = conv(x, w)."""

    def left(self) -> Use:
        """A convolution with a bias."""
        return ops.conv(X, WEIGHTS, ZEROS, attrs="conv")

    def right(self, m: Match | Case) -> Term:
        """None."""
        return ops.conv(X, WEIGHTS, attrs=m.attrs["conv"])

    def wrong(self, m: Match | Case) -> Term:
        """A bias of ones."""
        return ops.add(ops.conv(X, WEIGHTS, attrs=m.attrs["conv"]), 1)

    def cases(self) -> Iterable[Case]:
        """One and two spatial dimensions."""
        for n in (1, 2):
            case = conv_case(n, False, {})
            zeros = compute((Poly.symbol("G") * Poly.symbol("K"),), lambda _: 0)
            yield replace(case, tensors={**case.tensors, "zeros": zeros})


@exact("zero_bias_of_gemm")
class ZeroBiasOfGemm(_ZeroBias):
    """gemm(x, w, 0) = gemm(x, w)."""

    def left(self) -> Use:
        """A gemm with a bias."""
        return ops.gemm(X, WEIGHTS, ZEROS, attrs="gemm")

    def check(self, m: Match) -> str | None:
        """All zeros, and no wider than the product."""
        shape = m.shape(ZEROS)
        return super().check(m) if len(shape) < 2 or shape[0] == 1 else "the bias may broadcast the product"

    def right(self, m: Match | Case) -> Term:
        """None."""
        return ops.gemm(X, WEIGHTS, attrs=m.attrs["gemm"])

    def wrong(self, m: Match | Case) -> Term:
        """A bias of ones."""
        return ops.add(ops.gemm(X, WEIGHTS, attrs=m.attrs["gemm"]), 1)

    def cases(self) -> Iterable[Case]:
        """Weights either way round."""
        for transposed in (0, 1):
            case = gemm_case(transposed, False, {})
            zeros = compute((Poly.symbol("K"),), lambda _: 0)
            yield replace(case, tensors={**case.tensors, "zeros": zeros})
