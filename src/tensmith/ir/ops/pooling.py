"""Pooling over sliding windows and over whole images, in any number of spatial dimensions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Arith, Array
from tensmith.formula.expr import Expr, Formula, compute, guard, inside, reduce, total
from tensmith.formula.expr import call as opaque
from tensmith.formula.poly import Dim, Poly, product, simplify_dim
from tensmith.ir.op import REQUIRED, Attrs, Op, Run, Symbolic, Typed, op
from tensmith.ir.ops.convolution import window_attrs, windows
from tensmith.ir.ops.shared import unknown_pads, window_size
from tensmith.ir.ops.sizes import as_ints, fresh_size, select
from tensmith.ir.tensors import widen
from tensmith.ir.types import Shape, TensorType

_WINDOW = {
    "kernel_shape": REQUIRED, "strides": None, "pads": None, "dilations": None, "auto_pad": "NOTSET",
    "ceil_mode": 0,
}  # fmt: skip


@dataclass(frozen=True)
class Window:
    """A pooling window with every attribute filled in; all fields go by spatial axis.

    `ends` is the padding behind each axis with what ceil_mode adds for the last window to fit.
    """

    kernel: tuple[int, ...]
    strides: Shape
    dilations: Shape
    begins: Shape
    ends: Shape
    out: Shape
    # Axis lengths up to the end of the declared padding: where an average that counts padding stops.
    padded: Shape

    @staticmethod
    def of(attrs: Attrs, spatial: Shape) -> Window:
        """The window of a pooling op over the given spatial sizes."""
        kernel = attrs["kernel_shape"]
        if len(kernel) != len(spatial):
            raise ProgramError(f"kernel_shape {kernel} for {len(spatial)} spatial axes")
        strides, dilations, pads = window_attrs(attrs, spatial, kernel)
        n = len(kernel)
        begins, ends = pads[:n], pads[n:]
        wide = zip(pads, (*kernel, *kernel))
        if any(isinstance(pad, int) and isinstance(size, int) and pad >= size for pad, size in wide):
            raise ProgramError(
                f"pads {pads} must be smaller than the kernel {kernel}: windows would be empty"
            )
        ceil = bool(attrs["ceil_mode"]) and attrs["auto_pad"] == "NOTSET"  # SAME padding lets all fit
        out = [
            _positions(spatial[d], kernel[d], strides[d], dilations[d], begins[d], ends[d], ceil)
            for d in range(n)
        ]
        padded = tuple(simplify_dim(Poly.of(spatial[d]) + begins[d] + ends[d]) for d in range(n))
        reach = [
            (Poly.of(out[d]) - 1) * strides[d] + Poly.of(dilations[d]) * (kernel[d] - 1) + 1 for d in range(n)
        ]
        needed = [simplify_dim(reach[d] - spatial[d] - begins[d]) for d in range(n)]
        fitted = tuple(needed[d] if ceil else ends[d] for d in range(n))
        return Window(kernel, strides, dilations, begins, fitted, tuple(out), padded)

    def views(self, x: Array, fill: Any = 0) -> Array:
        """[N, C, out..., kernel...]: every window of x, padded with `fill`."""
        # Ends that ceil_mode computed may be negative: the tail of the image is in no window.
        sizes = (as_ints(self.begins), as_ints(self.ends))
        cut = tuple(slice(0, size + min(0, end)) for size, end in zip(x.shape[2:], sizes[1]))
        pads = (*sizes[0], *(max(0, end) for end in sizes[1]))
        return windows(
            x[(slice(None), slice(None), *cut)], self.kernel, self.strides, self.dilations, pads, fill
        )

    def sources(self, at: tuple[Poly, ...], within: tuple[Poly, ...]) -> list[Poly]:
        """The subscripts of element `within` of window `at`."""
        return [
            at[d] * self.strides[d] + within[d] * self.dilations[d] - self.begins[d]
            for d in range(len(self.kernel))
        ]

    def bounds(self, sources: list[Poly], spatial: Shape) -> list[Poly]:
        """The conditions under which the subscripts are inside the image; none where nothing is padded."""
        return [
            bound
            for d, source in enumerate(sources)
            if not (self.begins[d] == 0 and _not_positive(self.ends[d]))
            for bound in inside(source, spatial[d])
        ]


def _not_positive(size: Dim) -> bool:
    return isinstance(size, int) and size <= 0


def _positions(size: Dim, kernel: int, stride: Dim, dilation: Dim, begin: Dim, end: Dim, ceil: bool) -> Dim:
    """Windows along one axis; with ceil, a last one that would start behind the image is dropped."""
    found = window_size(size, kernel, stride, dilation, Poly.of(begin) + end, ceil)
    if not ceil:
        return found
    slack = simplify_dim(Poly.of(end) + stride - (Poly.of(dilation) * (kernel - 1) + 1))
    if _not_positive(slack):
        return found
    late = simplify_dim((Poly.of(found) - 1) * stride - size - begin)
    if not isinstance(late, int):
        return fresh_size()
    return simplify_dim(Poly.of(found) - (1 if late >= 0 else 0))


class Pool(Op):
    """One value from each window of each channel: [N, C, spatial...] -> [N, C, out...]."""

    takes: ClassVar[str]  # "max", "mean", "norm"

    def accepts(self, call: Typed) -> str | None:
        """SAME padding needs known spatial sizes to become explicit pads.

        And nothing that ONNX Runtime computes otherwise than the standard says: it rounds sizes up beside
        VALID, leaves dilations out of SAME padding, and moves windows that are two smaller than needed.
        """
        attrs, mode = call.attrs, call.attrs["auto_pad"]
        if mode == "VALID" and attrs["ceil_mode"]:
            return "ceil_mode beside auto_pad=VALID"
        unknown = unknown_pads(call)
        if unknown is not None or mode in ("NOTSET", "VALID"):
            return unknown
        if any(dilation != 1 for dilation in attrs["dilations"] or ()):
            return f"dilations beside auto_pad={mode}"
        axes = zip(call.type(0).dims[2:], attrs["kernel_shape"], attrs["strides"] or ())
        gaps = any((-(-size // stride) - 1) * stride + kernel - size < -1 for size, kernel, stride in axes)
        return f"windows that leave gaps beside auto_pad={mode}" if gaps else None

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """See Window; a second output holds i64 positions."""
        x = call.type(0)
        if x.shape is None:
            return (x, TensorType("i64", None))[: call.n_outputs]
        if len(x.shape) < 3:
            raise ProgramError(f"x {x} must have a batch, a channel and at least one spatial axis")
        shape = (*x.shape[:2], *Window.of(call.attrs, x.shape[2:]).out)
        return (x.with_shape(shape), TensorType("i64", shape))[: call.n_outputs]

    def window_formula(
        self, call: Symbolic, value: Callable[[Window, Callable[..., Expr], Callable[..., list[Poly]]], Expr]
    ) -> Formula:
        """The formula whose element is `value(window, read, bounds)` both functions of a kernel position."""
        x = call[0]
        window = Window.of(call.attrs, tuple(map(simplify_dim, x.shape[2:])))

        def element(image: Poly, channel: Poly, *at: Poly) -> Expr:
            def read(*within: Poly) -> Expr:
                return x[(image, channel, *window.sources(at, within))]

            def bounds(*within: Poly) -> list[Poly]:
                return window.bounds(window.sources(at, within), x.shape[2:])

            return value(window, read, bounds)

        return compute((*x.shape[:2], *window.out), element)


@op("max_pool", onnx="MaxPool", attributes={**_WINDOW, "storage_order": 0}, since=10)
class MaxPool(Pool):
    """y[n,c,o] = max(r; x[n, c, o*stride + r*dilation - pad]) over positions inside the image. ONNX MaxPool.

    The second output holds the position of each maximum in the flattened x (spatial axes in column-major
    order when storage_order is 1).
    """

    takes = "max"
    selects = True

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """Maximum over the window axes; padding is the lowest value, one fixed code in a field."""
        x = call[0]
        window = Window.of(call.attrs, x.shape[2:])
        n = len(window.kernel)
        lowest = np.iinfo(x.dtype).min if x.dtype.kind in "iu" and not arith.exact else arith.const(-np.inf)
        views = window.views(x, lowest)
        y = arith.max(views, tuple(range(2 + n, 2 + 2 * n)))
        if len(call.out_types) < 2 or call.out_types[1] is None:
            return (y,)
        return y, self._positions(call, window, views, arith)

    def _positions(self, call: Run, window: Window, views: Array, arith: Arith) -> Array:
        """By ranks, below which padding is whatever the type: its least value may be in the image too."""
        x = call[0]
        spatial = x.shape[2:]
        plane = np.arange(int(np.prod(spatial))).reshape(
            spatial, order="F" if call.attrs["storage_order"] else "C"
        )
        places = window.views(np.broadcast_to(plane, (1, 1, *spatial)), -1)
        flat = views.reshape(*views.shape[: 2 + len(spatial)], -1)
        keys = arith.call("max", flat) if arith.exact else widen(flat)
        valid = places.reshape(*places.shape[: 2 + len(spatial)], -1)
        ranks = np.unique(keys, return_inverse=True)[1].reshape(keys.shape)
        first = np.argmax(np.where(valid < 0, -1, ranks), axis=-1)[..., None]
        inner = np.take_along_axis(np.broadcast_to(valid, flat.shape), first, axis=-1)[..., 0]
        images = np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *(1,) * len(spatial))
        return np.asarray(images * plane.size + inner).astype(np.int64)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """The first output; log(0) is how the language spells minus infinity."""

        def value(window: Window, read: Callable[..., Expr], bounds: Callable[..., list[Poly]]) -> Expr:
            return reduce(
                "max", window.kernel, lambda *r: select(bounds(*r), read(*r), opaque("log", 0))
            )  # fmt: skip

        if call.n_outputs > 1:
            raise ProgramError("the positions of maxima have no formula")
        return (self.window_formula(call, value),)


@op("average_pool", onnx="AveragePool", attributes={**_WINDOW, "count_include_pad": 0})
class AveragePool(Pool):
    """y[n,c,o] = sum(r; x[n, c, o*stride + r*dilation - pad]) / count. ONNX AveragePool.

    `count` is the number of positions inside the image, or with count_include_pad inside the padded image.
    """

    takes = "mean"

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """Sum over the window axes divided by a table of counts; 16-bit floats in 32 bits."""
        x = widen(call[0])
        window = Window.of(call.attrs, x.shape[2:])
        n = len(window.kernel)
        axes = tuple(range(2 + n, 2 + 2 * n))
        views = window.views(x)
        return (
            arith.div(arith.sum(views, axes), arith.const(self._counts(call.attrs, x, window), like=views)),
        )

    @staticmethod
    def _counts(attrs: Attrs, x: Array, window: Window) -> Array:
        """[1, 1, out...]: positions each window averages over."""
        n = len(window.kernel)
        ones = np.ones((1, 1, *x.shape[2:]), dtype=np.int64)
        if attrs["count_include_pad"]:
            begins, padded = as_ints(window.begins), as_ints(window.padded)
            widths = [(b, p - s - b) for b, p, s in zip(begins, padded, x.shape[2:])]
            ones = np.pad(ones, ((0, 0), (0, 0), *widths), constant_values=1)
            reach = zip(as_ints(window.ends), as_ints(window.begins), padded, x.shape[2:])
            ends = tuple(end - (p - s - b) for end, b, p, s in reach)
            window = Window(
                window.kernel, window.strides, window.dilations, (0,) * n, ends, window.out, padded
            )
        return np.asarray(window.views(ones).sum(axis=tuple(range(2 + n, 2 + 2 * n))))

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """The formula of the class docstring."""
        included, ceil = call.attrs["count_include_pad"], call.attrs["ceil_mode"]
        if included and ceil:
            raise ProgramError("count_include_pad with ceil_mode has no formula")

        def value(window: Window, read: Callable[..., Expr], bounds: Callable[..., list[Poly]]) -> Expr:
            sums = total(window.kernel, lambda *r: guard(bounds(*r), read(*r)) if bounds(*r) else read(*r))
            probe = bounds(*(Poly.of(0) for _ in window.kernel))
            if included or not probe:
                return sums / Poly.of(product(window.kernel))
            return sums / total(window.kernel, lambda *r: guard(bounds(*r), 1))

        return (self.window_formula(call, value),)


def powered(m: Arith, x: Array, p: int) -> Array:
    """|x| ** p, p a positive integer."""
    base = x if p % 2 == 0 else m.call("abs", x)
    result = base
    for _ in range(p - 1):
        result = m.mul(result, base)
    return result


def root(m: Arith, sums: Array, p: int) -> Array:
    """sums ** (1/p)."""
    if p == 1:
        return sums
    return m.call("sqrt", sums) if p == 2 else m.call("pow", sums, m.const(1.0 / p, like=sums))


def _power(x: Expr, p: int) -> Expr:
    return (x if p % 2 == 0 else opaque("abs", x)) ** p


@op("lp_pool", onnx="LpPool", attributes={**_WINDOW, "p": 2}, since=2)
class LpPool(Pool):
    """y[n,c,o] = sum(r; |x[n, c, o*stride + r*dilation - pad]| ** p) ** (1/p). ONNX LpPool."""

    takes = "norm"

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """Powers first: padding is zero and adds nothing to their sums."""
        x, p = widen(call[0]), call.attrs["p"]
        window = Window.of(call.attrs, x.shape[2:])
        n = len(window.kernel)
        sums = arith.sum(window.views(powered(arith, x, p)), tuple(range(2 + n, 2 + 2 * n)))
        return (root(arith, sums, p),)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """The formula of the class docstring."""
        p = call.attrs["p"]

        def value(window: Window, read: Callable[..., Expr], bounds: Callable[..., list[Poly]]) -> Expr:
            sums = total(window.kernel, lambda *r: guard(bounds(*r), _power(read(*r), p)))
            return sums ** Fraction(1, p)

        return (self.window_formula(call, value),)


class GlobalPool(Op):
    """One value from each channel's whole image: [N, C, spatial...] -> [N, C, 1...]."""

    takes: ClassVar[str]  # as Pool

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """Spatial sizes become 1."""
        x = call.type(0)
        if x.shape is None:
            return (x,)
        if len(x.shape) < 2:
            raise ProgramError(f"x {x} must have a batch and a channel axis")
        return (x.with_shape((*x.shape[:2], *(1,) * (len(x.shape) - 2))),)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """See whole."""
        x = call[0]
        shape: Shape = (*x.shape[:2], *(1,) * (x.rank - 2))
        return (compute(shape, lambda n, c, *_: self.whole(call, lambda *r: x[(n, c, *r)], x.shape[2:])),)

    def whole(self, call: Symbolic, read: Callable[..., Expr], spatial: Shape) -> Expr:
        """The value of one channel."""
        raise NotImplementedError


@op("global_average_pool", onnx="GlobalAveragePool")
class GlobalAveragePool(GlobalPool):
    """y[n,c] = sum(r; x[n,c,r]) / number of positions. ONNX GlobalAveragePool."""

    takes = "mean"

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """Sum over the spatial axes, divided."""
        x = widen(call[0])
        sums = arith.sum(x, tuple(range(2, x.ndim)), keepdims=True)
        return (arith.div(sums, arith.const(int(np.prod(x.shape[2:])), like=x)),)

    def whole(self, call: Symbolic, read: Callable[..., Expr], spatial: Shape) -> Expr:
        """The mean."""
        return total(spatial, read) / Poly.of(product(spatial))


@op("global_max_pool", onnx="GlobalMaxPool")
class GlobalMaxPool(GlobalPool):
    """y[n,c] = max(r; x[n,c,r]). ONNX GlobalMaxPool."""

    takes = "max"

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """Maximum over the spatial axes."""
        return (arith.max(call[0], tuple(range(2, call[0].ndim)), keepdims=True),)

    def whole(self, call: Symbolic, read: Callable[..., Expr], spatial: Shape) -> Expr:
        """The maximum."""
        return reduce("max", spatial, read)


@op("global_lp_pool", onnx="GlobalLpPool", attributes={"p": 2}, since=2)
class GlobalLpPool(GlobalPool):
    """y[n,c] = sum(r; |x[n,c,r]| ** p) ** (1/p). ONNX GlobalLpPool."""

    takes = "norm"

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """Powers, their sum over the spatial axes, its root."""
        x, p = widen(call[0]), call.attrs["p"]
        sums = arith.sum(powered(arith, x, p), tuple(range(2, x.ndim)), keepdims=True)
        return (root(arith, sums, p),)

    def whole(self, call: Symbolic, read: Callable[..., Expr], spatial: Shape) -> Expr:
        """The norm."""
        p = call.attrs["p"]
        return total(spatial, lambda *r: _power(read(*r), p)) ** Fraction(1, p)
