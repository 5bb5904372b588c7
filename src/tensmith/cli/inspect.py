"""`tensmith inspect`: where the bits of a packed or a GGUF file go."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from tensmith.cli.command import Answer, command


@command(example="tensmith inspect out/best/model.packed")
def inspect(
    source: Annotated[Path, typer.Argument(metavar="SRC", help="The .packed or .gguf file.")],
) -> Answer:
    """Show each tensor whose bytes are coded in a packed file, or each of a GGUF file: its type and shape,
    how it is coded, and the bits of an element; of a packed file also the bytes of all the rest (names,
    nodes, tiny tensors), of a GGUF file what it says of itself."""
    from tensmith.data.gguf import is_gguf

    if is_gguf(source):
        return _gguf(source)
    from tensmith.backend.packed import describe, packed_file

    with packed_file(source) as packed:
        found = describe(packed)
    rows = [
        {"name": row.name, "dtype": row.dtype, "shape": list(row.shape), "codec": row.codec, "bits": row.bits}
        for row in found
    ]
    rest = len(packed) - round(sum(row.bits * math.prod(row.shape) for row in found) / 8)
    document = {"bytes": len(packed), "rest_bytes": rest, "tensors": rows}
    return Answer(document, [f"{source}: {len(packed)} bytes, {rest} beside these tensors", *_lines(rows)])


def _gguf(source: Path) -> Answer:
    from tensmith.data.gguf import open_gguf

    file = open_gguf(source)
    rows: list[dict[str, Any]] = [
        {"name": tensor.name, "dtype": "f32", "shape": list(tensor.shape), "codec": tensor.kind.name,
         "bits": 8 * tensor.kind.bytes / tensor.kind.elements}
        for tensor in file.tensors.values()
    ]  # fmt: skip
    metadata = {
        key: value if isinstance(value, int | float | str) else f"{len(value)} values"
        for key, value in file.metadata.items()
    }
    size = source.stat().st_size
    told = [f"{key}: {str(value)[:_SHOWN]}" for key, value in metadata.items()]
    document = {"bytes": size, "metadata": metadata, "tensors": rows}
    return Answer(document, [f"{source}: {size} bytes", *told, *_lines(rows)])


# Characters of a name, and of a text in the metadata: templates of chats are long.
_SHOWN = 80


def _lines(rows: list[dict[str, Any]]) -> list[str]:
    from tensmith.report.escape import printable

    names = [printable(str(row["name"]), _SHOWN) for row in rows]
    width = max(map(len, names), default=0)
    return [
        f"{name:<{width}}  {row['bits']:6.2f} bits  {row['codec']:<10}  {row['dtype']} {row['shape']}"
        for name, row in zip(names, rows)
    ]
