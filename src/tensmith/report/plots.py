"""What the front plot draws, as JSON: points with intervals and hover texts, ranges, budgets, Pareto steps.

Colours and layout are in report.js. Hover texts are escaped here, since plotly reads HTML in them.
"""

from __future__ import annotations

import collections
import textwrap
from collections.abc import Collection
from typing import Any

from tensmith.report.document import (
    FrontDocument,
    Metrics,
    PointRow,
    Report,
    StepRow,
    marks_of,
    metric_of,
)
from tensmith.report.escape import plot_text, printable
from tensmith.report.metric import KINDS, arms, exact
from tensmith.report.quantity import quantity
from tensmith.report.tables import evenly

# What is told of a point under the pointer, and what a reader may choose as axes; the first two are shown
# first.
AXES = (
    *("speedup", "size_ratio", "accuracy", "accuracy_drop"),
    *("latency_ms", "packed_bytes", "peak_bytes", "energy_mj"),
)
# Axes on which more is better, beside accuracy where that holds.
HIGHER = frozenset({"speedup", "size_ratio"})
_ONE = exact(1.0, "x").to_json()


def treatment(steps: list[StepRow]) -> str:
    """A trail in a line: lossy rules with their counts, then how many exact steps."""
    lossy = collections.Counter(step["rule"] for step in steps if step["kind"] == "lossy")
    words = [f"{rule} × {count}" if count > 1 else rule for rule, count in lossy.items()]
    exact = sum(step["kind"] == "exact" for step in steps)
    if exact:
        words.append(f"{exact} exact step{'' if exact == 1 else 's'}")
    return ", ".join(words) or "untouched"


def hover(title: str, under: str, metrics: Metrics) -> str:
    """Hover text: a title, one line a metric with interval and evidence, then wrapped plain text."""
    lines = [f"<b>{plot_text(title)}</b>"]
    lines += [
        f"{KINDS[name].label} {plot_text(str(quantity(name, metric_of(metrics, name))))}"
        for name in AXES
        if name in metrics
    ]
    wrapped = textwrap.wrap(printable(under, 240), 48)
    return "<br>".join(lines + [plot_text(line) for line in wrapped])


def mark(title: str, under: str, metrics: Metrics) -> dict[str, Any]:
    """A drawn point: for each axis [value, below, above], the lengths of its interval's two arms."""
    spans = {}
    for name in AXES:
        if name in metrics:
            metric = metric_of(metrics, name)
            spans[name] = [_drawn(name, number) for number in (metric.value, *arms(metric))]
    return {"label": plot_text(title, 40), "hover": hover(title, under, metrics), **spans}


def _drawn(name: str, value: float) -> float:
    """A figure as it is drawn: bytes as megabytes, to as many digits as anybody sees."""
    return float(f"{value / 1e6 if name.endswith('_bytes') else value:.6g}")


def steps_of(points: list[PointRow], across: str, up: str, higher: Collection[str]) -> list[list[float]]:
    """The points within the budgets that no other beats on two axes at once: the corners of the step line.

    They run from left to right. higher: axes on which more is better.
    """
    signs = [1 if name in higher else -1 for name in (across, up)]
    pairs = [
        [_drawn(name, metric_of(point["metrics"], name).value) for name in (across, up)]
        for point in points
        if point["within_budget"]
    ]
    corners: list[list[float]] = []
    for x, y in sorted(pairs, key=lambda pair: (-signs[0] * pair[0], -signs[1] * pair[1])):
        if not corners or signs[1] * y > signs[1] * corners[-1][1]:
            corners.append([x, y])
    return sorted(corners)


def start_metrics(front: FrontDocument) -> Metrics:
    """The original as the baseline runs it; its speed-up and size ratio are 1 unless stated."""
    return {
        "speedup": _ONE,
        "size_ratio": _ONE,
        **front["original"]["metrics"],
        **front["baseline"]["metrics"],
    }


def span(metrics: list[Metrics], name: str, also: float | None = None) -> list[float]:
    """An axis range that holds every interval, and the value `also`, with a margin of 8%."""
    ends = [also] if also is not None else []
    for each in metrics:
        if name in each:
            metric = metric_of(each, name)
            ends += [_drawn(name, metric.low), _drawn(name, metric.high)]
    low, high = min(ends), max(ends)
    margin = 0.08 * (high - low) or 0.1 * abs(high) or 1.0
    return [low - margin, high + margin]


def limits_of(report: Report) -> dict[str, float]:
    """The budgets, by the axis on which they are a line."""
    limits = {name: _drawn(name, limit) for name, limit in report["front"]["budget"].items()}
    worst = report["context"]["accuracy_limit"]
    return limits if worst is None else {**limits, "accuracy": worst}


def front_plot(report: Report) -> dict[str, Any]:
    """Everything report.js needs to draw the front on any two axes."""
    front, context = report["front"], report["context"]
    higher = HIGHER | ({"accuracy"} if context["accuracy_better"] == "higher" else set())
    start, points, limits = start_metrics(front), front["points"], limits_of(report)
    framed = [start, *(point["metrics"] for point in points), *(peer["metrics"] for peer in report["peers"])]
    tried = [each for each in evenly(report["tried"]) if each["status"] not in ("front", "beyond")]
    units = {name: metric_of(points[0]["metrics"], name).unit for name in AXES}
    titles = {
        name: f"{KINDS[name].label} ({'MB' if name.endswith('_bytes') else plot_text(unit, 30)})"
        for name, unit in units.items()
    } | {
        "speedup": f"speed-up over {plot_text(front['baseline']['engine'], 60)}",
        "size_ratio": "original size over shipped size",
        "accuracy": f"{plot_text(context['accuracy_name'], 60)} ({plot_text(units['accuracy'], 30)})",
    }

    def drawn(row: int, point: PointRow) -> dict[str, Any]:
        marks = marks_of(front, point, context["chosen"])
        title = f"{point['id']} ({', '.join(marks)})" if marks else point["id"]
        under = f"{treatment(point['trail'])}; runs on {point['engine']}"
        flags = {"row": row, "chosen": "chosen" in marks, "knee": "knee" in marks}
        return mark(title, under, point["metrics"]) | flags

    rows = [(point, drawn(row, point)) for row, point in enumerate(points)]
    return {
        "titles": titles,
        "higher": sorted(higher),
        "limits": limits,
        "ranges": {name: span(framed, name, limits.get(name)) for name in AXES},
        "steps": {
            across: {up: steps_of(points, across, up, higher) for up in AXES if up != across}
            for across in AXES
        },
        "front": [found for point, found in rows if point["within_budget"]],
        "beyond": [found for point, found in rows if not point["within_budget"]],
        "original": [mark("original", f"runs on {front['baseline']['engine']}", start)],
        "peers": [mark(peer["name"], "reference", peer["metrics"]) for peer in report["peers"]],
        "tried": [
            mark(each["id"], f"{each['status']}: {each['reason']}", each["metrics"])
            for each in tried
            if "speedup" in each["metrics"]
        ],
    }
