"""Convolution, in any number of spatial dimensions, grouped, strided, dilated and padded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tensmith.errors import ProgramError
from tensmith.formula.arith import Arith, Array
from tensmith.formula.expr import Expr, Formula, compute, guard, inside, total
from tensmith.formula.poly import Dim, Poly, simplify_dim
from tensmith.ir.op import Attrs, Op, Run, Symbolic, Typed, op
from tensmith.ir.ops.product import Product
from tensmith.ir.ops.shared import may_equal, unknown_pads, window_size
from tensmith.ir.types import TensorType


class Convolution(Op):
    """y[n,k,o] = b[k] + sum(c < C/g, r; x[n, g(k)*C/g + c, o*stride + r*dilation - pad] * w[k,c,r]).

    x: [N, C, spatial...]; w: [K, C/group, kernel...]; b: [K], optional.
    """

    def accepts(self, call: Typed) -> str | None:
        """SAME padding needs known spatial sizes to become explicit pads."""
        return unknown_pads(call)

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """Checks ranks and channels; see window_size for the spatial sizes."""
        x, w = call.type(0), call.type(1)
        if x.shape is None or w.shape is None:
            return (TensorType(x.dtype, None),)
        if len(x.shape) != len(w.shape) or len(x.shape) < 3:
            raise ProgramError(f"x {x} and w {w} must have the same rank, at least 3")
        groups = call.attrs["group"]
        channels, expected = x.shape[1], w.shape[1] * groups
        if isinstance(channels, int) and channels != expected:
            raise ProgramError(f"x has {channels} channels, but w {w} with group={groups} takes {expected}")
        if isinstance(w.shape[0], int) and w.shape[0] % groups:
            raise ProgramError(f"group={groups} does not divide the filters of w {w}")
        spatial = _positions(x.shape, w.shape, *window_attrs(call.attrs, x.shape[2:], w.shape[2:]))
        return (TensorType(x.dtype, (x.shape[0], w.shape[0], *spatial)),)

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """im2col by strided views, then one matrix product a group."""
        x, w, bias = call[0], call[1], call.get(2)
        strides, dilations, pads = window_attrs(call.attrs, x.shape[2:], w.shape[2:])
        columns = windows(x, w.shape[2:], strides, dilations, pads)
        n, groups, spatial = x.shape[0], call.attrs["group"], columns.shape[2 : 2 + len(strides)]
        depth = int(np.prod(w.shape[1:]))
        # [N, C, out..., kernel...] -> [N, g, C/g * kernel, out]
        order = (0, 1, *range(2 + len(strides), columns.ndim), *range(2, 2 + len(strides)))
        matrix = columns.transpose(order).reshape(n, groups, depth, int(np.prod(spatial)))
        filters = w.reshape(groups, w.shape[0] // groups, depth)
        y = arith.matmul(filters, matrix).reshape(n, w.shape[0], *spatial)
        if bias is not None:
            y = arith.add(y, bias.reshape(1, -1, *(1,) * len(strides)))
        return (y,)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """The formula of the class docstring; symbolic sizes, strides, dilations and pads."""
        x, w, bias = call[0], call[1], call.get(2)
        sizes = (tuple(map(simplify_dim, tensor.shape[2:])) for tensor in (x, w))
        strides, dilations, pads = window_attrs(call.attrs, *sizes)
        n, groups = len(strides), call.attrs["group"]

        def element(image: Poly, k: Poly, *at: Poly) -> Expr:
            def product_at(c: Poly, *r: Poly) -> Expr:
                source = [at[d] * strides[d] + r[d] * dilations[d] - pads[d] for d in range(n)]
                channel = c if groups == 1 else (k // (w.shape[0] // groups)) * w.shape[1] + c
                bounds = [bound for d in range(n) for bound in inside(source[d], x.shape[2 + d])]
                return guard(bounds, x[(image, channel, *source)]) * w[(k, c, *r)]

            value = total(w.shape[1:], product_at)
            return value if bias is None else value + bias[k]

        spatial = _positions(x.shape, w.shape, strides, dilations, pads)
        return (compute((x.shape[0], w.shape[0], *spatial), element),)

    def cost(self, call: Typed, outputs: tuple[TensorType | None, ...]) -> int:
        """Output elements times the filter's depth."""
        out, w = outputs[0], call.type(1).static
        if out is None or out.static is None or w is None:
            return 0
        return int(np.prod(out.static)) * int(np.prod(w[1:]))


@op(
    "conv",
    onnx="Conv",
    attributes={
        "kernel_shape": None, "strides": None, "dilations": None, "pads": None, "group": 1,
        "auto_pad": "NOTSET",
    },
)  # fmt: skip
class Conv(Convolution, Product):
    """A convolution of numbers. ONNX Conv."""

    ring = True

    windowed = biased = True

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """As Convolution; the bias is one number a filter."""
        w = call.type(1).shape
        if w:
            check_bias(call, 2, w[0])
        return super().infer(call)

    def filters(self, attrs: Attrs) -> int:
        """The first one."""
        return 0


def check_bias(call: Typed, index: int, filters: Dim) -> None:
    """ProgramError where a bias is surely not one number for each filter."""
    bias = call.type(index).shape if call.has(index) else None
    if bias is not None and not may_equal(bias, (filters,)):
        raise ProgramError(f"bias {call.type(index)} is not one number for each of {filters} filters")


def _positions(
    x: Sequence[Dim], w: Sequence[Dim], strides: Sequence[Dim], dilations: Sequence[Dim], pads: Sequence[Dim]
) -> list[Dim]:
    """Where the filters of w fit on x, along each spatial axis."""
    n = len(strides)
    return [
        window_size(x[2 + d], w[2 + d], strides[d], dilations[d], Poly.of(pads[d]) + pads[d + n])
        for d in range(n)
    ]


def window_attrs(
    attrs: Attrs, spatial: tuple[Any, ...], kernel: tuple[Any, ...]
) -> tuple[tuple[Dim, ...], tuple[Dim, ...], tuple[Dim, ...]]:
    """(strides, dilations, pads) in full: defaults filled in, auto_pad turned into explicit pads.

    `pads` holds all begins, then all ends, as in ONNX.
    """
    n = len(kernel)
    check_window(attrs, kernel)
    strides = attrs["strides"] or (1,) * n
    dilations = attrs.get("dilations") or (1,) * n
    mode = attrs.get("auto_pad", "NOTSET")
    if mode == "VALID":
        return strides, dilations, (0,) * (2 * n)
    if mode == "NOTSET":
        return strides, dilations, attrs["pads"] or (0,) * (2 * n)
    begins, ends = [], []
    for size, k, s, d in zip(spatial, kernel, strides, dilations):
        needed = max(0, (-(-size // s) - 1) * s + d * (k - 1) + 1 - size)
        small, large = needed // 2, needed - needed // 2
        begins.append(small if mode == "SAME_UPPER" else large)
        ends.append(large if mode == "SAME_UPPER" else small)
    return strides, dilations, (*begins, *ends)


def check_window(attrs: Attrs, kernel: tuple[Any, ...]) -> None:
    """ProgramError where the attributes of a window have other lengths than its axes need, or contradict."""
    n = len(kernel)
    lengths = {"kernel_shape": n, "strides": n, "dilations": n, "pads": 2 * n, "output_padding": n}
    for name, length in lengths.items():
        given = attrs.get(name)
        if given is not None and len(given) != length:
            raise ProgramError(f"{name} {given} must have {length} numbers for {n} spatial axes")
    stated = attrs.get("kernel_shape")
    if stated is not None and any(isinstance(k, int) and k != s for k, s in zip(kernel, stated)):
        raise ProgramError(f"kernel_shape {stated} is not that of the weights, {kernel}")
    if str(attrs.get("auto_pad")).startswith("SAME") and any(attrs.get("pads") or ()):
        raise ProgramError(f"auto_pad {attrs['auto_pad']} and pads {attrs['pads']} contradict each other")


def windows(
    x: Array, kernel: tuple[int, ...], strides: Any, dilations: Any, pads: Any, fill: Any = 0
) -> Array:
    """A view [N, C, out..., kernel...] of every window of the padded x."""
    n = len(kernel)
    padded = np.pad(
        x, ((0, 0), (0, 0), *((pads[d], pads[d + n]) for d in range(n))), constant_values=fill
    )  # fmt: skip
    reach = [dilations[d] * (kernel[d] - 1) + 1 for d in range(n)]
    view = sliding_window_view(padded, reach, axis=tuple(range(2, 2 + n)))
    steps = (slice(None), slice(None), *(slice(None, None, s) for s in strides))
    return view[(*steps, *(slice(None, None, d) for d in dilations))]
