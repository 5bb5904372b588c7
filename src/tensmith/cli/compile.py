"""`tensmith compile`: a model as a library with a loader, and as C, for this machine or another one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensmith.cli.command import Answer, command
from tensmith.cli.options import Batch, LayerThreads, ModelFile, OpenSizes
from tensmith.cli.progress import progress

if TYPE_CHECKING:
    from tensmith.backend.native.choose.choosers import Choosing
    from tensmith.backend.native.plan import NativePlan
    from tensmith.hardware import Target
    from tensmith.ir import Program
    from tensmith.kernel.isa import Isa


@command(example="tensmith compile model.onnx --target raspberry-pi-5 --output model-pi")
def compile(
    model: ModelFile,
    output: Annotated[
        Path | None, typer.Option(help="The folder to write. [default: MODEL-TARGET, as model-host]")
    ] = None,
    target: Annotated[
        str, typer.Option(help="The device: a name that `tensmith targets` lists, or a .toml file.")
    ] = "host",
    batch: Batch = 1,
    sizes: OpenSizes = None,
    precision: Annotated[
        str,
        typer.Option(
            help="What layers may multiply in where that is faster: f32, bf16 (2 digits) or f16 (3)."
        ),
    ] = "f32",
    threads: LayerThreads = 1,
    half: Annotated[bool, typer.Option("--half", help="The same as --precision f16.")] = False,
    mixed: Annotated[
        bool, typer.Option("--mixed", help="Leave to ONNX Runtime what has no kernel, and write for that.")
    ] = False,
    ram: Annotated[
        str | None, typer.Option(help="RAM of a microcontroller, such as 64KiB. [default: the target's]")
    ] = None,
    flash: Annotated[
        str | None, typer.Option(help="Flash of a microcontroller, such as 256KiB. [default: the target's]")
    ] = None,
    codes: Annotated[
        bool,
        typer.Option("--codes", help="Take and give bytes where a microcontroller's model is quantized."),
    ] = False,
) -> Answer:
    """Compile a model for a device, which need not be at hand: kernels are chosen by estimate.

    Writes a folder with a library, a Python loader that needs only NumPy (from model import Model), and the C
    it was made of: model.c and model.h to build into a program, main.c as an example of one. With --mixed, a
    folder with mixed.onnx, which runs in ONNX Runtime 1.16 or newer where libmixed.so, the other file, is
    registered by SessionOptions.register_custom_ops_library. For a microcontroller, model.c and model.h
    alone: C without a library or allocation, refused where it takes more than --ram or --flash. Where RAM is
    short, the first layers are computed in patches, which gives the same answers and takes more time. With
    --codes, model.h says what the codes of inputs and outputs stand for.
    """
    from tensmith.backend.native.choose.choosers import estimated
    from tensmith.backend.native.choose.precision import InPrecision, refusal
    from tensmith.backend.native.emit.loader import MOST_THREADS
    from tensmith.backend.native.prepare.codes import in_codes
    from tensmith.cli.sizes import assumed, guesses_named, parse_sizes, with_batch
    from tensmith.config import parse_bytes
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
    chooser = InPrecision(estimated, precision)
    if mixed and threads != 1:
        raise UsageError("--mixed compiles for one thread; leave out --threads")
    if not isa.hosted:
        if mixed or threads != 1:
            raise UsageError(
                f"'{device.name}' runs one thread and no ONNX Runtime; leave out --mixed, --threads"
            )
        budget = (
            parse_bytes(ram) if ram else device.ram_bytes,
            parse_bytes(flash) if flash else device.flash_bytes,
        )
        with progress("compiling"), guesses_named(model, batch, given):
            program = with_batch(model, batch, given)
            program = in_codes(program) if codes else program
            answer = _freestanding(program, device, isa, chooser, folder, budget)
        return replace(answer, shown=[*answer.shown, *filter(None, [assumed([model], batch, given)])])
    if ram or flash or codes:
        raise UsageError(f"--ram, --flash and --codes are for microcontrollers, and '{device.name}' is none")
    with progress("compiling"), guesses_named(model, batch, given):
        program = with_batch(model, batch, given)
        plans = (
            _mixed(program, isa, chooser, folder)
            if mixed
            else [_native(program, isa, chooser, threads, folder)]
        )
    kernels = [str(action.work) for plan in plans for action in plan.kernels]
    weights, arena = (
        sum(sizes) for sizes in zip(*((int(plan.weights.nbytes), plan.arena_bytes) for plan in plans))
    )
    needed = sorted(set[str]().union(*(plan.needed.needs for plan in plans)))
    document: dict[str, Any] = {
        "output": str(folder), "target": device.name, "architecture": isa.architecture, "isa": isa.name,
        "needs": needed, "weights_bytes": weights, "arena_bytes": arena,
        "threads": max(plan.threads for plan in plans), "kernels": kernels,
        **({"regions": len(plans)} if mixed else {}),
    }  # fmt: skip
    needs = f"{isa.architecture} with {', '.join(needed) or 'no extensions'}"
    memory = f"{weights:,} bytes of weights, {arena:,} while running"
    regions = f" in {len(plans)} region{'s' if len(plans) > 1 else ''}" if mixed else ""
    told = [f"{folder}: {len(kernels)} kernels{regions} for {needs}", memory, assumed([model], batch, given)]
    return Answer(document, list(filter(None, told)))


def _native(program: Program, isa: Isa, chooser: Choosing, threads: int, folder: Path) -> NativePlan:
    """Writes a native folder; an error says what else there is."""
    from tensmith.backend.native.emit.folder import write_folder
    from tensmith.backend.native.plan import make_plan
    from tensmith.errors import EngineError

    try:
        plan = make_plan(program, isa, chooser, threads)
    except EngineError as error:
        raise EngineError(f"{error}; --mixed compiles the rest, for ONNX Runtime") from error
    write_folder(plan, folder)
    return plan


def _freestanding(
    program: Program,
    device: Target,
    isa: Isa,
    chooser: Choosing,
    folder: Path,
    budget: tuple[int, int | None],
) -> Answer:
    """Writes C for a device without operating system, if its RAM and flash hold the model."""
    from tensmith.backend.native.emit.freestanding import write_freestanding
    from tensmith.backend.native.patches import fit

    fitted = fit(program, isa, *budget, chooser)
    write_freestanding(fitted.plan, folder)
    kernels = [str(action.work) for action in fitted.plan.kernels]
    document: dict[str, Any] = {
        "output": str(folder), "target": device.name, "architecture": isa.architecture, "isa": isa.name,
        "needs": sorted(isa.needs), **fitted.takes.to_json(), "kernels": kernels,
        "patches": fitted.to_json(),
    }  # fmt: skip
    told = [f"{folder}: {len(kernels)} kernels for {device.name}", f"{fitted.takes}", *fitted.told]
    return Answer(document, told)


def _mixed(program: Program, isa: Isa, chooser: Choosing, folder: Path) -> list[NativePlan]:
    """Writes a mixed folder; the plans of its regions."""
    from tensmith.backend.mixed.folder import mix, write_folder

    library = mix(program, isa, chooser)
    write_folder(library, folder)
    return [region.plan for region in library.regions]
