"""Words that the laws of convolutions and matrix products share."""

from __future__ import annotations

from functools import partial

from tensmith.rewrite.law import conv_instances, gemm_instances
from tensmith.rewrite.term import Var, ops

X, W, B = Var("x"), Var("w", static=True), Var("b", static=True, optional=True)

# With the attributes of the one that is matched.
conv = partial(ops.conv, attrs="conv")
gemm = partial(ops.gemm, attrs="gemm")

CONV, GEMM = conv_instances(), gemm_instances()
