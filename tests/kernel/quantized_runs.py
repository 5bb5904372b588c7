"""Runs single 8-bit kernels and computes what they mean with the reference interpreter's integer sums."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from kernel_runs import LOOSE, Fitted, aligned, copy, curve, reference

from tensmith.kernel.algorithm import Kernel
from tensmith.kernel.buffer import Buffer
from tensmith.kernel.epilogue import Activation, Epilogue
from tensmith.kernel.problem import ConvolutionProblem
from tensmith.kernel.quantized import QuantizationParameters, Requantization, constants
from tensmith.kernel.toolchain import compile_library

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Case:
    """A quantized convolution with all its operands. A residual's bytes or floats tell its type."""

    problem: ConvolutionProblem
    image: Array
    weights: Array
    how: Requantization
    residual: Array | None = None
    activation: Activation | None = None


def sample_case(
    problem: ConvolutionProblem, seed: int = 0, zero_point: int = 117, target_zero: int = 93,
    inner: bool = False, residual: str | None = None, relu: bool = False, activation: str | None = None,
    floats: bool = False, codes: bool = True,
) -> Case:  # fmt: skip
    """Random operands whose results spread over the whole target grid."""
    generator = np.random.default_rng(seed)
    image = generator.integers(0, 256, (problem.channels, problem.height, problem.width)).astype(np.uint8)
    depth = problem.channels // problem.groups
    bounds = (-64, 65) if problem.narrow else (-128, 128)
    weights = generator.integers(*bounds, (problem.filters, depth, *problem.window)).astype(np.int8)
    scales = generator.uniform(0.001, 0.004, problem.filters).astype(np.float32)
    source = QuantizationParameters(0.0173, zero_point)
    spread = 0.0173 * 0.0025 * 75 * 75 * np.sqrt(problem.depth)
    target = None if floats else QuantizationParameters(float(np.float32(spread / 40)), target_zero)
    if relu and target:
        target = target.clipped(0.0, 60 * target.scale)
    bias_codes = generator.integers(-9000, 9000, problem.filters).astype(np.int32) if codes else None
    bias = None if codes else generator.normal(0, spread, problem.filters).astype(np.float32)
    shape = (problem.filters, *problem.output)
    other = None
    if residual == "u8":
        other = generator.integers(0, 256, shape).astype(np.uint8)
    elif residual == "f32":
        other = (generator.standard_normal(shape) * spread).astype(np.float32)
    how = Requantization(
        source, scales, target, bias_codes, bias,
        inner=QuantizationParameters(float(np.float32(spread / 30)), 140) if inner else None,
        residual=QuantizationParameters(float(np.float32(spread / 50)), 31) if residual == "u8" else
        QuantizationParameters(1.0, 0) if residual == "f32" else None,
    )  # fmt: skip
    return Case(problem, image, weights, how, other, curve(activation) if activation else None)


def drawn_case(data: st.DataObject, problem: ConvolutionProblem) -> Case:
    """`sample_case` with whatever may stand behind the sums."""

    def draw(low: int, high: int) -> int:
        return data.draw(st.integers(low, high))

    return sample_case(
        problem, draw(0, 99), zero_point=draw(0, 255), target_zero=draw(0, 255), inner=bool(draw(0, 1)),
        residual=data.draw(st.sampled_from([None, "u8", "f32"])), relu=bool(draw(0, 1)),
        activation=data.draw(st.sampled_from([None, "hard_swish"])), floats=bool(draw(0, 1)),
        codes=bool(draw(0, 1)),
    )  # fmt: skip


def meaning(case: Case) -> Array:
    """y in double precision before the last rounding, in units of the target's grid."""
    how = case.how
    sums = reference(case.problem, case.image.astype(np.float64) - how.source.zero_point, case.weights)
    codes = 0 if how.codes is None else how.codes[:, None, None]
    value = (sums + codes) * (how.source.scale * how.scales.astype(np.float64))[:, None, None]
    if how.bias is not None:
        value = value + how.bias[:, None, None]
    if how.inner:
        value = _on_grid(value / how.inner.scale, how.inner) * how.inner.scale
    if case.residual is not None:
        grid = how.residual or QuantizationParameters(1.0, 0)
        value = value + (case.residual.astype(np.float64) - grid.zero_point) * grid.scale
    if case.activation is not None:
        assert case.activation.name == "hard_swish"
        value = value * np.clip(value / 6 + 0.5, 0, 1)
    if how.target is None:
        return value
    return _on_grid(value / how.target.scale, how.target) + how.target.zero_point


def _on_grid(value: Array, grid: QuantizationParameters) -> Array:
    """Whole numbers from low to high, the zero point taken off."""
    return np.clip(np.rint(value), grid.low - grid.zero_point, grid.high - grid.zero_point)


def found(
    kernel: Kernel, case: Case, loose: bool = False, cache: Path | None = None, apart: bool = False
) -> Array:
    """y of one kernel: bytes, or floats if there is no target grid.

    `apart` if the residual lies otherwise than y: with a wider halo or with none.
    """
    how, source, target = case.how, kernel.source, kernel.target
    dtype = "u8" if how.target else "f32"
    halo = LOOSE if loose else target.halo
    target = Buffer(target.channels, target.height, target.width, target.block, halo, dtype)
    if loose:
        source = Buffer(source.channels, source.height, source.width, source.block,
                        source.halo.union(LOOSE), "u8")  # fmt: skip
    kept = None
    if case.residual is not None:
        bytes_ = case.residual.dtype == np.uint8
        around = LOOSE if loose != apart else kernel.target.halo
        kept = replace(target, halo=around, dtype="u8" if bytes_ else "f32")
    epilogue = Epilogue(True, kept, case.activation, how.inner is not None)
    text = kernel.isa.prelude + Fitted(kernel, source, target, epilogue).text("entry")
    function = ctypes.CDLL(str(compile_library(text, kernel.isa, room=cache))).entry
    y = aligned(target.size, np.uint8 if how.target else np.float32)
    words = constants(case.problem, kernel.isa, case.weights, how, case.activation is not None)
    r = copy(kept.lay(case.residual)) if kept and case.residual is not None else aligned(1)
    scratch = aligned(kernel.scratch_bytes // 4 + 16)
    laid = source.lay(case.image, 99, how.source.zero_point)
    arrays = (copy(laid), copy(kernel.pack(case.weights)), copy(words), r, y, scratch)
    function(*(ctypes.c_void_p(array.ctypes.data) for array in arrays))
    return target.read(y)


def within_one_rarely(bytes_: Array, expected: Array, how: Requantization | None = None) -> None:
    """Equal but for bytes one unit off, as few as there are numbers near a half; floats by 1e-5.

    What was on a grid on the way (`how`) may be off by one of its steps, as rarely.
    """
    inner, target = (how.inner, how.target) if how else (None, None)
    if bytes_.dtype == np.float32:
        off = abs(bytes_ - expected) > 1e-5 * (abs(expected).max() + 1e-9)
        assert np.count_nonzero(off) <= (2 + 1e-3 * off.size if inner else 0)
        if inner:
            assert np.all(abs(bytes_ - expected)[off] <= 1.5 * inner.scale)  # hard_swish is no steeper
        return
    error = abs(bytes_.astype(np.float64) - expected)
    assert error.max(initial=0) <= 1 + (1.5 * inner.scale / target.scale if inner and target else 0)
    assert np.count_nonzero(error) <= 2 + 1e-3 * error.size
