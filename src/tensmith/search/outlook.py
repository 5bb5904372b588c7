"""What each method would save of each layer, and should cost; and what a run measured of each method."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tensmith.evaluate.count import node_costs
from tensmith.hardware import Target
from tensmith.hardware.cost import OpCost, op_seconds
from tensmith.ir import Program
from tensmith.ir.program import array_bytes
from tensmith.report.metric import Evidence
from tensmith.rewrite.lossy.grid import PROBE_BITS
from tensmith.rewrite.lossy.weights import StoredWeights, stored_weights
from tensmith.rewrite.method import LOSSY, MethodOutlook
from tensmith.search.bits import damage
from tensmith.search.candidate import Candidate
from tensmith.search.sensitivity import Sensitivity
from tensmith.search.space import Space


@dataclass(frozen=True)
class LayerOutlook:
    """One method on one layer: `bytes` of weights to ship and `ms` by the roofline, before and after.

    divergence: nats a sample that it should cost, from what was probed; None where nobody probed, or where
    nothing tells. words: with which parameters.
    """

    layer: str
    method: str
    words: str
    bytes_before: int
    bytes_after: int
    ms_before: float | None
    ms_after: float | None
    divergence: float | None
    divergence_evidence: Evidence | None
    evidence: Evidence = "estimated"


@dataclass(frozen=True)
class MethodFound:
    """The best that a run measured of one method alone, on the whole model.

    times: over the file as it came. speedup: over the baseline. Who holds the budgets is better, then who is
    smaller.
    """

    method: str
    candidate: str
    status: str
    drop: float
    unit: str
    times: float
    speedup: float
    evidence: Evidence = "measured"


def layer_outlooks(
    program: Program,
    target: Target,
    threads: int = 1,
    sensitivity: Mapping[str, Sensitivity] | None = None,
    sizes: Mapping[str, int] | None = None,
) -> list[LayerOutlook]:
    """Every method on every layer that it would act on, in model order, at `sizes` as `node_costs`."""
    prospect = Space(program, (), target=target).prospect
    costs = {node.output: cost for node, cost in node_costs(program, sizes)}
    found = {name: method.outlooks(prospect) for name, method in LOSSY.items()}
    return [
        _row(program, layer, name, of_layer[layer.site], cost, target, threads, sensitivity)
        for layer in stored_weights(program)
        for cost in (costs.get(layer.node.output),)
        for name, of_layer in found.items()
        if layer.site in of_layer
    ]


def _row(
    program: Program,
    layer: StoredWeights,
    method: str,
    outlook: MethodOutlook,
    cost: OpCost | None,
    target: Target,
    threads: int,
    sensitivity: Mapping[str, Sensitivity] | None,
) -> LayerOutlook:
    stored = array_bytes(program.constants[layer.weight])
    probed = (sensitivity or {}).get(layer.site)
    milliseconds = 1e3 * layer.share
    known = probed is not None and outlook.bits is not None
    return LayerOutlook(
        layer.site,
        method,
        outlook.words,
        stored,
        round(outlook.bytes),
        None if cost is None else milliseconds * op_seconds(target, cost, threads),
        None if cost is None else milliseconds * _seconds_after(cost, outlook, stored, target, threads),
        damage(probed.divergence, outlook.bits) if probed and outlook.bits is not None else None,
        ("measured" if outlook.bits == PROBE_BITS else "estimated") if known else None,
    )


def _seconds_after(cost: OpCost, outlook: MethodOutlook, stored: int, target: Target, threads: int) -> float:
    """What the layer takes then: nothing where it goes."""
    return op_seconds(target, _after(cost, outlook, stored), threads) if outlook.macs else 0.0


def _after(cost: OpCost, outlook: MethodOutlook, stored: int) -> OpCost:
    """What the layer does then: as many activations, those of 8 bits in a quarter of the bytes."""
    other = max(0.0, cost.bytes_read - stored)
    width = 4 if outlook.dtype == "int8" and cost.dtype == "fp32" else 1
    loaded = stored if outlook.loaded is None else outlook.loaded
    return replace(
        cost,
        macs=outlook.macs * cost.macs,
        bytes_read=other / width + loaded,
        bytes_written=cost.bytes_written / width,
        dtype=outlook.dtype if width > 1 else cost.dtype,
    )


def methods_found(tried: Iterable[Candidate], original_bytes: float) -> list[MethodFound]:
    """The methods that a run tried alone, by name."""
    alone: dict[str, list[Candidate]] = {}
    for candidate in tried:
        rules = {step.rule for step in candidate.plan.steps if step.kind == "lossy"}
        measured = candidate.drop is not None and {"speedup", "packed_bytes"} <= candidate.metrics.keys()
        if len(rules) == 1 and measured and not candidate.plan.engine_settings:
            alone.setdefault(rules.pop(), []).append(candidate)
    return [_best(method, found, original_bytes) for method, found in sorted(alone.items())]


def _best(method: str, found: Sequence[Candidate], original_bytes: float) -> MethodFound:
    best = min(found, key=lambda each: (not each.holds, each.bytes if each.holds else _lost(each)))
    assert best.drop is not None
    return MethodFound(
        method,
        best.id,
        best.status,
        best.drop.value,
        best.drop.unit,
        original_bytes / max(best.bytes, 1.0),
        best.metrics["speedup"].value,
    )


def _lost(candidate: Candidate) -> float:
    return candidate.drop.value if candidate.drop else 0.0
