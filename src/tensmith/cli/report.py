"""`tensmith report`: the front of a finished run as a table, and its page written again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tensmith.cli.command import Answer, command


@command(example="tensmith report out --figure front.png")
def report(
    folder: Annotated[Path, typer.Argument(metavar="OUT", help="The folder of a run.")],
    figure: Annotated[
        Path | None,
        typer.Option(help="Draw the front into this .png, .svg or .pdf file, too (extra figure)."),
    ] = None,
) -> Answer:
    """Print the front of a finished run, and write its report.html again from its report.json."""
    from tensmith.deploy.front import Front
    from tensmith.report.figure import save_figure
    from tensmith.report.page import write_report
    from tensmith.report.stored import read_report
    from tensmith.report.text import run_lines

    front = Front.read(folder)
    document = read_report(folder)
    page = folder / "report.html"
    write_report(document, page)
    shown = [*run_lines(document), "", f"report     {page}"]
    if figure is not None:
        save_figure(document, figure)
        shown.append(f"figure     {figure}")
    answer = {"report": str(page), "front": front.document, "notes": document["notes"]}
    return Answer({**answer, "figure": str(figure) if figure else None}, shown)
