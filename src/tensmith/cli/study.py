"""`tensmith study`: a grid of choices over the whole stack, every cell measured, and what comes of them."""

from __future__ import annotations

import importlib.util
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensmith.cli.command import INTERRUPTED, Answer, command
from tensmith.cli.options import DryRun
from tensmith.cli.progress import progress
from tensmith.cli.terminal import table

if TYPE_CHECKING:
    from tensmith.study.plan import StudyPlan

_NUMBERS = ("accuracy, %", "latency, ms")
_COLUMNS = ("model", "optimization", "algorithm", "system", "hardware", *_NUMBERS, "or why not")


@command(
    example="tensmith study examples/study/digits.yaml --output digits-study",
    aborted="finished cells are kept: run it again to go on",
)
def study(
    plan: Annotated[Path, typer.Argument(metavar="FILE.yaml", help="The study: its layers and choices.")],
    output: Annotated[
        Path | None, typer.Option(help="The folder of results. [default: NAME-study, in this folder]")
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="python:MODULE:FUNCTION",
            help="Data of the file that runs this code of yours; may be repeated.",
        ),
    ] = None,
    dry_run: DryRun = False,
    prepare: Annotated[
        bool, typer.Option("--prepare", help="Make the optimized models and judge them; measure no time.")
    ] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Run cells that failed once more.")] = False,
    figures: Annotated[
        bool, typer.Option("--figures", help="Draw figure-3.png to figure-7.png and pareto-1.png, too.")
    ] = False,
    parquet: Annotated[bool, typer.Option("--parquet", help="Write results.parquet, too.")] = False,
) -> Answer:
    """Measure every combination of models, optimizations, algorithms, systems and hardware that a file names.

    A cell is one combination. Each is measured alone, by the DLAS paper's method (150 runs of one sample, the
    first dropped, the median), and by ratios interleaved with the original in ONNX Runtime. Results are kept
    cell by cell, so a study that is stopped, by whatever, goes on where it was. A cell that fails says why.
    Not all choices go together, so the exit code is 1 only if every cell failed.
    Cells of another model, data, engine, tensmith or processor than there is now are measured again.
    The folder holds the paper's tables (tables.html, .md, .tex) and explorer.html, which shows every cell.
    With --prepare a machine with a GPU can make models first, as those that are trained; copy the folder
    "models" in its folder to the one of the machine whose times are measured.
    Where the file names tables of other papers, papers.html, .md and .tex hold those, theirs beside ours.
    """
    from tensmith.errors import MissingExtra, UsageError
    from tensmith.study.observations import observations
    from tensmith.study.page import write_explorer
    from tensmith.study.papers import PAPERS, paper_tables, pareto_figures
    from tensmith.study.plan import cells, expected_seconds, not_there, read_plan
    from tensmith.study.results import write_parquet
    from tensmith.study.run import MODELS, known_results, prepare_study, run_study, seconds_by_system
    from tensmith.study.tables import draw_as, tables, write_as
    from tensmith.study.tables import figures as figures_of

    if prepare and (figures or parquet or retry):
        raise UsageError("--figures, --parquet and --retry are of measured cells; leave out --prepare")
    for asked, module, what in (
        (figures, "matplotlib", "figures of a study"),
        (parquet, "pyarrow", "a study's Parquet file"),
    ):
        if asked and importlib.util.find_spec(module) is None:
            raise MissingExtra(what, "study")
    wanted = read_plan(plan)
    _refuse_code(wanted, data or [], plan)
    folder = output or Path(f"{wanted.name}-study")
    every = cells(wanted)
    if dry_run:
        known = known_results(wanted, plan.parent, folder)
        done = {result.cell for result in known if not (retry and result.failed)}
        left = [cell for cell in every if cell not in done]
        seconds = expected_seconds(wanted, left, seconds_by_system(known))
        missing = not_there(wanted, plan.parent, left)
        expected = {
            "cells": len(every), "left": len(left), "expected_seconds": seconds, "missing": missing
        }  # fmt: skip
        told = f"{len(every)} cells, {len(done)} of them done" if done else f"{len(every)} cells"
        fail = [f"Cells would fail: {what}" for what in missing]
        return Answer(expected, [f"{told}, about {seconds / 60:.0f} min", *fail])
    if prepare:
        with progress("reading the study") as tell:
            unmade = prepare_study(wanted, plan.parent, folder, tell)
        reasons = [f"{name} failed: {reason}" for name, reason in unmade.items()]
        lines = [*reasons, f"models are in {folder / MODELS}"]
        return Answer({"output": str(folder), "failed": unmade}, lines, 1 if unmade else 0)
    with progress("reading the study") as tell:
        found = run_study(wanted, plan.parent, folder, tell, retry)
    papers = paper_tables(wanted, found.results)
    write_as(tables(found.results), "tables", folder)
    if papers:
        write_as(papers, PAPERS, folder)
    write_explorer(wanted, found.results, folder / "explorer.html")
    if figures:
        draw_as(figures_of(found.results), "figure", folder)
        draw_as(pareto_figures(wanted, found.results), "pareto", folder)
    if parquet:
        write_parquet(found.results, folder / "results.parquet")
    rows = []
    for result in found.results:
        cell, measured = result.cell, (result.value("accuracy"), result.value("latency_ms"))
        numbers = ("" if value is None else f"{value:.4g}" for value in measured)
        chosen = (cell.model, cell.optimization, cell.algorithm, cell.system, cell.hardware)
        rows.append((*chosen, *numbers, result.reason))
    observed = observations(found.results)
    failed = sum(result.failed for result in found.results)
    told = f"{len(found.results)} of {len(every)} cells, {failed} of them failed; in {folder}"
    document: dict[str, Any] = {
        "output": str(folder),
        "cells": len(every),
        "results": [result.to_json() for result in found.results],
        "observations": [asdict(one) for one in observed],
        "papers": [asdict(each) for each in papers],
        "interrupted": found.interrupted,
    }
    said = [f"{one.answer}: {one.claim} ({one.numbers})" for one in observed]
    more = [f"The papers' tables are {folder / PAPERS}.html, .md and .tex."] if papers else []
    more += ["Interrupted: run it again to go on."] if found.interrupted else []
    nothing = bool(found.results) and failed == len(found.results)
    code = INTERRUPTED if found.interrupted else int(nothing)
    return Answer(document, [table(_COLUMNS, rows, numbers=_NUMBERS), "", *said, "", told, *more], code)


def _refuse_code(wanted: StudyPlan, trusted: list[str], file: Path) -> None:
    """UsageError where the study at `file` names code for data that is not `trusted`, or no such data."""
    from tensmith.config import refuse_code
    from tensmith.errors import UsageError, nearest

    named = [entry.data for entry in wanted.datasets]
    for each in trusted:
        if each not in named:
            raise UsageError(f"{file} has no data '{each}' for --data{nearest(each, named)}")
    for each in named:
        if each not in trusted:
            refuse_code({"data": each}, file)
