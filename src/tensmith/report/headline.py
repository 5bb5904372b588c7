"""The one sentence at the top: what the chosen model is, against what, with nothing rounded up."""

from __future__ import annotations

from tensmith.report.document import Metric, Report, point_of
from tensmith.report.escape import printable
from tensmith.report.figures import figure


def speed_words(speedup: Metric, baseline: str) -> str:
    """Says "faster" or "slower" only where a measured interval excludes 1; names the baseline."""
    ratio = figure("speedup", speedup)
    shown = f"{ratio.value} its speed ({ratio.interval or 'exact'}, {ratio.evidence})"
    if speedup["evidence"] != "measured":
        return f"is not timed against the original on {baseline}: {shown}"
    if speedup["low"] > 1:
        return f"is faster than the original on {baseline}: {shown}"
    if speedup["high"] < 1:
        return f"is slower than the original on {baseline}: {shown}"
    return f"shows no difference in speed from the original on {baseline}: {shown}"


def size_words(ratio: Metric) -> str:
    """Size of what is shipped, against the original file."""
    shown = figure("size_ratio", ratio)
    if ratio["low"] > 1:
        return f"in a file {shown.value} smaller ({shown.evidence})"
    return f"in a file that is not smaller ({shown.value}, {shown.evidence})"


def accuracy_words(ours: Metric, original: Metric, name: str) -> str:
    """Our accuracy beside the original's; both are on held-out data."""
    shown, before = figure("accuracy", ours), figure("accuracy", original)
    interval = f"{shown.interval}, " if shown.interval else ""
    return (
        f"with {name} {shown.value} ({interval}{shown.evidence}; "
        f"the original: {before.value}, {before.evidence})"
    )


def headline(report: Report) -> str:
    """The summary sentence of the chosen point, plain text. The front must be a valid front.json."""
    front, context = report["front"], report["context"]
    metrics = point_of(front, context["chosen"])["metrics"]
    speed = speed_words(metrics["speedup"], printable(front["baseline"]["engine"]))
    accuracy = accuracy_words(
        metrics["accuracy"], front["original"]["metrics"]["accuracy"], printable(context["accuracy_name"])
    )
    return f"The chosen model {speed}, {size_words(metrics['size_ratio'])}, {accuracy}."
