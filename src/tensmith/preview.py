"""What a compression would do, without doing it: `tensmith compress --dry-run`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tensmith.config import make_config
from tensmith.deploy.folder import demand_usable
from tensmith.deploy.identity import run_identity
from tensmith.evaluate.calibrator import Calibrator
from tensmith.files import at_home
from tensmith.request import judged_by, read_request
from tensmith.rewrite.lossy.weights import stored_weights
from tensmith.rewrite.trail import simplify
from tensmith.search.builder import Builder
from tensmith.search.demands import SearchDemands
from tensmith.search.describe import describe_plan
from tensmith.search.plan import Plan
from tensmith.search.plan_file import demand_fitting
from tensmith.search.space import Space


def preview(
    model: str | Path,
    data: Any = "",
    *,
    output: str | Path | None = None,
    resume: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """What `compress` would do, as plain JSON values; reads the model and the data and writes nothing.

    output: raises what `compress` would of that folder; None: which folder is not looked at.
    """
    config = make_config(model=str(model), data=data if isinstance(data, str) else "", **options)
    request = read_request(config, data)
    seen = request.fingerprint()
    if output is not None:
        demand_usable(at_home(output), run_identity(config, request.identity, seen), resume)
    simplified = simplify(request.program).program
    demands = SearchDemands.of(config.keep, config.only, config.plan)
    demands.require_data(seen)
    allowed = demands.allowed(request.program, simplified, bool(config.recover))
    notes: list[str] = []
    task = judged_by(request, config, notes.append)
    task.example(request.program, request.splits.search)  # DataError where the data does not fit
    begun: tuple[Plan, ...] = ()
    if demands.text is not None:
        view, beside = request.splits.calibration, demands.text.path.parent
        calibrator = Calibrator(view, task.preprocess, config.threads, beside)
        builder = Builder(request.model, request.program, beside, calibrator, allowed=allowed)
        begun = (demand_fitting(demands.text, builder, request.engines),)
    space = Space(simplified, request.engines, target=request.target, allowed=allowed, begun=begun)
    return {
        "model": config.model,
        "nodes": {"read": len(request.program.nodes), "simplified": len(simplified.nodes)},
        "layers": [
            {"name": layer.site, "op": layer.op, "shape": list(layer.shape)}
            for layer in stored_weights(simplified)
        ],
        "opaque": sorted({node.op for node in simplified.nodes if node.opaque is not None}),
        "data": request.title,
        "samples": {
            name: len(getattr(request.splits, name)) for name in ("calibration", "search", "held_out")
        },
        "searched_samples": request.splits.searched_beside,
        "measure": task.measure,
        "preprocess": getattr(task.preprocess, "name", None),
        "target": request.target.name,
        "threads": config.threads,
        "time_budget": config.time_budget,
        "engines": list(request.engines),
        "seeds": [describe_plan(idea.plan) for idea in space.seeds()],
        "demands": list(demands.told(allowed)),
        "notes": notes,
        "config": config.model_dump(mode="json"),
    }
