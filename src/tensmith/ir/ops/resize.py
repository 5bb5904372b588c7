"""Resizing of images: nearest, linear and cubic, one axis after the other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Arith, Array
from tensmith.formula.expr import Formula, compute
from tensmith.formula.poly import Dim, Poly, simplify_dim
from tensmith.ir.op import Attrs, Node, Op, Run, Symbolic, Typed, op
from tensmith.ir.ops.shared import normal_axis
from tensmith.ir.ops.sizes import as_dims, as_ints, exact_quotient, fresh_size
from tensmith.ir.tensors import along, widen
from tensmith.ir.types import Shape, TensorType

# The product of a scale p / 2**k, where p is less than this, and a size below 2**16 is exact in float32.
_FEW_STEPS = 2**8


@dataclass(frozen=True)
class AxisMap:
    """How one axis is resized: output size, scale, and the cropped part of the input in [0, 1]."""

    out: int
    scale: float
    start: float = 0.0
    end: float = 1.0


def _check_lengths(call: Typed, axes: Sequence[int]) -> None:
    """ProgramError where axes are named twice, or sizes or scales are not positive, one for each."""
    if not axes or len(set(axes)) != len(axes):
        raise ProgramError(f"axes {call.attrs['axes']} must name each axis once")
    for name, index in (("scales", 2), ("sizes", 3)):
        value = call.value(index)
        if not _given(call.types, index) or value is None or not value.size:
            continue
        if value.size != len(axes):
            raise ProgramError(f"{value.size} {name} for {len(axes)} axes")
        if any(not isinstance(item, Poly) and not 0 < item < math.inf for item in value.reshape(-1).tolist()):
            raise ProgramError(f"{name} {value.tolist()} must be positive")


@op(
    "resize",
    onnx="Resize",
    attributes={
        "antialias": 0, "axes": None, "coordinate_transformation_mode": "half_pixel", "cubic_coeff_a": -0.75,
        "exclude_outside": 0, "extrapolation_value": 0.0, "keep_aspect_ratio_policy": "stretch",
        "mode": "nearest", "nearest_mode": "round_prefer_floor",
    },
    since=11,
)  # fmt: skip
class Resize(Op):
    """x resampled along the named axes (all by default). ONNX Resize.

    Inputs: x, roi (used by tf_crop_and_resize only), scales, sizes; one of the last two is given, with one
    element for each named axis. Along each axis y[o] = sum(i; weight[o, i] * x[i]); see weights.
    """

    def accepts(self, call: Typed) -> str | None:
        """Runtimes differ on align_corners where size * scale is not whole; opset 11 had one more mode.

        Shares of whole numbers are rounded, which differs too.
        """
        mode = call.attrs["coordinate_transformation_mode"]
        if mode not in _COORDINATES:
            return f"coordinate_transformation_mode={mode}"
        if call.attrs["mode"] != "nearest" and not call.type(0).floating:
            return f"mode={call.attrs['mode']} of {call.type(0).dtype}"
        if mode == "align_corners" and not _given(call.types, 3) and not self._whole(call):
            return "align_corners with scales that do not surely give whole sizes"
        return None

    @staticmethod
    def _whole(call: Typed) -> bool:
        shape, scales = call.type(0).shape, call.value(2)
        if shape is None or scales is None:
            return False
        factors = zip(resized_axes(call.attrs, len(shape)), scales.reshape(-1).tolist())
        return all(
            factor == int(factor) or (isinstance(size, int) and size * factor == int(size * factor))
            for size, factor in ((shape[axis], factor) for axis, factor in factors)
        )

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """sizes, or floor(size * scale), see _scaled; the shape is unknown where neither is."""
        x, sizes, scales = call.type(0), call.value(3), call.value(2)
        if x.shape is None:
            return (x,)
        shape = list(x.shape)
        axes = resized_axes(call.attrs, len(shape))
        _check_lengths(call, axes)
        cropped = call.attrs["coordinate_transformation_mode"] == "tf_crop_and_resize"
        if _given(call.types, 3):
            symbolic = any(isinstance(shape[axis], Poly) for axis in axes)
            if sizes is None or (symbolic and not _stretched(call.attrs)):
                return (x.with_shape(None),)
            wanted: Shape = as_dims(sizes)
            if not _stretched(call.attrs):
                wanted = tuple(m.out for m in _from_sizes(call.attrs, as_ints(shape[a] for a in axes), sizes))
        elif scales is None or (cropped and call.value(1) is None):
            return (x.with_shape(None),)
        else:
            parts = _parts(call.value(1), len(axes)) if cropped else [(0.0, 1.0)] * len(axes)
            factors = scales.reshape(-1).tolist()
            wanted = tuple(_scaled(shape[a], f, *part) for a, f, part in zip(axes, factors, parts))
        for axis, size in zip(axes, wanted):
            shape[axis] = size
        return (x.with_shape(shape),)

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """A gather an axis for nearest, else shares of few elements; 16-bit floats in 32 bits."""
        x, attrs = widen(call[0]), call.attrs
        outside = np.zeros((), dtype=bool)
        y = x
        for axis, part in zip(resized_axes(attrs, x.ndim), axis_maps(call, arith)):
            size = x.shape[axis]
            if part.out == size and part.scale == 1 and (part.start, part.end) == (0, 1):
                continue
            at = coordinates(attrs["coordinate_transformation_mode"], part, size)
            if attrs["coordinate_transformation_mode"] == "tf_crop_and_resize":
                beyond = (at < 0) | (at > size - 1)
                outside = outside | beyond.reshape(-1, *(1,) * (x.ndim - 1 - axis))
            if attrs["mode"] == "nearest":
                y = np.take(y, nearest(attrs["nearest_mode"], at, size), axis=axis)
            else:
                y = _shared(arith, y, weights(attrs, at, size, part.scale), axis)
        if outside.any():
            y = np.where(outside, arith.const(attrs["extrapolation_value"], like=y), y)
        return (y,)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """Nearest by whole factors, where it is x[i // factor]."""
        x, attrs, sizes = call[0], call.attrs, call.get(3)
        if sizes is not None and any(size == 0 for size in sizes.shape):  # an older way to leave them out
            sizes = None
        if sizes is not None and not _stretched(attrs):
            raise ProgramError("a resize that keeps the aspect ratio has no formula")
        axes = resized_axes(attrs, x.rank)
        style = attrs["coordinate_transformation_mode"], attrs["nearest_mode"]
        if attrs["mode"] != "nearest" or style not in _BLOCKS:
            raise ProgramError(f"resize with mode={attrs['mode']}, {style[0]}, {style[1]} has no formula")
        factors: dict[int, Dim] = {}
        given = call.value(2 if sizes is None else 3)
        for axis, value in zip(axes, given.reshape(-1).tolist()):
            ratio: Any = value
            if sizes is not None:
                ratio = exact_quotient(Poly.of(value), x.shape[axis])
                ratio = None if ratio is None else simplify_dim(ratio)
            if not isinstance(ratio, (int, float)) or ratio != int(ratio) or ratio < 1:
                raise ProgramError("resize has a formula for whole factors only")
            factors[axis] = int(ratio)
        shape = [size * factors.get(axis, 1) for axis, size in enumerate(x.shape)]
        return (compute(shape, lambda *i: x[tuple(at // factors.get(d, 1) for d, at in enumerate(i))]),)


def _shared(arith: Arith, x: Array, matrix: Array, axis: int) -> Array:
    """The product with a matrix of weights along an axis, without what weighs 0: 0 * infinity is NaN."""
    taps = int(np.count_nonzero(matrix, axis=1).max(initial=0))
    places = np.argsort(matrix == 0, axis=1, kind="stable")[:, :taps]
    shares = arith.const(np.take_along_axis(matrix, places, axis=1), like=x)
    y = arith.const(np.zeros((*x.shape[:axis], len(matrix), *x.shape[axis + 1 :])), like=x)
    for place, share in zip(places.T, shares.T):
        weight = along(share, axis, x.ndim)
        y = arith.add(y, np.where(weight == 0, 0, arith.mul(weight, np.take(x, place, axis=axis))))
    return y


# Pairs of modes in which enlarging by a whole factor repeats each element.
_BLOCKS = {
    ("asymmetric", "floor"),
    ("half_pixel", "round_prefer_floor"),
    ("half_pixel", "round_prefer_ceil"),
    ("pytorch_half_pixel", "round_prefer_floor"),
    ("pytorch_half_pixel", "round_prefer_ceil"),
}


def repeats_elements(
    node: Node, before: Sequence[int], after: Sequence[int], constants: Mapping[str, Array]
) -> bool:
    """Whether a resize between these shapes repeats each element by whole factors.

    Scales are to be those factors: by 2.2, four elements become eight, and not each of them two.
    """
    attrs = node.attrs
    style = attrs["coordinate_transformation_mode"], attrs["nearest_mode"]
    whole = all(size and not wanted % size for size, wanted in zip(before, after))
    if attrs["mode"] != "nearest" or style not in _BLOCKS or not whole:
        return False
    scales, sizes = node.operands(4)[2:]
    if sizes and constants[sizes].size:
        return True
    given = constants[scales].reshape(-1).tolist()
    return all(
        before[axis] * scale == after[axis] for axis, scale in zip(resized_axes(attrs, len(before)), given)
    )


def _given(types: tuple[TensorType | None, ...], index: int) -> bool:
    """Whether an optional input is there and not empty, which opset 11 to 13 also wrote for "omitted"."""
    found = types[index] if index < len(types) else None
    return found is not None and 0 not in (found.static or ())


def _stretched(attrs: Attrs) -> bool:
    return bool(attrs["keep_aspect_ratio_policy"] == "stretch")


def resized_axes(attrs: Attrs, rank: int) -> tuple[int, ...]:
    """The axes that a resize names."""
    axes = attrs["axes"]
    return tuple(range(rank)) if axes is None else tuple(normal_axis(axis, rank) for axis in axes)


def _parts(roi: Array | None, count: int) -> list[tuple[float, float]]:
    """(start, end) of each axis from a roi: all starts, then all ends."""
    if roi is None or roi.size != 2 * count:
        raise ProgramError(f"tf_crop_and_resize needs a roi of {2 * count} numbers")
    flat = roi.reshape(-1).astype(np.float64).tolist()
    return list(zip(flat[:count], flat[count:]))


def _scaled(size: Dim, scale: float, start: float = 0.0, end: float = 1.0) -> Dim:
    """floor(size * (end - start) * scale); a fresh size where float32, as runtimes have it, may differ."""
    factor = Fraction(scale) * (Fraction(end) - Fraction(start))
    exact = simplify_dim(Poly.of(size) * factor.numerator // factor.denominator)
    if isinstance(size, int):
        same = exact == _rounded(size, scale, start, end)
    else:
        same = abs(factor.numerator) < _FEW_STEPS
    return exact if same else fresh_size()


def _rounded(size: int, scale: float, start: float = 0.0, end: float = 1.0) -> int:
    """The size as ONNX Runtime has it."""
    with np.errstate(over="ignore", invalid="ignore"):
        length = float(np.float32(scale) * (np.float32(end) - np.float32(start)) * np.float32(size))
    if not math.isfinite(length):
        raise ProgramError(f"a scale of {scale:g} gives no size")
    return math.floor(length)


def _from_sizes(attrs: Attrs, spatial: tuple[int, ...], sizes: Array) -> list[AxisMap]:
    """Maps onto given sizes; another policy than stretch takes one scale for all axes."""
    wanted = [int(size) for size in sizes.reshape(-1)]
    scales = [target / size for target, size in zip(wanted, spatial)]
    if _stretched(attrs):
        return [AxisMap(target, scale) for target, scale in zip(wanted, scales)]
    scale = min(scales) if attrs["keep_aspect_ratio_policy"] == "not_larger" else max(scales)
    return [AxisMap(math.floor(scale * size + 0.5), scale) for size in spatial]


def axis_maps(call: Run, arith: Arith) -> list[AxisMap]:
    """How each of these axes is resized."""
    x, attrs = call[0], call.attrs
    axes = resized_axes(attrs, x.ndim)
    spatial = tuple(x.shape[axis] for axis in axes)
    cropped = attrs["coordinate_transformation_mode"] == "tf_crop_and_resize"
    if cropped and arith.exact:
        raise ProgramError("tf_crop_and_resize has no exact meaning: its positions are real numbers")
    parts = _parts(call.get(1), len(axes)) if cropped else [(0.0, 1.0)] * len(axes)
    sizes = call.get(3)
    if sizes is not None and sizes.size:
        maps = _from_sizes(attrs, spatial, sizes)
    elif arith.exact:
        maps = _from_types(call, axes)
    else:
        scales = call[2].reshape(-1).tolist()
        found = [_rounded(size, scale, *part) for size, scale, part in zip(spatial, scales, parts)]
        maps = [AxisMap(out, scale) for out, scale in zip(found, scales)]
    return [AxisMap(m.out, m.scale, *part) for m, part in zip(maps, parts)]


def _from_types(call: Run, axes: tuple[int, ...]) -> list[AxisMap]:
    """Maps in a field, where scales are residues: each scale is the ratio of the types' sizes."""
    before, after = call.types[0], call.out_types[0]
    if before is None or after is None or before.shape is None or after.shape is None:
        raise ProgramError("resize by scales has an exact meaning only where its shapes are known")
    maps = []
    for axis in axes:
        size, out = before.shape[axis], after.shape[axis]
        ratio: Any = exact_quotient(Poly.of(out), Poly.of(size))
        if isinstance(size, int) and isinstance(out, int):
            maps.append(AxisMap(out, out / size))
        elif ratio is not None and ratio.constant is not None:
            maps.append(AxisMap(call[0].shape[axis] * ratio.constant, float(ratio.constant)))
        else:
            raise ProgramError(f"resize from {size} to {out} is by no fixed scale, so has no exact meaning")
    return maps


def _align_corners(o: Array, m: AxisMap, size: int) -> Array:
    return o * ((size - 1) / (m.out - 1)) if m.out > 1 else o * 0.0


def _crop(o: Array, m: AxisMap, size: int) -> Array:
    if m.out == 1:
        return o * 0.0 + 0.5 * (m.start + m.end) * (size - 1)
    return m.start * (size - 1) + o * ((m.end - m.start) * (size - 1) / (m.out - 1))


def _symmetric(o: Array, m: AxisMap, size: int) -> Array:
    return size / 2 * (1 - m.out / (m.scale * size)) + (o + 0.5) / m.scale - 0.5


_COORDINATES: dict[str, Any] = {
    "half_pixel": lambda o, m, size: (o + 0.5) / m.scale - 0.5,
    "half_pixel_symmetric": _symmetric,
    "pytorch_half_pixel": lambda o, m, size: (o + 0.5) / m.scale - 0.5 if m.out > 1 else o * 0.0,
    "align_corners": _align_corners,
    "asymmetric": lambda o, m, size: o / m.scale,
    "tf_crop_and_resize": _crop,
}


def coordinates(mode: str, part: AxisMap, size: int) -> Array:
    """[out]: the real position in the input that each output element is read at."""
    return np.asarray(_COORDINATES[mode](np.arange(part.out, dtype=np.float64), part, size))


_ROUNDING: dict[str, Any] = {
    "round_prefer_floor": lambda at: np.ceil(at - 0.5),
    "round_prefer_ceil": lambda at: np.floor(at + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def nearest(mode: str, at: Array, size: int) -> Array:
    """The element nearest to each position."""
    return np.asarray(np.clip(_ROUNDING[mode](at), 0, size - 1).astype(np.int64))


def _triangle(distance: Array, a: float) -> Array:
    return np.asarray(np.maximum(0.0, 1.0 - np.abs(distance)))


def _cubic(distance: Array, a: float) -> Array:
    """The cubic convolution kernel (Keys 1981)."""
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def weights(attrs: Attrs, at: Array, size: int, scale: float) -> Array:
    """[out, size]: the share of each input element in each output element.

    Taps beyond the border count for the border element, or for none with exclude_outside. antialias widens
    the kernel by 1/scale when shrinking.
    """
    kernel, radius = (_triangle, 1) if attrs["mode"] == "linear" else (_cubic, 2)
    shrink = min(scale, 1.0) if attrs["antialias"] else 1.0
    reach = math.ceil(radius / shrink)
    taps = np.floor(at)[:, None] + np.arange(-reach, reach + 2)
    share = kernel((taps - at[:, None]) * shrink, float(np.float32(attrs["cubic_coeff_a"])))
    if attrs["exclude_outside"]:
        share = np.where((taps < 0) | (taps > size - 1), 0.0, share)
    if attrs["exclude_outside"] or attrs["antialias"]:
        share = share / share.sum(axis=1, keepdims=True)
    matrix = np.zeros((len(at), size))
    rows = np.broadcast_to(np.arange(len(at))[:, None], taps.shape)
    np.add.at(matrix, (rows, np.clip(taps, 0, size - 1).astype(np.int64)), share)
    return matrix
