"""The comparison's arithmetic and its table, in text and JSON; pure functions of the rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.compress.hypervolume import hypervolume
from benchmarks.compress.stock.cases import Case
from tensmith.report.metric import Metric

COLUMNS = ("peer", "speed-up", "KB", "KB coded", "smaller", "drop", "agreement", "in budget", "note")
_FP32 = (" fp32", " bf16")

Fits = Callable[["Row"], bool]


@dataclass(frozen=True)
class Row:
    """One file on one engine. ratio: baseline latency / its own; coded: bytes after zstd -19 or packing.

    drop: points of top-1 accuracy, or per cent of the loss. `in_budget` is by the case's own measure.
    """

    peer: str
    variant: str
    runtime: str = ""
    latency: Metric | None = None
    ratio: Metric | None = None
    written: int = 0
    coded: int = 0
    accuracy: Metric | None = None
    drop: Metric | None = None
    agreement: Metric | None = None
    in_budget: bool = False
    note: str = ""
    failure: str = ""

    @property
    def bytes(self) -> int:
        """What counts: the smaller of both sizes."""
        return min(self.written, self.coded)


def volumes(rows: Sequence[Row], fits: Fits = lambda row: row.in_budget) -> dict[str, float]:
    """Hypervolume of each peer in size / original size and latency / baseline latency, reference (1, 1).

    The first row is the original on the baseline. Only points that fit the budget count. Every peer also has
    the original on its own runtime, as its user would; without a file in budget it has no more than that.
    """
    peers = dict.fromkeys(row.peer for row in rows)
    fitting = [row for row in rows if fits(row)]
    return {
        peer: _volume([row for row in fitting if _owns(peer, row, rows)], rows[0].written) for peer in peers
    }


def _owns(peer: str, row: Row, rows: Sequence[Row]) -> bool:
    runtimes = {mine.runtime for mine in rows if mine.peer == peer}
    return row.peer == peer or (row.peer.endswith(_FP32) and row.runtime in runtimes)


def _volume(rows: Sequence[Row], original_bytes: int) -> float:
    points = [(row.bytes / original_bytes, 1 / row.ratio.value) for row in rows if row.ratio is not None]
    return hypervolume(points, (1.0, 1.0))


def reached(rows: Sequence[Row], peer: str, goal: tuple[float, float]) -> bool:
    """Whether one point of `peer` in budget has at least this (speed-up, size ratio)."""
    speed, size = goal
    return any(
        row.peer == peer
        and row.in_budget
        and row.ratio is not None
        and row.ratio.value >= speed
        and rows[0].written >= size * row.bytes
        for row in rows
    )


def cells(row: Row, original_bytes: int) -> tuple[str, ...]:
    """The row as text, one a column."""
    name = f"{row.peer}, {row.variant}" if row.variant else row.peer
    if row.failure or row.ratio is None or row.drop is None:
        return (name, *[""] * (len(COLUMNS) - 2), f"fails: {row.failure}")
    return (
        name,
        f"{row.ratio.value:.2f}x ({row.ratio.low:.2f} to {row.ratio.high:.2f})",
        f"{row.written / 1000:.0f}",
        f"{row.coded / 1000:.0f}",
        f"{original_bytes / row.bytes:.2f}x",
        f"{row.drop.value:+.2f} {row.drop.unit} ({row.drop.low:+.2f} to {row.drop.high:+.2f})",
        f"{row.agreement.value:.1f}%" if row.agreement else "",
        "yes" if row.in_budget else "no",
        row.note,
    )


def verdict(rows: Sequence[Row], ours: str, case: Case) -> list[str]:
    """The hypervolumes, best first, and which goals `ours` reaches.

    Agreement counts every changed answer; where it is the budget, top-1 accuracy as the budget is shown too.
    """
    lines = ["hypervolume: " + _ranking(volumes(rows))]
    if case.measure == "agreement":
        by_drop = volumes(rows, lambda row: row.drop is not None and row.drop.value <= case.budget)
        lines.append(f"were the budget {case.budget:g} points of top-1 accuracy: " + _ranking(by_drop))
    if any(row.peer == ours for row in rows):
        for goal in case.goals:
            wanted = [f"{goal[0]:g}x faster"] * (goal[0] > 0) + [f"{goal[1]:g}x smaller"] * (goal[1] > 0)
            word = "reached" if reached(rows, ours, goal) else "not reached"
            lines.append(f"a point {' and '.join(wanted)}: {word}")
    return lines


def _ranking(found: Mapping[str, float]) -> str:
    ordered = sorted(found.items(), key=lambda item: -item[1])
    return ", ".join(f"{peer} {volume:.3f}" for peer, volume in ordered)


def document(rows: Sequence[Row]) -> dict[str, Any]:
    """JSON: the rows, and the hypervolumes by peer."""
    return {"rows": [asdict(row) for row in rows], "hypervolume": volumes(rows)}
