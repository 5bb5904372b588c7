"""Writes what a run leaves behind: the points' folders, front.json, report.html."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tensmith import __version__, cache
from tensmith.config import Config
from tensmith.deploy.folder import RunFolder
from tensmith.deploy.layers import layer_rows
from tensmith.deploy.publish import BEST, CANDIDATES, publish, staged
from tensmith.deploy.settle import Settled, contender_of
from tensmith.engine.base import ENGINES, sizes_in
from tensmith.engine.compiled import COMPILING
from tensmith.evaluate.metric import Metric, exact
from tensmith.files import sha256_file, write_text
from tensmith.frontend.model_files import model_files
from tensmith.hardware import Target
from tensmith.report.document import Metrics
from tensmith.search.candidate import Candidate
from tensmith.search.front import best
from tensmith.search.sensitivity import Sensitivity
from tensmith.search.workshop import BASELINE_ENGINE, Workshop, engine_settings, engine_text
from tensmith.verify.certificate import make_certificate, write_certificate
from tensmith.verify.library import prepared_in
from tensmith.verify.runs import Checker
from tensmith.verify.schema import Deployed, Judged
from tensmith.verify.statistics import collect, write_statistics


def write_run(
    folder: RunFolder,
    config: Config,
    workshop: Workshop,
    checker: Checker,
    settled: Settled,
    tried: Sequence[Candidate],
    sensitivity: Mapping[str, Sensitivity],
    target: Target,
    notes: list[str],
    data_name: str,
    judged: Judged | None,
) -> dict[str, Any]:
    """Writes the folder of a finished run and returns the content of front.json."""
    chosen = best(settled.points, config.prefer)
    points = _write_points(folder.path, _Writing(workshop, checker, judged, target.name), settled, chosen)
    original = {name: metric.to_json() for name, metric in settled.original.items()}
    baseline = {"engine": BASELINE_ENGINE, "metrics": original}
    front = {"schema": 1, "baseline": baseline, "original": {"metrics": original}, "points": points}
    publish(folder.path, front)
    report = {
        "front": front,
        "context": _context(config, workshop, settled, chosen, target, data_name),
        "peers": [
            {"name": name, "metrics": {key: metric.to_json() for key, metric in metrics.items()}}
            for name, metrics in settled.peers.items()
        ],
        "layers": layer_rows(workshop, chosen, sensitivity, target),
        "tried": [_tried(candidate, settled) for candidate in tried],
        "evidence": json.loads((folder.path / BEST / "certificate.json").read_text())["claims"],
        "notes": notes,
    }
    write_text(folder.path / "report.json", json.dumps(report))
    from tensmith.report.page import write_report

    write_report(report, folder.path / "report.html")  # type: ignore[arg-type]
    return front


@dataclass(frozen=True)
class _Writing:
    """What all points are written with."""

    workshop: Workshop
    checker: Checker
    judged: Judged | None
    target: str


def _write_points(out: Path, writing: _Writing, settled: Settled, chosen: Candidate) -> list[dict[str, Any]]:
    """Stages each point and the chosen one as best/; the points as front.json has them."""
    made = staged(out, CANDIDATES)
    points = []
    for number, candidate in enumerate(settled.points):
        name = f"{number:03d}"
        files = _write_point(made / name, out / CANDIDATES / name, writing, candidate)
        points.append(
            {
                "id": candidate.id,
                "metrics": {key: metric.to_json() for key, metric in candidate.metrics.items()},
                "engine": engine_text(candidate),
                "trail": [step.to_json() for step in writing.workshop.build(candidate.plan).trail],
                "files": files,
            }
        )
    _write_point(staged(out, BEST), out / BEST, writing, chosen)
    return points


def _write_point(place: Path, final: Path, writing: _Writing, candidate: Candidate) -> dict[str, str]:
    """Fills `place`, which will become `final`: the model, packed where that is smaller, its certificate.

    A point of an engine that compiles also holds what it was compiled to: what runs alone, or a model and a
    library for ONNX Runtime. One with lossy steps holds the statistics that they were made with, if small.
    """
    workshop = writing.workshop
    place.mkdir(exist_ok=True)
    (source, *data) = model_files(workshop.rebuild(candidate))
    shutil.copyfile(source, place / "model.onnx")
    for file in data:
        shutil.copyfile(file, place / file.name)
    if candidate.engine in COMPILING:
        made = workshop.compiled(contender_of(workshop, candidate))
        shutil.copytree(made, place, dirs_exist_ok=True, ignore=shutil.ignore_patterns(cache.RECORD))
    if packed := workshop.packed(candidate):
        shutil.copyfile(packed, place / "model.packed")
    statistics = collect(workshop.asked(candidate.plan), workshop.calibration)
    write_statistics(statistics, place)
    certificate = make_certificate(
        writing.checker,
        workshop.model,
        workshop.build(candidate.plan).trail,
        {path.name: path for path in sorted(place.iterdir())},
        cast(Metrics, {key: metric.to_json() for key, metric in candidate.metrics.items()}),
        final,
        statistics=statistics.hashes,
        deployed=_deployed(place, writing, candidate),
        judged=writing.judged,
    )
    write_certificate(certificate, place)
    return {file.name: sha256_file(file) for file in sorted(place.iterdir())}


def _deployed(place: Path, writing: _Writing, candidate: Candidate) -> Deployed:
    """What a point is meant to run in, and how it was compiled if it was."""
    workshop, compiling = writing.workshop, candidate.engine in COMPILING
    return Deployed(
        engine=candidate.engine,
        target=writing.target,
        settings=engine_settings(candidate.plan.settings),
        threads=workshop.threads,
        sizes=sizes_in(place / "model.onnx", workshop.example) if compiling else {},
        prepared=prepared_in(place),
    )


def _tried(candidate: Candidate, settled: Settled) -> dict[str, Any]:
    status: str = candidate.status
    reason = candidate.reason
    if candidate.id in {point.id for point in settled.points}:
        status = "front"
    elif candidate.status == "accepted":
        lost = {each.id: (each.status, each.reason) for each in settled.lost}
        status, reason = lost.get(candidate.id, ("dominated", "another is smaller and faster"))
    metrics = {name: metric.to_json() for name, metric in candidate.metrics.items()}
    if "packed_bytes" in metrics:
        ratio = exact(settled.original["file_bytes"].value / candidate.bytes, "x")
        metrics["size_ratio"] = ratio.to_json()
    return {"id": candidate.id, "status": status, "reason": reason, "metrics": metrics}


def _context(
    config: Config, workshop: Workshop, settled: Settled, chosen: Candidate, target: Target, data_name: str
) -> dict[str, Any]:
    original = settled.original["accuracy"]
    sign = 1 if workshop.task.better == "lower" else -1
    limit = original.value + sign * config.max_drop * (original.value / 100 if sign > 0 else 1)
    engines = {name: ENGINES[name].version() for name in workshop.engines}
    return {
        "model": workshop.model.name,
        "data": data_name,
        "target": target.name,
        "threads": workshop.threads,
        "batch": 1,
        "seed": config.seed,
        "command": f"tensmith compress --config {workshop.folder.parent / 'config.yaml'} --output NEW",
        "versions": {"tensmith": __version__, "python": sys.version.split()[0], **engines},
        "chosen": chosen.id,
        "prefer": config.prefer,
        "accuracy_name": workshop.task.title,
        "accuracy_better": workshop.task.better,
        "accuracy_limit": limit,
        "accuracy_drop": _json(settled.drops.get(chosen.id)),
    }


def _json(metric: Metric | None) -> dict[str, Any] | None:
    return metric.to_json() if metric is not None else None
