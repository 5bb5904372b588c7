"""Operators of the standard as bodies of simpler ones: images at computed positions, and Fourier transforms.

A transform of known length is a product with a constant matrix, one of frames a convolution.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensmith.formula.arith import Array
from tensmith.frontend.onnx_body import Bodies, OperatorBody
from tensmith.ir.onnx_schema import ELEMENT_CODES

BODIES = Bodies()
_FLOATS = ("f32", "f64")
# Positions beyond lie between no two pixels.
_FAR = 1 << 24
# Elements of a matrix of a transform: beyond that it is no small constant.
_MOST = 1 << 22


# Images at computed positions


@BODIES.operator("GridSample")
def _grid_sample(b: OperatorBody) -> Sequence[str]:
    """Pixels of [N, C, H, W] at grid [N, h, w, (x, y)], where -1 and 1 are the borders.

    Around the image lie zeros, or its border again. So many of them are put there that every position, moved
    into what they cover, reads a pixel.
    """
    x, grid = b.inputs(2)
    dtype, linear = b.type(0).dtype, _mode(b)
    padding, aligned = b.attribute("padding_mode", "zeros"), b.attribute("align_corners", 0)
    b.need(dtype in _FLOATS and b.type(1).dtype == dtype and b.rank(0) == b.rank(1) == 4)
    b.need(padding in ("zeros", "border") and b.type(1).dims[3] == 2)
    zeros = padding == "zeros"
    around = int(linear) + int(zeros)  # rows and columns on each side of the image
    sizes = [b.add("Shape", x, start=axis, end=axis + 1) for axis in (3, 2)]
    size = b.add("Cast", b.add("Concat", *sizes, axis=0), to=ELEMENT_CODES[dtype])
    one, two = b.constant(1, dtype), b.constant(2, dtype)
    finite = b.add("Less", b.add("Abs", grid), b.constant(np.inf, dtype))
    grid_or_border = b.add("Where", finite, grid, b.constant(-1, dtype))  # as ONNX Runtime has it
    place = b.add("Add", grid_or_border, one)
    if aligned:
        place = b.add("Mul", b.add("Div", place, two), b.add("Sub", size, one))
    else:
        place = b.add("Div", b.add("Sub", b.add("Mul", place, size), one), two)
    last = size if zeros else b.add("Sub", size, one)
    place = b.add("Max", b.add("Min", place, b.constant(_FAR, dtype)), b.constant(-_FAR, dtype))
    rounded = b.add("Floor" if linear else "Round", place)
    lower = b.add("Max", b.add("Min", rounded, last), b.constant(-around, dtype))
    whole, width = _surrounded(b, x, around, sizes[0], "constant" if zeros else "edge")
    begin = b.constant(around, "i64")
    column, row = (
        b.add("Add", b.add("Cast", part, to=ELEMENT_CODES["i64"]), begin) for part in _coordinates(b, lower)
    )
    first = b.add("Add", b.add("Mul", row, width), column)
    if linear:
        next_ = b.add("Add", first, b.constant(1, "i64"))
        corners = [_pixels(b, whole, at) for at in (first, next_)]
        corners += [_pixels(b, whole, b.add("Add", at, width)) for at in (first, next_)]
        flat = b.constant([0, 1, -1], "i64")
        right, down = (b.add("Reshape", part, flat) for part in _coordinates(b, b.add("Sub", place, rounded)))
        upper, under = (_mixed(b, right, *pair) for pair in (corners[:2], corners[2:]))
        y = _mixed(b, down, upper, under)
    else:
        y = _pixels(b, whole, first)
    shape = b.add("Concat", b.add("Shape", x, start=0, end=2), b.add("Shape", grid, start=1, end=3), axis=0)
    return [b.add("Reshape", y, shape)]


def _mode(b: OperatorBody) -> bool:
    """Whether four pixels are mixed, rather than the nearest one read."""
    mode = b.attribute("mode", "linear")
    b.need(mode in ("linear", "bilinear", "nearest"))
    return bool(mode != "nearest")


def _coordinates(b: OperatorBody, places: str) -> list[str]:
    """x and y of [N, h, w, (x, y)]."""
    return [b.add("Gather", places, b.constant(axis, "i64"), axis=3) for axis in (0, 1)]


def _mixed(b: OperatorBody, share: str, one: str, other: str) -> str:
    """(1 - share) one + share other."""
    rest = b.add("Sub", b.constant(1, b.type(0).dtype), share)
    return b.add("Add", b.add("Mul", rest, one), b.add("Mul", share, other))


def _surrounded(b: OperatorBody, x: str, around: int, width: str, mode: str) -> tuple[str, str]:
    """Images with rows and columns around them, each as one row of pixels [N, C, pixels]; and their width."""
    if around:
        x = b.add("Pad", x, b.constant([0, 0, around, around] * 2, "i64"), mode=mode)
        width = b.add("Add", width, b.constant([2 * around], "i64"))
    return b.add("Reshape", x, b.constant([0, 0, -1], "i64")), width


def _pixels(b: OperatorBody, flat: str, places: str) -> str:
    """Those of [N, C, pixels] at places [N, h, w], as [N, C, h w]."""
    row, one = b.add("Reshape", places, b.constant([0, 1, -1], "i64")), b.constant([1], "i64")
    of_channels = b.add("Concat", one, b.add("Shape", flat, start=1, end=2), one, axis=0)
    return b.add("GatherElements", flat, b.add("Expand", row, of_channels), axis=2)


# Fourier transforms


def _waves(points: int, used: int, count: int, inverse: bool = False) -> Array:
    """Both parts of e^(-2 pi i k l / points) [l < used, k < count, 2], conjugate if `inverse`."""
    turns = np.outer(np.arange(used), np.arange(count)) % points
    angles = 2 * np.pi * turns / points
    return np.stack([np.cos(angles), np.sin(angles) if inverse else -np.sin(angles)], 2)


def _complex(waves: Array) -> Array:
    """What a complex number times a wave adds to real and imaginary part [length, 2, count, 2]."""
    real, imaginary = waves[..., 0], waves[..., 1]
    return np.stack([waves, np.stack([-imaginary, real], 2)], 1)


@BODIES.operator("DFT")
def _dft(b: OperatorBody) -> Sequence[str]:
    """The transform along an axis of known length, as a product; real numbers, or pairs of two parts."""
    x, length, axis = b.inputs(3)
    dtype, rank, parts = b.type(0).dtype, b.rank(0), b.size(0, -1)
    inverse, one_sided = b.attribute("inverse", 0), b.attribute("onesided", 0)
    along = b.integer(2) if axis else b.attribute("axis", -2 if b.version >= 20 else 1)
    size = b.size(0, along)
    along %= rank
    b.need(dtype in _FLOATS and parts in (1, 2) and along < rank - 1)
    b.need(not one_sided or (parts == 1 and not inverse))
    points = b.integer(1) if length else size
    used, count = min(points, size), points // 2 + 1 if one_sided else points
    b.need(used > 0 and used * count * parts * 2 <= _MOST)
    waves = _waves(points, used, count, bool(inverse)) / (points if inverse else 1)
    matrix = (_complex(waves) if parts == 2 else waves).reshape(used * parts, count * 2)
    if used < size:
        x = b.add("Slice", x, *(b.constant([number], "i64") for number in (0, used, along)))
    perm = [*(other for other in range(rank - 1) if other != along), along, rank - 1]
    rows = b.add("Reshape", b.add("Transpose", x, perm=perm), b.constant([0] * (rank - 2) + [-1], "i64"))
    product = b.add("MatMul", rows, b.constant(matrix, dtype))
    pairs = b.add("Reshape", product, b.constant([0] * (rank - 2) + [count, 2], "i64"))
    return [b.add("Transpose", pairs, perm=[perm.index(each) for each in range(rank)])]


@BODIES.operator("STFT")
def _stft(b: OperatorBody) -> Sequence[str]:
    """Transforms of frames [N, frames, K, 2] of a signal [N, L, 1 or 2]: it meets windowed waves."""
    signal, _, window, length = b.inputs(4)
    dtype, parts, step = b.type(0).dtype, b.size(0, -1), b.integer(1)
    one_sided = b.attribute("onesided", 1)
    b.need(dtype in _FLOATS and b.rank(0) == 3 and parts in (1, 2) and step > 0 and parts + one_sided < 3)
    b.need(bool(window or length) and (not window or (b.rank(2) == 1 and b.type(2).dtype == dtype)))
    size = b.size(2, 0) if window else b.integer(3)
    b.need(size > 0 and (not length or b.integer(3) == size))
    count = size // 2 + 1 if one_sided else size
    b.need(size * count * parts * 2 <= _MOST)
    waves = _waves(size, size, count)
    by_parts = _complex(waves) if parts == 2 else waves[:, None]
    filters = b.constant(by_parts.transpose(2, 3, 1, 0).reshape(count * 2, parts, size), dtype)
    if window:
        filters = b.add("Mul", filters, window)
    frames = b.add("Conv", b.add("Transpose", signal, perm=[0, 2, 1]), filters, strides=[step])
    pairs = b.add("Reshape", frames, b.constant([0, count, 2, -1], "i64"))
    return [b.add("Transpose", pairs, perm=[0, 3, 1, 2])]
