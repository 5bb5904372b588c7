"""`tensmith report`: the front of a finished run as a table, and its page written again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tensmith.cli.command import Answer, command


@command(example="tensmith report out")
def report(folder: Annotated[Path, typer.Argument(metavar="OUT", help="The folder of a run.")]) -> Answer:
    """Print the front of a finished run, and write its report.html again from its report.json."""
    from tensmith.deploy.front import Front
    from tensmith.report.headline import headline
    from tensmith.report.page import write_report
    from tensmith.report.stored import read_report
    from tensmith.report.text import front_table

    front = Front.read(folder)
    document = read_report(folder)
    page = folder / "report.html"
    write_report(document, page)
    shown = [front_table(document["front"], document["context"]["chosen"]), "", headline(document)]
    shown += [*document["notes"], f"report     {page}"]
    return Answer({"report": str(page), "front": front.document, "notes": document["notes"]}, shown)
