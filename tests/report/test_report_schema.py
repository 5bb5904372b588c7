"""front.json: the schema is a schema and takes the sample; what is not valid is named with its place."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from report_sample import sample

from tensmith.errors import OutputError
from tensmith.report.metric import KINDS
from tensmith.report.schema import front_schema, validate_front


def test_schema_is_valid_and_takes_the_sample() -> None:
    jsonschema.Draft202012Validator.check_schema(front_schema())
    front = sample()["front"]
    validate_front(front)


def test_schema_names_the_metrics() -> None:
    definitions = front_schema()["$defs"]
    assert set(definitions["some_metrics"]["properties"]) == set(KINDS)
    # Only compiled points have the last one.
    assert {*definitions["all_metrics"]["required"], "native_bytes"} == set(KINDS)


@pytest.mark.parametrize("front", [None, [], "front", 3, {}])
def test_what_is_no_front_at_all_is_refused(front: object) -> None:
    with pytest.raises(OutputError, match=r"front\.json is not valid at front"):
        validate_front(front)


def test_message_names_the_place() -> None:
    front: Any = sample()["front"]
    front["points"][1]["metrics"]["speedup"]["evidence"] = "believed"
    with pytest.raises(
        OutputError, match=r"front\.points\[1\]\.metrics\.speedup\.evidence: 'believed' is not one of"
    ):
        validate_front(front)


def test_message_stays_short_and_printable() -> None:
    front: Any = sample()["front"] | {"knee": {"\x1b[2J" * 1000: 1}}
    with pytest.raises(OutputError, match=r"front\.knee: .*is not of type 'string'") as caught:
        validate_front(front)
    assert len(str(caught.value)) < 400 and str(caught.value).isprintable()


def test_what_is_nested_too_deep_is_refused() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(OutputError, match="nested too deep"):
        validate_front(sample()["front"] | {"schema": deep})


@pytest.mark.parametrize("low", [float("nan"), float("-inf"), 9.9, pytest.param(-(10**400), id="whole")])
def test_intervals_hold_their_value(low: float) -> None:
    front = sample()["front"]
    front["points"][0]["metrics"]["speedup"]["low"] = low
    with pytest.raises(OutputError, match=r"points\[0\]\.metrics\.speedup: low, value and high"):
        validate_front(front)


@pytest.mark.parametrize("number", [float("inf"), pytest.param(10**400, id="whole")])
def test_figures_are_finite(number: float) -> None:
    with pytest.raises(OutputError, match=r"front\.held_out_samples: it must be finite"):
        validate_front(sample()["front"] | {"held_out_samples": number})


def test_ids_differ() -> None:
    front = sample()["front"]
    front["points"][1]["id"] = front["points"][0]["id"]
    with pytest.raises(OutputError, match="same id"):
        validate_front(front)


def test_another_schema_is_refused() -> None:
    with pytest.raises(OutputError, match=r"front\.schema: 2 is not one of \[3\]"):
        validate_front(sample()["front"] | {"schema": 2})


@pytest.mark.parametrize("unit", ["\x1b[2J", "[/nats]", "nats per token", ""])
def test_a_unit_is_one_of_its_kind(unit: str) -> None:
    front = sample()["front"]
    front["points"][0]["metrics"]["accuracy"]["unit"] = unit
    with pytest.raises(OutputError, match=r"points\[0\]\.metrics\.accuracy: its unit is one of %, AP, nats"):
        validate_front(front)
