"""A measured number and what is known about it: the only form in which tensmith prints one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from numbers import Real
from typing import Any, Literal, NamedTuple, get_args

from tensmith.errors import OutputError

Evidence = Literal["proved", "bounded", "checked", "tested", "measured", "estimated"]
EVIDENCE: tuple[Evidence, ...] = get_args(Evidence)

# With what confidence a candidate is said to lose at most so much. Of many that are tried most lie near the
# budget: with 95% for each, more than one in twenty of those accepted would be lost on held-out data.
CONFIDENCE = 0.99


class MetricKind(NamedTuple):
    """How people call a metric, the units it may have, and the words that its evidence may have."""

    label: str
    units: tuple[str, ...]
    words: tuple[Evidence, ...] = ("measured",)


# By name, in the order in which reports show them; front.schema.json says what each is.
KINDS: dict[str, MetricKind] = {
    "speedup": MetricKind("speed-up", ("x",)),
    "size_ratio": MetricKind("size ratio", ("x",)),
    "accuracy": MetricKind("accuracy", ("%", "AP", "nats/token", "dB", "score")),
    "accuracy_drop": MetricKind("accuracy lost", ("pt", "%", "score")),
    "latency_ms": MetricKind("latency", ("ms",)),
    "packed_bytes": MetricKind("file shipped", ("bytes",)),
    "file_bytes": MetricKind("file loaded", ("bytes",)),
    "weight_bytes": MetricKind("weights", ("bytes",)),
    "peak_bytes": MetricKind("peak memory", ("bytes",), ("measured", "estimated")),
    "energy_mj": MetricKind("energy", ("mJ",), ("measured", "estimated")),
    "native_bytes": MetricKind("compiled", ("bytes",)),
}

# What the figure called accuracy is, by measure.
MEASURES: dict[str, str] = {
    "accuracy": "top-1 accuracy",
    "agreement": "agreement with the original",
    "loss": "nats a token",
    "average-precision": "average precision",
    "fidelity": "signal-to-noise ratio of the outputs",
    "score": "score",
}

# What an interval of peak memory is, of which so few samples are taken.
OF_PEAKS = "the least and the most of a few processes"
# And of energy that a target's table says (evaluate.energy).
OF_ESTIMATES = "from all bytes in the cache to all in memory"


@dataclass(frozen=True)
class Metric:
    """`value` with its 95% interval `low`..`high`, in `unit`, and the kind of `evidence` behind it.

    An exact number has low = value = high; a peak of memory has the lowest and the highest that was seen,
    estimated energy what it is with all bytes in the cache and with all in memory.
    """

    value: float
    low: float
    high: float
    unit: str
    evidence: Evidence

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low <= self.value <= self.high):
            raise ValueError(f"{self.value} does not lie in the interval {self.low}..{self.high}")
        if self.evidence not in EVIDENCE:
            raise ValueError(f"evidence is one of {', '.join(EVIDENCE)}, not {self.evidence!r}")

    def to_json(self) -> dict[str, Any]:
        """Exactly the keys value, low, high, unit, evidence."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Metric:
        """The metric that `to_json` wrote; OutputError if it is damaged."""
        try:
            numbers = {name: _number(fields[name]) for name in ("value", "low", "high")}
            if len(fields) != 5 or not isinstance(fields["unit"], str):
                raise ValueError("a metric has the keys value, low, high, unit, evidence")
            return cls(**numbers, unit=fields["unit"], evidence=fields["evidence"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise OutputError(f"damaged metric {fields!r}: {error}") from error

    def __str__(self) -> str:
        """`0.75 ms (0.74 to 0.77, measured)`; the interval only where there is one."""
        interval = "" if self.low == self.high else f"{self.low:.4g} to {self.high:.4g}, "
        unit = self.unit if self.unit in ("", "%") else f" {self.unit}"
        return f"{self.value:.4g}{unit} ({interval}{self.evidence})"


def arms(metric: Metric) -> tuple[float, float]:
    """How far the interval of a metric reaches below it and above."""
    return metric.value - metric.low, metric.high - metric.value


def columns(metrics: Mapping[str, Metric]) -> dict[str, float | str]:
    """Metrics as columns of a table: value, low, high and evidence of each."""
    ends = {"": "value", "_low": "low", "_high": "high", "_evidence": "evidence"}
    return {f"{name}{end}": getattr(m, field) for name, m in metrics.items() for end, field in ends.items()}


def _number(value: object) -> float:
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{value!r} is no number")
    return float(value)


def exact(value: float, unit: str, evidence: Evidence = "measured") -> Metric:
    """A metric without spread."""
    return Metric(value, value, value, unit, evidence)


def spread(value: float, low: float, high: float, unit: str, evidence: Evidence = "measured") -> Metric:
    """A metric whose interval is widened to hold its value, which not every interval promises."""
    return Metric(value, min(low, value), max(high, value), unit, evidence)
