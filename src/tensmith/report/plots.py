"""What the front plot draws, as JSON: points with intervals and hover texts, ranges, the Pareto steps.

Colours and layout are in report.js. Hover texts are escaped here, since plotly reads HTML in them.
"""

from __future__ import annotations

import collections
import textwrap
from typing import Any

from tensmith.report.document import FrontDocument, Metrics, PointRow, Report, StepRow, metric_of, point_of
from tensmith.report.escape import plot_text, printable
from tensmith.report.metric import exact
from tensmith.report.quantity import LABELS, quantity
from tensmith.report.tables import evenly

HOVERED = ("speedup", "size_ratio", "accuracy", "latency_ms", "packed_bytes", "peak_bytes")
AXES = ("speedup", "size_ratio", "accuracy")
VIEWS = ("size_ratio", "accuracy")
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
        f"{LABELS[name]} {plot_text(str(quantity(name, metric_of(metrics, name))))}"
        for name in HOVERED
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
            spans[name] = [metric.value, metric.value - metric.low, metric.high - metric.value]
    return {"label": plot_text(title, 40), "hover": hover(title, under, metrics), **spans}


def steps_of(points: list[PointRow], view: str, higher: bool) -> list[list[float]]:
    """The points no other beats on speed-up and `view` at once, by speed-up: the corners of the step line."""
    sign = 1 if higher else -1
    pairs = [(metric_of(p["metrics"], "speedup").value, metric_of(p["metrics"], view).value) for p in points]
    corners: list[list[float]] = []
    for x, y in sorted(pairs, key=lambda pair: (-pair[0], -sign * pair[1])):
        if not corners or sign * y > sign * corners[-1][1]:
            corners.append([x, y])
    return corners[::-1]


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
            ends += [metric.low, metric.high]
    low, high = min(ends), max(ends)
    margin = 0.08 * (high - low) or 0.1 * abs(high) or 1.0
    return [low - margin, high + margin]


def front_plot(report: Report) -> dict[str, Any]:
    """Everything report.js needs to draw the front."""
    front, context = report["front"], report["context"]
    higher = context["accuracy_better"] == "higher"
    limit = context["accuracy_limit"]
    start = start_metrics(front)
    points = front["points"]
    framed = [start, *(point["metrics"] for point in points), *(peer["metrics"] for peer in report["peers"])]
    tried = [each for each in evenly(report["tried"]) if each["status"] != "front"]
    unit = metric_of(front["original"]["metrics"], "accuracy").unit
    titles = {
        "speedup": f"speed-up over {plot_text(front['baseline']['engine'], 60)}",
        "size_ratio": "original size over shipped size",
        "accuracy": f"{plot_text(context['accuracy_name'], 60)} ({plot_text(unit, 30)})",
    }
    return {
        "titles": titles,
        "higher": {"size_ratio": True, "accuracy": higher},
        "limit": limit,
        "ranges": {name: span(framed, name, limit if name == "accuracy" else None) for name in AXES},
        "steps": {view: steps_of(points, view, view != "accuracy" or higher) for view in VIEWS},
        "chosen": points.index(point_of(front, context["chosen"])),
        "front": [
            mark(
                f"{p['id']} (chosen)" if p["id"] == context["chosen"] else p["id"],
                f"{treatment(p['trail'])}; runs on {p['engine']}",
                p["metrics"],
            )
            for p in points
        ],
        "original": [mark("original", f"runs on {front['baseline']['engine']}", start)],
        "peers": [mark(peer["name"], "reference", peer["metrics"]) for peer in report["peers"]],
        "tried": [
            mark(each["id"], f"{each['status']}: {each['reason']}", each["metrics"])
            for each in tried
            if "speedup" in each["metrics"]
        ],
    }
