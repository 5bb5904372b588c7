"""`tensmith compile`: a model as a library with a loader, and as C, for this machine or another one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tensmith.cli.command import Answer, command
from tensmith.cli.progress import progress


@command(example="tensmith compile model.onnx --target raspberry-pi-5 --output model-pi")
def compile(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The .onnx file.")],
    output: Annotated[
        Path | None, typer.Option(help="The folder to write. [default: MODEL-TARGET, beside this place]")
    ] = None,
    target: Annotated[
        str, typer.Option(help="The device: a name that `tensmith targets` lists, or a .toml file.")
    ] = "host",
    batch: Annotated[int, typer.Option(help="Samples of an inference, where the file leaves it open.")] = 1,
    sizes: Annotated[
        str | None,
        typer.Option(metavar="NAME=N,...", help="Sizes that the file leaves open, by their names in it."),
    ] = None,
    precision: Annotated[
        str,
        typer.Option(
            help="What layers may multiply in where that is faster: f32, bf16 (2 digits) or f16 (3)."
        ),
    ] = "f32",
    threads: Annotated[int, typer.Option(help="Threads that may share a layer.")] = 1,
    half: Annotated[bool, typer.Option("--half", help="The same as --precision f16.")] = False,
) -> Answer:
    """Compile a model for a device, which need not be at hand: kernels are chosen by estimate.

    Writes a folder with a library, a Python loader that needs only NumPy (from model import Model), and the C
    it was made of: model.c and model.h to build into a program, main.c as an example of one.
    """
    from tensmith.backend.native.choose.choosers import estimated
    from tensmith.backend.native.choose.precision import in_precision, refusal
    from tensmith.backend.native.emit.folder import write_folder
    from tensmith.backend.native.emit.loader import MOST_THREADS
    from tensmith.backend.native.plan import make_plan
    from tensmith.cli.sizes import assumed, parse_sizes, with_batch
    from tensmith.errors import UsageError
    from tensmith.hardware import load_target
    from tensmith.kernel.isa import target_isa

    device = load_target(target)
    isa = target_isa(device)
    if half and precision not in ("f32", "f16"):
        raise UsageError(f"--half is --precision f16, not {precision}; leave out one of them")
    if not 1 <= threads <= MOST_THREADS:
        raise UsageError(f"--threads is a whole number from 1 to {MOST_THREADS}")
    precision = "f16" if half else precision
    if reason := refusal(precision, isa):
        raise UsageError(f"'{device.name}': {reason}")
    given = parse_sizes(sizes)
    folder = output or Path(f"{model.stem}-{device.name}")
    with progress("compiling"):
        plan = make_plan(with_batch(model, batch, given), isa, in_precision(estimated, precision), threads)
        write_folder(plan, folder)
    document: dict[str, Any] = {
        "output": str(folder), "target": device.name, "architecture": isa.architecture, "isa": isa.name,
        "needs": sorted(isa.needs), "weights_bytes": int(plan.weights.nbytes),
        "arena_bytes": plan.arena_bytes, "threads": plan.threads,
        "kernels": [str(action.work) for action in plan.kernels],
    }  # fmt: skip
    needs = f"{isa.architecture} with {', '.join(sorted(isa.needs)) or 'no extensions'}"
    memory = f"{plan.weights.nbytes:,} bytes of weights, {plan.arena_bytes:,} while running"
    told = [f"{folder}: {len(plan.kernels)} kernels for {needs}", memory, assumed([model], batch, given)]
    return Answer(document, list(filter(None, told)))
