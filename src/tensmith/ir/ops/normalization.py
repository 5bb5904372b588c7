"""Normalizations: each is (x - mean) / deviation over its own axes, then a scale and a bias."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Arith, Array
from tensmith.formula.expr import Expr, Formula, compute, guard, inside, total
from tensmith.formula.poly import Poly
from tensmith.ir.op import REQUIRED, Attrs, Op, Run, Symbolic, Typed, op
from tensmith.ir.ops.elementwise import single
from tensmith.ir.ops.shared import may_broadcast, may_equal, normal_axis
from tensmith.ir.tensors import (
    FORMULAS,
    T,
    Tensors,
    along,
    average,
    merge_axes,
    reduce_over,
    shape_of,
    split_axis,
    where,
    widen,
)  # fmt: skip
from tensmith.ir.types import Shape, TensorType

_EPSILON = single(1e-5)


class Normalization(Op):
    """y has x's type. Statistics of 16-bit floats are taken in 32 bits, as stash_type = 1 asks."""

    def accepts(self, call: Typed) -> str | None:
        """Statistics are kept in 32 bits, or in the type of x where that is wider."""
        stash = call.attrs.get("stash_type", 1)
        return None if stash == 1 else f"stash_type={stash}; only 1 (32-bit statistics) is implemented"

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """x's type."""
        self.check_parameters(call)
        return (call.type(0),)

    def check_parameters(self, call: Typed) -> None:
        """ProgramError where a scale, bias or statistic surely has another shape than x asks for."""
        x = call.type(0)
        for given in call.types[1:]:
            if given is None or given.shape is None or x.shape is None:
                continue
            if not self.fits(given.shape, x.shape):
                raise ProgramError(f"a scale, bias or statistic {given} does not fit x {x}")

    def fits(self, parameter: Shape, x: Shape) -> bool:
        """Whether a parameter has one number for each channel, as far as is known."""
        return may_equal(parameter, x[1:2])

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """The meaning on arrays."""
        wide = [None if x is None else widen(x) for x in call.inputs]
        return self.meaning(arith, call.attrs, *wide)[: len(call.out_types)]

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """The meaning on formulas."""
        return self.meaning(FORMULAS, call.attrs, *call.inputs)[: call.n_outputs]

    @abstractmethod
    def meaning(self, m: Any, attrs: Attrs, *inputs: Any) -> tuple[Any, ...]:
        """The outputs, on arrays or on formulas."""


def _deviation(m: Tensors[T], variance: T, epsilon: float) -> T:
    return m.call("sqrt", m.add(variance, m.const(single(epsilon), variance)))


def _centred(m: Tensors[T], x: T, axes: tuple[int, ...]) -> tuple[T, T, T]:
    """x - mean(x), mean(x), and the mean of (x - mean(x))**2."""
    mean = average(m, x, axes)
    centred = m.sub(x, mean)
    return centred, mean, average(m, m.mul(centred, centred), axes)


def _affine(m: Tensors[T], x: T, scale: T, bias: T | None) -> T:
    y = m.mul(x, scale)
    return y if bias is None else m.add(y, bias)


@op(
    "batch_normalization",
    onnx="BatchNormalization",
    attributes={"epsilon": _EPSILON, "momentum": single(0.9), "training_mode": 0},
)
class BatchNormalization(Normalization):
    """y[n,c,...] = (x[n,c,...] - mean[c]) / sqrt(var[c] + epsilon) * scale[c] + bias[c].

    Inputs: x [N, C, ...], or [N] of one channel; scale, bias, mean, var [C]. Inference only. ONNX
    BatchNormalization.
    """

    def fits(self, parameter: Shape, x: Shape) -> bool:
        """Whether a parameter has one number for each channel, as far as is known."""
        return may_equal(parameter, x[1:2] or (1,))

    def accepts(self, call: Typed) -> str | None:
        """Training mode has other outputs; before opset 14 having them is what says so."""
        if call.n_outputs > 1:
            return "training mode, which has more than one output"
        return "training_mode is set" if call.attrs["training_mode"] else None

    def meaning(self, m: Any, attrs: Attrs, *inputs: Any) -> tuple[Any, ...]:
        """See the class."""
        x, *parameters = inputs
        scale, bias, mean, var = (along(p, 1, len(shape_of(x))) for p in parameters)
        y = m.div(m.sub(x, mean), _deviation(m, var, attrs["epsilon"]))
        return (_affine(m, y, scale, bias),)


class RowNormalization(Normalization):
    """Over `axis` and all behind it; inputs x, scale, and a bias that may be left out."""

    centred: ClassVar[bool]  # whether the mean is taken off first

    def fits(self, parameter: Shape, x: Shape) -> bool:
        """Whether a parameter broadcasts to x, and x not to it, as far as is known."""
        return may_broadcast(parameter, x)


@op(
    "layer_normalization",
    onnx="LayerNormalization",
    attributes={"axis": -1, "epsilon": _EPSILON, "stash_type": 1},
)
class LayerNormalization(RowNormalization):
    """y = (x - mean) * (1 / sqrt(var + epsilon)) * scale + bias, over `axis` and all behind it.

    Inputs: x, scale, bias (optional), which broadcast to x. Outputs: y, mean, 1 / sqrt(var + epsilon), the
    last two with size 1 on the normalized axes (Ba et al. 2016). ONNX LayerNormalization.
    """

    centred = True

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """y as x; the statistics in at least 32 bits."""
        self.check_parameters(call)
        x = call.type(0)
        statistics = x.with_dtype("f64" if x.dtype == "f64" else "f32")
        if x.shape is not None:
            first = normal_axis(call.attrs["axis"], len(x.shape))
            kept = x.shape[:first]
            statistics = statistics.with_shape((*kept, *(1,) * (len(x.shape) - first)))
        return (x, statistics, statistics)[: call.n_outputs]

    def meaning(self, m: Any, attrs: Attrs, *inputs: Any) -> tuple[Any, ...]:
        """See the class."""
        x, scale, *bias = inputs
        rank = len(shape_of(x))
        axes = tuple(range(normal_axis(attrs["axis"], rank), rank))
        centred, mean, variance = _centred(m, x, axes)
        inverse = m.div(m.const(1, x), _deviation(m, variance, attrs["epsilon"]))
        y = _affine(m, m.mul(centred, inverse), scale, bias[0] if bias else None)
        return (y, mean, inverse)


@op(
    "rms_normalization",
    onnx="RMSNormalization",
    attributes={"axis": -1, "epsilon": _EPSILON, "stash_type": 1},
)
class RMSNormalization(RowNormalization):
    """y = x * (1 / sqrt(mean(x * x) + epsilon)) * scale, over `axis` and all behind it.

    Zhang and Sennrich 2019. ONNX RMSNormalization.
    """

    centred = False

    def meaning(self, m: Any, attrs: Attrs, *inputs: Any) -> tuple[Any, ...]:
        """See the class."""
        x, scale = inputs
        rank = len(shape_of(x))
        axes = tuple(range(normal_axis(attrs["axis"], rank), rank))
        square = average(m, m.mul(x, x), axes)
        inverse = m.div(m.const(1, x), _deviation(m, square, attrs["epsilon"]))
        return (m.mul(m.mul(x, inverse), scale),)


@op("instance_normalization", onnx="InstanceNormalization", attributes={"epsilon": _EPSILON})
class InstanceNormalization(Normalization):
    """y = (x - mean) / sqrt(var + epsilon) * scale[c] + bias[c], over the spatial axes of each channel.

    Inputs: x [N, C, spatial...], scale, bias [C] (Ulyanov et al. 2016). ONNX InstanceNormalization.
    """

    def meaning(self, m: Any, attrs: Attrs, *inputs: Any) -> tuple[Any, ...]:
        """See the class."""
        x, scale, bias = inputs
        rank = len(shape_of(x))
        centred, _, variance = _centred(m, x, tuple(range(2, rank)))
        y = m.div(centred, _deviation(m, variance, attrs["epsilon"]))
        return (_affine(m, y, along(scale, 1, rank), along(bias, 1, rank)),)


@op(
    "group_normalization",
    onnx="GroupNormalization",
    attributes={"epsilon": _EPSILON, "num_groups": REQUIRED, "stash_type": 1},
    since=21,
)
class GroupNormalization(Normalization):
    """y = (x - mean) / sqrt(var + epsilon) * scale[c] + bias[c], over each group of channels and space.

    Inputs: x [N, C, spatial...], scale, bias [C] (Wu and He 2018). ONNX GroupNormalization.
    """

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """x's type; the groups must divide the channels."""
        self.check_parameters(call)
        x, groups = call.type(0), call.attrs["num_groups"]
        if x.shape is not None and isinstance(x.shape[1], int) and x.shape[1] % groups:
            raise ProgramError(f"num_groups={groups} does not divide the channels of {x}")
        return (x,)

    def meaning(self, m: Any, attrs: Attrs, *inputs: Any) -> tuple[Any, ...]:
        """See the class."""
        x, scale, bias = inputs
        rank = len(shape_of(x))
        grouped = split_axis(x, 1, attrs["num_groups"])
        centred, _, variance = _centred(m, grouped, tuple(range(2, rank + 1)))
        y = merge_axes(m.div(centred, _deviation(m, variance, attrs["epsilon"])), 1)
        return (_affine(m, y, along(scale, 1, rank), along(bias, 1, rank)),)


@op("mean_variance_normalization", onnx="MeanVarianceNormalization", attributes={"axes": (0, 2, 3)})
class MeanVarianceNormalization(Normalization):
    """y = (x - mean) / (sqrt(mean(x * x) - mean * mean) + 1e-9) over `axes`.

    ONNX MeanVarianceNormalization.
    """

    def meaning(self, m: Any, attrs: Attrs, *inputs: Any) -> tuple[Any, ...]:
        """See the class."""
        x = inputs[0]
        axes = tuple(normal_axis(axis, len(shape_of(x))) for axis in attrs["axes"])
        if not axes:
            raise ProgramError("axes are empty; they name what the mean is over")
        mean = average(m, x, axes)
        variance = m.sub(average(m, m.mul(x, x), axes), m.mul(mean, mean))
        deviation = m.add(m.call("sqrt", variance), m.const(single(1e-9), x))
        return (m.div(m.sub(x, mean), deviation),)


@op("lp_normalization", onnx="LpNormalization", attributes={"axis": -1, "p": 2})
class LpNormalization(Normalization):
    """y = x / norm, and 0 where the norm is 0; norm = sum(|x|) or sqrt(sum(x * x)) along `axis`.

    ONNX LpNormalization.
    """

    def meaning(self, m: Any, attrs: Attrs, *inputs: Any) -> tuple[Any, ...]:
        """See the class."""
        x = inputs[0]
        axes = (normal_axis(attrs["axis"], len(shape_of(x))),)
        if attrs["p"] == 1:
            norm = reduce_over(m, "sum", m.call("abs", x), axes)
        else:
            norm = m.call("sqrt", reduce_over(m, "sum", m.mul(x, x), axes))
        zero = m.const(0, x)
        return (where(m.compare("equal", norm, zero), zero, m.div(x, norm)),)


@op(
    "lrn",
    onnx="LRN",
    attributes={"alpha": single(1e-4), "beta": 0.75, "bias": 1.0, "size": REQUIRED},
)
class LRN(Op):
    """y[n,c] = x[n,c] / (bias + alpha / size * sum(d; x[n,c+d] * x[n,c+d])) ** beta. ONNX LRN.

    d runs over the `size` channels around c that exist: from -floor((size-1)/2) to ceil((size-1)/2)
    (Krizhevsky et al. 2012).
    """

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """x's type."""
        x = call.type(0)
        if x.rank in (0, 1):
            raise ProgramError(f"x {x} has no axis of channels")
        return (x,)

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """Windows of the padded squares."""
        x, size = widen(call[0]), call.attrs["size"]
        before = (size - 1) // 2
        pads = [(0, 0), (before, size - 1 - before), *((0, 0),) * (x.ndim - 2)]
        squares = np.pad(arith.mul(x, x), pads)
        windows = np.lib.stride_tricks.sliding_window_view(squares, size, axis=1)
        return (_responses(arith, x, arith.sum(windows, -1), call.attrs),)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """Guarded reads of the neighbours."""
        x, size = call[0], call.attrs["size"]
        before = (size - 1) // 2

        def element(*at: Poly) -> Expr:
            def square(d: Poly) -> Expr:
                channel = at[1] + d - before
                value = x[(at[0], channel, *at[2:])]
                return guard(inside(channel, x.shape[1]), value * value)

            return total(size, square)

        return (_responses(FORMULAS, x, compute(x.shape, element), call.attrs),)


def _responses(m: Tensors[T], x: T, squares: T, attrs: Attrs) -> T:
    weight = m.const(single(attrs["alpha"]) / attrs["size"], x)
    base = m.add(m.const(single(attrs["bias"]), x), m.mul(weight, squares))
    return m.div(x, m.call("pow", base, m.const(single(attrs["beta"]), x)))
