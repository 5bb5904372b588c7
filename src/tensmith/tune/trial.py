"""What a kernel is timed on: random operands, and weights from the memory they would come from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensmith.engine.frame import Array
from tensmith.kernel.algorithm import Kernel
from tensmith.kernel.codes import CODE_BITS, coded
from tensmith.kernel.problem import ConvolutionProblem
from tensmith.kernel.quantized import QuantizationParameters, Requantization, constants

# Bytes that the copies of a kernel's weights take together, for each memory that they are to come from
# (backend.native.choose.choosers.memory_of): the second cache, the third, beyond.
_SPREAD_BYTES = (1, 6 << 20, 96 << 20)
_DTYPES = {"f32": np.float32, "f16": np.float16, "u8": np.uint8}


@dataclass(frozen=True)
class KernelTrial:
    """A call's operands; `weights` are read from `copies` of them in turns."""

    source: Array
    weights: Array
    constants: Array
    target_bytes: int
    scratch_bytes: int
    copies: int

    @property
    def arrays(self) -> dict[str, Array]:
        """What is sent to the process that runs the kernel, in the order of its arguments."""
        return {"source": self.source, "weights": self.weights, "constants": self.constants}


def trial(kernel: Kernel, memory: int) -> KernelTrial:
    """Random operands for a kernel, weights in `memory`."""
    weights, numbers = _weights(kernel)
    copies = max(1, _SPREAD_BYTES[memory] // max(1, weights.nbytes))
    return KernelTrial(_source(kernel), weights, numbers, _target_bytes(kernel), kernel.scratch_bytes, copies)


def given(kernel: Kernel, image: Array, weights: Array, bias: Array) -> KernelTrial:
    """These floats as operands of a kernel; see tune.timer.Timer.answer."""
    full = np.zeros(kernel.isa.round_up(kernel.problem.filters), np.float32)
    full[: bias.size] = bias
    packed, size = kernel.pack(weights), _target_bytes(kernel)
    return KernelTrial(kernel.source.lay(image), packed, full, size, kernel.scratch_bytes, 1)


def _target_bytes(kernel: Kernel) -> int:
    return kernel.isa.round_up(kernel.target.size) * 4


def _source(kernel: Kernel) -> Array:
    """Random numbers, so that no multiplication meets zeros or denormal numbers alone."""
    generator, dtype = np.random.default_rng(0), _DTYPES[kernel.source.dtype]
    if dtype is np.uint8:
        return generator.integers(0, 256, kernel.source.size, np.uint8)
    return generator.standard_normal(kernel.source.size, np.float32).astype(dtype)


def _weights(kernel: Kernel) -> tuple[Array, Array]:
    """Packed random weights, and the constants that go with them."""
    problem, generator = kernel.problem, np.random.default_rng(0)
    shape = (problem.filters, problem.channels // problem.groups, *problem.window)
    bias = np.zeros(kernel.isa.round_up(problem.filters), np.float32)
    if problem.dtype in CODE_BITS:
        return kernel.pack(_random_codes(problem, generator)), bias
    kept = random_pattern(problem, generator)
    if problem.dtype != "u8":
        weights = generator.standard_normal(shape, np.float32)
        weights[~kept] = 0
        return kernel.pack(weights), bias
    codes = generator.integers(-127, 128, shape).astype(np.int8)
    codes[~kept] = 0
    return kernel.pack(codes), constants(problem, kernel.isa, codes, _requantization(problem), curved=False)


def _random_codes(problem: ConvolutionProblem, generator: np.random.Generator) -> Array:
    """Weights of kernel.codes.CODE: codes of all values, a scale and a zero point for each block."""
    most = 1 << (CODE_BITS[problem.dtype] - 1)
    codes = generator.integers(-most, most, (problem.filters, problem.channels))
    blocks = (problem.filters, -(-problem.channels // problem.block))
    zeros = generator.integers(-most, most, blocks) if problem.dtype == "u4" else None
    return coded(codes, generator.uniform(0.01, 0.1, blocks), zeros, problem.block)


def random_pattern(problem: ConvolutionProblem, generator: np.random.Generator) -> Array:
    """Which of a problem's weights are not zero: as many of them, in fours where they lie in fours."""
    channels, density = problem.channels // problem.groups, problem.density
    anywhere = 1 - (1 - density) ** 4 - 0.02
    wide, tall = (4 if share < anywhere else 1 for share in (problem.quads, problem.strips))
    shares = [share for share, run in ((problem.quads, wide), (problem.strips, tall)) if run > 1]
    block = min(shares, default=density)
    blocks = generator.random((-(-problem.filters // tall), -(-channels // wide), *problem.window)) < block
    kept: Array = np.repeat(np.repeat(blocks, tall, 0), wide, 1)[: problem.filters, :channels]
    return kept & (generator.random(kept.shape) < density / max(block, density, 1e-9))


def _requantization(problem: ConvolutionProblem) -> Requantization:
    """Between grids on which random sums fill a byte."""
    target = QuantizationParameters(0.05 * float(np.sqrt(problem.depth)), 0)
    return Requantization(QuantizationParameters(0.02, 0), np.full(problem.filters, 0.01, np.float32), target)
