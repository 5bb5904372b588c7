"""Words and laws that convolutions and matrix products share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tensmith.ir.op import Attrs
from tensmith.rewrite.given import Given, conv_instances, gemm_instances
from tensmith.rewrite.law import family, law
from tensmith.rewrite.match import Match
from tensmith.rewrite.right_sides import along
from tensmith.rewrite.term import Bindings, Later, Term, Use, Var, ops, show

X, W, B = Var("x"), Var("w", static=True), Var("b", static=True, optional=True)
C = Var("c", static=True)

# With the attributes of the one that is matched.
conv = partial(ops.conv, attrs="conv")
gemm = partial(ops.gemm, attrs="gemm")

CONV, GEMM = conv_instances(), gemm_instances()


def slides(n: int) -> dict[str, Any]:
    """Attributes of a convolution in n dimensions that only slides its filters: no strides, pads, groups."""
    return {"strides": (1,) * n, "pads": (0,) * (2 * n), "dilations": (1,) * n, "group": 1}


def pointwise(m: Match, capture: str, weights: Var) -> bool:
    """Whether a convolution is of size 1 in one group, and reads every position once."""
    attrs = m.attrs[capture]
    sizes = (*m.shape(weights)[2:], *(attrs["strides"] or ()))
    return all(size == 1 for size in sizes) and attrs["group"] == 1 and unpadded(attrs)


def unpadded(attrs: Attrs) -> bool:
    """Whether a convolution puts no zeros around its image."""
    return attrs["auto_pad"] in ("NOTSET", "VALID") and not any(attrs["pads"] or ())


def alike(m: Match, capture: str = "conv") -> str | None:
    """None if a convolution and the one captured as `other` do the same with their own filters."""
    same = {**m.attrs[capture], "kernel_shape": None} == {**m.attrs["other"], "kernel_shape": None}
    return None if same else "the convolutions have other attributes"


def seen(channels: Var | Use) -> Later:
    """What is summed where each filter sees one number a channel."""

    def make(m: Bindings) -> Term:
        rest = np.arange(1, len(m.shape(W)), dtype=np.int64)
        return ops.reduce_sum(W * along(channels, 1, W), rest, attrs={"keepdims": 0})

    return Later(make, f"sum({show(W * channels)})")


def a_column(m: Match) -> str | None:
    """None if c is one number, or one a column of w."""
    fits = m.shape(C) in ((), (1,), m.shape(W)[-1:])
    return None if fits else "the constant is not one number a column"


def sign_laws(name: str, product: Callable[..., Use], given: Given) -> None:
    """A sign goes into the weights, from either side of a product with constant weights."""
    of, before = -product(X, W, B), product(-X, W, B)
    law(f"negative_of_{name}", of, product(X, -W, -B), product(X, W, -B), given=given, order=24)
    law(f"negative_before_{name}", before, product(X, -W, B), product(X, W, B), given=given, order=24)


def shift_law(name: str, product: Callable[..., Use], added: Term, **details: Any) -> None:
    """What is added before a product goes into its bias, where it is `added`."""
    more, less = product(X, W, B + added), product(X, W, B - added)
    lines = [(product(X + C, W, B), more, less), (product(X - C, W, B), less, more)]
    family(f"shift_before_{name}", lines, order=24, **details)
