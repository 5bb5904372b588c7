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
    half: Annotated[
        bool, typer.Option("--half", help="Multiply in 16-bit floats where that is faster: 3 digits.")
    ] = False,
) -> Answer:
    """Compile a model for a device, which need not be at hand: kernels are chosen by estimate.

    Writes a folder with a library, a Python loader that needs only NumPy (from model import Model), and the C
    it was made of: model.c and model.h to build into a program, main.c as an example of one.
    """
    from tensmith.backend.native.folder import write_folder
    from tensmith.backend.native.halves import in_halves
    from tensmith.backend.native.layout import estimated
    from tensmith.backend.native.plan import make_plan
    from tensmith.cli.sizes import with_batch
    from tensmith.errors import UsageError
    from tensmith.hardware import load_target
    from tensmith.kernel.isa import target_isa

    device = load_target(target)
    isa = target_isa(device)
    if half and not isa.has_halves:
        raise UsageError(f"'{device.name}' does not multiply 16-bit floats; leave out --half")
    folder = output or Path(f"{model.stem}-{device.name}")
    with progress("compiling"):
        chooser = in_halves(estimated) if half else estimated
        plan = make_plan(with_batch(model, batch), isa, chooser)
        write_folder(plan, folder)
    document: dict[str, Any] = {
        "output": str(folder), "target": device.name, "architecture": isa.architecture, "isa": isa.name,
        "needs": sorted(isa.needs), "weights_bytes": int(plan.weights.nbytes),
        "arena_bytes": plan.arena_bytes, "kernels": [str(action.work) for action in plan.kernels],
    }  # fmt: skip
    needs = f"{isa.architecture} with {', '.join(sorted(isa.needs)) or 'no extensions'}"
    memory = f"{plan.weights.nbytes:,} bytes of weights, {plan.arena_bytes:,} while running"
    return Answer(document, [f"{folder}: {len(plan.kernels)} kernels for {needs}", memory])
