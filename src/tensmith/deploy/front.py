"""The front of a finished run, read from its folder: what `tensmith.compress` returns."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensmith.deploy.publish import FRONT, point_folder
from tensmith.errors import OutputError, UsageError, needing
from tensmith.files import at_home, atomic_path, sha256_file
from tensmith.report.document import FrontDocument
from tensmith.report.metric import KINDS, Metric, columns
from tensmith.report.schema import read_front
from tensmith.search.objective import PREFERENCES

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, repr=False)
class FrontPoint:
    """One model of the front and the folder that holds its files.

    within_budget: whether it holds every budget; one that does not shows what more loss would buy.
    """

    id: str
    within_budget: bool
    engine: str
    metrics: Mapping[str, Metric]
    trail: tuple[Mapping[str, Any], ...]
    files: Mapping[str, str]
    folder: Path

    def save(self, path: str | Path) -> Path:
        """Copies the model to `path`: the packed file if `path` ends in .packed, else the ONNX file, and data
        that lies outside of it to `path`.data.

        OutputError if a file is missing or is not the one that was measured.
        """
        from tensmith.frontend.model_copy import copy_model
        from tensmith.frontend.model_files import model_files

        target = at_home(path)
        name = "model.packed" if target.suffix == ".packed" else "model.onnx"
        if name not in self.files:
            raise OutputError(f"point {self.id} has no {name}; it has {', '.join(self.files)}")
        source = self._measured(name)
        if name == "model.packed":
            with atomic_path(target) as temporary:
                shutil.copyfile(source, temporary)
        else:
            for file in model_files(source)[1:]:
                self._measured(str(file.relative_to(self.folder)))
            copy_model(source, target)
        return target

    def __repr__(self) -> str:
        """What it is, and a line a metric: what a notebook shows."""
        beyond = "" if self.within_budget else ", beyond the budget"
        lines = (f"{KINDS[name].label:16}{metric}" for name, metric in self.metrics.items())
        return "\n    ".join((f"{self.id} on {self.engine}{beyond}", *lines))

    def _measured(self, name: str) -> Path:
        """One of its files; OutputError if it is not there, or not as it was."""
        source = self.folder / name
        if not source.exists() or sha256_file(source) != self.files.get(name):
            raise OutputError(f"{source} is missing or is not the file that was measured; run again")
        return source


@dataclass(frozen=True, repr=False)
class Front:
    """The Pareto front of a run. `document` is the content of front.json."""

    folder: Path
    document: FrontDocument
    points: tuple[FrontPoint, ...]

    @staticmethod
    def read(folder: str | Path) -> Front:
        """The front in the output folder of a run; OutputError if there is none or it is damaged."""
        folder = at_home(folder)
        document = read_front(folder / FRONT)
        points = tuple(
            FrontPoint(
                point["id"],
                point["within_budget"],
                point["engine"],
                {name: Metric.from_json(metric) for name, metric in point["metrics"].items()},
                tuple(point["trail"]),
                point["files"],
                point_folder(folder, number, point["files"]),
            )
            for number, point in enumerate(document["points"])
        )
        return Front(folder, document, points)

    def best(self, prefer: str = "balanced") -> FrontPoint:
        """The point to deploy: the smallest, the fastest, or the one with the best product of both.

        It is one of those within the budgets; where there is none, the original. OutputError if the front
        has neither, as none of tensmith's own.
        """
        if prefer not in PREFERENCES:
            raise UsageError(f"prefer is one of {', '.join(PREFERENCES)}, not '{prefer}'")
        within = [point for point in self.points if point.within_budget]
        pool = within or [point for point in self.points if not point.trail]
        if not pool:
            raise OutputError(
                f"no point of {self.folder / FRONT} is within its budgets or the original; choose one of its "
                "points, or run tensmith compress"
            )
        taken = ("packed_bytes", "latency_ms")
        return min(pool, key=lambda p: PREFERENCES[prefer](*(p.metrics[name].value for name in taken)))

    @property
    def knee(self) -> FrontPoint | None:
        """Where the front bends: on either side of it a little of one thing costs much of another."""
        return next((point for point in self.points if point.id == self.document.get("knee")), None)

    def to_dataframe(self) -> pandas.DataFrame:
        """One row a point: id, within_budget, engine, and value, low, high and evidence of each metric."""
        with needing("Front.to_dataframe", "dataframe"):
            import pandas
        own = ("id", "within_budget", "engine")
        return pandas.DataFrame(
            [{name: getattr(each, name) for name in own} | columns(each.metrics) for each in self.points]
        )

    def __repr__(self) -> str:
        """The table that the command line shows; so does a notebook."""
        from tensmith.report.text import front_text

        return front_text(self.document)
