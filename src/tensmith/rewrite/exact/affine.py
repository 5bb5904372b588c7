"""Additions and multiplications by constants, folded into the convolution or matrix product beside them."""

from __future__ import annotations

from tensmith.rewrite.exact.products import CONV, GEMM, B, W, X, conv, gemm
from tensmith.rewrite.given import conv_instances, gemm_instances
from tensmith.rewrite.law import law
from tensmith.rewrite.match import Match
from tensmith.rewrite.right_sides import along, flat
from tensmith.rewrite.term import Later, Var
from tensmith.rewrite.values import uniform

C, ZEROS = Var("c", static=True), Var("zeros", static=True)
WEIGHTS = Var("w")  # that need not be constant
COLUMN = along(C, 0, W)  # one number a filter
SIDE = Later(lambda m: COLUMN if m.attrs["gemm"]["transB"] else flat(C), "c")

# One number a channel of what a convolution gives.

law("add_into_conv", conv(X, W, B) + C, conv(X, W, B + flat(C)), conv(X, W, B - flat(C)),
    given=CONV, c="1 G*K *1", order=24)  # fmt: skip
law("sub_into_conv", conv(X, W, B) - C, conv(X, W, B - flat(C)), conv(X, W, B + flat(C)),
    given=CONV, c="1 G*K *1", order=24)  # fmt: skip
law("mul_into_conv", conv(X, W, B) * C, conv(X, W * COLUMN, B * flat(C)), conv(X, W, B * flat(C)),
    given=CONV, c="1 G*K *1", order=24)  # fmt: skip
law("div_into_conv", conv(X, W, B) / C, conv(X, W / COLUMN, B / flat(C)), conv(X, W * COLUMN, B / flat(C)),
    given=CONV, c="1 G*K *1", order=24)  # fmt: skip

law("mul_before_conv", conv(X * C, W, B), conv(X, W * along(C, 1, W), B), conv(X, W * COLUMN, B),
    given=conv_instances(grouped=False), c="1 C *1", order=24,
    twin=conv_instances((1, 2), grouped=False, square=True),
    says="conv(x * c, w, b) = conv(x, w * c, b): zeros stay zeros, so padding does not matter.")  # fmt: skip

# One number a column of what a gemm gives.

law("add_into_gemm", gemm(X, W, B) + C, gemm(X, W, B + flat(C)), gemm(X, W, B - flat(C)),
    given=GEMM, c="1 K", order=24)  # fmt: skip
law("mul_into_gemm", gemm(X, W, B) * C, gemm(X, W * SIDE, B * flat(C)), gemm(X, W, B * flat(C)),
    given=GEMM, c="1 K", order=24)  # fmt: skip


def _zeros(m: Match) -> str | None:
    return None if uniform(m.program, m.values["zeros"]) == 0 else ""


def _narrow_zeros(m: Match) -> str | None:
    shape = m.shape(ZEROS)
    return _zeros(m) if len(shape) < 2 or shape[0] == 1 else "the bias may broadcast the product"


law("zero_bias_of_conv", conv(X, WEIGHTS, ZEROS), conv(X, WEIGHTS), conv(X, WEIGHTS) + 1,
    given=conv_instances(zeros="G*K"), when=_zeros, values=[{"zeros": 0}], order=6)  # fmt: skip
law("zero_bias_of_gemm", gemm(X, WEIGHTS, ZEROS), gemm(X, WEIGHTS), gemm(X, WEIGHTS) + 1,
    given=gemm_instances(zeros="K"), when=_narrow_zeros, values=[{"zeros": 0}], order=6)  # fmt: skip
