"""The front in a terminal: a rich table, or plain text where colours and width are not known."""

from __future__ import annotations

import io

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tensmith.report.document import FrontDocument, Metrics, metric_of
from tensmith.report.escape import printable
from tensmith.report.plots import start_metrics
from tensmith.report.quantity import LABELS, quantity

COLUMNS = ("speedup", "size_ratio", "accuracy", "latency_ms", "packed_bytes")


def front_table(front: FrontDocument, chosen: str = "") -> Table:
    """The original, then the points by speed-up; each figure with its interval and evidence word.

    An evidence word that a whole column shares stands in the column's heading.
    """
    points = sorted(front["points"], key=lambda point: -metric_of(point["metrics"], "speedup").value)
    start = start_metrics(front)
    everything = [start, *(point["metrics"] for point in points)]
    shared = {name: _shared_word(name, everything) for name in COLUMNS}

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("model", no_wrap=True)
    for name in COLUMNS:
        table.add_column(f"{LABELS[name]}\n{shared[name]}", justify="right", no_wrap=True)
    table.add_column("engine", overflow="fold")
    table.add_row("original", *_row(start, shared), Text(printable(front["baseline"]["engine"])), style="dim")
    for point in points:
        is_chosen = point["id"] == chosen
        title = Text(printable(point["id"], 40) + (" *" if is_chosen else ""))
        engine = Text(printable(point["engine"]))
        table.add_row(title, *_row(point["metrics"], shared), engine, style="bold" if is_chosen else "")
    baseline = printable(front["baseline"]["engine"])
    caption = f"Brackets hold 95% intervals. Speed-ups are over the original on {baseline}."
    if any(point["id"] == chosen for point in points):
        caption = f"* chosen. {caption}"
    table.caption, table.caption_justify = Text(caption, style="dim"), "left"
    return table


def front_text(front: FrontDocument, chosen: str = "", width: int = 160) -> str:
    """`front_table` as plain text without colours, at most `width` columns wide."""
    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False)
    with console.capture() as capture:
        console.print(front_table(front, chosen))
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


def _shared_word(name: str, everything: list[Metrics]) -> str:
    words = {metric_of(metrics, name).evidence for metrics in everything if name in metrics}
    return words.pop() if len(words) == 1 else ""


def _row(metrics: Metrics, shared: dict[str, str]) -> list[Text]:
    """The figures of one model, with the evidence words that headings do not already give."""
    cells = []
    for name in COLUMNS:
        if name not in metrics:
            cells.append(Text("–"))
            continue
        shown = quantity(name, metric_of(metrics, name))
        interval = f" [{shown.interval}]" if shown.interval else ""
        word = "" if shared[name] else f", {shown.evidence}"
        cells.append(Text(f"{shown.value}{interval}{word}"))
    return cells
