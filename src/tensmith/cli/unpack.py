"""`tensmith unpack`: from a packed file to the ONNX file it was made from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tensmith.cli.command import Answer, command


@command(example="tensmith unpack out/best/model.packed model.onnx")
def unpack(
    source: Annotated[Path, typer.Argument(metavar="SRC", help="The .packed file.")],
    target: Annotated[
        Path | None, typer.Argument(metavar="[DST]", help="Where to write; SRC with .onnx if left out.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace DST if it is another file.")] = False,
) -> Answer:
    """Write the very ONNX file that was packed and measured. Damaged files are refused."""
    from tensmith import gate
    from tensmith.backend.packed import unpack as decode
    from tensmith.errors import OutputError
    from tensmith.files import sha256_bytes, sha256_file, write_bytes

    packed = gate.read_bytes(source, gate.PACKED)
    model = decode(packed)
    place = target if target is not None else source.with_suffix(".onnx")
    if place.is_dir():
        place = place / f"{source.stem}.onnx"
    digest = sha256_bytes(model)
    if place.exists() and not force and sha256_file(place) != digest:
        raise OutputError(f"{place} exists and is another file; name another DST, or replace it by --force")
    if not (place.exists() and sha256_file(place) == digest):
        write_bytes(place, model)
    document = {"path": str(place), "bytes": len(model), "packed_bytes": len(packed), "sha256": digest}
    return Answer(document, [f"{place}: {len(model)} bytes from {len(packed)}, sha256 {digest}"])
