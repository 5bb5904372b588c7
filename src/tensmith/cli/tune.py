"""`tensmith tune`: the fastest kernel of every layer on a device, and the model compiled with them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensmith.cli.command import INTERRUPTED, Answer, command
from tensmith.cli.options import Batch, LayerThreads, ModelFile, OpenSizes
from tensmith.cli.progress import progress
from tensmith.cli.terminal import table
from tensmith.report.quantity import significant

if TYPE_CHECKING:
    from rich.table import Table

    from tensmith.progress import Progress
    from tensmith.tune.network import TuningTarget


@command(
    example="tensmith tune model.onnx --time-budget 60s --output model-native",
    aborted="what was measured is kept",
)
def tune(
    model: ModelFile,
    output: Annotated[Path | None, typer.Option(help="The folder to write. [default: MODEL-native]")] = None,
    time_budget: Annotated[
        str, typer.Option(metavar="TIME", help="At most so long: 90s, 10m or 1h.")
    ] = "60s",
    trials: Annotated[
        int | None, typer.Option(help="At most so many kernels; 0 takes what is known. [default: any]")
    ] = None,
    threads: LayerThreads = 1,
    batch: Batch = 1,
    sizes: OpenSizes = None,
    tuning: Annotated[
        str, typer.Option(help="tuned: with our kernels; metaschedule: with those TVM's MetaSchedule finds.")
    ] = "tuned",
    rpc: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Time on the device at this address. [default: here]"),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="With --rpc: what the device is. [default: what it says of itself]")
    ] = None,
) -> Answer:
    """Time the native engine's kernels on each layer of a model, and compile it with the fastest.

    What was timed is kept for this machine, and used wherever the native engine compiles a model with such a
    layer. What was fastest for common layers on another machine with these instructions is tried first.
    Kernels are timed in one thread; for several --threads, layers are then cut by what that makes likely.
    Writes a folder that runs with NumPy alone: from model import Model. Ctrl-C ends the timing and writes the
    folder with what is known (exit code 130); whoever goes on later begins with what was timed.

    With --tuning metaschedule the time goes to the search of Apache TVM instead: the model is compiled with
    its kernels, whether they are faster than ours or not, and the table shows both.

    With --rpc the device runs `python -m tvm.exec.rpc_server` of Apache TVM. Such a server runs whatever
    anybody sends it: start it in networks that you trust.
    """
    from tensmith.backend.native.emit.loader import MOST_THREADS
    from tensmith.cli.sizes import assumed, guesses_named, parse_sizes, with_batch
    from tensmith.config import parse_seconds
    from tensmith.errors import UsageError
    from tensmith.tune.network import tune as run
    from tensmith.tune.search import Budget
    from tensmith.tune.tvm.metaschedule import MetaSchedule

    if not 1 <= threads <= MOST_THREADS:
        raise UsageError(f"--threads is a whole number from 1 to {MOST_THREADS}")
    if batch < 1 or (trials is not None and trials < 0):
        raise UsageError("--batch is a whole number from 1, --trials one from 0")
    if tuning not in ("tuned", "metaschedule") or (tuning == "metaschedule" and rpc is not None):
        raise UsageError("--tuning is tuned, or metaschedule, which searches on this machine: without --rpc")
    if target is not None and rpc is None:
        raise UsageError(f"kernels are timed on a device: say where it is by --rpc, or use tensmith compile "
                         f"--target {target}, which chooses by estimate")  # fmt: skip
    folder = output or Path(f"{model.stem}-native")
    budget, given = Budget(parse_seconds(time_budget), trials), parse_sizes(sizes)
    with progress("reading the model") as tell, guesses_named(model, batch, given):
        program = with_batch(model, batch, given)
        searched = MetaSchedule() if tuning == "metaschedule" else contextlib.nullcontext()
        with _place(rpc, target, tell) as place, searched as other:
            found = run(program, place, folder, budget, tell, other, threads)
    document = {"output": str(folder), **found.to_json()}
    shown = [_table(document), *(f"skipped    {failure}" for failure in found.failures), ""]
    settled = sum(task.settled for task in found.tasks)
    shown.append(
        f"{found.trials} trials, {settled} of {len(found.tasks)} problems settled; compiled to {folder}"
    )
    shown += filter(None, [assumed([model], batch, given)])
    if found.error is not None:
        shown.append(f"{str(found.error)[0].upper()}{str(found.error)[1:]}.")
    if found.interrupted:
        shown.append("Interrupted.")
    if settled < len(found.tasks):
        shown.append("What was timed is kept: repeat the command with another --output to go on from here.")
    return Answer(document, shown, INTERRUPTED if found.interrupted else 0)


@contextlib.contextmanager
def _place(rpc: str | None, target: str | None, tell: Progress) -> Iterator[TuningTarget]:
    """This machine, or the device at the address `rpc`."""
    from tensmith.hardware import load_target
    from tensmith.kernel.shipped import shipped
    from tensmith.kernel.timings import Timings
    from tensmith.tune.network import TuningTarget, this_machine
    from tensmith.tune.tvm.device import RpcDevice

    if rpc is None:
        with this_machine() as place:
            yield place
        return
    named = load_target(target) if target is not None else None
    with RpcDevice(rpc) as device:
        tell(f"connecting to {rpc}")
        found = device.describe()
        isa = found.isa(named)
        with contextlib.closing(Timings(cpu=found.model, writing=True)) as timings:
            yield TuningTarget(isa, timings, device.seconds, shipped(isa))


def _table(document: dict[str, Any]) -> Table:
    other = ["metaschedule"] if any(row["metaschedule"] for row in document["problems"]) else []
    names = ("layers", "untuned, us", "tuned, us", *(["MetaSchedule, us"] if other else []), "timed")
    rows = []
    for row in document["problems"]:
        times = (_microseconds((row[key] or {}).get("microseconds")) for key in ("guess", "best", *other))
        words = f"{row['problem']}: {row['best']['kernel']}"
        rows.append((str(row["count"]), *times, str(row["timed"]), words))
    return table((*names, "problem and its fastest kernel"), rows, numbers=names)


def _microseconds(value: float | None) -> str:
    return "" if value is None else significant(value)
