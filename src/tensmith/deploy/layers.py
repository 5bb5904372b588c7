"""The per-layer story of a point: what each layer weighs, takes and got."""

from __future__ import annotations

from collections.abc import Mapping

from tensmith.evaluate.layers import layer_costs, roofline_ms
from tensmith.ir import Node, Program
from tensmith.ir.program import array_bytes
from tensmith.report.document import LayerRow
from tensmith.rewrite.kept import KEPT
from tensmith.rewrite.lossy.int8 import WEIGHT_SUFFIX
from tensmith.rewrite.method import LOSSY
from tensmith.rewrite.rule import EVERYWHERE
from tensmith.search.plan import Plan
from tensmith.search.run import RunDescription
from tensmith.search.sensitivity import Sensitivity

_KEPT_WORD = "kept as it is"


def layer_rows(
    run: RunDescription,
    simplified: Program,
    plan: Plan,
    final: Program,
    sensitivity: Mapping[str, Sensitivity],
) -> list[LayerRow]:
    """Rows for the report, on what a plan made of the simplified program.

    Times are roofline estimates, sensitivity is measured at PROBE_BITS bits.
    """
    taken = roofline_ms(final, run.target, run.threads, run.sizes)
    after = {_site(final.producers[name]): ms for name, ms in taken.items()}
    return [
        {
            "name": before.name,
            "op": before.op,
            "shape": before.shape,
            "bytes_before": before.bytes,
            "bytes_after": _weight_bytes(final, before.name),
            "ms_before": before.ms,
            "ms_after": after.get(before.name),
            "ms_evidence": before.ms_evidence,
            "sensitivity": sensitivity[before.name].flips if before.name in sensitivity else None,
            "sensitivity_evidence": "measured",
            "treatment": treatment(plan, before.name),
        }
        for before in layer_costs(simplified, run.target, run.threads, run.sizes)
    ]


def treatment(plan: Plan, site: str) -> str:
    """What a plan does to one layer, in words."""
    words = []
    for step in plan.steps:
        if step.site not in (EVERYWHERE, site):
            continue
        if site in step.params.get("skip", ()):
            words.append(f"left in float by {step.rule}")
        elif step.kind == "exact":
            words.append(step.rule)
        elif site in step.params.get(KEPT, ()):
            words += [] if _KEPT_WORD in words else [_KEPT_WORD]
        else:
            own = {name: value for name, value in step.params.items() if name != KEPT}
            words.append(LOSSY[step.rule].treatment(own, site))
    words += [f"{name} {value}" for name, value in plan.settings.items() if name == "precision"]
    return "; ".join(words) or "exact rewrites only"


def _site(node: Node) -> str:
    """The site a node had before quantization gave it the name of the rectifier it swallowed."""
    weight = node.inputs[1] if len(node.inputs) > 1 else ""
    return weight.removesuffix(WEIGHT_SUFFIX) if weight.endswith(WEIGHT_SUFFIX) else node.output


def _weight_bytes(program: Program, site: str) -> int:
    """Bytes of the constants that the weights of a layer come from, dequantization included."""
    node = next((node for node in program.nodes if node.outputs and _site(node) == site), None)
    if node is None or len(node.inputs) < 2:
        return 0
    names, found = [node.inputs[1]], 0
    while names:
        name = names.pop()
        if name in program.constants:
            found += array_bytes(program.constants[name])
        elif name in program.static_values:
            names += filter(None, program.producers[name].inputs)
    return found
