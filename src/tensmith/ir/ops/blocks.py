"""Ops that trade channels for space, mask triangles, and turn sequences around."""

from __future__ import annotations

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Arith, Array
from tensmith.formula.expr import Expr, Formula, compute, guard
from tensmith.formula.poly import Poly
from tensmith.ir.op import REQUIRED, Op, Run, Symbolic, Typed, op
from tensmith.ir.ops.shared import may_equal
from tensmith.ir.ops.sizes import onnx_dtype, quotient
from tensmith.ir.types import TensorType


@op("depth_to_space", onnx="DepthToSpace", attributes={"blocksize": REQUIRED, "mode": "DCR"})
class DepthToSpace(Op):
    """[N, C*b*b, H, W] -> [N, C, H*b, W*b]: each pixel's channels become a b x b block. ONNX DepthToSpace.

    The channel of offset (p, q) is (p*b + q)*C + c in mode DCR and (c*b + p)*b + q in mode CRD.
    """

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """Channels divided by b*b, both spatial sizes times b."""
        x, b = call.type(0), call.attrs["blocksize"]
        if x.shape is None:
            return (x,)
        n, c, h, w = four(x)
        if isinstance(c, int) and c % (b * b):
            raise ProgramError(f"{c} channels do not make blocks of {b} x {b}")
        return (x.with_shape((n, quotient([c], [b * b]), h * b, w * b)),)

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """A transpose of split axes."""
        x, b = call[0], call.attrs["blocksize"]
        n, c, h, w = x.shape
        if call.attrs["mode"] == "DCR":
            split = x.reshape(n, b, b, c // (b * b), h, w).transpose(0, 3, 4, 1, 5, 2)
        else:
            split = x.reshape(n, c // (b * b), b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
        return (split.reshape(n, c // (b * b), h * b, w * b),)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """x at the channel of the class docstring."""
        x, b = call[0], call.attrs["blocksize"]
        n, c, h, w = x.shape
        channels = quotient([c], [b * b])

        def element(image: Poly, k: Poly, row: Poly, column: Poly) -> Expr:
            p, q = row % b, column % b
            channel = (p * b + q) * channels + k if call.attrs["mode"] == "DCR" else (k * b + p) * b + q
            return x[(image, channel, row // b, column // b)]

        return (compute((n, channels, h * b, w * b), element),)


@op("space_to_depth", onnx="SpaceToDepth", attributes={"blocksize": REQUIRED, "mode": "DCR"})
class SpaceToDepth(Op):
    """[N, C, H*b, W*b] -> [N, b*b*C, H, W]: y[n, k, h, w] = x[n, c, h*b + p, w*b + q]. ONNX SpaceToDepth.

    The channel k of offset (p, q) is (p*b + q)*C + c in mode DCR and (c*b + p)*b + q in mode CRD.
    """

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """Channels times b*b, both spatial sizes divided by b."""
        x, b = call.type(0), call.attrs["blocksize"]
        if x.shape is None:
            return (x,)
        n, c, h, w = four(x)
        if any(isinstance(size, int) and size % b for size in (h, w)):
            raise ProgramError(f"an image of {h} x {w} is not made of blocks of {b} x {b}")
        return (x.with_shape((n, c * (b * b), quotient([h], [b]), quotient([w], [b]))),)

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """A transpose of split axes."""
        x, b = call[0], call.attrs["blocksize"]
        n, c, h, w = x.shape
        order = (0, 3, 5, 1, 2, 4) if call.attrs["mode"] == "DCR" else (0, 1, 3, 5, 2, 4)
        split = x.reshape(n, c, h // b, b, w // b, b).transpose(order)
        return (split.reshape(n, c * b * b, h // b, w // b),)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """The formula of the class docstring."""
        x, b = call[0], call.attrs["blocksize"]
        n, c, h, w = x.shape

        def element(image: Poly, channel: Poly, row: Poly, column: Poly) -> Expr:
            if call.attrs["mode"] == "DCR":
                offset, source = channel // c, channel % c
            else:
                offset, source = channel % (b * b), channel // (b * b)
            return x[(image, source, row * b + offset // b, column * b + offset % b)]

        return (compute((n, c * (b * b), quotient([h], [b]), quotient([w], [b])), element),)


def four(x: TensorType) -> tuple[int | Poly, ...]:
    """The sizes of an image batch."""
    if len(x.dims) != 4:
        raise ProgramError(f"x {x} must have four axes: batch, channel, height, width")
    return x.dims


@op("trilu", onnx="Trilu", attributes={"upper": 1}, since=14)
class Trilu(Op):
    """x[.., i, j] where j - i >= k (upper) or j - i <= k (lower), zero elsewhere; k is the second input."""

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """x's own type."""
        x = call.type(0)
        if x.rank in (0, 1):
            raise ProgramError(f"x {x} is no matrix")
        if call.has(1) and call.type(1).static not in (None, (), (1,)):
            raise ProgramError(f"k {call.type(1)} must be one number")
        return (x,)

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """NumPy's triu or tril."""
        k = call.get(1)
        offset = 0 if k is None else int(k.reshape(-1)[0])
        return ((np.triu if call.attrs["upper"] else np.tril)(call[0], offset),)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """One guard."""
        x = call[0]
        k = 0 if call.get(1) is None else call.value(1).reshape(-1).tolist()[0]
        sign = 1 if call.attrs["upper"] else -1
        return (compute(x.shape, lambda *i: guard(((i[-1] - i[-2] - k) * sign,), x[i])),)


@op("eye_like", onnx="EyeLike", attributes={"dtype": None, "k": 0}, since=9)
class EyeLike(Op):
    """Ones where j - i = k and zeros elsewhere, in the shape of a matrix. ONNX EyeLike."""

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """The input's shape; its element type too unless `dtype` names one."""
        x, code = call.type(0), call.attrs["dtype"]
        if x.rank not in (None, 2):
            raise ProgramError(f"x {x} is no matrix")
        return (x if code is None else x.with_dtype(onnx_dtype(code)),)

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """NumPy's eye."""
        rows, columns = call[0].shape
        type_ = call.out_types[0]
        dtype = np.int64 if arith.exact or type_ is None else type_.numpy
        return (np.eye(rows, columns, k=call.attrs["k"]).astype(dtype),)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """One guard."""
        k = call.attrs["k"]
        return (compute(call[0].shape, lambda i, j: guard((j - i - k, i + k - j), 1)),)


@op("reverse_sequence", onnx="ReverseSequence", attributes={"time_axis": 0, "batch_axis": 1}, since=10)
class ReverseSequence(Op):
    """The first lengths[b] steps of each batch element b in reverse order, the rest as it was."""

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """x's own type."""
        x, lengths, time = call.type(0), call.ints(1), call.attrs["time_axis"]
        if {time, call.attrs["batch_axis"]} != {0, 1}:
            raise ProgramError("one of time_axis and batch_axis is 0, the other is 1")
        if x.shape is not None and len(x.shape) < 2:
            raise ProgramError(f"x {x} has no axes of time and of batches")
        count = call.type(1).shape
        if x.shape is not None and count is not None and not may_equal(count, (x.shape[1 - time],)):
            raise ProgramError(
                f"lengths {call.type(1)} are not one for each of {x.shape[1 - time]} sequences"
            )
        if x.shape is not None and lengths is not None:
            steps = x.shape[time]
            if any(length < 0 or (isinstance(steps, int) and length > steps) for length in lengths):
                raise ProgramError(f"lengths {list(lengths)} are not from 0 to {steps}")
        return (x,)

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """One gather along time."""
        x, time, batch = call[0], call.attrs["time_axis"], call.attrs["batch_axis"]
        lengths = call[1].astype(np.int64)
        steps = np.arange(x.shape[time])
        source = np.where(steps < lengths[:, None], lengths[:, None] - 1 - steps, steps)
        shape = [1] * x.ndim
        shape[batch], shape[time] = source.shape
        ordered = source if batch < time else source.T
        return (np.take_along_axis(x, ordered.reshape(shape), axis=time),)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """x read backwards below the length, for known lengths."""
        x, time, batch = call[0], call.attrs["time_axis"], call.attrs["batch_axis"]
        lengths = call.value(1).reshape(-1).tolist()

        def element(*at: Poly) -> Expr:
            value = None
            for b, length in enumerate(lengths):
                here = (at[batch] - b, b - at[batch])
                mirrored = [length - 1 - i if d == time else i for d, i in enumerate(at)]
                part = guard((*here, length - 1 - at[time]), x[mirrored])
                part = part + guard((*here, at[time] - length), x[at])
                value = part if value is None else value + part
            assert value is not None
            return value

        return (compute(x.shape, element),)
