"""The tables and lists of the page, as HTML; all text from the document goes through html_text."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Sequence

from tensmith.report.document import (
    Claim,
    LayerRow,
    Metrics,
    PointRow,
    Report,
    StepRow,
    Tried,
    marks_of,
    metric_of,
    point_of,
    step_evidence,
)
from tensmith.report.escape import html_text
from tensmith.report.metric import CONFIDENCE, KINDS
from tensmith.report.quantity import byte_text, quantity, significant

_TRIED_COLUMNS = ("speedup", "size_ratio", "accuracy", "accuracy_drop", "peak_bytes", "energy_mj")
MOST_ROWS = 400
MOST_SITES = 30
MOST_LINES = 80
LONG = 40


def cell(name: str, metrics: Metrics, limit: float = math.inf) -> str:
    """A table cell: the figure, its interval and its evidence word under it; sortable by value."""
    if name not in metrics:
        return '<td class="num none" data-sort="">–</td>'
    metric = metric_of(metrics, name)
    shown = quantity(name, metric, limit)
    interval = f"{html_text(shown.interval)}<br>" if shown.interval else ""
    return (
        f'<td class="num" data-sort="{metric.value!r}">{html_text(shown.value)}'
        f"<small>{interval}{word(shown.evidence)}</small></td>"
    )


def word(evidence: str) -> str:
    """An evidence word, marked up so that the page can explain it."""
    return f'<i class="word {html_text(evidence)}">{html_text(evidence)}</i>'


def table(head: Iterable[str], rows: Iterable[str], kind: str) -> str:
    """A sortable table in a box that scrolls on its own, downwards too where long; `head` cells are HTML."""
    lines = list(rows)
    long = " long" if len(lines) > LONG else ""
    titles = "".join(f'<th scope="col"><button type="button">{title}</button></th>' for title in head)
    body = "\n".join(lines)
    return (
        f'<div class="scroll{long}" tabindex="0"><table class="{kind}"><thead><tr>{titles}</tr></thead>'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def tiles(report: Report) -> str:
    """The chosen point's main figures, large."""
    metrics = point_of(report["front"], report["context"]["chosen"])["metrics"]
    names = {
        "speedup": f"speed-up over {report['front']['baseline']['engine']}",
        "size_ratio": "original size over shipped size",
        "accuracy": f"{report['context']['accuracy_name']}, held-out",
        "peak_bytes": "peak memory",
    }
    shown = [
        (label, quantity(name, metric_of(metrics, name))) for name, label in names.items() if name in metrics
    ]
    return "\n".join(
        f'<div class="tile"><b>{html_text(value)}</b><span>{html_text(label)}</span>'
        f"<small>{html_text(interval)} {word(evidence)}</small></div>"
        for label, (value, interval, evidence) in shown
    )


def points_table(report: Report) -> str:
    """The baseline, the front points and the peers: every metric with interval and evidence."""
    front, chosen = report["front"], report["context"]["chosen"]
    columns = [name for name in KINDS if any(name in point["metrics"] for point in front["points"])]

    def row(kind: str, title: str, engine: str, metrics: Metrics) -> str:
        limits = (front["budget"].get(name, math.inf) for name in columns)
        cells = "".join(cell(name, metrics, limit) for name, limit in zip(columns, limits))
        return (
            f'<tr class="{kind}"><th scope="row">{title}<small>{html_text(engine)}</small></th>{cells}</tr>'
        )

    rows = [row("original", "original", front["baseline"]["engine"], front["baseline"]["metrics"])]
    for point in front["points"]:
        marks = "".join(f' <span class="mark">{mark}</span>' for mark in marks_of(front, point, chosen))
        rows.append(row("point", html_text(point["id"]) + marks, point["engine"], point["metrics"]))
    rows += [row("peer", html_text(peer["name"]), "reference", peer["metrics"]) for peer in report["peers"]]
    return table(["model", *(KINDS[name].label for name in columns)], rows, "points")


def bar(after: float | None, before: float | None, most: float, text: str, kind: str = "") -> str:
    """A cell with two bars on one scale: faint for before, full for after."""
    if after is None and before is None:
        return '<td class="num none" data-sort="">–</td>'
    widths = [
        0.0 if value is None or most <= 0 else 100 * max(value, 0.0) / most for value in (before, after)
    ]
    sort = before if before is not None else after
    bars = f'<s style="width:{widths[0]:.1f}%"></s><u style="width:{widths[1]:.1f}%"></u>'
    return (
        f'<td class="bar {kind}" data-sort="{float(sort or 0)!r}">'
        f'<span class="track" aria-hidden="true">{bars}</span>{html_text(text)}</td>'
    )


def _headed(title: str, words: Sequence[str]) -> str:
    """A column title with the evidence words of its figures."""
    return f"{title} <small>{' '.join(word(w) for w in sorted(set(words)))}</small>"


def layers_table(layers: list[LayerRow]) -> str:
    """One row a layer: weights, time and sensitivity as bars, and the treatment."""
    if not layers:
        return '<p class="quiet">No per-layer figures were recorded.</p>'
    shown = layers[:MOST_ROWS]
    most_bytes = max(max(layer["bytes_before"], layer["bytes_after"]) for layer in shown)
    most_ms = max(max(layer["ms_before"] or 0.0, layer["ms_after"] or 0.0) for layer in shown)
    most_loss = max(layer["sensitivity"] or 0.0 for layer in shown)
    times = [layer["ms_evidence"] for layer in shown]
    losses = [layer["sensitivity_evidence"] for layer in shown]
    mixed = len(set(times)) > 1, len(set(losses)) > 1

    def row(layer: LayerRow) -> str:
        size = f"{byte_text(layer['bytes_before'])} → {byte_text(layer['bytes_after'])}"
        time = f"{_ms(layer['ms_before'])} → {_ms(layer['ms_after'])} ms"
        time += f" {layer['ms_evidence']}" if mixed[0] else ""
        loss = _changed(layer["sensitivity"])
        loss += f" {layer['sensitivity_evidence']}" if mixed[1] else ""
        return (
            f'<tr><th scope="row" title="{html_text(layer["name"])}">{html_text(layer["name"], 48)}'
            f"<small>{html_text(layer['op'])} {html_text(layer['shape'])}</small></th>"
            + bar(layer["bytes_after"], layer["bytes_before"], most_bytes, size)
            + bar(layer["ms_after"], layer["ms_before"], most_ms, time)
            + bar(layer["sensitivity"], None, most_loss, loss, "loss")
            + f"<td>{html_text(layer['treatment'])}</td></tr>"
        )

    head = [
        "layer",
        _headed("weights", ["measured"]),
        _headed("time", times),
        _headed("answers it changes alone, at 4 bits (%)", losses),
        "treatment",
    ]
    return table(head, map(row, shown), "layers") + _cut(len(layers), "layers, in model order")


def _ms(value: float | None) -> str:
    return "–" if value is None else significant(value)


def _changed(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _cut(count: int, what: str) -> str:
    """Says so where rows were left out."""
    return f'<p class="quiet">Shown: {MOST_ROWS:,} of {count:,} {what}.</p>' if count > MOST_ROWS else ""


def trail(point: PointRow, is_open: bool) -> str:
    """The steps of one point; the same step at many sites is one line."""

    def same(step: StepRow) -> tuple[str, str, str, str]:
        return step["kind"], step["rule"], json.dumps(step["params"], sort_keys=True), step_evidence(step)

    lines: list[str] = []
    for (kind, rule, params, evidence), steps in itertools.groupby(point["trail"], same):
        sites = [step["site"] for step in steps]
        settings = ", ".join(f"{key} = {value}" for key, value in json.loads(params).items())
        lines.append(
            f'<li class="{html_text(kind)}"><i class="kind">{html_text(kind)}</i> <b>{html_text(rule)}</b> '
            f"<code>{html_text(settings)}</code> {_sites(sites)} {word(evidence)}</li>"
        )
    if len(lines) > MOST_LINES:
        more = len(lines) - MOST_LINES
        lines[MOST_LINES:] = [f'<li class="quiet">{more} more lines; front.json holds every step</li>']
    body = (
        f'<ol class="trail">{"".join(lines)}</ol>' if lines else '<p class="quiet">No step: the original.</p>'
    )
    count = len(point["trail"])
    title = f"{html_text(point['id'])} <small>{count} step{'' if count == 1 else 's'}</small>"
    return f"<details{' open' if is_open else ''}><summary>{title}</summary>{body}</details>"


def _sites(sites: list[str]) -> str:
    if sites == ["*"]:
        return '<span class="site">everywhere</span>'
    if len(sites) == 1:
        return f'<span class="site">at {html_text(sites[0], 80)}</span>'
    listed = ", ".join(html_text(site, 80) for site in sites[:MOST_SITES])
    more = f" and {len(sites) - MOST_SITES} more" if len(sites) > MOST_SITES else ""
    return f'<details class="site"><summary>at {len(sites)} sites</summary>{listed}{more}</details>'


def trails(report: Report) -> str:
    """The chosen point's trail open, the others closed under it."""
    chosen = point_of(report["front"], report["context"]["chosen"])
    others = [point for point in report["front"]["points"] if point["id"] != chosen["id"]]
    return "\n".join([trail(chosen, True), *(trail(point, False) for point in others)])


def claims(evidence: list[Claim]) -> str:
    """The certificate's statements with what each rests on."""
    if not evidence:
        return '<p class="quiet">No certificate was recorded.</p>'
    items = []
    for claim in evidence:
        assumptions = "".join(f"<li>{html_text(text, 400)}</li>" for text in claim["assumptions"])
        under = f"<ul>{assumptions}</ul>" if assumptions else ""
        items.append(
            f"<dt>{word(claim['evidence'])} {html_text(claim['claim'], 400)}</dt>"
            f"<dd>{html_text(claim['detail'], 2000)}{under}</dd>"
        )
    return f'<dl class="claims">{"".join(items)}</dl>'


def evenly(tried: list[Tried]) -> list[Tried]:
    """At most MOST_ROWS candidates, spread evenly through the run."""
    if len(tried) <= MOST_ROWS:
        return tried
    return [tried[index * len(tried) // MOST_ROWS] for index in range(MOST_ROWS)]


def tried_table(tried: list[Tried]) -> str:
    """Every candidate and what became of it."""
    if not tried:
        return '<p class="quiet">No candidates were recorded.</p>'
    rows = [
        f'<tr><th scope="row">{html_text(each["id"], 40)}</th><td>{html_text(each["status"], 40)}</td>'
        f"<td>{html_text(each['reason'])}</td>"
        + "".join(cell(name, each["metrics"]) for name in _TRIED_COLUMNS)
        + _samples(each)
        + "</tr>"
        for each in evenly(tried)
    ]
    head = ["candidate", "status", "why", *(KINDS[name].label for name in _TRIED_COLUMNS), "samples"]
    cut = _cut(len(tried), "candidates, evenly through the run")
    return table(head, rows, "tried") + cut


def _samples(tried: Tried) -> str:
    """A table cell: on how many samples a candidate was judged, and what they say it loses at most."""
    count, most = tried.get("samples", 0), tried.get("at_most")
    if not count:
        return '<td class="num none" data-sort="">–</td>'
    known = "" if most is None else f"<small>loses at most {most:.2f} with {100 * CONFIDENCE:g}%</small>"
    return f'<td class="num" data-sort="{count}">{count:,}{known}</td>'


def reproduce(report: Report) -> str:
    """The command, the versions and the hashes of the chosen files."""
    context, point = report["context"], point_of(report["front"], report["context"]["chosen"])
    facts = {
        "data": context["data"],
        "target": context["target"],
        "threads": f"{context['threads']}",
        "batch": f"{context['batch']}",
        "seed": f"{context['seed']}",
        "versions": ", ".join(f"{name} {version}" for name, version in context["versions"].items()),
    }
    facts |= {f"SHA-256 of {name}": digest for name, digest in point["files"].items()}
    rows = "".join(f"<dt>{html_text(k, 80)}</dt><dd>{html_text(v, 2000)}</dd>" for k, v in facts.items())
    return f'<pre>{html_text(context["command"], 4000)}</pre><dl class="facts">{rows}</dl>'
