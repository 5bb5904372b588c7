"""Biases in 32-bit codes: they hold what floats held, also where a channel has hardly any weights."""

from __future__ import annotations

import numpy as np

from lossy_samples import Interpreted, Net, run
from tensmith.rewrite.method import apply_lossy
from tensmith.rewrite.rule import EVERYWHERE, Step


def test_a_dead_channel_keeps_its_bias() -> None:
    """As of a normalization whose factor went to nothing in training: all that is left is its shift."""
    net = Net()
    x = net.conv("x", 8)
    weights, bias = (next(a for a in net.constants.values() if a.ndim == n) for n in (4, 1))
    weights[3] *= np.float32(1e-12)
    bias[3] = 1.5
    program = net.program(net.op("relu", x))
    step = Step("int8", EVERYWHERE, {"calibration": "minmax", "default_bits": 8}, "lossy")
    treated = apply_lossy(program, step, Interpreted())
    (codes,) = (array for array in treated.constants.values() if array.dtype == np.int32 and array.any())
    assert np.abs(codes.astype(np.int64)).max() <= 2**30
    np.testing.assert_allclose(run(treated)[:, 3], 1.5, rtol=0.02)
