"""Elements picked by index tensors, and elements put where index tensors say."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Arith, Array
from tensmith.formula.expr import Expr, Formula, as_expr, compute, guard, total
from tensmith.formula.expr import call as opaque
from tensmith.formula.poly import Dim, Poly
from tensmith.ir.op import Node, Op, Run, Symbolic, Typed, op
from tensmith.ir.ops.shared import check_indices, may_equal, normal_axis
from tensmith.ir.ops.sizes import fresh_shape
from tensmith.ir.types import Shape, TensorType

if TYPE_CHECKING:
    from tensmith.ir.elements import Elements, I, V

# Constant index tensors up to this size are spelled out in a formula.
_SPELLED = 64


class Indexed(Op):
    """Elements of the first input by the indices that the second holds."""

    subscripts = True

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """As the shapes of both say, where they are known."""
        x, indices = call.type(0), call.type(1)
        if x.shape is None or indices.shape is None:
            return (x.with_shape(None),)
        return (x.with_shape(self.shape(call, x.shape, indices.shape)),)

    @abstractmethod
    def shape(self, call: Typed, x: Shape, indices: Shape) -> Shape | None:
        """The result's."""


@op("gather", onnx="Gather", attributes={"axis": 0})
class Gather(Indexed):
    """y[i.., j.., k..] = x[i.., indices[j..], k..], indices along `axis`, from the back if negative."""

    carries = True

    def shape(self, call: Typed, x: Shape, indices: Shape) -> Shape | None:
        """The shape of the indices in the place of the axis."""
        axis = normal_axis(call.attrs["axis"], len(x))
        check_indices(call.value(1), x[axis])
        return (*x[:axis], *indices, *x[axis + 1 :])

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """NumPy's take; of symbolic sizes it would give a bare one for a single index."""
        taken = np.take(call[0], call[1].astype(np.int64), axis=call.attrs["axis"])
        return (np.asarray(taken, dtype=call[0].dtype),)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """A sum over the axis of x where the index equals the position; known indices give guarded reads."""
        x, indices = call[0], call[1]
        axis = normal_axis(call.attrs["axis"], x.rank)
        size, width = x.shape[axis], indices.rank
        known = call.values[1] if len(call.values) > 1 else None

        def element(*at: Poly) -> Expr:
            place = at[axis : axis + width]

            def read(position: Dim) -> Expr:
                return x[(*at[:axis], Poly.of(position), *at[axis + width :])]

            if known is not None and known.size <= _SPELLED:
                return _spelled(known, place, size, read)
            index = indices[place]
            behind = opaque("less", index, 0) * size
            return total(size, lambda k: opaque("equal", index + behind, k) * read(k))

        return (compute((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), element),)

    def element(self, m: Elements[V, I], node: Node, at: tuple[I, ...]) -> V:
        """The element at the index read."""
        x, indices = node.inputs
        axis, width = normal_axis(node.attrs["axis"], len(m.dims(x))), len(m.dims(indices))
        index = m.at(indices, at[axis : axis + width])
        before, behind = at[:axis], at[axis + width :]
        return m.pick(node, index, m.dims(x)[axis], lambda i: m.at(x, (*before, i, *behind)))


def _spelled(indices: Array, place: Sequence[Poly], size: Poly, read: Callable[[Dim], Expr]) -> Expr:
    """The read at each known index, guarded by its place; one read for an arithmetic progression."""
    flat = [
        index if isinstance(index, Poly) or index >= 0 else size + index
        for index in indices.reshape(-1).tolist()
    ]
    if indices.ndim <= 1 and len(flat) > 0:
        step = Poly.of(flat[1]) - flat[0] if len(flat) > 1 else Poly.of(0)
        if all(Poly.of(b) - a == step for a, b in pairwise(flat)):
            return read(step * place[0] + flat[0] if indices.ndim else flat[0])
    result = as_expr(0)
    for position, index in zip(np.ndindex(*indices.shape), flat):
        here = [bound for p, c in zip(place, position) for bound in (p - c, c - p)]
        result = result + guard(here, read(index))
    return result


@op("gather_elements", onnx="GatherElements", attributes={"axis": 0}, since=11)
class GatherElements(Op):
    """y[.., j, ..] = x[.., indices[.., j, ..], ..] with the index along `axis`. ONNX GatherElements."""

    subscripts = True

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """The shape of the indices, which lie in x."""
        x, indices = call.type(0), call.type(1)
        _check_along_axis(x.shape, indices.shape, call)
        return (x.with_shape(indices.shape),)

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """One element an index."""
        x, indices = call[0], call[1]
        return (x[axis_subscripts(x, indices, call.attrs["axis"])],)

    def element(self, m: Elements[V, I], node: Node, at: tuple[I, ...]) -> V:
        """The element at the index read, in the same place along other axes."""
        x, indices = node.inputs
        axis = normal_axis(node.attrs["axis"], len(m.dims(x)))
        before, behind = at[:axis], at[axis + 1 :]
        return m.pick(node, m.at(indices, at), m.dims(x)[axis], lambda i: m.at(x, (*before, i, *behind)))


def _check_along_axis(shape: Shape | None, indices: Shape | None, call: Typed) -> None:
    """ProgramError where indices along an axis do not fit x: rank, other sizes, or a known index."""
    if shape is None or indices is None:
        return
    if len(shape) != len(indices):
        raise ProgramError(f"indices of rank {len(indices)} for x of rank {len(shape)}")
    axis = normal_axis(call.attrs["axis"], len(shape))
    for d, (size, wanted) in enumerate(zip(shape, indices)):
        if d != axis and isinstance(size, int) and isinstance(wanted, int) and wanted > size:
            raise ProgramError(f"indices have {wanted} places along axis {d}, where x has {size}")
    check_indices(call.value(1), shape[axis])


def _check_tuples(call: Typed, first: int) -> None:
    """ProgramError where a known last axis of indices, subscripts into x from axis `first` on, is outside."""
    shape, value = call.type(0).shape, call.value(1)
    if shape is not None and value is not None and value.ndim:
        for place in range(value.shape[-1]):
            check_indices(value[..., place], shape[first + place])


def axis_subscripts(x: Array, indices: Array, axis: int) -> tuple[Array, ...]:
    """Subscripts into x: `indices` along one axis, each element's own place along the others."""
    axis = normal_axis(axis, x.ndim)
    grids: list[Array] = list(np.indices(indices.shape, sparse=True))
    grids[axis] = np.where(indices < 0, indices + x.shape[axis], indices).astype(np.int64)
    return tuple(grids)


@op("gather_nd", onnx="GatherND", attributes={"batch_dims": 0}, since=11)
class GatherND(Indexed):
    """y[b.., j.., k..] = x[b.., indices[b.., j.., :].., k..]. ONNX GatherND."""

    def shape(self, call: Typed, x: Shape, indices: Shape) -> Shape | None:
        """The indices' shape without its last axis, then the axes of x that are not indexed."""
        batch = call.attrs["batch_dims"]
        if batch >= min(len(x), len(indices)) or not may_equal(x[:batch], indices[:batch]):
            raise ProgramError(f"x {call.type(0)} and indices {call.type(1)} share no {batch} leading axes")
        depth = indices[-1]
        if isinstance(depth, Poly):
            return None
        if depth + batch > len(x):
            raise ProgramError(f"indices {call.type(1)} go deeper than x {call.type(0)}")
        if depth < 1:
            raise ProgramError("the last axis of indices has size 0; it names axes of x")
        _check_tuples(call, batch)
        return (*indices[:-1], *x[batch + depth :])

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """One slice an index; of symbolic sizes NumPy gives a bare one for a single index."""
        x, indices, batch = call[0], call[1], call.attrs["batch_dims"]
        lead = np.indices(indices.shape[:-1], sparse=True)[:batch]
        taken = x[(*lead, *(indices[..., d] for d in range(indices.shape[-1])))]
        return (np.asarray(taken, dtype=x.dtype),)


class Scatter(Op):
    """A copy of the first input with some elements replaced by, or combined with, updates."""

    subscripts = True

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """The first input's type; the updates fit the indices."""
        x, indices, updates = (call.type(place) for place in range(3))
        if updates.dtype != x.dtype:
            raise ProgramError(f"updates {updates} for x {x}")
        if x.shape is not None and indices.shape is not None:
            wanted = self.places(call, x.shape, indices.shape)
            if wanted is not None and updates.shape is not None and not may_equal(updates.shape, wanted):
                raise ProgramError(f"updates {updates} for indices {indices} into x {x}")
        return (x,)

    @abstractmethod
    def places(self, call: Typed, x: Shape, indices: Shape) -> Shape | None:
        """The shape of what the indices name, as far as is known."""

    def accepts(self, call: Typed) -> str | None:
        """Every reduction of the standard."""
        known = call.attrs["reduction"] in ("none", *_COMBINE)
        return None if known else f"reduction={call.attrs['reduction']}"


_COMBINE = {
    "add": lambda m, a, b: m.add(a, b),
    "mul": lambda m, a, b: m.mul(a, b),
    "max": lambda m, a, b: m.call("maximum", a, b),
    "min": lambda m, a, b: m.call("minimum", a, b),
}


def scatter(x: Array, positions: Array, updates: Array, reduction: str, arith: Arith) -> Array:
    """x with `updates` put at flat `positions`; several updates of one element are taken in order."""
    result = np.array(x).reshape(-1)
    flat, values = positions.reshape(-1), updates.reshape(-1)
    if reduction == "none":
        result[flat] = values
        return result.reshape(x.shape)
    order = np.argsort(flat, kind="stable")
    ordered = flat[order]
    starts = np.searchsorted(ordered, ordered)
    turn = np.empty(len(flat), dtype=np.int64)
    turn[order] = np.arange(len(flat)) - starts
    # Within one turn no element is named twice, so a turn is one vector operation.
    for number in range(int(turn.max(initial=-1)) + 1):
        now = turn == number
        result[flat[now]] = _COMBINE[reduction](arith, result[flat[now]], values[now])
    return result.reshape(x.shape)


@op("scatter_elements", onnx="ScatterElements", attributes={"axis": 0, "reduction": "none"}, since=11)
class ScatterElements(Scatter):
    """y = x; y[.., indices[.., j, ..], ..] (op)= updates[.., j, ..] along `axis`. ONNX ScatterElements."""

    def places(self, call: Typed, x: Shape, indices: Shape) -> Shape | None:
        """One element an index."""
        _check_along_axis(x, indices, call)
        return indices

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """See scatter."""
        x, indices, updates = call[0], call[1], call[2]
        subscripts = axis_subscripts(x, indices, call.attrs["axis"])
        places = np.broadcast_to(
            np.ravel_multi_index(np.broadcast_arrays(*subscripts), x.shape), indices.shape
        )
        return (scatter(x, places, updates, call.attrs["reduction"], arith),)


@op("scatter_nd", onnx="ScatterND", attributes={"reduction": "none"}, since=11)
class ScatterND(Scatter):
    """y = x; y[indices[j.., :], k..] (op)= updates[j.., k..]. ONNX ScatterND."""

    def places(self, call: Typed, x: Shape, indices: Shape) -> Shape | None:
        """One slice a row of the last axis of indices."""
        depth = indices[-1]
        if isinstance(depth, Poly):
            return None
        if depth > len(x):
            raise ProgramError(f"indices {call.type(1)} go deeper than x {call.type(0)}")
        _check_tuples(call, 0)
        return (*indices[:-1], *x[depth:])

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """See scatter."""
        x, indices, updates = call[0], call[1], call[2]
        depth = indices.shape[-1]
        sizes = np.array(x.shape[:depth], dtype=np.int64)
        wrapped = np.where(indices < 0, indices + sizes, indices)
        inner = int(np.prod(x.shape[depth:]))
        strides = np.array([int(np.prod(x.shape[d + 1 :])) for d in range(depth)], dtype=np.int64)
        places = (wrapped @ strides)[..., None] + np.arange(inner)
        return (scatter(x, places, updates, call.attrs["reduction"], arith),)


@op("one_hot", onnx="OneHot", attributes={"axis": -1}, since=9)
class OneHot(Op):
    """y[.., k, ..] = values[1] if indices[..] = k (counted from the back if negative) else values[0].

    Inputs: indices, depth, values. ONNX OneHot.
    """

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """An axis of size depth put into the shape of the indices."""
        indices, values = call.type(0), call.type(2)
        if indices.shape is None:
            return (values.with_shape(None),)
        axis = normal_axis(call.attrs["axis"], len(indices.shape) + 1)
        depth = call.value(1)
        if values.static not in (None, (2,)):
            raise ProgramError(f"values {values} must be two: off and on")
        size: Shape = fresh_shape(1) if depth is None else (depth.reshape(-1).tolist()[0],)
        if isinstance(size[0], int) and size[0] < 1:
            raise ProgramError(f"depth is {size[0]}, and must be positive")
        return (values.with_shape((*indices.shape[:axis], *size, *indices.shape[axis:])),)

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """A comparison with every position, then a choice of two values."""
        depth = int(call[1].reshape(-1)[0])
        indices = np.where(call[0] < 0, call[0] + depth, call[0])
        axis = normal_axis(call.attrs["axis"], indices.ndim + 1)
        positions = np.arange(depth).reshape(-1, *(1,) * (indices.ndim - axis))
        return (np.where(np.expand_dims(indices, axis) == positions, call[2][1], call[2][0]),)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """A selection by whether the index, or the index and the depth, is the position."""
        indices, values = call[0], call[2]
        depth = Poly.of(call.value(1).reshape(-1).tolist()[0])
        axis = normal_axis(call.attrs["axis"], indices.rank + 1)

        def element(*at: Poly) -> Expr:
            index = indices[(*at[:axis], *at[axis + 1 :])]
            behind = opaque("less", index, 0) * depth
            return opaque("where", opaque("equal", index + behind, at[axis]), values[1], values[0])

        return (compute((*indices.shape[:axis], depth, *indices.shape[axis:]), element),)


@op("compress", onnx="Compress", attributes={"axis": None}, since=9)
class Compress(Op):
    """The slices of x along `axis` (the elements of flattened x without one) where the condition holds."""

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """As many as the condition has true values, which is known only for a constant."""
        x, condition, axis = call.type(0), call.value(1), call.attrs["axis"]
        size: Shape = fresh_shape(1) if condition is None else (int(np.count_nonzero(condition)),)
        if axis is None:
            return (x.with_shape(size),)
        if x.shape is None:
            return (x,)
        axis = normal_axis(axis, len(x.shape))
        return (x.with_shape((*x.shape[:axis], *size, *x.shape[axis + 1 :])),)

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """NumPy's compress."""
        return (np.compress(call[1].astype(bool), call[0], axis=call.attrs["axis"]),)


@op("non_zero", onnx="NonZero", since=9)
class NonZero(Op):
    """The subscripts of the elements of x that are not zero, i64[rank, count], in row-major order."""

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """How many there are is known only at run time, unless x is."""
        rank, value = call.type(0).rank, call.value(0)
        if rank is None:
            return (TensorType("i64", fresh_shape(2)),)
        count: Shape = fresh_shape(1) if value is None else (int(np.count_nonzero(value)),)
        return (TensorType("i64", (rank, *count)),)

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """NumPy's nonzero."""
        return (np.array(np.nonzero(call[0]), dtype=np.int64).reshape(call[0].ndim, -1),)


@op("top_k", onnx="TopK", attributes={"axis": -1, "largest": 1, "sorted": 1}, since=11)
class TopK(Op):
    """The k largest (or smallest) elements along `axis` and their positions; ties: the lower first."""

    orders = True

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """Size k along the axis."""
        x, k = call.type(0), call.value(1)
        if call.type(1).static not in (None, (1,)):
            raise ProgramError(f"k {call.type(1)} must be one number")
        if x.shape is None:
            return (x, TensorType("i64", None))[: call.n_outputs]
        axis = normal_axis(call.attrs["axis"], len(x.shape))
        size: Shape = fresh_shape(1) if k is None else (k.reshape(-1).tolist()[0],)
        whole = x.shape[axis]
        if isinstance(size[0], int) and isinstance(whole, int) and not 0 <= size[0] <= whole:
            raise ProgramError(f"k is {size[0]}, of an axis of size {whole}")
        shape = (*x.shape[:axis], *size, *x.shape[axis + 1 :])
        return (x.with_shape(shape), TensorType("i64", shape))[: call.n_outputs]

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """A stable sort; in a field, by a random order of the values."""
        x, k, axis = call[0], int(call[1].reshape(-1)[0]), call.attrs["axis"]
        keys = arith.call("top_k", x) if arith.exact else x
        if call.attrs["largest"]:
            # Flipped before and after, so that a stable ascending sort puts equal values in their order.
            back = x.shape[axis] - 1 - np.argsort(np.flip(keys, axis), axis=axis, kind="stable")
            order = np.flip(back, axis)
        else:
            order = np.argsort(keys, axis=axis, kind="stable")
        chosen = np.take(order, np.arange(k), axis=axis)
        return np.take_along_axis(x, chosen, axis), chosen.astype(np.int64)
