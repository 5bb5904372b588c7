"""Means over images and global pools: two spellings, of which each engine runs one well."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tensmith.formula.expr import compute, tensor
from tensmith.formula.poly import Poly
from tensmith.rewrite.pattern import PatternRule
from tensmith.rewrite.rule import exact
from tensmith.rewrite.term import Case, Match, Term, Use, Var, ops

X, AXES = Var("x"), Var("axes")


def _images(n: int) -> Case:
    sizes = (Poly.symbol(f"H{d}") for d in range(n))
    return Case(f"{n}d", {"x": tensor("x", Poly.symbol("N"), Poly.symbol("C"), *sizes)})


@exact("mean_to_pool")
class MeanToPool(PatternRule):
    """reduce_mean(x, spatial axes) = flatten(global_average_pool(x))."""

    phase = "offer"

    def left(self) -> Use:
        """A mean."""
        return ops.reduce_mean(X, AXES, attrs="mean")

    def check(self, m: Match) -> str | None:
        """Over all axes behind the channels."""
        axes, shape = m.value(AXES), m.type(X).shape
        if axes is None or shape is None or len(shape) < 3:
            return ""
        if 0 in shape:
            return "the images are empty"
        found = sorted(int(axis) % len(shape) for axis in axes.reshape(-1))
        return None if found == list(range(2, len(shape))) else "the mean is not over whole images"

    def right(self, m: Match | Case) -> Term:
        """The pool, flat where the mean drops its axes."""
        pooled = ops.global_average_pool(X)
        return pooled if m.attrs["mean"]["keepdims"] else ops.flatten(pooled)

    def wrong(self, m: Match | Case) -> Term:
        """The maximum."""
        pooled = ops.global_max_pool(X)
        return pooled if m.attrs["mean"]["keepdims"] else ops.flatten(pooled)

    def cases(self) -> Iterable[Case]:
        """One to three spatial dimensions, of any size but 0, axes kept or dropped."""
        for n in (1, 2, 3):
            for keep in (0, 1):
                plain = _images(n)
                tensors = {**plain.tensors, "axes": compute((n,), lambda _: 0)}
                values = {"axes": np.arange(2, 2 + n)}
                lower = {f"H{d}": 1 for d in range(n)}
                yield Case(f"{n}d, keepdims={keep}", tensors, {"mean": {"keepdims": keep}}, values, lower)


@exact("pool_to_mean")
class PoolToMean(PatternRule):
    """flatten(global_average_pool(x)) = reduce_mean(x, spatial axes)."""

    phase = "offer"

    def left(self) -> Use:
        """A flat pool."""
        return ops.flatten(ops.global_average_pool(X), attrs={"axis": 1})

    def right(self, m: Match | Case) -> Term:
        """The mean."""
        return self._mean(m, "reduce_mean")

    def wrong(self, m: Match | Case) -> Term:
        """The sum."""
        return self._mean(m, "reduce_sum")

    def _mean(self, m: Match | Case, op: str) -> Use:
        axes = np.arange(2, len(m.shape(X)), dtype=np.int64)
        made: Use = getattr(ops, op)(X, axes, attrs={"keepdims": 0})
        return made

    def cases(self) -> Iterable[Case]:
        """One to three spatial dimensions."""
        return map(_images, (1, 2, 3))
