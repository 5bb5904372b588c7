"""Meanings of whole tensors written once: the same function runs on arrays and builds index formulas.

`Formulas` is the arithmetic whose tensors are formulas; the functions below move data or reduce it, on
whichever kind of tensor they are given: formulas, whose sizes may be symbolic, arrays, or what has the
methods of PyTorch's tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar, cast

import ml_dtypes
import numpy as np

from tensmith.formula import scalars
from tensmith.formula.arith import Arith, Array
from tensmith.formula.evaluate import reduce_axis
from tensmith.formula.expr import Expr, Formula, Scalar, as_expr, compute, reduce, total
from tensmith.formula.poly import Poly, product, simplify_dim
from tensmith.formula.scalars import EXPRESSIONS, Scalars
from tensmith.ir.ops.shared import broadcast_read, broadcast_shapes
from tensmith.ir.types import Shape

HALVES = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))

T = TypeVar("T")


class Tensors(Scalars[T], Protocol[T]):
    """The part of an Arith that tensor meanings use; see `Arith` for the operations."""

    def const(self, value: Any, like: T | None = None) -> T: ...
    def matmul(self, a: T, b: T) -> T: ...


def _lift(function: Callable[..., Expr], *tensors: Formula) -> Formula:
    shape = broadcast_shapes(*(t.shape for t in tensors))
    return compute(shape, lambda *at: function(*(broadcast_read(t, at) for t in tensors)))


class Formulas:
    """Arithmetic on formulas, broadcasting as NumPy does."""

    exact = True

    def const(self, value: Scalar, like: Formula | None = None) -> Formula:
        """A number or a size, of rank 0."""
        return Formula((), (), as_expr(value))

    add = staticmethod(partial(_lift, EXPRESSIONS.add))
    sub = staticmethod(partial(_lift, EXPRESSIONS.sub))
    mul = staticmethod(partial(_lift, EXPRESSIONS.mul))
    div = staticmethod(partial(_lift, EXPRESSIONS.div))

    def call(self, function: str, *args: Formula) -> Formula:
        """A function of each element."""
        return _lift(partial(EXPRESSIONS.call, function), *args)

    def compare(self, relation: str, a: Formula, b: Formula) -> Formula:
        """A relation at each element."""
        return _lift(partial(EXPRESSIONS.compare, relation), a, b)

    def matmul(self, a: Formula, b: Formula) -> Formula:
        """y[..., i, j] = sum(k; a[..., i, k] * b[..., k, j]); vectors stand for a row and a column."""
        rows = a.shape[-2:-1]
        columns = b.shape[-1:] if b.rank > 1 else ()
        batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])

        def element(*at: Poly) -> Expr:
            outer, inner = at[: len(batch)], at[len(batch) :]
            i, j = inner[: len(rows)], inner[len(rows) :]
            return total(
                a.shape[-1],
                lambda k: broadcast_read(a, (*outer, *i, k)) * broadcast_read(b, (*outer, k, *j)),
            )

        return compute((*batch, *rows, *columns), element)


FORMULAS = Formulas()


def where(condition: T, a: T, b: T) -> T:
    """a where the condition holds, else b."""
    if isinstance(condition, Formula):
        return cast(T, FORMULAS.call("where", condition, *cast(tuple[Formula, Formula], (a, b))))
    return scalars.where(condition, a, b)


def shape_of(x: Any) -> Shape:
    """The shape of an array or a formula."""
    return tuple(x.shape)


def count(m: Tensors[T], x: T, axes: Sequence[int]) -> T:
    """The number of elements along some axes, as a constant."""
    return m.const(product(shape_of(x)[axis] for axis in axes), x)


def reduce_over(m: Tensors[T], kind: str, x: T, axes: Sequence[int], keepdims: bool = True) -> T:
    """sum, max, min or prod over non-negative axes.

    In an exact arithmetic the last axis goes first, as in the formula: there, a maximum of maxima is a
    function of its own.
    """
    result: Any
    if isinstance(x, Formula):
        result = _reduce_formula(kind, x, sorted(axes), keepdims)
    elif isinstance(x, np.ndarray) and m.exact:
        result = x
        for axis in sorted(axes, reverse=True):
            result = np.expand_dims(reduce_axis(cast(Arith, m), kind, result, axis), axis)
        result = result if keepdims else result.squeeze(tuple(axes))
    elif isinstance(x, (np.ndarray, np.generic)):
        result = _reduce_array(kind, np.asarray(x), tuple(axes), keepdims)
    else:
        result = x
        for axis in sorted(axes, reverse=True):
            result = getattr(result, _METHODS[kind])(axis, keepdims)
    return cast(T, result)


# Of a framework's tensors, along one axis.
_METHODS = {"sum": "sum", "prod": "prod", "max": "amax", "min": "amin"}


def _reduce_formula(kind: str, x: Formula, axes: Sequence[int], keepdims: bool) -> Formula:
    kept = [axis for axis in range(x.rank) if axis not in axes]
    shape = [Poly.of(1) if a in axes else x.shape[a] for a in range(x.rank)] if keepdims else [
        x.shape[a] for a in kept
    ]  # fmt: skip

    def element(*at: Poly) -> Expr:
        outer = dict(zip(range(x.rank) if keepdims else kept, at))

        def inner(*inside: Poly) -> Expr:
            position = {**outer, **dict(zip(axes, inside))}
            return x[tuple(position[axis] for axis in range(x.rank))]

        return reduce(kind, [x.shape[axis] for axis in axes], inner)

    return compute(shape, element)


def _reduce_array(kind: str, x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    if kind in ("sum", "prod"):
        function: Any = np.sum if kind == "sum" else np.prod
        return np.asarray(function(x, axis=axes, keepdims=keepdims, dtype=x.dtype))
    function = np.max if kind == "max" else np.min
    if x.size == 0 and x.dtype.kind != "O":
        return np.asarray(function(x, axis=axes, keepdims=keepdims, initial=neutral(kind, x.dtype)))
    return np.asarray(function(x, axis=axes, keepdims=keepdims))


def neutral(kind: str, dtype: np.dtype[Any]) -> Any:
    """What a reduction of no elements gives, and what joining changes nothing."""
    if kind in ("sum", "prod"):
        return int(kind == "prod")
    if dtype.kind == "b":
        return kind == "min"
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return info.min if kind == "max" else info.max
    return -np.inf if kind == "max" else np.inf


def average(m: Tensors[T], x: T, axes: Sequence[int]) -> T:
    """sum(x) / n over some axes."""
    return m.div(reduce_over(m, "sum", x, axes, True), count(m, x, axes))


def along(x: T, axis: int, rank: int) -> T:
    """A vector as a tensor of the given rank, its elements along one axis."""
    result: Any
    if isinstance(x, Formula):
        shape = [x.shape[0] if a == axis else Poly.of(1) for a in range(rank)]
        result = compute(shape, lambda *at: x[at[axis]])
    else:
        result = cast(Any, x).reshape([-1 if a == axis else 1 for a in range(rank)])
    return cast(T, result)


def split_axis(x: T, axis: int, parts: int) -> T:
    """[..., parts * n, ...] -> [..., parts, n, ...]."""
    shape = shape_of(x)
    each = simplify_dim(Poly.of(shape[axis]) // parts)
    full = (*shape[:axis], parts, each, *shape[axis + 1 :])
    result: Any
    if isinstance(x, Formula):
        result = compute(full, lambda *at: x[(*at[:axis], at[axis] * each + at[axis + 1], *at[axis + 2 :])])
    else:
        result = cast(Any, x).reshape(full)
    return cast(T, result)


def merge_axes(x: T, axis: int) -> T:
    """[..., p, n, ...] -> [..., p * n, ...], merging `axis` with the one behind it."""
    shape = shape_of(x)
    each = shape[axis + 1]
    full = (*shape[:axis], product(shape[axis : axis + 2]), *shape[axis + 2 :])
    result: Any
    if isinstance(x, Formula):
        result = compute(
            full, lambda *at: x[(*at[:axis], at[axis] // each, at[axis] % each, *at[axis + 1 :])]
        )
    else:
        result = cast(Any, x).reshape(full)
    return cast(T, result)


def permute(x: T, order: Sequence[int]) -> T:
    """y.shape[i] = x.shape[order[i]]."""
    result: Any
    if isinstance(x, Formula):
        result = compute(
            [x.shape[axis] for axis in order],
            lambda *at: x[tuple(at[order.index(axis)] for axis in range(x.rank))],
        )
    else:
        result = np.asarray(x).transpose(order)
    return cast(T, result)


def widen(x: T) -> T:
    """16-bit floats as 32-bit ones, for statistics that would overflow or round away; others unchanged."""
    if isinstance(x, np.ndarray) and x.dtype in HALVES:
        return cast(T, x.astype(np.float32))
    return x
