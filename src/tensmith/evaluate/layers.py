"""What each layer with weights weighs, computes and takes at best: the per-layer story begins here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensmith.evaluate.count import node_costs, node_seconds
from tensmith.hardware import Target
from tensmith.ir import Program
from tensmith.ir.program import array_bytes
from tensmith.report.metric import Evidence
from tensmith.rewrite.lossy.weights import weighted_layers


@dataclass(frozen=True)
class LayerCost:
    """One layer by the name of its output: `bytes` of its weights, `ms` by the roofline; None if unknown."""

    name: str
    op: str
    shape: str
    bytes: int
    multiply_adds: float | None
    ms: float | None
    ms_evidence: Evidence = "estimated"


def roofline_ms(
    program: Program, target: Target, threads: int = 1, sizes: Mapping[str, int] | None = None
) -> dict[str, float]:
    """What each node that multiplies takes by the roofline, by its output; what is not known is left out."""
    seconds = node_seconds(target, sizes, threads, multiplying=True)
    return {name: 1e3 * spent for name, spent in seconds(program).items()}


def layer_costs(
    program: Program, target: Target, threads: int = 1, sizes: Mapping[str, int] | None = None
) -> list[LayerCost]:
    """Every layer in model order, symbolic sizes taken from `sizes` (1 where not given)."""
    costs = {node.output: cost for node, cost in node_costs(program, sizes)}
    taken = roofline_ms(program, target, threads, sizes)
    return [
        LayerCost(
            layer.site,
            layer.op,
            " x ".join(map(str, layer.shape)),
            array_bytes(program.constants[layer.weight]),
            costs[layer.site].macs if layer.site in costs else None,
            taken.get(layer.site),
        )
        for layer in weighted_layers(program)
    ]
