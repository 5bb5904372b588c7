"""Tensors put together, cut apart and padded along their axes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as cartesian
from typing import TYPE_CHECKING, Any

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Arith, Array
from tensmith.formula.expr import Expr, Formula, as_expr, compute, guard, inside
from tensmith.formula.poly import Dim, Poly, simplify_dim
from tensmith.ir.op import REQUIRED, Node, Op, Run, Symbolic, Typed, op
from tensmith.ir.ops.shared import is_bare, normal_axis
from tensmith.ir.ops.sizes import (
    as_dims,
    as_ints,
    dims_or_fresh,
    fresh_shape,
    fresh_size,
    is_negative,
    lower_bound,
    never_positive,
    quotient,
    select,
)
from tensmith.ir.types import Shape, TensorType

if TYPE_CHECKING:
    from tensmith.ir.elements import Elements, I, V

# Ends at least this far out mean "to the end", as exporters write it.
_FAR = 2**31 - 1
# Where the step is negative, ONNX Runtime reads these ends as "to the front" (onnxruntime#11107).
_FRONT = (_FAR, 2**63 - 1)


@op("concat", onnx="Concat", attributes={"axis": REQUIRED})
class Concat(Op):
    """Tensors one after the other along `axis`. ONNX Concat."""

    joins = True

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """The sum of the sizes along the axis; the other sizes agree."""
        shapes = [call.type(index).shape for index in range(len(call.types))]
        known = [shape for shape in shapes if shape is not None]
        if len(known) < len(shapes):
            return (call.type(0).with_shape(fresh_shape(len(known[0])) if known else None),)
        return (call.type(0).with_shape(self._shape(known, call.attrs["axis"])),)

    @staticmethod
    def _shape(shapes: list[Shape], axis: int) -> Shape:
        rank = len(shapes[0])
        axis = normal_axis(axis, rank)
        joined: list[Dim] = []
        for d in range(rank):
            sizes = [shape[d] for shape in shapes if len(shape) == rank]
            numbers = {size for size in sizes if isinstance(size, int)}
            if len(sizes) < len(shapes) or (d != axis and len(numbers) > 1):
                raise ProgramError(f"shapes {', '.join(map(str, shapes))} cannot be joined along axis {axis}")
            if d == axis:
                joined.append(simplify_dim(sum(sizes, Poly.of(0))))
            else:
                joined.append(numbers.pop() if numbers else sizes[0])
        return tuple(joined)

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """NumPy's concatenate."""
        return (np.concatenate([call[i] for i in range(len(call.inputs))], axis=call.attrs["axis"]),)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """A sum of guarded reads, one a part."""
        parts = [call[i] for i in range(len(call.inputs))]
        axis = normal_axis(call.attrs["axis"], parts[0].rank)

        def element(*at: Poly) -> Expr:
            value, start = as_expr(0), Poly.of(0)
            for part in parts:
                local = at[axis] - start
                read = part[(*at[:axis], local, *at[axis + 1 :])]
                value = value + guard(inside(local, part.shape[axis]), read)
                start = start + part.shape[axis]
            return value

        return (compute(self._shape([part.shape for part in parts], axis), element),)

    def element(self, m: Elements[V, I], node: Node, at: tuple[I, ...]) -> V:
        """The first part that reaches that far."""
        axis = normal_axis(node.attrs["axis"], len(at))

        def among(parts: tuple[str, ...], start: I) -> V:
            name, *others = parts
            end = m.plus(start, m.index(m.dims(name)[axis]))
            local = (*at[:axis], m.minus(at[axis], start), *at[axis + 1 :])
            if not others:
                return m.at(name, local)
            here = m.below(at[axis], end)
            dtype = m.dtype(node.output)
            return m.choose((here,), lambda: m.at(name, local), lambda: among(tuple(others), end), dtype)

        return among(node.inputs, m.zero)


@op("split", onnx="Split", attributes={"axis": 0, "num_outputs": None})
class Split(Op):
    """x cut along `axis` into parts of the sizes given as second input, else into equal parts.

    With num_outputs (opset 18) the last part may be smaller. ONNX Split.
    """

    moves = divides = True

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """One type a part."""
        x = call.type(0)
        if x.shape is None:
            return (x,) * call.n_outputs
        axis = normal_axis(call.attrs["axis"], len(x.shape))
        sizes: Shape
        if call.has(1) and call.value(1) is None:
            sizes = fresh_shape(call.n_outputs)
        else:
            sizes = self._sizes(x.shape[axis], call.value(1), call.n_outputs, call.attrs["num_outputs"])
        return tuple(x.with_shape((*x.shape[:axis], size, *x.shape[axis + 1 :])) for size in sizes)

    @staticmethod
    def _sizes(dim: Dim, given: Array | None, parts: int, wanted: int | None) -> Shape:
        if given is not None:
            sizes = as_dims(given)
            whole = simplify_dim(sum(sizes, Poly.of(0)))
            if isinstance(whole, int) and isinstance(dim, int) and whole != dim:
                raise ProgramError(f"parts {list(sizes)} do not add up to the size {dim} of the axis")
            if any(isinstance(size, int) and size < 0 for size in sizes):
                raise ProgramError(f"part sizes {list(sizes)} are negative")
            if len(sizes) != parts:
                raise ProgramError(f"{len(sizes)} part sizes for {parts} outputs")
            return sizes
        if wanted not in (None, parts):
            raise ProgramError(f"num_outputs is {wanted}, and there are {parts} outputs")
        if isinstance(dim, Poly) and wanted is None:
            return (quotient([dim], [parts]),) * parts
        if isinstance(dim, int) and wanted is None and dim % parts:
            raise ProgramError(f"an axis of size {dim} does not split into {parts} equal parts")
        chunk = simplify_dim(-(-Poly.of(dim) // parts))
        return (*(chunk,) * (parts - 1), simplify_dim(Poly.of(dim) - Poly.of(chunk) * (parts - 1)))

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """Views of x."""
        x, axis = call[0], call.attrs["axis"]
        sizes = self._sizes(x.shape[axis], call.get(1), len(call.out_types), call.attrs["num_outputs"])
        return tuple(np.split(x, np.cumsum(as_ints(sizes))[:-1], axis=axis))

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """x read from each part's start on."""
        x = call[0]
        axis = normal_axis(call.attrs["axis"], x.rank)
        given = call.value(1) if call.get(1) is not None else None
        sizes = self._sizes(
            simplify_dim(x.shape[axis]), given, call.n_outputs, call.attrs["num_outputs"]
        )  # fmt: skip
        parts, start = [], Poly.of(0)
        for size in sizes:
            shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
            parts.append(compute(shape, lambda *i, s=start: x[(*i[:axis], i[axis] + s, *i[axis + 1 :])]))
            start = start + size
        return tuple(parts)


@op("slice", onnx="Slice", since=10)
class Slice(Op):
    """x[starts:ends:steps] along the named axes (all, in order, by default). ONNX Slice.

    Inputs: x, starts, ends, axes, steps. A symbolic bound is taken to lie inside its axis, or behind its end
    where it surely does.
    """

    moves = True

    def accepts(self, call: Typed) -> str | None:
        """No backward slice whose end ONNX Runtime and the standard read as opposite ends of the axis."""
        ends = call.value(2)
        bounds = zip(() if ends is None else as_dims(ends), call.ints(4) or ())
        odd = [end for end, step in bounds if step < 0 and end in _FRONT]
        return f"a backward slice that ends at {odd[0]}" if odd else None

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """ceil((end - start) / step) along each named axis; fresh where that is not known."""
        x = call.type(0)
        if x.shape is None:
            return (x,)
        starts, ends = dims_or_fresh(call, 1), dims_or_fresh(call, 2)
        if starts is not None and ends is not None and len(starts) != len(ends):
            raise ProgramError(f"{len(starts)} starts and {len(ends)} ends")
        if starts is None or ends is None or any(call.has(i) and call.value(i) is None for i in (3, 4)):
            return (x.with_shape(fresh_shape(len(x.shape))),)
        axes, steps = self._axes_steps(len(starts), len(x.shape), call.value(3), call.value(4))
        shape = list(x.shape)
        for axis, start, end, step in zip(axes, starts, ends, steps):
            if call.value(1) is None or call.value(2) is None:
                shape[axis] = fresh_size()
            else:
                shape[axis] = resolve_slice(shape[axis], start, end, step)[1]
        return (x.with_shape(shape),)

    def presumes(self, call: Typed) -> bool:
        """Where it begins at an open size, or ends at one that was computed with.

        What ends at an open size itself, as the table of positions of a decoder, meets what has that size: if
        it ends before, nothing is computed.
        """
        starts, ends = dims_or_fresh(call, 1), dims_or_fresh(call, 2)
        if starts is None or ends is None or call.value(1) is None or call.value(2) is None:
            return True
        return any(isinstance(start, Poly) for start in starts) or not all(map(is_bare, ends))

    @staticmethod
    def _axes_steps(
        count: int, rank: int, axes: Array | None, steps: Array | None
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        named = tuple(range(count)) if axes is None else as_ints(as_dims(axes))
        strides = (1,) * count if steps is None else as_ints(as_dims(steps))
        if len({count, len(named), len(strides)}) > 1 or count > rank:
            raise ProgramError(f"{count} starts, {len(named)} axes and {len(strides)} steps for rank {rank}")
        if 0 in strides:
            raise ProgramError("a slice step is 0")
        return _each_once(named, rank), strides

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """A strided view."""
        x, starts, ends = call[0], as_ints(as_dims(call[1])), as_ints(as_dims(call[2]))
        axes, steps = self._axes_steps(len(starts), x.ndim, call.get(3), call.get(4))
        cut = [slice(None)] * x.ndim
        for axis, start, end, step in zip(axes, starts, ends, steps):
            cut[axis] = python_slice(x.shape[axis], start, end, step)
        return (x[tuple(cut)],)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """x read at start + i * step along each named axis."""
        x = call[0]
        given = [call.value(i) if call.get(i) is not None else None for i in (3, 4)]
        starts, ends = as_dims(call.value(1)), as_dims(call.value(2))
        axes, steps = self._axes_steps(len(starts), x.rank, given[0], given[1])
        shape: list[Dim] = list(x.shape)
        moved = {}
        for axis, start, end, step in zip(axes, starts, ends, steps):
            first, shape[axis] = resolve_slice(simplify_dim(x.shape[axis]), start, end, step)
            moved[axis] = (first, step)

        def element(*at: Poly) -> Expr:
            return x[
                tuple(moved[d][0] + i * moved[d][1] if d in moved else i for d, i in enumerate(at))
            ]  # fmt: skip

        return (compute(shape, element),)


def _each_once(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Axes counted from the front; ProgramError where one is named twice."""
    found = tuple(normal_axis(axis, rank) for axis in axes)
    if len(set(found)) != len(found):
        raise ProgramError(f"axes {list(axes)} name one axis twice")
    return found


def resolve_slice(size: Dim, start: Dim, end: Dim, step: int) -> tuple[Dim, Dim]:
    """(first position, number of elements) of size[start:end:step]; fresh symbols where not provable."""
    if isinstance(size, int) and isinstance(start, int) and isinstance(end, int):
        found = range(*python_slice(size, start, end, step).indices(size))
        return found.start, len(found)
    # Backward from before the first element is that element alone, if there is one.
    low, high = ((0, 0), size) if step > 0 else ((None, -1), simplify_dim(Poly.of(size) - 1))
    first, last = (_clamped(bound, size, least, high) for bound, least in zip((start, end), low))
    if first is None or last is None:
        return fresh_size() if first is None else first, fresh_size()
    span = Poly.of(last) - first if step > 0 else Poly.of(first) - last
    return first, simplify_dim((span + (abs(step) - 1)) // abs(step))


def python_slice(size: int, start: int, end: int, step: int) -> slice:
    """What takes size[start:end:step] as ONNX means it: both bounds are brought into the axis.

    Backward, Python takes nothing from a start before the first element, and has no end before it but None.
    """
    if step > 0:
        return slice(start, end, step)
    return slice(max(start, -size), None if end < -size else end, step)


def _clamped(bound: Dim, size: Dim, low: Dim | None, high: Dim) -> Dim | None:
    """A slice bound counted from the front and kept between low and high; None where that is not provable."""
    if not isinstance(bound, int):
        beyond = lower_bound(simplify_dim(Poly.of(bound) - size))
        if beyond is not None and beyond >= 0:
            return high
        if not never_positive(bound):
            return bound
        return simplify_dim(Poly.of(size) + bound) if is_negative(bound) else None  # -0 is the front
    if bound >= _FAR:
        return high
    if bound <= -_FAR:
        return low
    least = lower_bound(size)
    reach = -bound if bound < 0 else bound
    if least is None or reach > least:
        return None
    return simplify_dim(Poly.of(size) + bound) if bound < 0 else bound


# What a pad puts there unless told, where that is not 0.
_NOTHING = {"bool": False, "string": ""}


@op("pad", onnx="Pad", attributes={"mode": "constant"}, since=11)
class Pad(Op):
    """x with its axes extended by pads (begins, then ends; negative pads cut). ONNX Pad.

    Inputs: x, pads, constant_value, axes. Modes: constant, reflect (without the border), edge, wrap.
    """

    carries = True

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """Each size plus its two pads."""
        x = call.type(0)
        if x.shape is None:
            return (x,)
        if call.value(1) is None or (call.has(3) and call.value(3) is None):
            return (x.with_shape(fresh_shape(len(x.shape))),)
        begins, ends = full_pads(len(x.shape), call.value(1), call.value(3))
        return (
            x.with_shape(tuple(Poly.of(dim) + begin + end for dim, begin, end in zip(x.shape, begins, ends))),
        )

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """NumPy's pad, and a cut where pads are negative: before what is repeated, after constants."""
        x, fill = call[0], call.get(2)
        begins, ends = (as_ints(side) for side in full_pads(x.ndim, call[1], call.get(3)))
        if any(size + begin + end < 0 for size, begin, end in zip(x.shape, begins, ends)):
            raise ProgramError(f"pads {(*begins, *ends)} cut more than there is of {x.shape}")
        widths = [(max(0, b), max(0, e)) for b, e in zip(begins, ends)]
        mode: Any = call.attrs["mode"]
        if mode != "constant":
            return (np.pad(_cut(x, begins, ends), widths, mode=mode),)
        dtype = "" if call.types[0] is None else call.types[0].dtype
        value: Any = _NOTHING.get(dtype, 0) if fill is None else fill.reshape(-1)[0]
        return (_cut(np.pad(x, widths, constant_values=value), begins, ends),)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """x where the shifted subscripts are inside, else what the mode puts there."""
        x, fill = call[0], call.get(2)
        axes = call.value(3) if call.get(3) is not None else None
        begins, ends = full_pads(x.rank, call.value(1), axes)
        shape = [x.shape[d] + begins[d] + ends[d] for d in range(x.rank)]
        mode = call.attrs["mode"]
        padded = [begins[d] != 0 or ends[d] != 0 for d in range(x.rank)]
        # What negative pads cut is gone before the rest is repeated.
        cuts = [
            [-pad if isinstance(pad, int) and pad < 0 else 0 for pad in pads] for pads in zip(begins, ends)
        ]
        sizes = [size - sum(cut) for size, cut in zip(x.shape, cuts)]
        if mode == "reflect":
            _check_reflected(sizes, begins, ends)

        def element(*at: Poly) -> Expr:
            if mode == "constant":
                source = [at[d] - begins[d] for d in range(x.rank)]
                bounds = [b for d in range(x.rank) if padded[d] for b in inside(source[d], x.shape[d])]
                value = x[tuple(source)]
                if fill is None:
                    return guard(bounds, value)
                return select(bounds, value, fill[(Poly.of(0),) * fill.rank])
            source = [at[d] - begins[d] - cuts[d][0] for d in range(x.rank)]
            choices = [
                _mirrors(mode, source[d], sizes[d]) if padded[d] else [((), source[d])] for d in range(x.rank)
            ]
            result = as_expr(0)
            for pieces in cartesian(*choices):
                conditions = [condition for piece in pieces for condition in piece[0]]
                place = tuple(piece[1] + cut[0] for piece, cut in zip(pieces, cuts))
                result = result + guard(conditions, x[place])
            return result

        return (compute(shape, element),)

    def element(self, m: Elements[V, I], node: Node, at: tuple[I, ...]) -> V | None:
        """The element inside, the constant outside."""
        facts, dtype = m.program.facts, m.dtype(node.output)
        pads, fill, axes = node.operands(4)[1:]
        if node.attrs["mode"] != "constant" or facts[pads].value is None:
            return None
        x = node.inputs[0]
        begins, ends = full_pads(len(at), facts[pads].value, facts[axes].value if axes else None)
        source = [m.minus(i, m.index(begin)) for i, begin in zip(at, begins)]
        inside = []
        for i, size, begin, end in zip(source, m.dims(x), begins, ends):
            inside += [m.reaches(i, m.zero)] if begin != 0 else []
            inside += [m.below(i, m.index(size))] if end != 0 else []

        def outside() -> V:
            return m.at(fill, ()) if fill else m.literal(0.0 if dtype[0] == "f" else 0, dtype)

        return m.choose(inside, lambda: m.at(x, source), outside, dtype)


def _cut(x: Array, begins: Sequence[int], ends: Sequence[int]) -> Array:
    """x without what negative pads take away."""
    kept = zip(begins, ends, x.shape)
    return x[tuple(slice(max(0, -begin), max(0, size - max(0, -end))) for begin, end, size in kept)]


def full_pads(rank: int, pads: Array | None, axes: Array | None) -> tuple[Shape, Shape]:
    """(begins, ends) for every axis, zero for the axes that are not named."""
    flat = as_dims(np.asarray(pads))
    named = tuple(range(rank)) if axes is None else as_ints(as_dims(axes))
    if len(flat) != 2 * len(named):
        raise ProgramError(f"{len(flat)} pads for {len(named)} axes; two are needed for each")
    begins: list[Dim] = [0] * rank
    ends: list[Dim] = [0] * rank
    for position, d in enumerate(_each_once(named, rank)):
        begins[d], ends[d] = flat[position], flat[position + len(named)]
    return tuple(begins), tuple(ends)


def _check_reflected(sizes: Sequence[Poly], begins: Shape, ends: Shape) -> None:
    """ProgramError where an axis is known to be shorter than what it is to reflect, without the border."""
    for size, pads in zip(sizes, zip(begins, ends)):
        most = max((pad for pad in pads if isinstance(pad, int)), default=0)
        if size.constant is not None and most > max(0, size.constant - 1):
            raise ProgramError(f"a pad of {most} that reflects an axis of size {size} has no formula")


def _mirrors(mode: str, source: Poly, size: Poly) -> list[tuple[tuple[Poly, ...], Poly]]:
    """(conditions, subscript) of each stretch of a padded axis; the stretches are disjoint."""
    if mode == "wrap":
        return [((), source % size)]
    before, after = (-source - 1,), (source - size,)
    middle = (inside(source, size), source)
    if mode == "edge":
        return [(before, Poly.of(0)), middle, (after, size - 1)]
    if mode == "reflect":
        return [(before, -source), middle, (after, (size - 1) * 2 - source)]
    raise ProgramError(f"pad mode '{mode}' is not one of constant, reflect, edge, wrap")
