"""Writes what a run leaves behind: the points' folders, front.json, report.html."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tensmith import __version__, cache
from tensmith.config import CONFIG_FILE, Config
from tensmith.deploy.finalize import CROWDED, Finalized, Point, size_ratio
from tensmith.deploy.folder import RunFolder
from tensmith.deploy.layers import layer_rows
from tensmith.deploy.publish import BEST, CANDIDATES, publish, staged
from tensmith.engine.base import BASELINE_ENGINE, ENGINES, fixed_batch, specs_of
from tensmith.evaluate.task import Task
from tensmith.files import sha256_file, write_text
from tensmith.frontend.model_files import model_files
from tensmith.ir import Program
from tensmith.report.document import FrontDocument, Metrics, Report
from tensmith.rewrite.archives import trained_path, write_arrays
from tensmith.rewrite.calibration import Calibration
from tensmith.rewrite.lossy.recover import trained_weights
from tensmith.search.allowed import Allowed
from tensmith.search.candidate import SHOWN, Candidate
from tensmith.search.front import best, knee
from tensmith.search.plan_file import plan_text
from tensmith.search.run import RunDescription
from tensmith.search.sensitivity import Sensitivity
from tensmith.verify.certificate import make_certificate, write_certificate
from tensmith.verify.files import PLAN_FILE
from tensmith.verify.library import prepared_in
from tensmith.verify.runs import Checker
from tensmith.verify.schema import Deployed, Judged
from tensmith.verify.statistics import collect, write_statistics


@dataclass(frozen=True)
class Story:
    """What a finished run is written from: how it was asked for, what the search saw, what was found.

    data: what the data is called. simplified: what all plans begin with. sensitivity: by site, where known.
    allowed: what its plans were to obey. checker, calibration, judged: what certificates rest on.
    """

    run: RunDescription
    config: Config
    data: str
    tried: Sequence[Candidate]
    simplified: Program
    sensitivity: Mapping[str, Sensitivity]
    notes: Sequence[str]
    allowed: Allowed
    finalized: Finalized
    checker: Checker
    calibration: Calibration
    judged: Judged | None


def write_run(folder: RunFolder, story: Story) -> None:
    """Writes the folder of a finished run."""
    run, finalized = story.run, story.finalized
    candidates = [point.candidate for point in finalized.points]
    of_choice, bend = best(candidates, story.config.prefer).id, knee(candidates)
    chosen = next(point for point in finalized.points if point.candidate.id == of_choice)
    points = _write_points(folder.path, story, chosen)
    original = {name: metric.to_json() for name, metric in finalized.original.items()}
    baseline = {"engine": BASELINE_ENGINE, "metrics": original}
    front = {
        "schema": 3,
        "baseline": baseline,
        "original": {"metrics": original},
        "budget": run.objective.limits,
        "held_out_samples": finalized.held_out,
        **({"searched_samples": beside} if (beside := run.splits.searched_beside) else {}),
        **({"knee": bend.id} if bend else {}),
        "points": points,
    }
    publish(folder.path, cast(FrontDocument, front))
    report = {
        "front": front,
        "context": _context(story, of_choice),
        "peers": [
            {"name": name, "metrics": {key: metric.to_json() for key, metric in metrics.items()}}
            for name, metrics in finalized.peers.items()
        ],
        "layers": layer_rows(run, story.simplified, chosen, story.sensitivity),
        "tried": [_tried(candidate, finalized) for candidate in story.tried],
        "evidence": json.loads((folder.path / BEST / "certificate.json").read_text())["claims"],
        "notes": story.notes,
    }
    write_text(folder.path / "report.json", json.dumps(report))
    from tensmith.report.page import write_report

    write_report(cast(Report, report), folder.path / "report.html")


def _write_points(out: Path, story: Story, chosen: Point) -> list[dict[str, Any]]:
    """Stages each point and the chosen one as best/; the points as front.json has them."""
    seen = {candidate.id: _seen(candidate) for candidate in story.tried}
    made = staged(out, CANDIDATES)
    points = []
    for number, point in enumerate(story.finalized.points):
        name = f"{number:03d}"
        files = _write_point(made / name, out / CANDIDATES / name, story, point)
        points.append(
            {
                "id": point.candidate.id,
                "within_budget": point.candidate.status == "accepted",
                "metrics": {key: metric.to_json() for key, metric in point.candidate.metrics.items()},
                **seen[point.candidate.id],
                "engine": point.candidate.engine_text,
                "trail": [step.to_json() for step in point.built.trail],
                "files": files,
            }
        )
    _write_point(staged(out, BEST), out / BEST, story, chosen)
    return points


def _write_point(place: Path, final: Path, story: Story, point: Point) -> dict[str, str]:
    """Fills `place`, which will become `final`: the model, packed where that is smaller, its plan, its
    certificate.

    A point of an engine that compiles also holds what it was compiled to: what runs alone, or a model and a
    library for ONNX Runtime. One with lossy steps holds the statistics that they were made with, if small.
    """
    candidate, built, allowed = point.candidate, point.built, story.allowed
    allowed.demand(candidate.plan)
    place.mkdir(exist_ok=True)
    model, *weights_beside = model_files(built.path)
    shutil.copyfile(model, place / "model.onnx")
    for file in weights_beside:
        shutil.copyfile(file, place / file.name)
    for file in cache.files_of(point.compiled) if point.compiled else ():
        shutil.copy2(file, place / file.name)
    write_text(place / PLAN_FILE, plan_text(candidate.plan, allowed.kept, allowed.only))
    if built.packed:
        shutil.copyfile(built.packed, place / "model.packed")
    for weights in trained_weights(built.trail):
        write_arrays(trained_path(place, weights), story.calibration.trained(weights))
    statistics = collect(built.asked, story.calibration)
    write_statistics(statistics, place)
    certificate = make_certificate(
        story.checker,
        story.run.source,
        built.trail,
        {path.name: path for path in sorted(place.iterdir())},
        cast(Metrics, {key: metric.to_json() for key, metric in candidate.metrics.items()}),
        final,
        statistics=statistics.hashes,
        deployed=_deployed(place, story.run, point),
        judged=story.judged,
    )
    write_certificate(certificate, place)
    return {file.name: sha256_file(file) for file in sorted(place.iterdir())}


def _deployed(place: Path, run: RunDescription, point: Point) -> Deployed:
    """What a point is meant to run in, and how it was compiled if it was."""
    return Deployed(
        engine=point.candidate.engine,
        target=run.target.name,
        settings=dict(point.candidate.plan.engine_settings),
        threads=run.threads,
        sizes=dict(run.sizes) if point.compiled else {},
        prepared=prepared_in(place),
    )


def _seen(candidate: Candidate) -> dict[str, Any]:
    """What the search knew of a candidate, as front.json has it; nothing where it was not judged."""
    if candidate.drop is None or not candidate.samples:
        return {}
    most = {} if candidate.at_most is None else {"at_most": candidate.at_most}
    return {"search": {"accuracy_drop": candidate.drop.to_json(), "samples": candidate.samples, **most}}


def _tried(candidate: Candidate, finalized: Finalized) -> dict[str, Any]:
    points = {point.candidate.id: point.candidate for point in finalized.points}
    ended = {each.id: each for each in finalized.lost} | points
    last = ended.get(candidate.id, candidate)
    status, reason = str(last.status), last.reason
    if candidate.id in points:
        status = "front" if status == "accepted" else status
    elif reason == CROWDED:
        status = "not shown"
    elif status in SHOWN:
        others = "others are as good in everything, or nearly"
        status, reason = "dominated", reason if status == "beyond" else others
    metrics = {name: metric.to_json() for name, metric in candidate.metrics.items()}
    if "packed_bytes" in metrics:
        metrics["size_ratio"] = size_ratio(finalized.original, candidate).to_json()
    if candidate.drop is not None:
        metrics["accuracy_drop"] = candidate.drop.to_json()
    known = {"samples": candidate.samples, "at_most": candidate.at_most}
    return {"id": candidate.id, "status": status, "reason": reason, "metrics": metrics, **known}


def _context(story: Story, chosen: str) -> dict[str, Any]:
    run, config, task = story.run, story.config, story.run.task
    original = story.finalized.original["accuracy"]
    engines = {name: ENGINES[name].version() for name in run.engines}
    return {
        "model": run.source.name,
        "data": story.data,
        "target": run.target.name,
        "threads": run.threads,
        "batch": fixed_batch(specs_of(run.program.inputs)) or 1,
        "seed": run.seed,
        "command": repeating(run.folder.parent / CONFIG_FILE, config, task),
        "versions": {"tensmith": __version__, "python": sys.version.split()[0], **engines},
        "chosen": chosen,
        "prefer": config.prefer,
        "accuracy_name": task.title,
        "accuracy_better": task.better,
        "accuracy_limit": task.worst(original.value, config.max_drop),
    }


def repeating(file: Path, config: Config, task: Task) -> str:
    """How a run is made again: by the command line, unless it was given what no configuration holds."""
    own = {"data": not config.data, "evaluation": task.evaluation is not None}
    if given := [name for name, is_own in own.items() if is_own]:
        return (
            f"tensmith.compress(...) in Python with its {' and its '.join(given)}, which {file} does not hold"
        )
    return f"tensmith compress --config {shlex.quote(str(file))} --output NEW"
