"""Parameters that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tensmith.errors import UsageError

ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="The .onnx or .gguf file.")]
Batch = Annotated[int, typer.Option(help="Samples of an inference, where the file leaves it open.")]
LayerThreads = Annotated[int, typer.Option(help="Threads that may share a layer.")]
InferenceThreads = Annotated[int, typer.Option(help="Threads of an inference.")]
MeasuringSeconds = Annotated[float, typer.Option(help="How long to measure.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be done and, if known, how long; do nothing.")
]
OpenSizes = Annotated[
    str | None,
    typer.Option(metavar="NAME=N,...", help="Sizes that the file leaves open, by their names in it."),
]


def engine_names(text: str | None) -> tuple[str, ...] | None:
    """The engines of --engines A,B; None where it is left out. UsageError where it names none."""
    if text is None:
        return None
    found = tuple(filter(None, map(str.strip, text.split(","))))
    if not found:
        raise UsageError("--engines names no engine; give some as A,B, or leave it out")
    return found
