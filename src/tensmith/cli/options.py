"""Parameters that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

OnnxFile = Annotated[Path, typer.Argument(metavar="MODEL", help="The .onnx file.")]
CompiledFolder = Annotated[
    Path | None,
    typer.Option(help="The folder to write. [default: MODEL-TARGET or MODEL-native, beside this place]"),
]
Batch = Annotated[int, typer.Option(help="Samples of an inference, where the file leaves it open.")]
LayerThreads = Annotated[int, typer.Option(help="Threads that may share a layer.")]
InferenceThreads = Annotated[int, typer.Option(help="Threads of an inference.")]
MeasuringSeconds = Annotated[float, typer.Option(help="How long to measure.")]
OpenSizes = Annotated[
    str | None,
    typer.Option(metavar="NAME=N,...", help="Sizes that the file leaves open, by their names in it."),
]
