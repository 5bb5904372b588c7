"""Layouts by dynamic programming: as cheap as the cheapest of all combinations, conversions included."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tensmith.backend.native.choose.choice import KernelChoice, Network, after, choose_kernels, leaving
from tensmith.backend.native.choose.choosers import Chooser, Options
from tensmith.backend.native.choose.parallel import whole
from tensmith.backend.native.images import Images
from tensmith.backend.native.steps.step import Heavy, Light, Step, reads
from tensmith.kernel import Isa, isa_named
from tensmith.kernel.algorithms.direct import Direct
from tensmith.kernel.algorithms.spatial_pack import SpatialPack
from tensmith.kernel.problem import ConvolutionProblem
from tensmith.kernel.routines.pool import GlobalPoolRoutine

ISA = isa_named("avx512")
SHAPE = Images(1, 16, 8, 8)


def steps_of(kinds: list[int], wiring: list[int], problems: list[ConvolutionProblem]) -> list[Step]:
    """A network: each step reads one or two of the values before it."""
    values, steps = ["x"], list[Step]()
    for index, kind in enumerate(kinds):
        output, first = f"v{index}", values[wiring[2 * index] % len(values)]
        other = values[wiring[2 * index + 1] % len(values)]
        if kind == 0:
            steps.append(Light(GlobalPoolRoutine("max", ISA.lanes), (first,), output))
        else:
            weights = np.zeros((16, 16, 3, 3), np.float32)
            residual = other if kind == 2 and other != first else None
            steps.append(Heavy(problems[index], first, weights, output, residual=residual))
        values.append(output)
    return steps


@settings(deadline=None, max_examples=60)
@given(data=st.data(), kinds=st.lists(st.integers(0, 2), min_size=1, max_size=5))
def test_no_combination_is_cheaper(data: st.DataObject, kinds: list[int]) -> None:
    wiring = data.draw(st.lists(st.integers(0, 9), min_size=2 * len(kinds), max_size=2 * len(kinds)))
    seconds = data.draw(
        st.lists(st.floats(1e-7, 2e-6), min_size=2 * len(kinds), max_size=2 * len(kinds)), label="seconds"
    )
    # Problems that differ in nothing that counts, so that each has seconds of its own.
    problems = [
        ConvolutionProblem(16, 8, 8, 16, (3, 3), pads=(1, 1, 1, 1), density=0.9 - i / 100)
        for i in range(len(kinds))
    ]

    def choose(problem: ConvolutionProblem, isa: Isa, _: ConvolutionProblem) -> Options:
        at = 2 * problems.index(problem)
        kernels = (next(kind.candidates(problem, isa)) for kind in (Direct, SpatialPack))
        return list(zip(seconds[at : at + 2], kernels))

    steps = steps_of(kinds, wiring, problems)
    images = {name: SHAPE for step in steps for name in (step.output, *reads(step))} | {"x": SHAPE}
    network = Network(images, frozenset(), frozenset(), ("x",), (steps[-1].output,), ISA, 1)
    heavy = [step for step in steps if isinstance(step, Heavy)]
    found = choose_kernels(steps, network, choose)
    single = {step: choose_kernels_alone(step, choose) for step in heavy}
    costs = [
        walk(steps, dict(zip(heavy, combination)), network)
        for combination in itertools.product(*(single[step] for step in heavy))
    ]
    assert walk(steps, found, network) <= min(costs) * (1 + 1e-9)


def walk(steps: list[Step], chosen: Mapping[Heavy, KernelChoice], network: Network) -> float:
    """Seconds of a network with these choices."""
    lying = {name: frozenset([network.dense(name)]) for name in network.inputs}
    total = 0.0
    for step in steps:
        lying, seconds = after(step, chosen[step] if isinstance(step, Heavy) else None, lying, network)
        total += seconds
    return total + leaving(lying, network)


def choose_kernels_alone(step: Heavy, choose: Chooser) -> list[KernelChoice]:
    """A choice for each kernel."""
    return [
        KernelChoice(cost, ((whole(step.problem), kernel),))
        for cost, kernel in choose(step.problem, ISA, step.problem)
    ]
