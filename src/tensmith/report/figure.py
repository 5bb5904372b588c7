"""A picture of a front (PNG, SVG or PDF by the file's ending), for a README or a paper."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING

from tensmith.errors import OutputError, needing
from tensmith.files import atomic_path
from tensmith.report.document import Metrics, Report, metric_of
from tensmith.report.escape import printable
from tensmith.report.metric import arms
from tensmith.report.plots import HIGHER, span, start_metrics, steps_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KINDS = {".png", ".svg", ".pdf"}
INK, QUIET, FRONT, PEER, TRIED = "#1b1d20", "#5d636b", "#1659c7", "#a86400", "#b9bec5"
BEYOND = "#a4480f"
_DPI = 160


def save_figure(report: Report, path: Path) -> None:
    """Draws speed-up against size ratio: front, original, peers and the candidates tried.

    Raises MissingExtra without matplotlib, OutputError where `path` cannot be written or has another ending.
    """
    if path.suffix not in KINDS:
        raise OutputError(f"cannot draw a '{path.suffix}' file: {path}; name it .png, .svg or .pdf")
    with needing("drawing a picture of a front", "figure"):
        from matplotlib.figure import Figure
    # Text stays as it is in SVG; names from strangers are not read as mathematics.
    import matplotlib

    with matplotlib.rc_context({"font.size": 9, "text.parse_math": False, "svg.fonttype": "none"}):
        figure = Figure(figsize=(7.2, 4.8), layout="constrained", facecolor="white")
        _draw(figure.subplots(), report)
        figure.legend(loc="outside lower center", ncols=3, frameon=False, labelcolor=INK, handletextpad=0.4)
        with atomic_path(path) as temporary:
            figure.savefig(temporary, format=path.suffix[1:], dpi=_DPI)


def _draw(axes: Axes, report: Report) -> None:
    front = report["front"]
    points = [point["metrics"] for point in front["points"] if point["within_budget"]]
    beyond = [point["metrics"] for point in front["points"] if not point["within_budget"]]
    peers = [peer for peer in report["peers"] if peer["metrics"].keys() >= HIGHER]
    cloud = [each["metrics"] for each in report["tried"] if each["metrics"].keys() >= HIGHER]
    across, up = ([metric_of(metrics, name).value for metrics in cloud] for name in ("speedup", "size_ratio"))
    axes.plot(across, up, "o", color=TRIED, markersize=3, alpha=0.6, label="tried", zorder=1)
    corners = steps_of(front["points"], "speedup", "size_ratio", HIGHER)
    axes.plot(*zip(*corners), color=FRONT, linewidth=1, linestyle=":", drawstyle="steps-pre", zorder=2)
    start = start_metrics(front)
    _marks(axes, [start], "s", INK, "original")
    for peer, symbol in zip(peers, itertools.cycle("D^vp*h")):
        _marks(axes, [peer["metrics"]], symbol, PEER, printable(peer["name"], 40))
    if beyond:
        _marks(axes, beyond, "d", BEYOND, "beyond the budget")
    _marks(axes, points, "o", FRONT, "tensmith front")
    framed = [start, *points, *beyond, *(peer["metrics"] for peer in peers)]
    axes.set_xlim(*span(framed, "speedup"))
    axes.set_ylim(*span(framed, "size_ratio"))
    axes.xaxis.set_major_formatter("{x:g}×")
    axes.yaxis.set_major_formatter("{x:g}×")
    axes.set_xlabel(f"speed-up over {printable(front['baseline']['engine'])} (measured, 95% intervals)")
    axes.set_ylabel("original size over shipped size")
    axes.set_title(printable(report["context"]["model"]), loc="left", fontsize=11, color=INK)
    axes.grid(color="#e8e9e7", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(TRIED)
    axes.tick_params(color=TRIED, labelcolor=QUIET)


def _marks(axes: Axes, metrics: list[Metrics], symbol: str, colour: str, label: str) -> None:
    """Points with their interval bars."""
    across, up = ([metric_of(each, name) for each in metrics] for name in ("speedup", "size_ratio"))
    errors = [[*zip(*map(arms, found))] for found in (across, up)]
    axes.errorbar(
        [m.value for m in across], [m.value for m in up], xerr=errors[0], yerr=errors[1],
        fmt=symbol, color=colour, markersize=6, elinewidth=1, capsize=2, label=label, zorder=3,
    )  # fmt: skip
