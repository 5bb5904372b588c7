"""Random kernels of the native engine against the reference interpreter: of 10,000, none may be wrong.

    python -m benchmarks.native.random_kernels [--count 10000] [--seed 0]

A configuration is a random convolution or product (ragged sizes, strides, dilations, pads, groups), an
instruction set of this machine, one of the algorithms that take it with one of its candidates, a bias, a
residual and an activation or none, halos as asked for or wider, and random values, sometimes a NaN among
them. fp32 results must lie within the rounding bound of their algorithm, NaN where the interpreter has NaN;
8-bit results may differ by one unit where the interpreter lies near a half.
"""

from __future__ import annotations

import ctypes
import random
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from kernel_runs import Fitted, fitted, reference, rounding_bound, sample, wider, winograd_bound
from quantized_runs import found as found_bytes
from quantized_runs import meaning, sample_case, within_one_rarely

from benchmarks import parts
from tensmith.kernel import ConvolutionProblem, Epilogue, Kernel, host_isa, isa_named
from tensmith.kernel.algorithm import candidates
from tensmith.kernel.algorithms.winograd import Winograd
from tensmith.kernel.epilogue import Activation
from tensmith.kernel.isa import Isa
from tensmith.kernel.problem import product
from tensmith.kernel.sparse_stream import density
from tensmith.kernel.toolchain import compile_library

Array = np.ndarray[Any, Any]

# None of them stretches an error: every slope is at most 1.
ACTIVATIONS = {
    "relu": (Activation("relu", "vmax(splat(0), x_)"), lambda v: np.maximum(v, 0)),
    "clip": (Activation("clip", "vmin(splat(6), vmax(splat(-0.5f), x_))"), lambda v: np.clip(v, -0.5, 6)),
    "leaky_relu": (
        Activation("leaky", "vleaky(x_, splat(0.125f))"),
        lambda v: np.where(v < 0, v / 8, v),
    ),
    "none": (None, lambda v: v),
}
# The algorithms whose sums skip what they need not read, or mix what they read: see their docstrings, and
# kernel/groups.py for convolutions in groups.
NOT_LOCAL = ("winograd", "winograd_on_the_fly", "sparse")
PART, BYTES = 40, 10  # configurations in fp32 that are compiled at once; those in 8 bits beside them


@dataclass(frozen=True)
class Configuration:
    """Everything that one comparison depends on."""

    made: Fitted
    image: Array
    weights: Array
    bias: Array | None
    residual: Array | None
    activation: str

    def error(self, function: Any) -> str:
        """What is wrong with the kernel's result; nothing if all is well."""
        kernel = self.made.kernel
        found = self.made.run(function, self.image, self.weights, self.bias, self.residual)
        expected = reference(kernel.problem, self.image, self.weights)
        if self.bias is not None:
            expected = expected + self.bias[:, None, None]
        if self.residual is not None:
            expected = expected + self.residual
        expected = ACTIVATIONS[self.activation][1](expected)
        if np.isnan(self.image).any():
            return "" if np.array_equal(np.isnan(found), np.isnan(expected)) else "NaN elsewhere"
        allowed: Array | float = rounding_bound(kernel.problem, self.image, self.weights)
        if isinstance(kernel, Winograd):
            allowed = winograd_bound(kernel, self.image, self.weights)
        excess = abs(found - expected) - allowed - 4e-6 * (1 + abs(expected))
        return "" if np.all(excess <= 0) else f"off by {float(np.nanmax(excess)):.3g} more than rounding"

    def __str__(self) -> str:
        kernel = self.made.kernel
        return f"{kernel.isa.name} {kernel} {self.made.epilogue} on a {kernel.problem}"


def problem_of(rng: random.Random) -> ConvolutionProblem:
    """A random problem, as often a common kind as an odd one."""
    kind = rng.choice(("odd", "3x3", "1x1", "depthwise", "product"))
    height, width = rng.randint(6, 20), rng.randint(6, 20)
    channels, filters = rng.choice((rng.randint(1, 40), 16, 32, 48)), rng.choice((rng.randint(1, 40), 32))
    stride = rng.choice((1, 1, 2))
    if kind == "product":
        return product(rng.randint(1, 20), rng.randint(1, 90), rng.randint(1, 90))
    if kind == "1x1":
        return ConvolutionProblem(channels, height, width, filters, strides=(stride, stride))
    if kind == "3x3":
        pads = rng.choice(((1, 1, 1, 1), (0, 0, 0, 0), (0, 0, 1, 1)))
        return ConvolutionProblem(channels, height, width, filters, (3, 3), (stride, stride), pads)
    window = (rng.randint(1, 5), rng.randint(1, 5))
    pads = tuple(rng.randint(0, size - 1) if size > 1 else 0 for size in (*window, *window))
    strides = (rng.randint(1, 3), rng.randint(1, 3))
    if kind == "depthwise":
        return ConvolutionProblem(channels, height, width, channels, window, strides, pads, groups=channels)
    groups = rng.choice((1, 1, 2, 3))
    dilations = tuple(rng.randint(1, 2) if size <= 3 else 1 for size in window)
    return ConvolutionProblem(
        groups * rng.randint(1, 24), height, width, groups * rng.randint(1, 24), window, strides, pads,
        dilations, groups,
    )  # fmt: skip


def kernel_of(rng: random.Random, problem: ConvolutionProblem, isa: Isa) -> Kernel | None:
    """One candidate of one algorithm, all algorithms alike often; None if nothing takes the problem."""
    options = candidates(problem, isa)
    if not options:
        return None
    name = rng.choice(sorted({option.name for option in options}))
    return rng.choice([option for option in options if option.name == name])


def configuration(rng: random.Random, isa: Isa) -> Configuration | None:
    """A random one in fp32."""
    problem = problem_of(rng)
    image, weights = sample(problem, rng.randrange(1 << 30))
    if rng.random() < 0.3:
        weights = np.where(
            np.random.default_rng(rng.randrange(1 << 30)).random(weights.shape) < 0.2, weights, 0
        )
        weights = weights.astype(np.float32)
        problem = replace(problem, density=density(weights))
    kernel = kernel_of(rng, problem, isa)
    if kernel is None:
        return None
    local = kernel.name not in NOT_LOCAL and (problem.groups == 1 or kernel.name == "depthwise")
    if local and rng.random() < 0.1:
        image[tuple(rng.randrange(size) for size in image.shape)] = np.nan
    shape = (problem.filters, *problem.output)
    values = np.random.default_rng(rng.randrange(1 << 30))
    bias = values.standard_normal(problem.filters, np.float32) if rng.random() < 0.5 else None
    residual = values.standard_normal(shape, np.float32) if rng.random() < 0.3 else None
    name = rng.choice(list(ACTIVATIONS))
    epilogue = Epilogue(
        bias is not None,
        None if residual is None else wider(kernel.target) if rng.random() < 0.5 else kernel.target,
        ACTIVATIONS[name][0],
    )
    made = fitted(kernel, epilogue, loose=rng.random() < 0.5)
    return Configuration(made, image, weights, bias, residual, name)


def compared(batch: list[Configuration]) -> list[str]:
    """What is wrong with each configuration of a batch for one instruction set, compiled at once."""
    isa = batch[0].made.kernel.isa
    text = isa.prelude + "".join(each.made.text(f"entry_{index}") for index, each in enumerate(batch))
    with tempfile.TemporaryDirectory() as folder:
        library = ctypes.CDLL(str(compile_library(text, isa, room=Path(folder))))
        return [each.error(getattr(library, f"entry_{index}")) for index, each in enumerate(batch)]


def compared_bytes(rng: random.Random, isa: Isa) -> tuple[str, str] | None:
    """(algorithm, what is wrong) of one random 8-bit configuration."""
    problem = replace(problem_of(rng), dtype="u8")
    kernel = kernel_of(rng, problem, isa)
    if kernel is None:
        return None
    case = sample_case(
        problem, rng.randrange(1 << 30), rng.choice((0, 117, 128, 255)), rng.choice((0, 93, 128)),
        residual=rng.choice((None, None, "u8")), relu=rng.random() < 0.3, codes=rng.random() < 0.7,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        try:
            loose, apart = rng.random() < 0.5, rng.random() < 0.5
            within_one_rarely(found_bytes(kernel, case, loose, Path(folder), apart), meaning(case))
        except AssertionError as error:
            return kernel.name, f"{isa.name} {kernel} on a {problem}: {error}"
    return kernel.name, ""


def compared_part(number: int) -> parts.Found:
    """What became of the configurations that a number gives, of one instruction set of this machine."""
    rng = random.Random(number)
    sets = {isa.name: isa for isa in (host_isa(), isa_named("avx2"), isa_named("generic"))}
    isa = rng.choice([isa for isa in sets.values() if isa.needs <= host_isa().features])
    done: Counter[str] = Counter()
    wrong: list[str] = []
    fp32 = [found for _ in range(PART) if (found := configuration(rng, isa))]
    for each, complaint in zip(fp32, compared(fp32)):
        done[f"{each.made.kernel.name} {isa.name}"] += 1
        wrong += [f"{each}: {complaint}"] if complaint else []
    for _ in range(BYTES):
        if (judged := compared_bytes(rng, isa)) is not None:
            done[f"{judged[0]} {isa.name}"] += 1
            wrong += [judged[1]] if judged[1] else []
    return parts.Found(done, tuple(wrong))


def main() -> int:
    """1 where a kernel is wrong."""
    parser = parts.arguments(__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="the first number")
    options = parser.parse_args()
    numbers = range(options.seed, options.seed + -(-options.count // (PART + BYTES)))
    every = {str(number): number for number in numbers}
    return parts.main(every, compared_part, options.output, {"bench": "native_random"})


if __name__ == "__main__":
    sys.exit(main())
