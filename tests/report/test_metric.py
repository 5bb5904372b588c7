"""A metric is five fields, and none of them can be wrong."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensmith.errors import OutputError
from tensmith.report.metric import EVIDENCE, Metric, exact, spread

FINITE = st.floats(-1e12, 1e12)


@given(FINITE, FINITE, FINITE, st.sampled_from(EVIDENCE))
def test_json_is_the_five_fields_and_reads_back(value: float, low: float, high: float, evidence: str) -> None:
    metric = spread(value, low, high, "ms", evidence)
    fields = json.loads(json.dumps(metric.to_json()))
    assert list(fields) == ["value", "low", "high", "unit", "evidence"]
    assert Metric.from_json(fields) == metric
    assert metric.low <= metric.value <= metric.high


@pytest.mark.parametrize(
    "wrong",
    [
        {"low": 2.0},
        {"value": float("nan")},
        {"high": float("inf")},
        {"evidence": "guessed"},
        {"unit": 3},
        {"value": "much"},
        {"value": "1.0"},
        {"value": True},
        {"high": 10**400},
        {"extra": 1},
    ],
)
def test_damaged_json_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(OutputError, match="damaged metric"):
        Metric.from_json(exact(1.0, "ms").to_json() | wrong)
    with pytest.raises(OutputError, match="damaged metric"):
        Metric.from_json({"value": 1.0})


def test_it_prints_its_evidence() -> None:
    assert str(spread(0.75, 0.74, 0.77, "ms")) == "0.75 ms (0.74 to 0.77, measured)"
    assert str(exact(12, "mJ", "estimated")) == "12 mJ (estimated)"
    assert str(exact(91.5, "%")) == "91.5% (measured)"
