"""Kernels run on given operands; those that compute something else are found out."""

from __future__ import annotations

import numpy as np
import pytest
from small_networks import problem

from tensmith.engine.frame import Array
from tensmith.errors import EngineError
from tensmith.kernel import ConvolutionProblem, Kernel, host_isa
from tensmith.kernel.algorithms.spatial_pack import SpatialPack
from tensmith.tune.agreement import check_agreement
from tensmith.tune.timer import Timer


@pytest.mark.parametrize(
    "asked", [problem(), ConvolutionProblem(3, 9, 8, 20, (3, 2), (2, 1), (1, 0, 0, 1), (1, 2))], ids=str
)
def test_a_kernel_agrees_with_another_and_not_with_other_numbers(asked: ConvolutionProblem) -> None:
    kernel = next(SpatialPack.candidates(asked, host_isa()))
    with Timer() as timer:
        check_agreement(kernel, timer.answer)

        def spoiled(which: Kernel, image: Array, weights: Array, bias: Array) -> Array:
            return timer.answer(which, image, weights, bias * np.float32(1.1 if which == kernel else 1))

        with pytest.raises(EngineError, match=r"spatial_pack.*wrongly"):
            check_agreement(kernel, spoiled)

        def none(which: Kernel, *operands: Array) -> Array:
            return timer.answer(which, *operands) * np.float32(np.nan if which == kernel else 1)

        with pytest.raises(EngineError, match="off by nan"):
            check_agreement(kernel, none)
