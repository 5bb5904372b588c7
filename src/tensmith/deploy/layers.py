"""The per-layer story of a point: what each layer weighs, takes and got."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from tensmith.backend.packed import describe, packed_file
from tensmith.deploy.finalize import Point
from tensmith.evaluate.layers import layer_costs, roofline_ms
from tensmith.ir import Node, Program
from tensmith.ir.program import array_bytes
from tensmith.report.document import LayerRow
from tensmith.rewrite.kept import KEPT
from tensmith.rewrite.lossy.int8 import is_at
from tensmith.rewrite.lossy.weights import LookupTable, StoredWeights, WeightedLayer, called
from tensmith.rewrite.method import LOSSY
from tensmith.rewrite.rule import EVERYWHERE
from tensmith.search.plan import Plan
from tensmith.search.run import RunDescription
from tensmith.search.sensitivity import Sensitivity

_KEPT_WORD = "kept as it is"


def layer_rows(
    run: RunDescription,
    simplified: Program,
    point: Point,
    sensitivity: Mapping[str, Sensitivity],
) -> list[LayerRow]:
    """Rows for the report, on what a point made of the simplified program.

    Times are roofline estimates, sensitivity is measured at PROBE_BITS bits.
    """
    final, packed = point.built.program, point.built.packed
    taken = roofline_ms(final, run.target, run.threads, run.sizes)
    coded = _coded_bytes(packed) if packed is not None else {}
    rows: list[LayerRow] = []
    for before in layer_costs(simplified, run.target, run.threads, run.sizes):
        weights = before.weights
        if isinstance(weights, LookupTable):
            spent, stored = None, _looked_up(final, weights.site, simplified)
        else:
            node = _layer(final, weights.node.output, simplified, taken)
            spent = None if node is None else taken.get(node.output)
            stored = [] if node is None else [node.inputs[weights.place]]
        rows.append(
            {
                "name": before.name,
                "op": weights.op,
                "shape": before.shape,
                "bytes_before": before.bytes,
                "bytes_after": _weight_bytes(final, stored, coded),
                "ms_before": before.ms,
                "ms_after": None if spent is None else weights.share * spent,
                "ms_evidence": before.ms_evidence,
                "sensitivity": sensitivity[before.name].flips if before.name in sensitivity else None,
                "sensitivity_evidence": "measured",
                "treatment": treatment(point.candidate.plan, weights, simplified),
            }
        )
    return rows


def treatment(plan: Plan, weights: StoredWeights, program: Program) -> str:
    """What a plan does to one layer of a program, weights of a recurrent one or a table, in words."""
    words, names = [], {weights.site, weights.node.output}
    if not isinstance(weights, WeightedLayer):  # all that read them read one constant
        names |= called(program, weights)
    for step in plan.steps:
        if step.site != EVERYWHERE and step.site not in names:
            continue
        lossy = LOSSY[step.rule] if step.kind == "lossy" else None
        if lossy is not None and not isinstance(weights, lossy.acts_on):
            continue
        if names & set(step.params.get("skip", ())):
            words.append(f"left in float by {step.rule}")
        elif step.kind == "exact":
            words.append(step.rule)
        elif names & set(step.params.get(KEPT, ())):
            words += [] if _KEPT_WORD in words else [_KEPT_WORD]
        else:
            own = {name: value for name, value in step.params.items() if name != KEPT}
            words.append(LOSSY[step.rule].treatment(own, weights.site, *sorted(names)))
    words += [f"{name} {value}" for name, value in plan.settings.items() if name == "precision"]
    return "; ".join(words) or "exact rewrites only"


def _layer(program: Program, site: str, before: Program, products: Collection[str]) -> Node | None:
    """What became of the layer of a site: the product there, or one behind it that was not before."""
    waiting = [node for node in program.nodes if is_at(node, site)]
    while waiting:
        node = waiting.pop()
        if node.output in products and node.inputs[1] in program.static_values:
            return node
        new = (n for n in node.inputs if n in program.producers and n not in before.producers)
        waiting += [program.producers[name] for name in new]
    return None


def _looked_up(program: Program, site: str, before: Program) -> list[str]:
    """The tables whose rows make up a value: one of numbers, or codes and their scales."""
    waiting, tables = [site], []
    while waiting:
        node = program.producers.get(waiting.pop())
        if node is not None and node.inputs[0] in program.static_values:
            tables.append(node.inputs[0])
        elif node is not None:
            waiting += [name for name in node.inputs if name not in before.producers]
    return tables


def _weight_bytes(program: Program, values: Sequence[str], coded: Mapping[str, float]) -> int:
    """Bytes of the constants that weights come from, dequantization included, as shipped."""
    names, found = [*values], 0.0
    while names:
        name = names.pop()
        if name in program.constants:
            found += coded.get(name, array_bytes(program.constants[name]))
        elif name in program.static_values:
            names += filter(None, program.producers[name].inputs)
    return round(found)


def _coded_bytes(packed: Path) -> dict[str, float]:
    """Bytes of each tensor of a packed file."""
    with packed_file(packed) as content:
        return {row.name: row.bits * math.prod(row.shape) / 8 for row in describe(content)}
