"""`tensmith tune`: the fastest kernel of every layer on this machine, and the model compiled with them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensmith.cli.command import INTERRUPTED, Answer, command
from tensmith.cli.progress import progress

if TYPE_CHECKING:
    from rich.table import Table


@command(
    example="tensmith tune model.onnx --time-budget 60s --output model-native",
    aborted="what was measured is kept",
)
def tune(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The .onnx file.")],
    output: Annotated[
        Path | None, typer.Option(help="The folder to write. [default: MODEL-native, beside this place]")
    ] = None,
    time_budget: Annotated[
        str, typer.Option(metavar="TIME", help="At most so long: 90s, 10m or 1h.")
    ] = "60s",
    trials: Annotated[
        int | None, typer.Option(help="At most so many kernels; 0 takes what is known. [default: any]")
    ] = None,
    threads: Annotated[int, typer.Option(help="Threads of an inference: 1.")] = 1,
    batch: Annotated[int, typer.Option(help="Samples of an inference, where the file leaves it open.")] = 1,
) -> Answer:
    """Time the native engine's kernels on each layer of a model, and compile it with the fastest.

    What was timed is kept for this machine, and used wherever the native engine compiles a model with such a
    layer. Writes a folder that runs with NumPy alone: from model import Model. Ctrl-C ends the timing and
    writes the folder with what is known (exit code 130).
    """
    from tensmith.cli.sizes import with_batch
    from tensmith.config import parse_seconds
    from tensmith.errors import UsageError
    from tensmith.kernel.isa import host_isa
    from tensmith.kernel.timings import Timings
    from tensmith.tune.network import tune as run
    from tensmith.tune.search import Budget

    if threads != 1:
        raise UsageError(f"native kernels compute in one thread; leave out --threads {threads}")
    if batch < 1 or (trials is not None and trials < 0):
        raise UsageError("--batch is a whole number from 1, --trials one from 0")
    folder = output or Path(f"{model.stem}-native")
    with progress("reading the model") as tell:
        budget = Budget(parse_seconds(time_budget), trials)
        found = run(with_batch(model, batch), host_isa(), folder, budget, Timings(), tell)
    document = {"output": str(folder), **found.to_json()}
    shown = [_table(document), *(f"skipped    {failure}" for failure in found.failures), ""]
    shown.append(f"{found.trials} trials; compiled to {folder}")
    if found.interrupted:
        shown.append("Interrupted; go on by repeating the command with another --output.")
    return Answer(document, shown, INTERRUPTED if found.interrupted else 0)


def _table(document: dict[str, Any]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("layers", "untuned, us", "tuned, us", "timed"):
        table.add_column(name, justify="right")
    table.add_column("problem and its fastest kernel", overflow="fold")
    for row in document["problems"]:
        times = (_microseconds(row[key]["microseconds"]) for key in ("guess", "best"))
        words = f"{row['problem']}: {row['best']['kernel']}"
        table.add_row(*map(Text, (str(row["count"]), *times, str(row["timed"]), words)))
    return table


def _microseconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
