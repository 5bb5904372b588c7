"""`tensmith unpack`: from a packed file to the ONNX file it was made from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tensmith.cli.command import Answer, command
from tensmith.cli.writing import Force, PackedFile, place_of, write_unless_other


@command(example="tensmith unpack out/best/model.packed model.onnx")
def unpack(
    source: PackedFile,
    target: Annotated[
        Path | None, typer.Argument(metavar="[DST]", help="Where to write; SRC with .onnx if left out.")
    ] = None,
    force: Force = False,
) -> Answer:
    """Write the very ONNX file that was packed and measured. Damaged files are refused."""
    from tensmith.backend.packed import packed_file
    from tensmith.backend.packed import unpack as decode

    with packed_file(source) as packed:
        place = place_of(source, target, ".onnx")
        model = decode(packed)
    digest = write_unless_other(place, model, force)
    document = {"path": str(place), "bytes": len(model), "packed_bytes": len(packed), "sha256": digest}
    return Answer(document, [f"{place}: {len(model)} bytes from {len(packed)}, sha256 {digest}"])
