"""report.html: one file that opens offline, asks no network for anything, and runs no script but its own.

The Content-Security-Policy names the page's two scripts by hash, so text that slipped in could not run even
if an escape were missing (CSP level 3, hash sources).
"""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
import string
from collections.abc import Sequence
from pathlib import Path

import plotly.offline

from tensmith.files import write_text
from tensmith.report import tables
from tensmith.report.document import Report
from tensmith.report.escape import MOST_OF_A_NOTE, html_text, script_json
from tensmith.report.headline import headline
from tensmith.report.metric import KINDS, OF_ESTIMATES, OF_PEAKS
from tensmith.report.plots import AXES, front_plot
from tensmith.report.schema import validate_front


def asset(name: str) -> str:
    """The text of a file of this folder."""
    return importlib.resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def framed(body: str, title: str, scripts: Sequence[str], style: str = "") -> str:
    """A page around its body, under a policy by which these scripts run and no others."""
    return string.Template(asset("frame.html")).substitute(
        title=title,
        policy=policy(scripts),
        style=asset("report.css") + style,
        body=body,
        scripts="\n".join(f"<script>{script}</script>" for script in scripts),
    )


def policy(scripts: Sequence[str]) -> str:
    """A policy under which exactly `scripts` run and nothing is fetched."""
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    sources = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {sources}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def render(report: Report) -> str:
    """The whole page. Raises OutputError where the front is not a valid front.json."""
    validate_front(report["front"])
    # A browser hashes a script after turning CR LF into LF.
    plotly_js = plotly.offline.get_plotlyjs().replace("\r\n", "\n").replace("\r", "\n")
    context = report["context"]
    model = html_text(context["model"])
    notes = "".join(f"<li>{html_text(note, MOST_OF_A_NOTE)}</li>" for note in report["notes"])
    timed = sum("speedup" in each["metrics"] for each in report["tried"])
    body = string.Template(asset("template.html")).substitute(
        plot=script_json(front_plot(report)),
        of_peaks=OF_PEAKS,
        of_estimates=OF_ESTIMATES,
        model=model,
        setting=html_text(
            f"{context['target']}, {context['threads']} thread{'' if context['threads'] == 1 else 's'}, "
            f"batch {context['batch']}; {context['data']}",
            400,
        ),
        headline=html_text(headline(report), 1000),
        across=_choices("speedup"),
        up=_choices("size_ratio"),
        tiles=tables.tiles(report),
        notes=f'<ul class="notes">{notes}</ul>' if notes else "",
        chosen=html_text(context["chosen"]),
        prefer=html_text(context["prefer"]),
        points=tables.points_table(report),
        layers=tables.layers_table(report["layers"]),
        trails=tables.trails(report),
        claims=tables.claims(report["evidence"]),
        count=str(len(report["tried"])),
        timed=str(timed),
        tried=tables.tried_table(report["tried"]),
        reproduce=tables.reproduce(report),
    )
    return framed(body, f"{model} · tensmith", [plotly_js, asset("report.js")])


def _choices(first: str) -> str:
    """The axes as options, the one that is shown first selected."""
    return "".join(
        f'<option value="{name}"{" selected" if name == first else ""}>{KINDS[name].label}</option>'
        for name in AXES
    )


def write_report(report: Report, path: Path) -> None:
    """Writes the page to `path` atomically. Raises OutputError."""
    write_text(path, render(report))
