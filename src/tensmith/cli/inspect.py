"""`tensmith inspect`: where the bits of a packed file go."""

from __future__ import annotations

from tensmith.cli.command import Answer, command
from tensmith.cli.writing import PackedFile


@command(example="tensmith inspect out/best/model.packed")
def inspect(source: PackedFile) -> Answer:
    """Show each tensor of a packed file: its type and shape, how it is coded, and the bits of an element."""
    from tensmith import gate
    from tensmith.backend.packed import describe

    packed = gate.read_bytes(source, gate.PACKED)
    rows = [
        {"name": row.name, "dtype": row.dtype, "shape": list(row.shape), "codec": row.codec, "bits": row.bits}
        for row in describe(packed)
    ]
    names = [str(row["name"]) for row in rows]
    width = max(map(len, names), default=0)
    shown = [
        f"{name:<{width}}  {row['bits']:6.2f} bits  {row['codec']:<10}  {row['dtype']} {row['shape']}"
        for name, row in zip(names, rows)
    ]
    return Answer({"bytes": len(packed), "tensors": rows}, [f"{source}: {len(packed)} bytes", *shown])
