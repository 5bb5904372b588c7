"""`tensmith diagnose`: where a model's time goes, what keeps it slow, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensmith.cli.command import Answer, command
from tensmith.cli.engine_file import engine_file
from tensmith.cli.options import InferenceThreads, MeasuringSeconds, OpenSizes, engine_names
from tensmith.cli.progress import progress
from tensmith.cli.terminal import table
from tensmith.cli.writing import files_of, refuse_unwritable
from tensmith.files import TemporaryFolder
from tensmith.report.quantity import with_interval

if TYPE_CHECKING:
    from tensmith.diagnosis import Diagnosis, Fixed

_MOST_STEPS, _MOST_KINDS, _MOST_NAMES = 8, 5, 4
_COLUMNS = ("step", "what it runs", "ms", "share", "ms at peak")


@command(example="tensmith diagnose model.onnx --fix simpler.onnx")
def diagnose(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="An .onnx or .gguf file, or a folder of a compression.")
    ],
    engines: Annotated[
        str | None,
        typer.Option(help="Engines to look into, as A,B or A:precision=f16,B. [default: those of compress]"),
    ] = None,
    threads: InferenceThreads = 1,
    sizes: OpenSizes = None,
    seconds: MeasuringSeconds = 10.0,
    fix: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the model as the exact rules make it, and time both."),
    ] = None,
) -> Answer:
    """Say where the time goes on this machine, engine by engine and step by step beside what the
    arithmetic takes at its peak; what keeps the model slow; and what to do about each."""
    from tensmith.cli.sizes import parse_sizes
    from tensmith.diagnosis import diagnose as examine
    from tensmith.diagnosis import write_fixed
    from tensmith.errors import OutputError, UsageError

    if not 0 < seconds < float("inf"):
        raise UsageError(f"--seconds is a positive number, not {seconds:g}")
    for file in files_of(fix) if fix is not None else ():
        if file.exists():
            raise OutputError(f"{file} is there already; name another file")
        refuse_unwritable(file)
    names = engine_names(engines)
    given = parse_sizes(sizes)
    with TemporaryFolder() as folder, progress("reading the model") as tell:
        found = examine(engine_file(model, Path(folder)), names, threads, seconds, given, tell)
        fixed = write_fixed(found, fix, threads, seconds, given, tell) if fix is not None else None
    found = replace(found, model=model)
    if fixed is None:
        return Answer(found.to_json(), list(_lines(found)))
    return Answer(found.to_json() | {"fixed": fixed.to_json()}, [*_lines(found), "", *_compared(fixed)])


def _compared(fixed: Fixed) -> Iterator[str]:
    apart = f"apart by at most {fixed.apart:.1e} of the largest number"
    same = "the same numbers" if fixed.apart == 0 else apart
    yield f"{fixed.file}: {fixed.steps} exact steps; answers to random inputs are {same}."
    for engine, ratio in fixed.speedups.items():
        yield f"  {engine}: {with_interval(ratio, 'x')} as fast as before"


def _lines(found: Diagnosis) -> Iterator[Any]:
    from tensmith.diagnosis import by_kind

    for contender, latency in found.latencies.latencies.items():
        yield f"{contender.engine_name}: {latency.latency.value:.4g} ms"
        if timed := found.steps.get(contender.engine_name):
            kinds = list(by_kind(timed).items())[:_MOST_KINDS]
            yield f"  {len(timed)} steps: " + ", ".join(f"{kind} {share:.0%}" for kind, share in kinds)
            largest = sorted(timed, key=lambda each: -each.share)[:_MOST_STEPS]
            rows = (
                (each.step.name, each.step.kind, f"{1e3 * each.step.seconds:.4f}", f"{each.share:.0%}",
                 "" if each.peak_seconds is None else f"{1e3 * each.peak_seconds:.4f}")
                for each in largest
            )  # fmt: skip
            yield table(_COLUMNS, rows, numbers=_COLUMNS[2:])
        yield ""
    for engine, reason in found.untold.items():
        yield f"{engine}: not measured: {reason}"
    yield "What keeps it slow" if found.findings else "Nothing stands out: the time goes where the work is."
    for number, finding in enumerate(found.findings, 1):
        where = f" ({finding.engine})" if finding.engine else ""
        names = ", ".join(finding.where[:_MOST_NAMES]) + (", ..." if len(finding.where) > _MOST_NAMES else "")
        yield f"{number}. {finding.what}{where}" + (f": {names}" if names else "")
        yield f"   {finding.advice}"
