"""explorer.html: all cells of a study in one file that opens offline, under the policy of reports."""

from __future__ import annotations

import importlib.resources
import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tensmith.files import write_text
from tensmith.report.escape import html_text, printable, script_json
from tensmith.report.page import framed
from tensmith.study.observations import Observation, observations
from tensmith.study.plan import LAYERS, StudyPlan
from tensmith.study.results import CellResult
from tensmith.study.tables import tables

# What a bar may show, the first one at first.
_FIGURES = (
    "latency_ms", "ratio", "accuracy", "drop", "file_bytes", "packed_bytes", "peak_bytes", "energy_mj",
    "weights", "macs", "expected",
)  # fmt: skip


def write_explorer(plan: StudyPlan, results: Sequence[CellResult], path: Path) -> None:
    """Writes the page to `path`."""
    here = importlib.resources.files(__package__)
    template, script, style = (
        here.joinpath(f"explorer.{kind}").read_text(encoding="utf-8") for kind in ("html", "js", "css")
    )
    failed = sum(result.failed for result in results)
    setting = (
        f"{len(results)} cells, {failed} without a result; latency: the median of {plan.method.runs} runs of "
        "one sample, or as many as a model fixes, the first dropped"
    )
    document = {
        "layers": list(LAYERS),
        "figures": list(_FIGURES),
        "cells": [_cell(result) for result in results],
    }
    name = html_text(plan.name)
    body = string.Template(template).substitute(
        name=name,
        setting=html_text(setting, 400),
        observations=_observed(observations(results)),
        tables="\n".join(table.html() for table in tables(results)),
        cells=script_json(document),
    )
    write_text(path, framed(body, f"{name} · study", [script], style))


def _cell(result: CellResult) -> dict[str, Any]:
    figures = [
        {"name": name, "value": metric.value, "evidence": metric.evidence, "told": f"{name}: {metric}"}
        for name, metric in result.figures.items()
    ]
    layers = {layer: printable(getattr(result.cell, layer)) for layer in LAYERS}
    notes = [printable(note, 400) for note in result.notes]
    return layers | {"reason": printable(result.reason, 400), "figures": figures, "notes": notes}


def _observed(found: Sequence[Observation]) -> str:
    rows = "".join(
        f"<li><b>{html_text(one.answer)}</b>: {html_text(one.claim)} <small>({html_text(one.numbers, 600)})"
        "</small></li>\n"
        for one in found
    )
    return f"<ol>\n{rows}</ol>"
