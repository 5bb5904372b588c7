"""Planes become blocks and blocks planes, whatever the halo and however ragged the shape."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from kernel_runs import LOOSE, aligned, copy

from tensmith.kernel import host_isa, isa_named
from tensmith.kernel.buffer import NO_HALO, Buffer, Halo
from tensmith.kernel.isa import Isa
from tensmith.kernel.routines.transpose import TransposeRoutine
from tensmith.kernel.toolchain import compile_library

_ENTRY = """
__attribute__((visibility("default"))) void entry(const float *x, float *y)
{ turned(&(const float *){x}, 0, y, 0); }
"""


@pytest.mark.parametrize("isa", [host_isa(), isa_named("generic")], ids=lambda isa: isa.name)
@pytest.mark.parametrize("shape", [(32, 4, 20), (21, 5, 17), (3, 40, 40), (40, 3, 3), (1, 1, 70), (19, 1, 1)])
@pytest.mark.parametrize("halos", [(NO_HALO, NO_HALO), (LOOSE, NO_HALO), (NO_HALO, LOOSE)])
def test_there_and_back(isa: Isa, shape: tuple[int, int, int], halos: tuple[Halo, Halo]) -> None:
    image = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    planes, blocks = Buffer(*shape, 1, halos[0]), Buffer(*shape, isa.lanes, halos[1])
    for source, target in ((planes, blocks), (blocks, planes)):
        text = isa.prelude + TransposeRoutine(isa.lanes).code("turned", (source,), target) + _ENTRY
        library = ctypes.CDLL(str(compile_library(text, isa)))
        x, y = copy(source.lay(image, np.nan)), aligned(target.size)
        library.entry(ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data))
        assert np.array_equal(target.read(y), image)
