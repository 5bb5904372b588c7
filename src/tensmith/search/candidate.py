"""A candidate: a plan, the engine that runs it best, and what was measured of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from tensmith.report.metric import Metric
from tensmith.search.plan import Plan

Status = Literal["accepted", "unsure", "beyond", "rejected", "failed", "not judged"]
# What a front may show, from what surely holds every budget to what breaks that of the drop.
SHOWN: tuple[Status, ...] = ("accepted", "unsure", "beyond")


@dataclass(frozen=True)
class Candidate:
    """`drop` is what it loses on `samples` of the search split, in the budget's unit (points, or per cent of
    a loss), `at_most` what it loses on held-out data with confidence; None where only the value counts.
    `changed` per cent of those samples have another answer than the original's, None without classes.

    Those `accepted` hold every budget with confidence, or are proved equal; those `unsure` hold them on the
    samples that they were judged on, and are a hope that held-out data settles. Those `beyond` the drop
    budget hold every other one and lose what the objective still looks at; `rejected` candidates ran and
    broke a budget otherwise; `failed` ones could not be built or run; those `not judged` held what was asked
    on the search split and never met held-out data. `reason` says which budget, what went wrong, or why.
    """

    id: str
    plan: Plan
    status: Status
    reason: str = ""
    engine: str = ""
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    drop: Metric | None = None
    samples: int = 0
    at_most: float | None = None
    changed: float | None = None

    @property
    def holds(self) -> bool:
        """Whether it holds every budget, as far as was seen."""
        return self.status in ("accepted", "unsure")

    @property
    def bytes(self) -> float:
        """Shipped size in bytes."""
        return self.metrics["packed_bytes"].value

    @property
    def latency(self) -> float:
        """Milliseconds an inference."""
        return self.metrics["latency_ms"].value

    @property
    def engine_text(self) -> str:
        """Its engine as it is printed and stored: "openvino", "openvino precision=bf16"."""
        return " ".join([self.engine, *(f"{name}={value}" for name, value in self.plan.engine_settings)])

    def to_json(self) -> dict[str, Any]:
        """The candidate as a JSON object."""
        return asdict(self)

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Candidate:
        """The candidate of a JSON object."""
        return Candidate(
            document["id"],
            Plan.from_json(document["plan"]),
            document["status"],
            document["reason"],
            document["engine"],
            {name: Metric.from_json(metric) for name, metric in document["metrics"].items()},
            Metric.from_json(document["drop"]) if document["drop"] else None,
            document["samples"],
            document["at_most"],
            document["changed"],
        )
