"""report.json: what a report is made from, as a run stored it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

from tensmith.errors import OutputError
from tensmith.report.document import Report
from tensmith.report.page import render

_MOST_BYTES = 256 << 20


def read_report(folder: Path) -> Report:
    """The report of a run's folder, found fit to be rendered; OutputError if it is missing or damaged."""
    path = folder / "report.json"
    advice = "finish the run by `tensmith compress ... --resume`, or run it again"
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise OutputError(f"{path} is too large to be a report; {advice}")
        document = cast(Report, json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError as error:
        raise OutputError(f"{folder} holds no report.json: no run was finished there; {advice}") from error
    except (OSError, ValueError, RecursionError) as error:
        raise OutputError(f"{path} is damaged ({error}); {advice}") from error
    try:
        render(document)
    except (LookupError, TypeError, ValueError, AttributeError, OutputError) as error:
        raise OutputError(f"{path} is damaged: a field is missing or wrong ({error}); {advice}") from error
    return document
