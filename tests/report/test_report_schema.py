"""front.json: the schema is a schema, takes the sample, and our small reader agrees with jsonschema."""

from __future__ import annotations

import copy
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_sample import sample

from tensmith.errors import OutputError
from tensmith.report.metric import KINDS
from tensmith.report.schema import front_schema, validate_front

VALIDATOR = jsonschema.Draft202012Validator(front_schema())
JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(), st.text(max_size=4), st.just([]), st.just({}), st.just(1.5)
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every path into a JSON value."""
    found = [path]
    if isinstance(value, dict):
        for key, part in value.items():
            found += places(part, (*path, key))
    if isinstance(value, list):
        for index, part in enumerate(value[:2]):
            found += places(part, (*path, index))
    return found


PLACES = [place for place in places(sample()["front"]) if place]


def test_schema_is_valid_and_takes_the_sample() -> None:
    jsonschema.Draft202012Validator.check_schema(front_schema())
    front = sample()["front"]
    VALIDATOR.validate(front)
    validate_front(front)


def test_schema_names_the_metrics() -> None:
    definitions = front_schema()["$defs"]
    assert set(definitions["some_metrics"]["properties"]) == set(KINDS)
    # Only compiled points have the last one.
    assert {*definitions["all_metrics"]["required"], "native_bytes"} == set(KINDS)


@given(place=st.sampled_from(PLACES), action=st.sampled_from(["replace", "remove", "add"]), junk=JUNK)
def test_reader_agrees_with_jsonschema_on_damage(place: tuple[Any, ...], action: str, junk: Any) -> None:
    front: Any = copy.deepcopy(sample()["front"])
    holder = front
    for key in place[:-1]:
        holder = holder[key]
    if action == "replace":
        holder[place[-1]] = junk
    elif action == "remove":
        del holder[place[-1]]
    elif isinstance(holder, dict):
        holder["surprise"] = junk
    theirs = VALIDATOR.is_valid(front)
    try:
        validate_front(front)
        assert theirs
    except OutputError as error:
        beyond_the_schema = "in this order" in str(error) or "same id" in str(error)
        assert beyond_the_schema or not theirs


@pytest.mark.parametrize("front", [None, [], "front", 3, {}])
def test_what_is_no_front_at_all_is_refused(front: object) -> None:
    with pytest.raises(OutputError, match=r"front\.json is not valid at front"):
        validate_front(front)


def test_message_names_the_place() -> None:
    front: Any = sample()["front"]
    front["points"][1]["metrics"]["speedup"]["evidence"] = "believed"
    with pytest.raises(OutputError, match=r"front\.points\[1\]\.metrics\.speedup\.evidence: expected one of"):
        validate_front(front)


@pytest.mark.parametrize("low", [float("nan"), float("-inf"), 9.9])
def test_intervals_hold_their_value(low: float) -> None:
    front = sample()["front"]
    front["points"][0]["metrics"]["speedup"]["low"] = low
    with pytest.raises(OutputError, match=r"points\[0\]\.metrics\.speedup: low, value and high"):
        validate_front(front)


def test_ids_differ() -> None:
    front = sample()["front"]
    front["points"][1]["id"] = front["points"][0]["id"]
    with pytest.raises(OutputError, match="same id"):
        validate_front(front)


def test_a_front_of_the_schema_before_is_read() -> None:
    older: Any = sample()["front"] | {"schema": 2}
    del older["held_out_samples"]
    for point in older["points"]:
        del point["search"]
    validate_front(older)
    with pytest.raises(OutputError, match="expected one of 2, 3"):
        validate_front(older | {"schema": 1})
