"""Between real numbers and the grids of low-bit types: scales, zero points, per tensor, axis or block."""

from __future__ import annotations

from typing import ClassVar

import ml_dtypes
import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Arith, Array
from tensmith.formula.expr import Expr, Formula, compute
from tensmith.formula.expr import call as opaque
from tensmith.formula.poly import Poly
from tensmith.ir.op import Attrs, Node, Op, Run, Symbolic, Typed, op
from tensmith.ir.ops.shared import normal_axis
from tensmith.ir.ops.sizes import onnx_dtype
from tensmith.ir.tensors import widen
from tensmith.ir.types import DTYPES, Shape, TensorType

# Scales by which a code comes back from its number: normal, and 255 of them are finite.
_SMALLEST, _LARGEST = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max) / 256


def rises(scale: float) -> bool:
    """Whether what bytes on a grid of this scale stand for rises with them."""
    return _SMALLEST <= scale <= _LARGEST


def integer_range(dtype: str) -> tuple[int, int] | None:
    """Least and greatest value of an integer element type; None for the small floats."""
    if dtype[0] not in "iu":
        return None
    info = ml_dtypes.iinfo(DTYPES[dtype])
    return int(info.min), int(info.max)


def saturate(value: Array, dtype: str, arith: Arith) -> Array:
    """Values kept inside an integer type's range. In a field that is a random function, as max is."""
    bounds = integer_range(dtype)
    assert bounds is not None
    low, high = (arith.const(bound, like=value) for bound in bounds)
    return arith.call("minimum", arith.call("maximum", value, low), high)


def to_grid(scaled: Array, zero_point: Array | None, dtype: str, arith: Arith) -> Array:
    """round(scaled) + zero_point, saturated, in the array type of `dtype`; residues in a field.

    Of 16-bit floats in 32 bits: they do not hold every code of 16 bits.
    """
    value = widen(arith.call("round", scaled))
    if zero_point is not None:
        value = arith.add(value, arith.const(zero_point, like=value))
    value = saturate(value, dtype, arith)
    return value if arith.exact else value.astype(DTYPES[dtype])


def centred(q: Array, zero_point: Array | None, arith: Arith) -> Array:
    """q - zero_point, wide enough to be exact.

    float64 holds every sum of products of low-bit integers; 64-bit ones (residues, between integer ops of a
    run in a field) stay integers.
    """
    wide = np.int64 if q.dtype.itemsize == 8 else np.float64
    value = arith.const(q) if arith.exact else q.astype(wide)
    if zero_point is None:
        return value
    return arith.sub(value, arith.const(zero_point) if arith.exact else zero_point.astype(wide))


def over_axis(parameter: Array, x: Array, attrs: Attrs) -> Array:
    """A scale or zero point (one, one per slice of the axis, or one per block) made to broadcast to x."""
    if parameter.ndim == 0 or (parameter.size == 1 and not attrs.get("block_size")):
        return parameter.reshape(())
    axis = normal_axis(attrs["axis"], x.ndim)
    block = attrs.get("block_size")
    if block:
        return np.repeat(parameter, block, axis=axis)[
            tuple(slice(0, n) if d == axis else slice(None) for d, n in enumerate(x.shape))
        ]
    return parameter.reshape(tuple(-1 if d == axis else 1 for d in range(x.ndim)))


def read_over_axis(parameter: Formula, at: tuple[Poly, ...], attrs: Attrs) -> Expr:
    """The scale or zero point that belongs to the element at `at`."""
    if parameter.rank == 0:
        return parameter[()]
    if parameter.rank == 1 and not attrs["block_size"]:
        alone = parameter.shape[0] == 1
        return parameter[(Poly.of(0) if alone else at[normal_axis(attrs["axis"], len(at))],)]
    axis = normal_axis(attrs["axis"], len(at))
    return parameter[tuple(i // attrs["block_size"] if d == axis else i for d, i in enumerate(at))]


class OnGrid(Op):
    """Between numbers and their codes on a grid: inputs x, scale, and a zero point that may be left out."""

    encodes: ClassVar[bool]  # whether codes are made of numbers, rather than numbers of codes


def encodes(node: Node) -> bool:
    """Whether a node makes codes of numbers, on a grid that is given."""
    found = node.kind(OnGrid)
    return found is not None and found.encodes


def decodes(node: Node) -> bool:
    """Whether a node makes numbers of their codes."""
    found = node.kind(OnGrid)
    return found is not None and not found.encodes


@op(
    "quantize_linear",
    onnx="QuantizeLinear",
    attributes={"axis": 1, "saturate": 1, "block_size": 0, "output_dtype": 0, "precision": 0},
    since=10,
)
class QuantizeLinear(OnGrid):
    """y = saturate(round(x / scale) + zero_point), halves to even; small floats are cast.

    ONNX QuantizeLinear; inputs x, y_scale, y_zero_point. A scale holds one value, one per slice of `axis`, or
    with block_size one per block of that many slices.
    """

    encodes = rounds = True

    def accepts(self, call: Typed) -> str | None:
        """Division happens in the scale's own precision."""
        precision = call.attrs["precision"]
        if precision and onnx_dtype(precision) != call.type(1).dtype:
            return f"precision={onnx_dtype(precision)} differs from the scale's {call.type(1).dtype}"
        return None

    @staticmethod
    def _dtype(attrs: Attrs, zero_point: TensorType | None) -> str:
        if zero_point is not None:
            return zero_point.dtype
        return onnx_dtype(attrs["output_dtype"]) if attrs["output_dtype"] else "u8"

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """x's shape in the zero point's element type (else output_dtype, else u8)."""
        check_parameters(call)
        stated = call.attrs["output_dtype"]
        if stated and call.has(2) and onnx_dtype(stated) != call.type(2).dtype:
            raise ProgramError(f"output_dtype {onnx_dtype(stated)}, but a zero point of {call.type(2).dtype}")
        return (call.type(0).with_dtype(self._dtype(call.attrs, call.type(2) if call.has(2) else None)),)

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """Divide, then onto the grid."""
        x, zero_point = call[0], call.get(2)
        dtype = self._dtype(call.attrs, call.types[2] if len(call.types) > 2 else None)
        scaled = arith.div(arith.const(x, like=call[1]), over_axis(call[1], x, call.attrs))
        if integer_range(dtype) is not None:
            offset = None if zero_point is None else over_axis(zero_point, x, call.attrs)
            return (to_grid(scaled, offset, dtype, arith),)
        if arith.exact:
            return (arith.call(f"cast_{dtype}", scaled),)
        return (cast_small_float(scaled, dtype, bool(call.attrs["saturate"])),)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """The formula of the class docstring; the element type must be known, for its range."""
        x, scale, zero_point = call[0], call[1], call.get(2)
        stated = call.attrs["output_dtype"] or zero_point is None
        known = None if stated else TensorType(call.dtype(2), ())
        bounds = integer_range(self._dtype(call.attrs, known))
        if bounds is None:
            raise ProgramError("quantization to small floats has no formula")

        def element(*at: Poly) -> Expr:
            value: Expr = opaque("round", x[at] / read_over_axis(scale, at, call.attrs))
            if zero_point is not None:
                value = value + read_over_axis(zero_point, at, call.attrs)
            return opaque("minimum", opaque("maximum", value, bounds[0]), bounds[1])

        return (compute(x.shape, element),)


def cast_small_float(value: Array, dtype: str, saturating: bool) -> Array:
    """Floats of 8 bits or fewer; values out of range become the largest when saturating."""
    target = DTYPES[dtype]
    if saturating:
        largest = float(ml_dtypes.finfo(target).max)
        value = np.where(np.isnan(value), value, np.clip(value, -largest, largest)).astype(value.dtype)
    return np.asarray(value.astype(target))


def check_parameters(call: Typed) -> None:
    """The sizes of the scale and the zero point must fit the axis they go along, or its blocks."""
    for index, what in ((1, "scale"), (2, "zero point")):
        x, given = call.type(0).shape, call.type(index).static if call.has(index) else None
        if x is None or not given:
            continue
        if call.attrs["block_size"]:
            _check_blocks(what, given, x, call.attrs)
            continue
        if len(given) > 1:
            raise ProgramError(f"a {what} of shape {list(given)} needs block_size")
        size = x[normal_axis(call.attrs["axis"], len(x))] if given[0] != 1 else 1
        if isinstance(size, int) and size != given[0]:
            raise ProgramError(f"{given[0]} {what}s along axis {call.attrs['axis']} of size {size}")


def _check_blocks(what: str, given: tuple[int, ...], x: Shape, attrs: Attrs) -> None:
    """ProgramError where a scale or zero point surely is not one number a block."""
    axis, block = normal_axis(attrs["axis"], len(x)), attrs["block_size"]
    if len(given) != len(x):
        raise ProgramError(f"a {what} of rank {len(given)} for blocks of x of rank {len(x)}")
    for d, (count, size) in enumerate(zip(given, x)):
        if isinstance(size, int) and (count * block < size if d == axis else count != size):
            blocks = f" in blocks of {block}" if d == axis else ""
            raise ProgramError(f"{count} {what}s along axis {d} of size {size}{blocks}")


@op(
    "dequantize_linear",
    onnx="DequantizeLinear",
    attributes={"axis": 1, "block_size": 0, "output_dtype": 0},
    since=10,
)
class DequantizeLinear(OnGrid):
    """y = (x - zero_point) * scale; scale and zero point as in QuantizeLinear. ONNX DequantizeLinear."""

    encodes = False

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """x's shape in the scale's element type, unless output_dtype names one."""
        check_parameters(call)
        code = call.attrs["output_dtype"]
        return (call.type(0).with_dtype(onnx_dtype(code) if code else call.type(1).dtype),)

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """Subtract, multiply."""
        q, zero_point = call[0], call.get(2)
        scale = over_axis(call[1], q, call.attrs)
        if arith.exact:
            offset = None if zero_point is None else over_axis(zero_point, q, call.attrs)
            return (arith.mul(centred(q, offset, arith), scale),)
        value = q.astype(np.float64 if q.dtype.itemsize >= 4 else np.float32)
        if zero_point is not None:
            value = arith.sub(value, over_axis(zero_point, q, call.attrs).astype(value.dtype))
        return (arith.mul(value, scale.astype(np.result_type(value.dtype, np.float32))),)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """The formula of the class docstring."""
        q, scale, zero_point = call[0], call[1], call.get(2)

        def element(*at: Poly) -> Expr:
            value = q[at]
            if zero_point is not None:
                value = value - read_over_axis(zero_point, at, call.attrs)
            return value * read_over_axis(scale, at, call.attrs)

        return (compute(q.shape, element),)


@op("dynamic_quantize_linear", onnx="DynamicQuantizeLinear", since=11)
class DynamicQuantizeLinear(Op):
    """u8 values, scale and zero point from x's own range, zero included. ONNX DynamicQuantizeLinear.

    scale = (max(x, 0) - min(x, 0)) / 255; zero_point = saturate(round(-min(x, 0) / scale)).
    """

    rounds = True

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """x's shape in u8, then two scalars."""
        x = call.type(0)
        return (x.with_dtype("u8"), TensorType(x.dtype, ()), TensorType("u8", ()))

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """The formulas of the class docstring."""
        x = call[0]
        zero = arith.const(0, like=x)
        high = arith.call("maximum", arith.max(x, None), zero)
        low = arith.sub(zero, arith.call("maximum", arith.max(arith.sub(zero, x), None), zero))
        scale = arith.div(arith.sub(high, low), arith.const(255, like=x))
        if not arith.exact and scale == 0:
            scale = np.ones_like(scale)
        zero_point = to_grid(arith.div(arith.sub(zero, low), scale), None, "u8", arith)
        return to_grid(arith.div(x, scale), zero_point, "u8", arith), scale, zero_point
