"""How many bits each layer's weights get at a price of memory, and what that should cost."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tensmith.ir import Program
from tensmith.rewrite.lossy.weights import GRID_GAIN, weighted_layers
from tensmith.search.sensitivity import PROBE_BITS, Sensitivity


def allocate_bits(
    program: Program, sensitivity: Mapping[str, Sensitivity], level: float, lowest: int = 2, highest: int = 8
) -> dict[str, int]:
    """Bits of each layer at a price of 2**level nats a megabyte: each minimises damage + price * bytes.

    Damage of b bits is the probed divergence times 4**(PROBE_BITS - b), as quantization noise power is; a
    weight of b bits packs into about b - 0.75 (the entropy of a Gaussian on such a grid).
    """
    price = 2.0**level / 1e6
    bits: dict[str, int] = {}
    for layer in weighted_layers(program):
        elements = float(np.prod(layer.shape))
        floor = max(sensitivity[layer.site].divergence, 1e-9)

        def cost(b: int, floor: float = floor, elements: float = elements) -> float:
            return float(damage(floor, b) + price * elements * (b - GRID_GAIN) / 8)

        bits[layer.site] = min(range(lowest, highest + 1), key=cost)
    return bits


def predicted_divergence(bits: Mapping[str, int], sensitivity: Mapping[str, Sensitivity]) -> float:
    """Divergence of an allocation, as if layers added up: nats a sample."""
    return sum(damage(sensitivity[site].divergence, count) for site, count in bits.items())


def damage(divergence: float, bits: int) -> float:
    """Of a layer whose divergence was probed at PROBE_BITS, what it is at other bits."""
    return divergence * 4.0 ** (PROBE_BITS - bits)
