"""front.json against its JSON Schema (draft 2020-12), and what a schema cannot say."""

from __future__ import annotations

import functools
import importlib.resources
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from tensmith import gate
from tensmith.errors import OutputError
from tensmith.report.document import FrontDocument
from tensmith.report.escape import printable
from tensmith.report.metric import KINDS


@functools.cache
def front_schema() -> dict[str, Any]:
    """The JSON Schema of front.json."""
    text = importlib.resources.files(__package__).joinpath("front.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def read_front(path: Path) -> FrontDocument:
    """The content of a run's front.json; OutputError if it is missing or damaged."""
    try:
        document = json.loads(gate.read_text(path, gate.FRONT))
    except (ValueError, RecursionError) as error:
        raise OutputError(f"{path} is not readable ({error}); run tensmith compress") from error
    return validate_front(document)


def validate_front(document: object) -> FrontDocument:
    """The document, if it is a valid front.json; else OutputError, naming the place.

    Beyond the schema, figures must be finite and in a unit of their kind, intervals must contain their value,
    and ids must differ.
    """
    from jsonschema import Draft202012Validator  # of those who start tensmith, few read a front

    try:
        error = next(Draft202012Validator(front_schema()).iter_errors(document), None)
    except RecursionError:
        raise _invalid("front", "it is nested too deep") from None
    if error is not None:
        raise _invalid("front" + "".join(map(_step, error.absolute_path)), printable(error.message))
    assert isinstance(document, dict)
    for where, what in _disorder(document):
        raise _invalid(where, what)
    return cast(FrontDocument, document)


def _step(key: str | int) -> str:
    """One step of the way into a document."""
    return f"[{key}]" if isinstance(key, int) else f".{printable(key, 60)}"


def _invalid(where: str, what: str) -> OutputError:
    return OutputError(f"front.json is not valid at {where}: {what}; write it again with `tensmith compress`")


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
    for name in ("held_out_samples", "searched_samples"):
        numbers.append((f"front.{name}", front.get(name, 0)))
    for where, number in numbers:
        if not _finite(number):
            yield where, "it must be finite"
    for where, metric in figures:
        low, value, high = metric["low"], metric["value"], metric["high"]
        if not (_finite(low) and _finite(high) and low <= value <= high):
            yield where, "low, value and high must be finite and in this order"
        kind = KINDS.get(where.rpartition(".")[2])
        if kind is not None and metric["unit"] not in kind.units:
            yield where, f"its unit is one of {', '.join(kind.units)}"
    ids = [point["id"] for point in front["points"]]
    if front.get("knee", ids[0]) not in ids:
        yield "front.knee", "no point has this id"
    if len(set(ids)) < len(ids):
        yield "front.points", "two points have the same id"


def _finite(number: float) -> bool:
    """Whether it is a finite float; JSON has whole numbers beyond all of them."""
    try:
        return math.isfinite(number)
    except OverflowError:
        return False
