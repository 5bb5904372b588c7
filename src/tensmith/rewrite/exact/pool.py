"""Means over images and global pools: two spellings, of which each engine runs one well."""

from __future__ import annotations

import numpy as np

from tensmith.rewrite.law import Instance, law
from tensmith.rewrite.match import Match
from tensmith.rewrite.term import Bindings, Later, Term, Use, Var, ops

X, AXES = Var("x"), Var("axes")

IMAGES = [Instance(f"{n}d", {"x": "N C *H"}, n) for n in (1, 2, 3)]
MEANS = [
    Instance(f"{n}d, keepdims={keep}", {"x": "N C *H"}, n, {"mean": {"keepdims": keep}},
             {f"H{axis}": 1 for axis in range(n)}, {"axes": np.arange(2, 2 + n)})
    for n in (1, 2, 3) for keep in (0, 1)
]  # fmt: skip


def _over_images(m: Match) -> str | None:
    axes, shape = m.value(AXES), m.type(X).shape
    if axes is None or shape is None or len(shape) < 3:
        return ""
    if 0 in shape:
        return "the images are empty"
    found = sorted(int(axis) % len(shape) for axis in axes.reshape(-1))
    return None if found == list(range(2, len(shape))) else "the mean is not over whole images"


def _kept(pooled: Use) -> Later:
    """The pool, flat where the mean drops its axes."""
    return Later(lambda m: pooled if m.attrs["mean"]["keepdims"] else ops.flatten(pooled), "flatten(pool(x))")


law("mean_to_pool",
    ops.reduce_mean(X, AXES, attrs="mean"), _kept(ops.global_average_pool(X)), _kept(ops.global_max_pool(X)),
    given=MEANS, when=_over_images, phase="offer",
    says="reduce_mean(x, spatial axes) = flatten(global_average_pool(x)).")  # fmt: skip


def _reduced(op: str) -> Later:
    def make(m: Bindings) -> Term:
        made: Use = getattr(ops, op)(X, np.arange(2, len(m.shape(X))), attrs={"keepdims": 0})
        return made

    return Later(make, f"{op}(x, spatial axes)")


law("pool_to_mean",
    ops.flatten(ops.global_average_pool(X), attrs={"axis": 1}),
    _reduced("reduce_mean"), _reduced("reduce_sum"),
    given=IMAGES, phase="offer")  # fmt: skip
