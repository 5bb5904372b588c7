"""Transposed convolution: each input element adds its multiple of the filter to the output."""

from __future__ import annotations

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Arith, Array
from tensmith.formula.expr import Expr, Formula, compute, guard, inside, total
from tensmith.formula.poly import Dim, Poly, simplify_dim
from tensmith.ir.op import Attrs, Op, Run, Symbolic, Typed, op
from tensmith.ir.ops.convolution import check_bias, check_window
from tensmith.ir.ops.shared import unknown_pads
from tensmith.ir.ops.sizes import as_ints
from tensmith.ir.types import Shape, TensorType


@op(
    "conv_transpose",
    onnx="ConvTranspose",
    attributes={
        "kernel_shape": None, "strides": None, "dilations": None, "pads": None, "group": 1,
        "auto_pad": "NOTSET", "output_padding": None, "output_shape": None,
    },
)  # fmt: skip
class ConvTranspose(Op):
    """y[n,k,o] = b[k] + sum(c, r, i with i*stride + r*dilation - pad = o; x[n,c,i] * w[c,k,r]).

    x: [N, C, spatial...]; w: [C, K/group, kernel...]; b: [K], optional. With groups, c runs over the
    channels of k's group. ONNX ConvTranspose.
    """

    def accepts(self, call: Typed) -> str | None:
        """output_shape and SAME padding need known spatial sizes to become explicit pads.

        Filters shorter than their strides leave fewer elements in ONNX Runtime than SAME padding promises.
        """
        attrs, w = call.attrs, call.types[1]
        unknown = unknown_pads(call)
        if unknown or attrs["output_shape"] or attrs["auto_pad"] in ("NOTSET", "VALID"):
            return unknown
        if w is None or w.static is None:
            return "pads that depend on the size of the filter"
        ones = (1,) * len(w.static)
        axes = zip(w.static[2:], attrs["strides"] or ones, attrs["dilations"] or ones)
        short = any(dilation * (size - 1) + 1 < stride for size, stride, dilation in axes)
        return f"strides longer than the filter beside auto_pad={attrs['auto_pad']}" if short else None

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """Checks ranks and channels; see transposed_window for the spatial sizes."""
        x, w = call.type(0), call.type(1)
        if x.shape is None or w.shape is None:
            return (x.with_shape(None),)
        if len(x.shape) != len(w.shape) or len(x.shape) < 3:
            raise ProgramError(f"x {x} and w {w} must have the same rank, at least 3")
        if isinstance(x.shape[1], int) and isinstance(w.shape[0], int) and x.shape[1] != w.shape[0]:
            raise ProgramError(f"x has {x.shape[1]} channels, but w {w} takes {w.shape[0]}")
        groups = call.attrs["group"]
        if isinstance(w.shape[0], int) and w.shape[0] % groups:
            raise ProgramError(f"group={groups} does not divide the channels of w {w}")
        filters = simplify_dim(Poly.of(w.shape[1]) * groups)
        check_bias(call, 2, filters)
        out = transposed_window(call.attrs, x.shape[2:], w.shape[2:])[3]
        return (x.with_shape((x.shape[0], filters, *out)),)

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """One matrix product a group, then one strided addition per kernel position."""
        x, w, bias, groups = call[0], call[1], call.get(2), call.attrs["group"]
        strides, dilations, begins, out = map(
            as_ints, transposed_window(call.attrs, x.shape[2:], w.shape[2:])
        )
        n, channels, spatial, kernel = x.shape[0], w.shape[1] * groups, x.shape[2:], w.shape[2:]
        filters = np.swapaxes(w.reshape(groups, w.shape[0] // groups, -1), 1, 2)
        images = x.reshape(n, groups, x.shape[1] // groups, -1)
        products = arith.matmul(filters, images).reshape(n, channels, *kernel, *spatial)
        # The padded output: everything that any input element reaches, and all of y.
        reach = [
            (size - 1) * s + d * (k - 1) + 1 for size, s, d, k in zip(spatial, strides, dilations, kernel)
        ]
        room = [max(full, begin + size) for full, begin, size in zip(reach, begins, out)]
        y = np.zeros((n, channels, *room), dtype=products.dtype)
        every = (slice(None), slice(None))
        for place in np.ndindex(*kernel):
            starts = [r * d for r, d in zip(place, dilations)]
            hit = tuple(
                slice(start, start + (size - 1) * s + 1, s)
                for start, size, s in zip(starts, spatial, strides)
            )
            y[(*every, *hit)] = arith.add(y[(*every, *hit)], products[(*every, *place)])
        y = y[(*every, *(slice(begin, begin + size) for begin, size in zip(begins, out)))]
        return (y if bias is None else arith.add(y, bias.reshape(1, -1, *(1,) * len(out))),)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """The formula of the class docstring: i is (o + pad - r*dilation) / stride where that is whole."""
        x, w, bias, groups = call[0], call[1], call.get(2), call.attrs["group"]
        strides, dilations, begins, out = transposed_window(call.attrs, x.shape[2:], w.shape[2:])
        n = len(strides)
        depth = x.shape[1] if groups == 1 else Poly.of(x.shape[1]) // groups

        def element(image: Poly, k: Poly, *at: Poly) -> Expr:
            def product_at(c: Poly, *r: Poly) -> Expr:
                offsets = [at[d] + begins[d] - r[d] * dilations[d] for d in range(n)]
                source = [offsets[d] // strides[d] for d in range(n)]
                whole = [source[d] * strides[d] - offsets[d] for d in range(n) if strides[d] != 1]
                bounds = [bound for d in range(n) for bound in inside(source[d], x.shape[2 + d])]
                channel = c if groups == 1 else (k // w.shape[1]) * depth + c
                weight = w[(channel, k if groups == 1 else k % w.shape[1], *r)]
                return guard([*bounds, *whole], x[(image, channel, *source)]) * weight

            value = total((depth, *w.shape[2:]), product_at)
            return value if bias is None else value + bias[k]

        return (compute((x.shape[0], w.shape[1] * groups, *out), element),)

    def cost(self, call: Typed, outputs: tuple[TensorType | None, ...]) -> int:
        """Input elements times the filter's size."""
        x, w = call.type(0).static, call.type(1).static
        return 0 if x is None or w is None else int(np.prod(x)) * int(np.prod(w[1:]))


def transposed_window(attrs: Attrs, spatial: Shape, kernel: Shape) -> tuple[Shape, Shape, Shape, Shape]:
    """(strides, dilations, pads in front, output sizes), with output_shape and auto_pad turned into pads."""
    n = len(kernel)
    check_window(attrs, kernel)
    strides, dilations = attrs["strides"] or (1,) * n, attrs["dilations"] or (1,) * n
    extra, pads = attrs["output_padding"] or (0,) * n, attrs["pads"] or (0,) * (2 * n)
    mode, wanted = attrs["auto_pad"], attrs["output_shape"]
    if wanted is not None and len(wanted) != n:
        raise ProgramError(f"output_shape {wanted} must have {n} numbers for {n} spatial axes")
    for more, stride, dilation in zip(extra, strides, dilations):
        if isinstance(stride, int) and isinstance(dilation, int) and more >= max(stride, dilation):
            raise ProgramError(f"output_padding {extra} must be smaller than strides or dilations")
    full = [
        (Poly.of(spatial[d]) - 1) * strides[d] + extra[d] + (Poly.of(kernel[d]) - 1) * dilations[d] + 1
        for d in range(n)
    ]
    if wanted is None and mode in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [Poly.of(spatial[d]) * strides[d] for d in range(n)]
    if wanted is None:
        if mode == "VALID":
            pads = (0,) * (2 * n)
        out = tuple(simplify_dim(full[d] - pads[d] - pads[d + n]) for d in range(n))
        return strides, dilations, pads[:n], out
    wanted = tuple(map(simplify_dim, wanted))[-n:]
    begins: list[Dim] = []
    for d in range(n):
        missing = simplify_dim(full[d] - wanted[d])
        spare = max(0, missing) if isinstance(missing, int) else missing
        begins.append(simplify_dim(Poly.of(spare) // 2 if mode == "SAME_UPPER" else -(-Poly.of(spare) // 2)))
    return strides, dilations, tuple(begins), wanted
