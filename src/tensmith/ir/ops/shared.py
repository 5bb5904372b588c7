"""What several op families share: broadcasting and window arithmetic, on types and on formulas."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce as fold

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array
from tensmith.formula.expr import Expr, Formula
from tensmith.formula.poly import Dim, Poly, simplify_dim
from tensmith.ir.op import Typed
from tensmith.ir.types import Shape


def _broadcast_dim(left: Dim, right: Dim) -> Dim:
    if left == right or right == 1:
        return left
    if left == 1:
        return right
    if isinstance(left, Poly):
        return right if not isinstance(right, Poly) else left  # equal at run time, or an error there
    if isinstance(right, Poly):
        return left
    raise ProgramError(f"sizes {left} and {right} do not broadcast")


def _broadcast_two(left: Shape, right: Shape) -> Shape:
    rank = max(len(left), len(right))
    padded = ((1,) * (rank - len(left)) + left, (1,) * (rank - len(right)) + right)
    return tuple(_broadcast_dim(a, b) for a, b in zip(*padded))


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The NumPy broadcast of shapes; a symbolic size is taken to match whatever it meets."""
    return fold(_broadcast_two, shapes, ())


def surely_broadcast(*shapes: Shape | None) -> bool:
    """Whether shapes broadcast as inferred whatever open sizes are: those that meet are equal, or 1."""
    known = [shape for shape in shapes if shape is not None]
    rank = max(map(len, known), default=0)
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in known]
    alike = (len({Poly.of(size) for size in meeting if size != 1}) <= 1 for meeting in zip(*padded))
    return len(known) == len(shapes) and all(alike)


def may_equal(left: Shape, right: Shape) -> bool:
    """Whether two shapes are one, as far as their sizes are known."""
    known = ((a, b) for a, b in zip(left, right) if isinstance(a, int) and isinstance(b, int))
    return len(left) == len(right) and all(a == b for a, b in known)


def may_broadcast(own: Shape, into: Shape) -> bool:
    """Whether one shape broadcasts to another, and not that one to it, as far as their sizes are known."""
    behind = zip(reversed(own), reversed(into))
    return len(own) <= len(into) and all(a == 1 or may_equal((a,), (b,)) for a, b in behind)


def is_bare(size: Dim) -> bool:
    """Whether a size is a number, or a symbol of its own."""
    symbols = Poly.of(size).symbols()
    return not symbols or size == Poly.symbol(min(symbols))


def broadcast_read(tensor: Formula, indices: Sequence[Poly]) -> Expr:
    """The element of `tensor` that broadcasting puts at `indices`."""
    tail = indices[len(indices) - tensor.rank :]
    return tensor[tuple(Poly.of(0) if size == 1 else index for index, size in zip(tail, tensor.shape))]


def normal_axis(axis: int, rank: int) -> int:
    """An axis counted from the front."""
    if not -rank <= axis < rank:
        raise ProgramError(f"axis {axis} is outside a tensor of rank {rank}")
    return axis % rank if rank else 0


def check_indices(indices: Array | None, size: Dim) -> None:
    """ProgramError where a known index (from the back if negative) is outside an axis of a known size."""
    if indices is None or not isinstance(size, int):
        return
    known = [item for item in np.asarray(indices).reshape(-1).tolist() if isinstance(item, int)]
    if wrong := [item for item in known if not -size <= item < size]:
        raise ProgramError(f"index {wrong[0]} is outside an axis of size {size}")


def unknown_pads(call: Typed) -> str | None:
    """Why pads do not become explicit: from spatial sizes that are not known. None where they do."""
    if call.attrs["auto_pad"] in ("NOTSET", "VALID") and call.attrs.get("output_shape") is None:
        return None
    x = call.types[0]
    static = x is not None and x.shape is not None and not any(isinstance(d, Poly) for d in x.shape[2:])
    return None if static else "pads that depend on symbolic spatial sizes"


def window_size(size: Dim, kernel: Dim, stride: Dim, dilation: Dim, pad: Dim, ceil: bool = False) -> Dim:
    """Positions of a sliding window: floor((size + pad - dilation*(kernel-1) - 1) / stride) + 1."""
    room = Poly.of(size) + pad - Poly.of(dilation) * (Poly.of(kernel) - 1) - 1
    if isinstance(lacking := simplify_dim(room), int) and lacking < 0:
        raise ProgramError(f"a window of {kernel} elements reaches over the end of {size} and padding {pad}")
    if ceil:
        room = room + stride - 1
    return simplify_dim(room // stride + 1)
