"""What bits of weights cost: the price of memory at a level, and what is lost at that price."""

from __future__ import annotations

import math

from tensmith.ir import Program
from tensmith.rewrite.lossy.grid import PROBE_BITS
from tensmith.rewrite.lossy.weights import stored_weights


def price(level: float) -> float:
    """Of a megabyte, in nats a sample: a level more doubles it."""
    return float(2.0**level)


def predicted_divergence(program: Program, level: float) -> float:
    """Nats a sample that rounding by code length should cost at a level, as if layers added up.

    At one price every weight costs the same, however sensitive its layer is: where a bit more takes three
    quarters of the damage D of a weight, the price of a bit is 2 ln 2 D.
    """
    weights = sum(math.prod(layer.shape) for layer in stored_weights(program))
    return weights * price(level) / 8e6 / (2 * math.log(2))


def damage(divergence: float, bits: int) -> float:
    """Of a layer whose divergence was probed at PROBE_BITS, what it is at other bits."""
    return divergence * 4.0 ** (PROBE_BITS - bits)
