"""What each layer with weights weighs, computes and takes at best: the per-layer story begins here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from tensmith.evaluate.count import node_costs, node_seconds
from tensmith.hardware import Target
from tensmith.ir import Program
from tensmith.ir.program import array_bytes
from tensmith.report.metric import Evidence
from tensmith.rewrite.lossy.weights import StoredWeights, stored_weights


@dataclass(frozen=True)
class LayerCost:
    """One layer: `bytes` of its weights, `ms` by the roofline; None if unknown.

    A recurrent layer is two, each with the share of its multiply-adds that its weights are of them all.
    """

    weights: StoredWeights
    bytes: int
    multiply_adds: float | None
    ms: float | None
    ms_evidence: Evidence = "estimated"

    @property
    def name(self) -> str:
        """What it is called in plans."""
        return self.weights.site

    @property
    def shape(self) -> str:
        """Of its weights, in words."""
        return " x ".join(map(str, self.weights.shape))

    def document(self) -> dict[str, Any]:
        """It as plain values."""
        words = {"name": self.name, "op": self.weights.op, "shape": self.shape}
        return words | {each.name: getattr(self, each.name) for each in fields(self)[1:]}


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
            own,
            array_bytes(program.constants[own.weight]),
            own.share * costs[own.node.output].macs if own.node.output in costs else None,
            own.share * taken[own.node.output] if own.node.output in taken else None,
        )
        for own in stored_weights(program)
    ]
