"""Whether a kernel that somebody else wrote computes what ours does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tensmith.engine.frame import Array
from tensmith.errors import EngineError
from tensmith.kernel.algorithm import Kernel
from tensmith.kernel.algorithms.direct import Direct

# Runs a kernel of floats on (image, weights, bias), as tune.timer.Timer.answer does.
Run = Callable[[Kernel, Array, Array, Array], Array]

_UNIT = 2.0**-24


def check_agreement(kernel: Kernel, run: Run) -> None:
    """EngineError unless it agrees with `Direct` on random numbers.

    Both add the same depth products and a bias, each in an order of its own, so that each is off by at most
    (depth + 4) u sum(|x||w|), u = 2^-24 (Higham, 2002, eq. 3.5).
    """
    problem, generator = kernel.problem, np.random.default_rng(0)
    shapes = (
        (problem.channels, problem.height, problem.width),
        (problem.filters, problem.channels // problem.groups, *problem.window),
        (problem.filters,),
    )
    image, weights, bias = (generator.standard_normal(shape, np.float32) for shape in shapes)
    ours = next(Direct.candidates(problem, kernel.isa))
    bound = 2 * (problem.depth + 4) * _UNIT * run(ours, abs(image), abs(weights), abs(bias))
    error = abs(run(kernel, image, weights, bias) - run(ours, image, weights, bias))
    if not (error <= bound).all():  # not a number is no agreement either
        raise EngineError(f"{kernel} computes a {problem} wrongly, off by {error.max():.2g}")
