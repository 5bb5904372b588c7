"""`tensmith pack`: an ONNX file, entropy-coded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tensmith.cli.command import Answer, command
from tensmith.cli.writing import Force, place_of, refuse_other, write_unless_other


@command(example="tensmith pack model.onnx model.packed")
def pack(
    source: Annotated[Path, typer.Argument(metavar="SRC", help="The .onnx file, its weights inside.")],
    target: Annotated[
        Path | None, typer.Argument(metavar="[DST]", help="Where to write; SRC with .packed if left out.")
    ] = None,
    force: Force = False,
) -> Answer:
    """Pack a model without changing a bit of it: `tensmith unpack` gives the same file back, and
    `tensmith.load` runs it as it is. Smaller weights come from `tensmith compress`."""
    from tensmith import gate
    from tensmith.backend.packed import MAGIC
    from tensmith.backend.packed import pack as encode
    from tensmith.errors import ModelError
    from tensmith.frontend.model_files import external_files
    from tensmith.frontend.onnx_file import parse_onnx
    from tensmith.report.quantity import told_beside

    model = gate.read_bytes(source, gate.MODEL)
    if model.startswith(MAGIC):
        raise ModelError(f"{source} is packed already; tensmith unpack {source} gives the ONNX file back")
    if outside := external_files(source, parse_onnx(model, str(source))):
        names = ", ".join(sorted(file.name for file in outside))
        raise ModelError(
            f"{source} keeps weights in {names}, and a packed file is one file: save the model with its "
            "weights inside, as onnx.save does"
        )
    place = place_of(source, target, ".packed")
    refuse_other(place, force, MAGIC)
    packed = encode(model)
    digest = write_unless_other(place, packed, force)
    document = {"path": str(place), "bytes": len(packed), "model_bytes": len(model), "sha256": digest}
    ratio = len(model) / len(packed)
    told = f"{told_beside(ratio, 1.0)}x smaller" if ratio > 1 else "which saves nothing: ship the .onnx file"
    return Answer(document, [f"{place}: {len(packed)} bytes from {len(model)}, {told}"])
