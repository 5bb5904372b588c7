"""`tensmith compress`: a model, its data and a budget go in; a folder with a Pareto front comes out."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensmith.cli.command import INTERRUPTED, Answer, command
from tensmith.cli.options import DryRun, engine_names
from tensmith.cli.progress import progress

if TYPE_CHECKING:
    from tensmith.config import Config
    from tensmith.deploy.front import Front

# Every option is None unless it is given: the defaults are those of tensmith.config.Config, which has all but
# these by the same names.
_OWN = ("output", "resume", "config", "dry_run")


@command(
    example="tensmith compress model.onnx --data cifar10:DIR --max-drop 0.5 --time-budget 10m",
    aborted="nothing that was measured is lost",
)
def compress(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODEL]", help="The .onnx or .gguf file; may be left out with --config or --resume."
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(metavar="KIND:PATH", help="Its data: cifar10:DIR, imagefolder:DIR, npz:FILE."),
    ] = None,
    preprocess: Annotated[
        str | None,
        typer.Option(
            help="auto, raw, unit, tf, imagenet, cifar10, mnist, int8, or MEAN/STD of images in 0..1; with "
            "-bgr behind it where blue is first. [default: auto]"
        ),
    ] = None,
    measure: Annotated[
        str | None,
        typer.Option(help="auto, accuracy, agreement, loss, average-precision or fidelity. [default: auto]"),
    ] = None,
    decode: Annotated[
        str | None,
        typer.Option(
            metavar="HEAD", help="Of a detector: fastestdet, yolov5, yolov8, or FILE.py:FUNCTION of your own."
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="The device, see `tensmith targets`. [default: host]")
    ] = None,
    engines: Annotated[
        str | None, typer.Option(help="Engines, as A,B. [default: onnxruntime,openvino,native that are here]")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Threads of an inference. [default: 1]")] = None,
    max_drop: Annotated[
        float | None,
        typer.Option(
            help="What may be lost: points, per cent of a loss, or of error of outputs. [default: 0.5]"
        ),
    ] = None,
    max_size: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Largest file to ship: 500KB, 2MiB.")
    ] = None,
    max_latency: Annotated[
        float | None, typer.Option(help="Longest inference, in ms, on this machine whatever --target is.")
    ] = None,
    max_memory: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Most memory that the model adds to its engine's process: 20MB."),
    ] = None,
    max_energy: Annotated[float | None, typer.Option(help="Most energy of an inference, in mJ.")] = None,
    prefer: Annotated[
        str | None,
        typer.Option(metavar="POINT", help="What best/ is: size, latency or balanced. [default: balanced]"),
    ] = None,
    time_budget: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="For the whole run: 90s, 10m or 1h; less than a minute hardly suffices. [default: 10m]",
        ),
    ] = None,
    recover: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Train what promises most for so long after the search: 30m."),
    ] = None,
    search: Annotated[
        str | None,
        typer.Option(help="How to search: beam, genetic, saturation, exhaustive or auto. [default: beam]"),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LAYER", help="No lossy method changes it: a name or a pattern; may be repeated."
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="METHOD", help="Use no other lossy method; may be repeated. [default: all]"),
    ] = None,
    plan: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Start from this plan, such as the plan.yaml of a run's point."),
    ] = None,
    hardware: Annotated[
        bool | None,
        typer.Option("--hardware/--no-hardware", help="Let the device guide the search. [default: on]"),
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(help="Weight of accuracy in the search's fitness. [default: 1]")
    ] = None,
    beta: Annotated[float | None, typer.Option(help="Weight of speed and size in it. [default: 1]")] = None,
    calibration_samples: Annotated[
        int | None, typer.Option(help="Training samples to calibrate on. [default: 256]")
    ] = None,
    search_samples: Annotated[
        int | None, typer.Option(help="Samples to search on, at most. [default: 2000]")
    ] = None,
    held_out_samples: Annotated[
        int | None, typer.Option(help="Test samples to judge the front by. [default: all unseen]")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of all that is drawn. [default: 0]")] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes that judge candidates together. [default: 1]")
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Judge on the nodes of a Ray cluster: HOST:PORT, or auto."),
    ] = None,
    output: Annotated[Path, typer.Option(help="The folder to write.")] = Path("tensmith-out"),
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Go on with the run in the folder, by its own options but for those given."
        ),
    ] = False,
    config: Annotated[
        Path | None, typer.Option(help="Repeat a run from its config.yaml; other options override it.")
    ] = None,
    dry_run: DryRun = False,
) -> Answer:
    """Compress a model for a device within an accuracy budget.

    Writes a folder: report.html, front.json, best/ (the model to deploy) and candidates/ (the whole front).
    Ctrl-C ends the search and writes what it found (exit code 130); a second one stops at once.
    """
    given = {**locals(), "engines": engine_names(engines)}
    given = {name: x for name, x in given.items() if name not in _OWN and x not in (None, [])}
    settings = _configuration(given, config or (_begun(output) if resume else None))
    _demand_files(settings)
    if dry_run:
        return _preview(settings, output, resume)
    from tensmith.compression import Interrupted
    from tensmith.compression import compress as run

    with progress("reading the model") as tell:
        try:
            front = run(**settings.model_dump(), output=output, resume=resume, progress=tell)
            interrupted = False
        except Interrupted as stop:
            front, interrupted = stop.front, True
    return _answer(front, settings, interrupted)


def _begun(folder: Path) -> Path:
    """What the run in a folder was begun with."""
    from tensmith.config import CONFIG_FILE
    from tensmith.errors import OutputError

    if not (file := folder / CONFIG_FILE).exists():
        raise OutputError(f"{folder} holds no run to resume; name a model, and leave --resume out")
    return file


def _configuration(given: dict[str, Any], file: Path | None) -> Config:
    """The options given on the command line over those of the file over the defaults."""
    from tensmith.config import OptionError, make_config, read_config, refuse_code
    from tensmith.errors import UsageError
    from tensmith.yaml_text import place_in

    options = given
    if file is not None:
        options = {**read_config(file), **given}
        if options.get("data") == "":
            raise UsageError(
                f"{file} names no data; give --data KIND:PATH, or where its data came from Python, go on "
                "there by tensmith.compress"
            )
    if not options.get("model"):
        raise UsageError("no model is given; name an .onnx file, or a finished run's config.yaml by --config")
    try:
        config = make_config(**options)
    except OptionError as error:
        name = error.option
        if name in given or file is None:
            typed = "MODEL" if name == "model" else f"--{name.replace('_', '-')}"
            raise UsageError(error.called(typed)) from error
        raise UsageError(f"{place_in(file, name)}: {error}") from error
    if file is not None:  # as they are understood, whatever was written
        refuse_code({name: value for name, value in config.model_dump().items() if name not in given}, file)
    return config


def _demand_files(config: Config) -> None:
    """Raises what a run would raise where its model or data are not there, before a run's imports."""
    from tensmith import gate
    from tensmith.data.gguf import is_gguf
    from tensmith.data.opening import demand_there

    model = Path(config.model)
    gate.check(model, gate.GGUF if is_gguf(model) else gate.MODEL)
    if config.data:
        demand_there(config.data)


def _answer(front: Front, config: Config, interrupted: bool) -> Answer:
    from tensmith.report.stored import read_report
    from tensmith.report.text import run_lines

    chosen = front.best(config.prefer).id
    document = {
        "output": str(front.folder),
        "report": str(front.folder / "report.html"),
        "best": str(front.folder / "best"),
        "chosen": chosen,
        "interrupted": interrupted,
        "front": front.document,
    }
    shown = [
        *run_lines(read_report(front.folder)),
        "",
        f"to deploy  {front.folder / 'best'}",
        f"report     {front.folder / 'report.html'}",
    ]
    if interrupted:
        again = f"tensmith compress --resume --output {shlex.quote(str(front.folder))}"
        shown.append(f"The run was interrupted; go on with it: {again}")
    return Answer(document, shown, INTERRUPTED if interrupted else 0)


def _preview(config: Config, output: Path, resume: bool) -> Answer:
    from tensmith.preview import preview

    with progress("reading the model"):
        document = preview(**config.model_dump(), output=output, resume=resume)
    nodes, samples = document["nodes"], document["samples"]
    beside = " (other ones of that part of the data)" if document["searched_samples"] else ""
    shown = [
        f"model          {document['model']}: {nodes['read']} nodes, {nodes['simplified']} once simplified",
        f"layers         {len(document['layers'])} with weights",
        f"opaque         {', '.join(document['opaque']) or 'none'}",
        f"data           {document['data']}: {samples['calibration']} samples to calibrate, "
        f"{samples['search']} to search{beside}, {samples['held_out']} to judge",
        f"measure        {document['measure']}",
        f"preprocessing  {document['preprocess'] or 'none'}",
        f"target         {document['target']}, threads {document['threads']}, {document['time_budget']:g} s",
        f"engines        {', '.join(document['engines'])}",
        "first plans",
        *(f"  {plan}" for plan in document["seeds"]),
        *(f"{said[0].upper()}{said[1:]}." for said in (*document["demands"], *document["notes"])),
        "Nothing was written.",
    ]
    return Answer(document, shown)
