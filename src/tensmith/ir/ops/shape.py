"""Shapes read from tensors, tensors made from shapes, and ops that only rename positions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Arith, Array
from tensmith.formula.expr import Expr, Formula, as_expr, compute, guard
from tensmith.formula.poly import Dim, Poly, product, simplify_dim
from tensmith.ir.op import Attrs, Node, Op, Run, Symbolic, Typed, op
from tensmith.ir.ops.shared import (
    broadcast_read,
    broadcast_shapes,
    is_bare,
    normal_axis,
    surely_broadcast,
)
from tensmith.ir.ops.sizes import (
    as_dims,
    as_ints,
    check_vector,
    dims_or_fresh,
    flat_position,
    fresh_shape,
    fresh_size,
    quotient,
    unflatten,
    vector_length,
)
from tensmith.ir.types import Shape, TensorType, dtype_name

if TYPE_CHECKING:
    from tensmith.ir.elements import Elements, I, V


@op("shape", onnx="Shape", attributes={"start": 0, "end": None})
class ShapeOf(Op):
    """The sizes of x[start:end] as an i64 vector. ONNX Shape."""

    measures = True

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """A vector as long as the sliced rank."""
        rank = call.type(0).rank
        return (TensorType("i64", (fresh_size() if rank is None else len(self._slice(rank, call.attrs)),)),)

    @staticmethod
    def _slice(rank: int, attrs: Attrs) -> range:
        return range(rank)[attrs["start"] or 0 : attrs["end"]]

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """The array's own shape."""
        return (np.array([call[0].shape[d] for d in self._slice(call[0].ndim, call.attrs)], dtype=np.int64),)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """Size d at position d."""
        dims = [call[0].shape[d] for d in self._slice(call[0].rank, call.attrs)]

        def element(i: Poly) -> Expr:
            return sum((guard((i - d, d - i), dim) for d, dim in enumerate(dims)), as_expr(0))

        return (compute((len(dims),), element),)

    def element(self, m: Elements[V, I], node: Node, at: tuple[I, ...]) -> V:
        """The size that the subscript names."""
        sizes = m.dims(node.inputs[0])[node.attrs["start"] or 0 : node.attrs["end"]]
        which = m.fixed(at[0]) if len(sizes) > 1 else 0
        if which is None:
            raise m.refuse(node, "a shape is read at a position known only at run time")
        return m.size(sizes[which], m.dtype(node.output))


@op("size", onnx="Size")
class SizeOf(Op):
    """The number of elements of x, an i64 scalar. ONNX Size."""

    measures = True

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """A scalar."""
        return (TensorType("i64", ()),)

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """The array's own size."""
        return (np.array(call[0].size, dtype=np.int64),)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """The product of the sizes."""
        return (compute((), lambda: Poly.of(product(call[0].shape))),)

    def element(self, m: Elements[V, I], node: Node, at: tuple[I, ...]) -> V:
        """The product of the sizes."""
        return m.size(product(m.dims(node.inputs[0])), m.dtype(node.output))


@op("constant_of_shape", onnx="ConstantOfShape", attributes={"value": None})
class ConstantOfShape(Op):
    """A tensor of the given shape filled with the one element of `value` (f32 zero by default)."""

    @staticmethod
    def _value(attrs: Attrs) -> Array:
        value = attrs["value"]
        return np.zeros(1, np.float32) if value is None else np.asarray(value).reshape(1)

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """The shape is the input's value."""
        return (TensorType(dtype_name(self._value(call.attrs).dtype), dims_or_fresh(call, 0)),)

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """One element, repeated."""
        value = self._value(call.attrs)
        filled = arith.const(value) if arith.exact and value.dtype.kind != "b" else value
        return (np.full(tuple(int(d) for d in call[0]), filled[0], dtype=filled.dtype),)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """The same number everywhere."""
        value = self._value(call.attrs)[0].item()
        return (compute(as_dims(call.value(0)), lambda *_: as_expr(value)),)

    def element(self, m: Elements[V, I], node: Node, at: tuple[I, ...]) -> V:
        """The number."""
        return m.literal(self._value(node.attrs)[0].item(), m.dtype(node.output))


def _widened(value: Array) -> Array:
    """Numbers of 16 bits as float32: a range of them is counted and computed so."""
    half = value.dtype.itemsize == 2 and value.dtype.kind not in "iu"
    return value.astype(np.float32) if half else value


def _steps(start: Array, limit: Array, delta: Array) -> int:
    """How many numbers a range has: of floats the distance is rounded to their type, the quotient is not."""
    start, limit, delta = map(_widened, (start, limit, delta))
    if not delta:
        raise ProgramError("delta is 0; a range needs a step")
    if delta.dtype.kind in "iu":
        return max(0, -((int(start) - int(limit)) // int(delta)))
    with np.errstate(over="ignore"):
        distance = float(limit - start)
    return max(0, math.ceil(distance / float(delta)))


@op("range", onnx="Range", attributes={"stash_type": 1})
class Range(Op):
    """start, start + delta, ... below (or above, for a negative delta) limit. ONNX Range.

    16-bit floats are computed in 32 bits, which is what stash_type = 1 says.
    """

    jumps = True  # how many there are

    def accepts(self, call: Typed) -> str | None:
        """Only the default precision of 16-bit floats."""
        return None if call.attrs["stash_type"] == 1 else f"stash_type={call.attrs['stash_type']}"

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """max(0, ceil((limit - start) / delta)) elements; a symbolic range is taken to be not empty."""
        for name, bound in zip(("start", "limit", "delta"), call.types):
            if bound is not None and bound.static not in (None, (), (1,)):
                raise ProgramError(f"{name} of a range is {bound}, and no number")
        return (TensorType(call.type(0).dtype, (self._length(call.values[:3]),)),)

    def presumes(self, call: Typed) -> bool:
        """But for numbers, and for the first so many."""
        start, limit, delta = (
            None if v is None else np.asarray(v).reshape(-1).tolist() for v in call.values[:3]
        )
        if start is None or limit is None or delta is None:
            return True
        numbers = not any(isinstance(item, Poly) for item in (*start, *limit, *delta))
        return not numbers and (start != [0] or delta != [1] or not is_bare(limit[0]))

    @staticmethod
    def _length(values: Sequence[Array | None]) -> Dim:
        if any(value is None for value in values):
            return fresh_size()
        start, limit, delta = (np.asarray(value).reshape(-1).tolist()[0] for value in values)
        if any(isinstance(v, float) for v in (start, limit, delta)):
            return _steps(*(np.asarray(value).reshape(()) for value in values if value is not None))
        if isinstance(delta, Poly):
            return fresh_size()
        if delta == 0:
            raise ProgramError("delta is 0; a range needs a step")
        length = simplify_dim(
            -((Poly.of(start) - limit) // delta if delta > 0 else (Poly.of(limit) - start) // -delta)
        )
        return max(0, length) if isinstance(length, int) else length

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """Index times delta plus start; in a field the length comes from the type."""
        start, limit, delta = (call[index].reshape(()) for index in range(3))
        if not arith.exact:
            start, limit, delta = map(_widened, (start, limit, delta))
        type_ = call.out_types[0]
        if arith.exact:
            if type_ is None or type_.static is None:
                raise ProgramError("a floating range whose length is not static has no exact meaning")
            count = type_.static[0]
        else:
            count = _steps(start, limit, delta)
        steps = arith.const(np.arange(count), like=start)
        return (arith.add(start, arith.mul(steps, delta)),)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """start + i * delta."""
        start, delta = call[0], call[2]
        first, step = (bound[(Poly.of(0),) * bound.rank] for bound in (start, delta))
        length = self._length(tuple(call.value(i) for i in range(3)))
        return (compute((length,), lambda i: first + step * i),)


@op("expand", onnx="Expand")
class Expand(Op):
    """x broadcast against a shape (both ways). ONNX Expand."""

    moves = True

    def presumes(self, call: Typed) -> bool:
        """Where open sizes meet others."""
        target = dims_or_fresh(call, 1)
        return not surely_broadcast(call.type(0).shape, target)

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """The broadcast of x's shape and the target."""
        x, target = call.type(0), dims_or_fresh(call, 1)
        if x.shape is None or target is None:
            return (x.with_shape(None),)
        return (x.with_shape(broadcast_shapes(x.shape, target)),)

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """A broadcast view."""
        target = np.broadcast_shapes(call[0].shape, tuple(int(d) for d in call[1]))
        return (np.broadcast_to(call[0], target),)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """x read at position 0 of each axis of size 1."""
        x = call[0]
        shape = broadcast_shapes(x.shape, as_dims(call.value(1)))
        return (compute(shape, lambda *i: broadcast_read(x, i)),)


class Renaming(Op):
    """The elements of x, in row-major order, under another shape."""

    moves = renames = True
    sized: ClassVar[bool] = False  # whether the second input is the shape itself

    def target(self, shape: Shape, attrs: Attrs, value: Array | None) -> Shape:
        """The new shape, from x's shape, the attributes and the second input's value."""
        raise NotImplementedError

    def unknown(self, call: Typed) -> Shape | None:
        """What is known of the new shape when the second input's value is not."""
        return None

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """See target; fresh sizes where the target is unknown."""
        x = call.type(0)
        if self.sized:
            check_vector(call, 1)
        if call.has(1) and call.value(1) is None:
            return (x.with_shape(self.unknown(call)),)
        if x.shape is None:
            return (x,)
        return (x.with_shape(self.target(x.shape, call.attrs, call.value(1))),)

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """A view under the new shape."""
        shape = self.target(call[0].shape, call.attrs, call.get(1))
        return (call[0].reshape(as_ints(shape)),)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """Row-major position, back to subscripts; axes that stay whole keep their own subscript."""
        x = call[0]
        value = call.value(1) if len(call.inputs) > 1 and call.inputs[1] is not None else None
        shape = self.target(x.shape, call.attrs, value)
        groups = whole_groups(x.shape, shape)

        def subscripts(indices: tuple[Poly, ...]) -> tuple[Poly, ...]:
            found: list[Poly] = []
            for source, target in groups:
                position = flat_position(indices[target], shape[target])
                found.extend(unflatten(position, x.shape[source]))
            return tuple(found)

        return (compute(shape, lambda *indices: x[subscripts(indices)]),)


def whole_groups(source: Shape, target: Shape) -> list[tuple[slice, slice]]:
    """The finest split of both shapes into runs of axes with equal products."""
    groups: list[tuple[slice, slice]] = []
    i = j = 0
    while i < len(source) or j < len(target):
        ends = ((a, b) for a in range(i + 1, len(source) + 1) for b in range(j + 1, len(target) + 1))
        cut = next((e for e in ends if product(source[i : e[0]]) == product(target[j : e[1]])), None)
        end_i, end_j = cut or (len(source), len(target))
        groups.append((slice(i, end_i), slice(j, end_j)))
        i, j = end_i, end_j
    return groups


@op("reshape", onnx="Reshape", attributes={"allowzero": 0})
class Reshape(Renaming):
    """x under the shape given as second input: -1 is what is left, 0 (unless allowzero) keeps."""

    sized = True

    def target(self, shape: Shape, attrs: Attrs, value: Array | None) -> Shape:
        """The target with 0 and -1 filled in."""
        assert value is not None
        dims = list(as_dims(value))
        if not attrs["allowzero"]:
            for axis, dim in enumerate(dims):
                if dim == 0 and axis >= len(shape):
                    raise ProgramError(
                        f"target {dims} keeps axis {axis}, which a tensor of rank {len(shape)} lacks"
                    )
            dims = [shape[axis] if dim == 0 else dim for axis, dim in enumerate(dims)]
        if dims.count(-1) > 1:
            raise ProgramError(f"target {dims} has more than one -1")
        if -1 in dims:
            axis = dims.index(-1)
            dims[axis] = quotient(shape, [dim for dim in dims if dim != -1])
        before, after = product(shape), product(dims)
        if isinstance(before, int) and isinstance(after, int) and before != after:
            raise ProgramError(f"{before} elements of shape {list(shape)} do not fit shape {dims}")
        return tuple(dims)

    def unknown(self, call: Typed) -> Shape | None:
        """As many fresh sizes as the target is long."""
        length = vector_length(call, 1)
        return None if length is None else fresh_shape(length)


@op("flatten", onnx="Flatten", attributes={"axis": 1})
class Flatten(Renaming):
    """x as a matrix: axes before `axis` times axes from it on. ONNX Flatten."""

    def target(self, shape: Shape, attrs: Attrs, value: Array | None) -> Shape:
        """Two products."""
        axis = attrs["axis"]
        if not -len(shape) <= axis <= len(shape):
            raise ProgramError(f"axis {axis} is outside a tensor of rank {len(shape)}")
        axis = axis + len(shape) if axis < 0 else axis
        return product(shape[:axis]), product(shape[axis:])


@op("squeeze", onnx="Squeeze", since=13)
class Squeeze(Renaming):
    """x without the given axes of size 1; without any axis of size 1 when none are given. ONNX Squeeze."""

    def accepts(self, call: Typed) -> str | None:
        """Whether an empty list names no axis or all of size 1, the standard leaves open."""
        return "axes that are empty" if call.has(1) and call.type(1).static == (0,) else None

    def presumes(self, call: Typed) -> bool:
        """An open size may be 1."""
        shape = call.type(0).shape
        return not call.has(1) and (shape is None or any(isinstance(size, Poly) for size in shape))

    def target(self, shape: Shape, attrs: Attrs, value: Array | None) -> Shape:
        """The other axes."""
        if value is None:
            return tuple(dim for dim in shape if dim != 1)
        axes = {normal_axis(int(axis), len(shape)) for axis in value.reshape(-1)}
        wrong = [axis for axis in sorted(axes) if isinstance(shape[axis], int) and shape[axis] != 1]
        if wrong:
            raise ProgramError(
                f"axis {wrong[0]} has size {shape[wrong[0]]}; only axes of size 1 can be squeezed"
            )
        return tuple(dim for axis, dim in enumerate(shape) if axis not in axes)

    def unknown(self, call: Typed) -> Shape | None:
        """Fewer axes by as many as are named."""
        length, rank = vector_length(call, 1), call.type(0).rank
        return None if length is None or rank is None else fresh_shape(rank - length)


@op("unsqueeze", onnx="Unsqueeze", since=13)
class Unsqueeze(Renaming):
    """x with axes of size 1 put in, at positions of the result. ONNX Unsqueeze."""

    def target(self, shape: Shape, attrs: Attrs, value: Array | None) -> Shape:
        """Size 1 at each named axis, x's sizes elsewhere."""
        assert value is not None
        rank = len(shape) + value.size
        axes = {normal_axis(int(axis), rank) for axis in value.reshape(-1)}
        if len(axes) != value.size:
            raise ProgramError(f"axes {value.reshape(-1).tolist()} name one axis twice")
        dims = iter(shape)
        return tuple(1 if axis in axes else next(dims) for axis in range(rank))

    def unknown(self, call: Typed) -> Shape | None:
        """More axes by as many as are named."""
        length, rank = vector_length(call, 1), call.type(0).rank
        return None if length is None or rank is None else fresh_shape(rank + length)


@op("transpose", onnx="Transpose", attributes={"perm": None})
class Transpose(Op):
    """y[i_perm[0], i_perm[1], ...] = x[i_0, i_1, ...]; all axes reversed by default. ONNX Transpose."""

    moves = True

    @staticmethod
    def _order(attrs: Attrs, rank: int) -> tuple[int, ...]:
        perm = attrs["perm"]
        order = tuple(reversed(range(rank))) if perm is None else tuple(perm)
        if sorted(order) != list(range(rank)):
            raise ProgramError(f"perm {order} is no permutation of the axes of a tensor of rank {rank}")
        return order

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """The sizes in the new order."""
        x = call.type(0)
        if x.shape is None:
            return (x,)
        return (x.with_shape([x.shape[axis] for axis in self._order(call.attrs, len(x.shape))]),)

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """A transposed view."""
        return (call[0].transpose(self._order(call.attrs, call[0].ndim)),)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """x read at the subscripts in the old order."""
        x = call[0]
        order = self._order(call.attrs, x.rank)
        return (
            compute(
                [x.shape[axis] for axis in order],
                lambda *i: x[tuple(i[order.index(axis)] for axis in range(x.rank))],
            ),
        )


@op("tile", onnx="Tile")
class Tile(Op):
    """x repeated along each axis as often as the second input says. ONNX Tile."""

    moves = True

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """Each size times its repeats."""
        x, repeats = call.type(0), call.value(1)
        if x.shape is None:
            return (x,)
        if repeats is None:
            return (x.with_shape(fresh_shape(len(x.shape))),)
        return (x.with_shape(self._shape(x.shape, repeats)),)

    @staticmethod
    def _shape(shape: Shape, repeats: Array) -> Shape:
        times = as_dims(repeats)
        if len(times) != len(shape):
            raise ProgramError(f"{len(times)} repeats for a tensor of rank {len(shape)}")
        return tuple(product((dim, count)) for dim, count in zip(shape, times))

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """NumPy's tile."""
        return (np.tile(call[0], tuple(int(count) for count in call[1])),)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """x read at each subscript modulo its size."""
        x = call[0]
        shape = self._shape(x.shape, call.value(1))
        return (
            compute(shape, lambda *i: x[tuple(Poly.of(0) if n == 1 else k % n for k, n in zip(i, x.shape))]),
        )
