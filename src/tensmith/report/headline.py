"""The one sentence at the top: what the chosen model is, against what, with nothing rounded up."""

from __future__ import annotations

from tensmith.report.document import Report, metric_of, point_of
from tensmith.report.escape import printable
from tensmith.report.metric import Metric
from tensmith.report.quantity import quantity, told_beside


def speed_words(speedup: Metric, baseline: str) -> str:
    """Says "faster" or "slower" only where a measured interval excludes 1; names the baseline."""
    value, low, high = (told_beside(number, 1.0) for number in (speedup.value, speedup.low, speedup.high))
    interval = f"{low} to {high}×" if speedup.low < speedup.high else "exact"
    shown = f"{value}× its speed ({interval}, {speedup.evidence})"
    if speedup.evidence != "measured":
        return f"is not timed against the original on {baseline}: {shown}"
    if speedup.low > 1:
        return f"is faster than the original on {baseline}: {shown}"
    if speedup.high < 1:
        return f"is slower than the original on {baseline}: {shown}"
    return f"shows no difference in speed from the original on {baseline}: {shown}"


def size_words(ratio: Metric, compiled: Metric | None = None) -> str:
    """Size of what is shipped, against the original file; and of what it is compiled to, if it is."""
    shown = quantity("size_ratio", ratio, 1.0)
    then = f"; compiled, it takes {quantity('native_bytes', compiled).value}" if compiled else ""
    if ratio.low > 1:
        return f"in a file {shown.value} smaller ({shown.evidence}{then})"
    return f"in a file that is not smaller ({shown.value}, {shown.evidence}{then})"


def accuracy_words(ours: Metric, original: Metric, drop: Metric, name: str) -> str:
    """Our accuracy beside the original's, both on held-out data, and the paired difference."""
    shown, before = quantity("accuracy", ours), quantity("accuracy", original)
    interval = f"{shown.interval}, " if shown.interval else ""
    words = f"with {name} {shown.value} ({interval}{shown.evidence}) where the original has {before.value}"
    lost = quantity("accuracy_drop", drop)
    return f"{words} ({before.evidence}; paired, the loss is {lost.value}, {lost.interval or 'exact'})"


def headline(report: Report) -> str:
    """The summary sentence of the chosen point, plain text. The front must be a valid front.json."""
    front, context = report["front"], report["context"]
    point = point_of(front, context["chosen"])
    metrics = point["metrics"]
    speed = speed_words(metric_of(metrics, "speedup"), printable(front["baseline"]["engine"]))
    accuracy = accuracy_words(
        metric_of(metrics, "accuracy"),
        metric_of(front["original"]["metrics"], "accuracy"),
        metric_of(metrics, "accuracy_drop"),
        printable(context["accuracy_name"]),
    )
    compiled = metric_of(metrics, "native_bytes") if "native_bytes" in metrics else None
    size = size_words(metric_of(metrics, "size_ratio"), compiled)
    return f"The chosen model, on {printable(point['engine'])}, {speed}, {size}, {accuracy}."
