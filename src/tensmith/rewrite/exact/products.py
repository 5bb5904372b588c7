"""Words and laws that convolutions and matrix products share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tensmith.rewrite.law import Given, conv_instances, family, gemm_instances, law
from tensmith.rewrite.match import Match
from tensmith.rewrite.term import Term, Use, Var, ops

X, W, B = Var("x"), Var("w", static=True), Var("b", static=True, optional=True)
C = Var("c", static=True)

# With the attributes of the one that is matched.
conv = partial(ops.conv, attrs="conv")
gemm = partial(ops.gemm, attrs="gemm")

CONV, GEMM = conv_instances(), gemm_instances()


def pointwise(m: Match, capture: str, weights: Var) -> bool:
    """Whether a convolution is of size 1 in one group, and reads every position once."""
    attrs = m.attrs[capture]
    sizes = m.shape(weights)[2:]
    plain = all(s == 1 for s in attrs["strides"] or ()) and not any(attrs["pads"] or ())
    return (
        all(s == 1 for s in sizes)
        and plain
        and attrs["group"] == 1
        and attrs["auto_pad"] in ("NOTSET", "VALID")
    )


def sign_laws(name: str, product: Callable[..., Use], given: Given) -> None:
    """A sign goes into the weights, from either side of a product with constant weights."""
    of, before = -product(X, W, B), product(-X, W, B)
    law(f"negative_of_{name}", of, product(X, -W, -B), product(X, W, -B), given=given, order=24)
    law(f"negative_before_{name}", before, product(X, -W, B), product(X, W, B), given=given, order=24)


def shift_law(name: str, product: Callable[..., Use], seen: Term, **details: Any) -> None:
    """What is added before a product goes into its bias, as far as it is `seen` there."""
    more, less = product(X, W, B + seen), product(X, W, B - seen)
    lines = [(product(X + C, W, B), more, less), (product(X - C, W, B), less, more)]
    family(f"shift_before_{name}", lines, order=24, **details)
