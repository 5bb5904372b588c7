"""What came of cells: `study.sqlite`, a row a cell, on disk before the next cell begins."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tensmith import gate
from tensmith.database import Database
from tensmith.errors import OutputError
from tensmith.files import atomic_path, sha256_bytes
from tensmith.report.metric import Metric, columns
from tensmith.study.plan import LAYERS, StudyCell

# In a setting, what computes beside the processor.
DEVICE = "device"
# Figures of what a model answers.
_OF_ANSWERS = ("accuracy", "drop")


@dataclass(frozen=True)
class CellResult:
    """A cell's figures, or why it has none. `seconds`: what it took; `model`: the digest of the model's file
    and of its data; `setting`: by name, the versions and the processor that its times and answers are of.

    Figures by name: accuracy, drop, latency_ms (the paper's method), ratio (ours, against the original in
    ONNX Runtime), batch (the samples of an inference that these are of), file_bytes, weights (not zero),
    macs, expected (the speed-up that the optimization would give if time were work); where the plan asks,
    packed_bytes, peak_bytes (while running), energy_mj.
    """

    cell: StudyCell
    model: str
    seconds: float
    reason: str = ""
    figures: Mapping[str, Metric] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    setting: Mapping[str, str] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Whether there are no figures."""
        return bool(self.reason)

    @property
    def ms(self) -> float:
        """Its latency."""
        return self.figures["latency_ms"].value

    def value(self, name: str) -> float | None:
        """A figure without its interval."""
        return self.figures[name].value if name in self.figures else None

    def without_accuracy(self) -> CellResult:
        """The result of a model whose weights are random: what it answers says nothing of an optimization."""
        kept = {name: metric for name, metric in self.figures.items() if name not in _OF_ANSWERS}
        return replace(self, figures=kept)

    def to_json(self) -> dict[str, Any]:
        """The result as a JSON object."""
        return asdict(self)

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> CellResult:
        """The result of a JSON object; KeyError, TypeError or OutputError where it is damaged."""
        figures = {name: Metric.from_json(metric) for name, metric in document["figures"].items()}
        return CellResult(
            StudyCell(**document["cell"]), document["model"], document["seconds"], document["reason"],
            figures, tuple(document["notes"]), document.get("setting", {}),
        )  # fmt: skip


_TABLE = """
CREATE TABLE IF NOT EXISTS rows (name TEXT PRIMARY KEY, body TEXT NOT NULL, digest TEXT NOT NULL);
"""


class Results(Database):
    """A database of results by the ids of cells, and of facts that cells share.

    A row that is not as it was written counts as missing, so its cell is run again. OutputError if the file
    itself is damaged.
    """

    def __init__(self, path: Path, looked_at: bool = False) -> None:
        super().__init__(path, gate.RUN, _TABLE, looked_at=looked_at)

    def add(self, result: CellResult) -> None:
        """Stores a result; an earlier one of the cell is replaced."""
        self.note(result.cell.id, result.to_json())

    def find(self, cell: StudyCell) -> CellResult | None:
        """What came of a cell, if that is known."""
        document = self.fact(cell.id)
        try:
            return None if document is None else CellResult.from_json(document)
        except (KeyError, TypeError, AttributeError, OutputError):
            return None

    def of(self, cells: Iterable[StudyCell]) -> list[CellResult]:
        """What came of those of the cells that have been run."""
        return [result for cell in cells if (result := self.find(cell)) is not None]

    def note(self, name: str, value: Any) -> None:
        """Stores any JSON value under `name`."""
        body = json.dumps(value)
        digest = _digest(name, body.encode())
        self.write("INSERT OR REPLACE INTO rows VALUES (?, ?, ?)", (name, body, digest))

    def fact(self, name: str) -> Any:
        """The value under `name`; None where there is none, or it was altered."""
        # As bytes: what was altered may be no text.
        query = "SELECT CAST(body AS BLOB), CAST(digest AS BLOB) FROM rows WHERE name = ?"
        for body, digest in self.rows(query, (name,)):
            if isinstance(body, bytes) and _digest(name, body).encode() == digest:
                with contextlib.suppress(ValueError, RecursionError):
                    return json.loads(body)
        return None


def _digest(name: str, body: bytes) -> str:
    return sha256_bytes(f"{name}\n".encode() + body)


def write_parquet(results: Iterable[CellResult], path: Path) -> None:
    """All results as a Parquet file, a column a layer and three a figure, by pyarrow."""
    import pyarrow
    import pyarrow.parquet

    rows = [_flat(result) for result in results]
    names = dict.fromkeys(name for row in rows for name in row)
    table = pyarrow.table({name: [row.get(name) for row in rows] for name in names})
    with atomic_path(path) as made:
        pyarrow.parquet.write_table(table, made)


def _flat(result: CellResult) -> dict[str, Any]:
    row: dict[str, Any] = {layer: getattr(result.cell, layer) for layer in LAYERS}
    row |= {"id": result.cell.id, "seconds": result.seconds, "reason": result.reason}
    return row | columns(result.figures) | {"notes": "; ".join(result.notes)}
