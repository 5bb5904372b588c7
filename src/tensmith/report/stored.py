"""report.json: what a report is made from, as a run stored it."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import cast

from tensmith import gate
from tensmith.errors import OutputError
from tensmith.report.document import Report
from tensmith.report.page import render


def read_report(folder: Path) -> Report:
    """The report of a run's folder, found fit to be rendered; OutputError if it is missing or damaged."""
    path = folder / "report.json"
    advice = "finish the run by `tensmith compress ... --resume`, or run it again"
    try:
        if not path.exists():
            raise OutputError(f"{folder} holds no report.json: no run was finished there; {advice}")
        document = cast(Report, json.loads(gate.read_text(path, gate.REPORT)))
    except (OSError, ValueError, RecursionError) as error:
        raise OutputError(f"{path} is damaged ({error}); {advice}") from error
    try:
        render(document)
        _check_counts(document)
    except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError, OutputError) as error:
        raise OutputError(f"{path} is damaged: a field is missing or wrong ({error}); {advice}") from error
    front = folder / "front.json"
    told = document["front"]
    with suppress(ValueError, RecursionError, OutputError):  # whoever reads a damaged front says so
        told = json.loads(gate.read_text(front, gate.FRONT))
    if told != document["front"]:
        raise OutputError(f"{path} tells of another front than {front}, as a run that was stopped; {advice}")
    return document


def _check_counts(report: Report) -> None:
    """ValueError where threads or samples of an inference are none: times are estimated for them."""
    for name, count in (("threads", report["context"]["threads"]), ("batch", report["context"]["batch"])):
        if type(count) is not int or count < 1:
            raise ValueError(f"{name} is {count!r}")
