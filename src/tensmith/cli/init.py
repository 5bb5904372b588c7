"""`tensmith init`: a commented configuration for a model, with the data that was found for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_type_hints

import typer

from tensmith.cli.command import Answer, command
from tensmith.cli.compress import compress

if TYPE_CHECKING:
    from tensmith.config import Config
    from tensmith.suggestion import FittingData

_COLUMN, _END, _SHOWN = 100, "...\n", 5


@command(example="tensmith init model.onnx --look ~/datasets")
def init(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="An .onnx or .gguf file.")],
    look: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="Look for data here too, and just below; may be repeated."),
    ] = None,
    output: Annotated[Path, typer.Option(help="The file to write.")] = Path("tensmith.yaml"),
) -> Answer:
    """Write a commented configuration for a model: what it takes, the data nearby that fits it, and every
    option with its meaning. Nothing is compressed yet; nothing that is found is run."""
    from tensmith.config import make_config
    from tensmith.errors import OutputError, UsageError
    from tensmith.files import write_text
    from tensmith.frontend.checked import working
    from tensmith.frontend.model import read_model
    from tensmith.suggestion import fitting_data

    for folder in look or ():
        if not folder.is_dir():
            raise UsageError(f"--look {folder} is no folder")
    if output.exists():
        raise OutputError(f"{output} is there already; name another file by --output")
    program = working(read_model(model), str(model))
    inputs = {name: str(type_) for name, type_ in program.inputs.items()}
    found = fitting_data(program, (Path(), model.parent, *(look or ())))
    config = make_config(model=str(model), data=found[0].spec if found else "")
    write_text(output, "".join(f"{line}\n" for line in _lines(config, inputs, found)))
    document = {"output": str(output), "data": [fit.spec for fit in found], "inputs": inputs}
    told = [f"data fits: {fit.spec} ({_words(fit)})" for fit in found[:_SHOWN]] or [
        "no data was found that fits: name it in the file (data:), or look elsewhere by --look DIR"
    ]
    return Answer(document, [*told, f"wrote {output}", f"go on with: tensmith compress --config {output}"])


def _lines(config: Config, inputs: dict[str, str], found: list[FittingData]) -> Iterator[str]:
    """The file: every option with the words that `tensmith compress --help` has for it."""
    import yaml

    takes = ", ".join(f"{name} {type_}" for name, type_ in inputs.items())
    yield _comment(f"tensmith compress --config THIS_FILE [--dry-run]; the model takes {takes}.")
    hints = get_type_hints(compress, include_extras=True)
    for name, value in config.model_dump(mode="json").items():
        help_ = hints[name].__metadata__[0].help or ""
        yield ""
        yield from map(_comment, _wrapped(" ".join(help_.replace("\n", " ").split())))
        if name == "data":
            yield from (_comment(f"fits as well: {fit.spec} ({_words(fit)})") for fit in found[1:_SHOWN])
        written = yaml.safe_dump(value, default_flow_style=True, width=1 << 20)
        yield f"{name}: {written.removesuffix(_END).rstrip()}"


def _wrapped(text: str) -> list[str]:
    import textwrap

    return textwrap.wrap(text, _COLUMN)


def _comment(text: str) -> str:
    """A line of the file that no character in it ends."""
    from tensmith.report.escape import printable

    return f"# {printable(text, len(text))}"


def _words(fit: FittingData) -> str:
    classes = f", {fit.classes} classes" if fit.classes else ""
    return f"{fit.samples} samples{classes}, {fit.task}"
