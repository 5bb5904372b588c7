"""Activations that exporters write as groups of small ops, as the one op that kernels exist for.

Engines know many of these groups by sight, and miss them where a quantizer or another order of the factors
stands between; so the one op is an offer, and the search keeps it where it measures faster.
"""

from __future__ import annotations

import math

from tensmith.ir.ops.elementwise import single
from tensmith.rewrite.law import floating, law
from tensmith.rewrite.term import Var, ops

X = Var("x")
BENT = ops.erf(X / single(math.sqrt(2))) + 1
BY_TANH = ops.gelu(X, attrs={"approximate": "tanh"})
HARD = ops.hard_sigmoid(X, attrs={"alpha": single(1 / 6), "beta": 0.5})

law("gelu_half_first", (X * 0.5) * BENT, ops.gelu(X), BY_TANH, when=floating, phase="offer")
law("gelu_half_last", (X * BENT) * 0.5, ops.gelu(X), BY_TANH, when=floating, phase="offer")
law("hard_swish_from_sigmoid", X * HARD, ops.hard_swish(X), X * ops.sigmoid(X), when=floating, phase="offer")
law("swish_from_sigmoid", X * ops.sigmoid(X), ops.swish(X), ops.hard_swish(X), when=floating, phase="offer")
