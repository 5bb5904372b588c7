"""The front in a terminal: a rich table, or plain text where colours and width are not known."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from dataclasses import replace

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tensmith.report.document import FrontDocument, Metrics, PointRow, Report, marks_of, metric_of
from tensmith.report.escape import MOST_OF_A_NOTE, printable
from tensmith.report.headline import headline
from tensmith.report.metric import KINDS, OF_ESTIMATES, OF_PEAKS
from tensmith.report.plots import AXES, start_metrics
from tensmith.report.quantity import limit_text, quantity

# Letters of a unit that stands beside each figure.
_SHORT = 3


def front_table(front: FrontDocument, chosen: str = "", measure: str = "") -> Table:
    """The original, the points by speed-up, the budget, then the points beyond it.

    measure: what accuracy is called. Under each figure stands its interval, and its evidence word unless a
    whole column shares it: then it stands in the column's heading.
    """
    points = sorted(
        front["points"],
        key=lambda point: (not point["within_budget"], -metric_of(point["metrics"], "speedup").value),
    )
    start = start_metrics(front)
    everything = [start, *(point["metrics"] for point in points)]
    columns = {name: _shared_word(everything, name) for name in AXES if _known(everything, name)}

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("model", overflow="fold", min_width=12)
    labels = {name: kind.label for name, kind in KINDS.items()}
    labels |= {"accuracy": measure, "accuracy_drop": "lost"} if measure else {}
    if unit := _long_unit(start, "accuracy"):
        labels["accuracy"] = measure or f"accuracy, {unit}"
    for name, word in columns.items():
        table.add_column(Text(f"{labels[name]}\n{word}"), justify="right")
    table.add_row(
        _cell("original", printable(front["baseline"]["engine"])),
        *_row(start, columns, front["budget"]),
        style="dim",
    )
    within = [point for point in points if point["within_budget"]]
    for point in within:
        table.add_row(*_point(front, point, chosen, columns))
    table.add_row(*_budget(front, columns), style="dim")
    for point in points[len(within) :]:
        table.add_row(*_point(front, point, chosen, columns))
    baseline = printable(front["baseline"]["engine"])
    samples = front.get("held_out_samples")
    searched = front.get("searched_samples")
    beside = f"; the search saw {searched:,} others of that part of the data" if searched else ""
    name = (measure or KINDS["accuracy"].label).capitalize()
    judged = f" {name} is of {samples:,} held-out samples{beside}." if samples else ""
    ranges = f", of peak memory {OF_PEAKS}" if _varies(everything, "peak_bytes") else ""
    ranges += f", of estimated energy {OF_ESTIMATES}" if _varies(everything, "energy_mj", "estimated") else ""
    caption = f"Intervals are 95%{ranges}.{judged} Speed-ups are over the original on {baseline}."
    table.caption, table.caption_justify = Text(caption, style="dim"), "left"
    return table


def run_lines(report: Report) -> list[Table | str]:
    """A run in a terminal: the front, what was chosen in a sentence, and what else is to be known."""
    context = report["context"]
    front = front_table(report["front"], context["chosen"], printable(context["accuracy_name"], 40))
    return [front, "", headline(report), *(printable(note, MOST_OF_A_NOTE) for note in report["notes"])]


def front_text(front: FrontDocument, chosen: str = "", measure: str = "", width: int = 160) -> str:
    """`front_table` as plain text without colours, at most `width` columns wide."""
    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False)
    with console.capture() as capture:
        console.print(front_table(front, chosen, measure))
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


def _known(everything: list[Metrics], name: str) -> bool:
    return any(name in metrics for metrics in everything[1:])


def _varies(everything: list[Metrics], name: str, evidence: str = "") -> bool:
    """Whether a metric has an interval somewhere, with that word for its evidence if one is given."""
    found = (metric_of(metrics, name) for metrics in everything if name in metrics)
    return any(each.low < each.high and evidence in ("", each.evidence) for each in found)


def _shared_word(everything: list[Metrics], name: str) -> str:
    words = {metric_of(metrics, name).evidence for metrics in everything if name in metrics}
    return words.pop() if len(words) == 1 else ""


def _point(front: FrontDocument, point: PointRow, chosen: str, columns: dict[str, str]) -> list[Text]:
    """A point's name, its engine and what is said of it under it, and its figures."""
    under = ", ".join([printable(point["engine"]), *marks_of(front, point, chosen)])
    cells = [_cell(printable(point["id"], 40), under), *_row(point["metrics"], columns, front["budget"])]
    if point["id"] == chosen:
        for cell in cells:
            cell.stylize("bold")
    return cells


def _row(metrics: Metrics, columns: dict[str, str], budget: Mapping[str, float]) -> list[Text]:
    """The figures of one model, with the evidence words that headings do not already give."""
    cells = []
    for name, word in columns.items():
        if name not in metrics:
            cells.append(Text("–"))
            continue
        metric = metric_of(metrics, name)
        metric = replace(metric, unit="") if _long_unit(metrics, name) else metric
        shown = quantity(name, metric, budget.get(name, math.inf))
        under = [shown.interval, "" if word else shown.evidence]
        cells.append(_cell(shown.value, ", ".join(filter(None, under))))
    return cells


def _long_unit(metrics: Metrics, name: str) -> str:
    """The unit of accuracy where figures have no room for it, and its heading says it."""
    unit = metric_of(metrics, name).unit if name == "accuracy" and name in metrics else ""
    return unit if len(unit) > _SHORT else ""


def _budget(front: FrontDocument, columns: dict[str, str]) -> list[Text]:
    """The line between what is within the budget and what is not."""
    cells = [Text("budget")]
    for name in columns:
        limit, metrics = front["budget"].get(name), front["points"][0]["metrics"]
        unit = metric_of(metrics, name).unit if name in metrics else ""
        cells.append(Text("" if limit is None else f"≤ {limit_text(name, limit, unit)}"))
    return cells


def _cell(above: str, under: str) -> Text:
    return Text(f"{above}\n{under}" if under else above)
