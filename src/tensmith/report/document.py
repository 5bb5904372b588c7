"""What a report is made from: one JSON document, typed here field by field.

A document is plain dicts, lists, strings and numbers, so it can be stored, sent and rendered again later.
`front` is the content of `front.json` (see front.schema.json); the rest is context around it. The trail that
is shown is the one inside each front point, so there is no second copy that could disagree.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypedDict

from tensmith.errors import OutputError
from tensmith.report.metric import Evidence, Metric

Metrics = Mapping[str, Mapping[str, Any]]
"""What `Metric.to_json` says, by name from KINDS; a candidate that was dropped early may lack some."""


class StepRow(TypedDict):
    """One rewrite of a trail: `rule` applied at `site` (a layer, or "*" for everywhere) with `params`."""

    rule: str
    kind: Literal["exact", "lossy"]
    site: str
    params: dict[str, Any]
    evidence: NotRequired[Evidence]
    """Left out where the kind says it: exact rules are proved, the price of lossy ones is measured."""


class SearchFigures(TypedDict):
    """What was known of a point before it was judged on held-out data."""

    accuracy_drop: Mapping[str, Any]
    samples: int
    at_most: NotRequired[float]


class PointRow(TypedDict):
    """One model of the front; `files` gives each file's SHA-256."""

    id: str
    within_budget: bool
    metrics: Metrics
    search: NotRequired[SearchFigures]
    engine: str
    trail: list[StepRow]
    files: dict[str, str]


class Baseline(TypedDict):
    """The best stock runtime on the original model, which every speed-up is against."""

    engine: str
    metrics: Metrics


class Original(TypedDict):
    """The model as it came."""

    metrics: Metrics


class FrontDocument(TypedDict):
    """The content of front.json, schema 3. `budget` is the most that was allowed, by metric."""

    schema: int
    baseline: Baseline
    original: Original
    budget: dict[str, float]
    held_out_samples: NotRequired[int]
    searched_samples: NotRequired[int]
    knee: NotRequired[str]
    points: list[PointRow]


class RunContext(TypedDict):
    """What was run, on what, and how to run it again."""

    model: str
    data: str
    target: str
    threads: int
    batch: int
    seed: int
    command: str
    versions: dict[str, str]
    chosen: str
    """Id of the front point that was written to best/."""
    prefer: str
    accuracy_name: str
    """What `accuracy` is: "top-1 accuracy", "agreement with the original", "nats per token"."""
    accuracy_better: Literal["higher", "lower"]
    accuracy_limit: float | None
    """The worst accuracy the budget allows, in the accuracy's unit; None without a budget."""


class Peer(TypedDict):
    """A reference: what one engine's own plain int8 reaches on the same model and data."""

    name: str
    metrics: Metrics


class LayerRow(TypedDict):
    """One layer of the original, and what the chosen point made of it; None where a figure is not known."""

    name: str
    op: str
    shape: str
    bytes_before: int
    bytes_after: int
    ms_before: float | None
    ms_after: float | None
    ms_evidence: Evidence
    sensitivity: float | None
    """Per cent of the answers that change when the weights of this layer alone take 4 bits."""
    sensitivity_evidence: Evidence
    treatment: str


class Tried(TypedDict):
    """A candidate of the search and its status, and why.

    "front"; "beyond", on the front and beyond the drop budget; "dominated", "rejected", "failed", "not
    judged" or "not shown". Accuracy and what is lost of it are of so many samples of the search split, as
    many as it needed.
    """

    id: str
    status: str
    reason: str
    metrics: Metrics
    samples: NotRequired[int]
    at_most: NotRequired[float | None]
    """What it loses at most on held-out data, with CONFIDENCE; None where that is not known."""


class Claim(TypedDict):
    """One statement of the certificate of the chosen point, with what it rests on."""

    claim: str
    evidence: Evidence
    detail: str
    assumptions: list[str]


class Report(TypedDict):
    """Everything `report.html` shows. `notes` are sentences a reader must not miss."""

    front: FrontDocument
    context: RunContext
    peers: list[Peer]
    layers: list[LayerRow]
    tried: list[Tried]
    evidence: list[Claim]
    notes: list[str]


def metric_of(metrics: Metrics, name: str) -> Metric:
    """The metric of that name. Raises OutputError where it is damaged."""
    return Metric.from_json(metrics[name])


def marks_of(front: FrontDocument, point: PointRow, chosen: str) -> list[str]:
    """What is said beside a point's name: "chosen", "knee", "beyond the budget".

    Held-out samples bring no point back that lost too much of those searched on.
    """
    beyond, most = not point["within_budget"], front["budget"].get("accuracy_drop", -math.inf)
    drops = [found.get("accuracy_drop") for found in (point["metrics"], point.get("search", {}))]
    held_out, searched = (Metric.from_json(drop).value if drop else math.nan for drop in drops)
    in_search = beyond and held_out <= most < searched
    marks = {
        "chosen": point["id"] == chosen,
        "knee": point["id"] == front.get("knee"),
        "beyond the budget in the search": in_search,
        "beyond the budget": beyond and not in_search,
    }
    return [mark for mark, holds in marks.items() if holds]


def step_evidence(step: StepRow) -> Evidence:
    """The evidence word of a step."""
    return step.get("evidence", "proved" if step["kind"] == "exact" else "measured")


def point_of(front: FrontDocument, identifier: str) -> PointRow:
    """The front point with that id. Raises OutputError where there is none."""
    for point in front["points"]:
        if point["id"] == identifier:
            return point
    known = ", ".join(point["id"] for point in front["points"])
    raise OutputError(f"the front holds no point '{identifier}'; its points: {known}")
