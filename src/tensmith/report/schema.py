"""front.json against its JSON Schema (draft 2020-12), read with the few keywords that schema uses.

The schema file is the one source: the test suite holds this reader against the `jsonschema` package.
"""

from __future__ import annotations

import functools
import importlib.resources
import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

from tensmith.errors import OutputError
from tensmith.report.escape import printable

_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
}
_COMMENTS = {"$schema", "$defs", "title", "description"}


@functools.cache
def front_schema() -> dict[str, Any]:
    """The JSON Schema of front.json."""
    text = importlib.resources.files(__package__).joinpath("front.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def validate_front(document: object) -> None:
    """Raises OutputError, naming the place, unless `document` is a valid front.json (schema 2 or 3).

    Beyond the schema, figures must be finite, intervals must contain their value, and ids must differ.
    """
    for where, what in _violations(document, front_schema(), "front"):
        raise OutputError(
            f"front.json is not valid at {where}: {what}; write it again with `tensmith compress`"
        )
    assert isinstance(document, dict)
    for where, what in _disorder(document):
        raise OutputError(
            f"front.json is not valid at {where}: {what}; write it again with `tensmith compress`"
        )


def _violations(value: Any, schema: dict[str, Any], where: str) -> Iterator[tuple[str, str]]:
    """Yields (place, complaint) for every keyword of `schema` that `value` breaks."""
    if "type" in schema and not _TYPES[schema["type"]](value):
        yield where, f"expected {schema['type']}"
        return
    for keyword, argument in schema.items():
        if keyword not in _COMMENTS | {"type"}:
            yield from _KEYWORDS[keyword](value, argument, where, schema)


Check = Callable[[Any, Any, str, dict[str, Any]], Iterator[tuple[str, str]]]


def _ref(value: Any, reference: str, where: str, _: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield from _violations(value, front_schema()["$defs"][reference.removeprefix("#/$defs/")], where)


def _const(value: Any, constant: Any, where: str, _: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if isinstance(value, bool) or value != constant:
        yield where, f"expected {constant!r}"


def _enum(value: Any, words: list[Any], where: str, _: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if value not in words:
        yield where, f"expected one of {', '.join(map(str, words))}"


def _required(value: Any, names: list[str], where: str, _: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        yield from ((where, f"'{name}' is missing") for name in names if name not in value)


def _properties(
    value: Any, parts: dict[str, Any], where: str, _: dict[str, Any]
) -> Iterator[tuple[str, str]]:
    for name, part in parts.items():
        if isinstance(value, dict) and name in value:
            yield from _violations(value[name], part, f"{where}.{name}")


def _additional(value: Any, rest: Any, where: str, schema: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name in value.keys() - schema.get("properties", {}).keys():
        place = f"{where}.{printable(str(name), 60)}"
        if rest is False:
            yield place, "not a known name"
        else:
            yield from _violations(value[name], rest, place)


def _items(value: Any, part: dict[str, Any], where: str, _: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for index, item in enumerate(value):
        yield from _violations(item, part, f"{where}[{index}]")


def _minimum_length(value: Any, least: int, where: str, _: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if len(value) < least:
        yield where, "is empty"


def _pattern(value: Any, pattern: str, where: str, _: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if not re.search(pattern, value):
        yield where, f"does not match {pattern}"


_KEYWORDS: dict[str, Check] = {
    "$ref": _ref,
    "const": _const,
    "enum": _enum,
    "required": _required,
    "properties": _properties,
    "additionalProperties": _additional,
    "items": _items,
    "minItems": _minimum_length,
    "minLength": _minimum_length,
    "minProperties": _minimum_length,
    "pattern": _pattern,
}


def _disorder(front: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What a schema cannot say."""
    holders = [("front.baseline", front["baseline"]), ("front.original", front["original"])]
    holders += [(f"front.points[{index}]", point) for index, point in enumerate(front["points"])]
    figures = [
        (f"{where}.metrics.{name}", m) for where, each in holders for name, m in each["metrics"].items()
    ]
    numbers = [(f"front.budget.{name}", limit) for name, limit in front["budget"].items()]
    for index, point in enumerate(front["points"]):
        where, search = f"front.points[{index}].search", point.get("search", {})
        figures += [(f"{where}.{name}", value) for name, value in search.items() if isinstance(value, dict)]
        numbers += [
            (f"{where}.{name}", value) for name, value in search.items() if not isinstance(value, dict)
        ]
    for where, number in (*numbers, ("front.held_out_samples", front.get("held_out_samples", 0))):
        if not math.isfinite(number):
            yield where, "it must be finite"
    for where, metric in figures:
        low, value, high = metric["low"], metric["value"], metric["high"]
        if not (math.isfinite(low) and math.isfinite(high) and low <= value <= high):
            yield where, "low, value and high must be finite and in this order"
    ids = [point["id"] for point in front["points"]]
    if front.get("knee", ids[0]) not in ids:
        yield "front.knee", "no point has this id"
    if len(set(ids)) < len(ids):
        yield "front.points", "two points have the same id"
