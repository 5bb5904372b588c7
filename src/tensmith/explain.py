"""Why a model, or a layer of a finished run, got the treatment it got: rules that fired, and near misses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tensmith.config import CONFIG_FILE, read_config
from tensmith.errors import ModelError, OutputError, UsageError
from tensmith.evaluate.layers import layer_costs
from tensmith.evaluate.open_sizes import sizes_taken
from tensmith.files import sha256_file
from tensmith.frontend.model import read_model, read_weights_open
from tensmith.hardware import Target, load_target
from tensmith.hardware.target import HOST
from tensmith.ir import Program
from tensmith.report.document import FrontDocument, PointRow, Report, marks_of, metric_of, point_of
from tensmith.report.stored import read_report
from tensmith.rewrite.kept import layers_with_weights
from tensmith.rewrite.lossy.weights import sites_of, stored_weights
from tensmith.rewrite.rule import EXACT, Step
from tensmith.rewrite.told import rule_of
from tensmith.rewrite.trail import simplify
from tensmith.search.checkpoint import DATABASE, SIZES, Checkpoint
from tensmith.search.front import TAKEN
from tensmith.search.outlook import LayerOutlook, MethodFound, layer_outlooks, methods_found
from tensmith.search.resume import as_measured
from tensmith.search.sensitivity import Sensitivity, known_sensitivities

Document = dict[str, Any]


def explain_model(
    path: Path, target: str, layer: str | None = None, sizes: Mapping[str, int] | None = None
) -> Document:
    """What the exact rules do to a model, and what is left: layers, near misses, opaque operators.

    Times are roofline estimates for one thread of `target` and one sample, at `sizes`; others that are open
    are taken as `bench` takes them. UsageError if there is no such layer or size.
    """
    program = read_model(path)
    taken = sizes_taken(program, sizes)
    traced = simplify(program)
    device = load_target(target)
    layers = layer_costs(traced.program, device, sizes=taken)
    outlooks = layer_outlooks(traced.program, device, sizes=taken)
    sites = _chosen([cost.name for cost in layers], layer, str(path))
    around = _around(traced.program, layer)
    listed = {cost.weights.node.output for cost in layers}
    return {
        "model": str(path),
        "sizes": taken,
        "nodes": {"read": len(program.nodes), "simplified": len(traced.program.nodes)},
        "layers": [cost.document() for cost in layers if cost.name in sites],
        "tables": [
            {"name": node.output, "op": node.op}
            for node in layers_with_weights(traced.program)
            if layer is None and node.output not in listed
        ],
        "outlooks": [asdict(row) for row in outlooks if row.layer in sites],
        "fired": _steps(_touching(program, traced.trail, layer)),
        "near_misses": _misses(traced.program, around),
        "opaque": _opaque(traced.program),
    }


def explain_run(folder: Path, layer: str | None = None, original: Path | None = None) -> Document:
    """Why the chosen point of a finished run treats its layers as it does.

    Which rules nearly fired is told by the original model: the one named in config.yaml, or `original`.
    Without it `near_misses` is None and `note` says why. Times are of the machine as the run measured it, at
    the run's sizes; None where that is not known. OutputError if the run is damaged.
    """
    report = read_report(folder)
    point = point_of(report["front"], report["context"]["chosen"])
    layers: list[Document] = [dict(row) for row in report["layers"]]
    sites = _chosen([row["name"] for row in layers], layer, str(folder))
    trail = [Step.from_json(step) for step in point["trail"]]
    device = _device(folder)
    seen = _seen(folder, report, device)
    exact = [step for step in trail if step.kind == "exact"]
    document: Document = {
        "run": str(folder),
        "chosen": point["id"],
        "engine": point["engine"],
        "budget": report["front"]["budget"],
        "others": [
            _beside(report["front"], each, point) for each in report["front"]["points"] if each != point
        ],
        "layers": [row for row in layers if row["name"] in sites],
        "lossy": [step.to_json() for step in trail if step.kind == "lossy"],
        "rejected": _rejected(report),
        "methods": [asdict(row) for row in seen.methods],
        "outlooks": None,
    }
    program, note = _original(folder, original)
    if program is None:
        return document | {"fired": _steps(exact), "near_misses": None, "opaque": None, "note": note}
    simplified = simplify(program).program
    outlooks = _outlooks(simplified, device, report["context"]["threads"], seen) if device else []
    return document | {
        "outlooks": [asdict(row) for row in outlooks if row.layer in sites],
        "fired": _steps(_touching(program, exact, layer)),
        "near_misses": _misses(simplified, _around(simplified, layer)),
        "opaque": _opaque(simplified),
        "note": note,
    }


def _beside(front: FrontDocument, other: PointRow, chosen: PointRow) -> Document:
    """What another point of the front would give and cost, against the chosen one."""
    ours, theirs = chosen["metrics"], other["metrics"]
    lost = [metric_of(metrics, "accuracy_drop") for metrics in (theirs, ours)]
    less = {name: metric_of(ours, name).value / max(metric_of(theirs, name).value, 1e-9) for name in TAKEN}
    # As the front tells it: latencies alone are of other moments than those of the original.
    less["latency_ms"] = metric_of(theirs, "speedup").value / max(metric_of(ours, "speedup").value, 1e-9)
    return {
        "id": other["id"],
        "marks": marks_of(front, other, chosen["id"]),
        "loses_more": lost[0].value - lost[1].value,
        "unit": lost[0].unit,
        "times_less": less,
    }


def _chosen(names: Sequence[str], layer: str | None, where: str) -> set[str]:
    """The rows of a layer, by its name or one of its weights'; of all layers without one."""
    if layer is None:
        return set(names)
    found = {*sites_of(layer)} & {*names}
    if not found:
        some = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        raise UsageError(f"{where} has no layer '{layer}'; its layers: {some or 'none'}")
    return found


def _touching(program: Program, trail: Iterable[Step], layer: str | None) -> list[Step]:
    """The exact steps that change `layer` or a node beside it, found by replaying them; all without one.

    Stops at the first step that does not replay: steps after a lossy one are of another program.
    """
    if layer is None:
        return list(trail)
    found, layer = [], _value(program, layer)
    for step in trail:
        after = rule_of(step).attempt(program, step.site) if step.rule in EXACT else None
        if after is None:
            break
        changed = set(program.nodes) ^ set(after.nodes)
        if any(layer in (*node.inputs, *node.outputs) for node in changed):
            found.append(step)
        program = after
    return found


def _steps(steps: Iterable[Step]) -> list[Document]:
    """Sites by rule, in the order in which the rules first fired."""
    sites: dict[str, list[str]] = {}
    for step in steps:
        sites.setdefault(step.rule, []).append(step.site)
    return [{"rule": rule, "sites": where} for rule, where in sites.items()]


def _around(program: Program, layer: str | None) -> set[str] | None:
    """A layer, what feeds it and what reads it; None for everywhere."""
    if layer is None or (layer := _value(program, layer)) not in program.producers:
        return None
    readers = (node.output for node in program.consumers.get(layer, ()))
    feeders = (
        program.producers[name].output
        for name in program.producers[layer].inputs
        if name in program.producers
    )
    return {layer, *readers, *feeders}


def _value(program: Program, layer: str) -> str:
    """What a layer computes: it is called by that, unless it has several weights."""
    return next((own.node.output for own in stored_weights(program) if own.site == layer), layer)


def _misses(program: Program, around: set[str] | None) -> list[Document]:
    """Nodes at which a rule would apply but for one reason."""
    return [
        {"rule": rule.name, "site": node.output, "reason": reason}
        for node in program.nodes
        if around is None or node.output in around
        for rule in EXACT.values()
        if (reason := rule.why_not(program, node)) is not None
    ]


def _opaque(program: Program) -> list[Document]:
    return [{"site": node.output, "op": node.op} for node in program.nodes if node.opaque is not None]


def _rejected(report: Report) -> list[Mapping[str, str]]:
    """Candidates that were built and not taken, with the reason."""
    return [
        {"id": tried["id"], "status": tried["status"], "reason": tried["reason"]}
        for tried in report["tried"]
        if tried["status"] in ("rejected", "failed")
    ]


@dataclass(frozen=True)
class _Seen:
    """What a run's database knows of layers and methods, target and sizes; nothing where it is not there."""

    sensitivity: Mapping[str, Sensitivity] = field(default_factory=dict)
    methods: Sequence[MethodFound] = ()
    target: Target | None = None
    sizes: Mapping[str, int] | None = None


def _outlooks(program: Program, device: Target, threads: int, seen: _Seen) -> list[LayerOutlook]:
    """As layer_outlooks; without times where the run's target or sizes are not known."""
    rows = layer_outlooks(program, seen.target or device, threads, seen.sensitivity, seen.sizes)
    if seen.target is None or (seen.sizes is None and sizes_taken(program)):
        return [replace(row, ms_before=None, ms_after=None) for row in rows]
    return rows


def _seen(folder: Path, report: Report, device: Target | None) -> _Seen:
    path = folder / DATABASE
    if not path.is_file():
        return _Seen()
    checkpoint = Checkpoint(path, looked_at=True)
    try:
        stored = metric_of(report["front"]["original"]["metrics"], "file_bytes").value
        return _Seen(
            known_sensitivities(checkpoint),
            methods_found(checkpoint.candidates(), stored),
            as_measured(device, checkpoint) if device else None,
            _sizes(checkpoint),
        )
    finally:
        checkpoint.close()


def _sizes(checkpoint: Checkpoint) -> Mapping[str, int] | None:
    """The sizes that a run took; None where an older one did not say."""
    sizes = checkpoint.fact(SIZES)
    if sizes is None:
        return None
    if not isinstance(sizes, dict) or any(type(n) is not int or not 0 <= n < 1 << 63 for n in sizes.values()):
        raise checkpoint.damaged(ValueError(f"the sizes are {str(sizes)[:80]}"))
    return sizes


def _device(folder: Path) -> Target | None:
    """The target of a run; None where it was described by a file that is gone."""
    try:
        return load_target(str(read_config(folder / CONFIG_FILE).get("target", HOST)))
    except UsageError:
        return None


def _original(folder: Path, given: Path | None) -> tuple[Program | None, str]:
    """The model that a run started from, or why it is not here."""
    path = given
    if path is None:
        name = read_config(folder / CONFIG_FILE).get("model")
        if not isinstance(name, str):
            raise OutputError(f"{folder / CONFIG_FILE} names no model; name it by --original")
        path = Path(name)
        if not path.is_file():
            return None, f"{path} is not here, so near misses are not known; name it by --original"
    try:
        return read_weights_open(
            path
        ), f"near misses are those of {path} (sha256 {sha256_file(path)[:12]}), simplified"
    except ModelError:
        if given is not None:
            raise
        return None, f"{path} cannot be read, so near misses are not known; name it by --original"
