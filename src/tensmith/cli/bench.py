"""`tensmith bench`: interleaved latencies of every engine on every file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from tensmith.cli.command import Answer, command
from tensmith.cli.engine_file import engine_file
from tensmith.cli.options import Batch, InferenceThreads, MeasuringSeconds, OpenSizes, engine_names
from tensmith.cli.progress import progress
from tensmith.cli.terminal import table
from tensmith.files import TemporaryFolder
from tensmith.report.metric import Metric
from tensmith.report.quantity import with_interval

_COLUMNS = ("model", "engine", "latency, ms", "ratio", "p95, ms", "p99, ms", "runs")


@command(example="tensmith bench model.onnx out/best/model.packed --threads 1 --seconds 20")
def bench(
    models: Annotated[
        list[Path],
        typer.Argument(
            metavar="MODEL...", help="ONNX files, .gguf or .packed ones, or folders of a compression."
        ),
    ],
    engines: Annotated[
        str | None,
        typer.Option(help="Engines to time, as A,B or A:precision=f16,B. [default: those of compress]"),
    ] = None,
    threads: InferenceThreads = 1,
    batch: Batch = 1,
    sizes: OpenSizes = None,
    seconds: MeasuringSeconds = 10.0,
    seed: Annotated[int, typer.Option(help="Seed of the inputs.")] = 0,
    max_p99: Annotated[
        float | None,
        typer.Option(
            help="Exit with 1 unless 99% of the runs take at most so many ms, the interval included."
        ),
    ] = None,
) -> Answer:
    """Time models side by side, taking turns; ratios are against the first engine on the first model.

    A ratio above 1 is faster than that. Intervals hold 95%. p95 and p99 are what so many per cent of all runs
    do not exceed; they are left out where there were too few runs to tell. Exit code 1 if an engine that
    --engines names fails, or all that there are fail on a model.
    """
    from tensmith.cli.sizes import assumed, parse_sizes
    from tensmith.errors import UsageError
    from tensmith.evaluate.bench import bench as measure
    from tensmith.evaluate.latency import BUSY

    if not 0 < seconds < float("inf"):
        raise UsageError(f"--seconds is a positive number, not {seconds:g}")
    if max_p99 is not None and not 0 < max_p99 < float("inf"):
        raise UsageError(f"--max-p99 is a positive number of ms, not {max_p99:g}")
    if seed < 0:
        raise UsageError(f"--seed is a whole number from 0, not {seed}")
    names = engine_names(engines)
    with TemporaryFolder() as folder, progress("reading the models") as tell:
        files = {
            engine_file(path, Path(folder) / str(n)): path for n, path in enumerate(dict.fromkeys(models))
        }
        given = parse_sizes(sizes)
        result = measure(list(files), names, threads, batch, seconds, seed, tell, given)
        document = result.to_json()
        guessed = assumed(list(files), batch, given)
    for row in document["models"]:
        row["path"] = str(files[Path(row["path"])])
    notes = [*([guessed] if guessed else []), *([f"Take care: {BUSY}."] if result.busy else [])]
    beyond = result.beyond(max_p99) if max_p99 is not None else []
    if max_p99 is not None:
        document["beyond"] = beyond
        notes += beyond or [f"99% of the runs of each take at most {max_p99:g} ms."]
    shown = [table(_COLUMNS, _rows(document), numbers=_COLUMNS[2:]), *(["", *notes] if notes else [])]
    enough = any if names else all
    failed = any(enough("error" in row for row in model["engines"]) for model in document["models"])
    return Answer(document, shown, int(failed or bool(beyond)))


def _rows(document: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    for model in document["models"]:
        for row in model["engines"]:
            if "error" in row:
                yield model["path"], row["engine"], f"failed: {row['error']}", "", "", "", ""
                continue
            tail = row["tail"]
            usual = _metric(row["latency_ms"]), _metric(row["ratio"], "x")
            slowest = _metric(tail["p95_ms"]), _metric(tail["p99_ms"]), f"{tail['runs']:,}"
            yield model["path"], row["engine"], *usual, *slowest


def _metric(metric: dict[str, Any] | None, unit: str = "") -> str:
    return "" if metric is None else with_interval(Metric.from_json(metric), unit)
