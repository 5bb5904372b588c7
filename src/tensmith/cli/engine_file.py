"""The ONNX file that engines load in place of a packed or a GGUF file."""

from __future__ import annotations

from pathlib import Path


def engine_file(path: Path, folder: Path) -> Path:
    """`path` itself, or the ONNX file that is made of it in `folder`, called alike."""
    from tensmith import gate
    from tensmith.backend.onnx import write_onnx
    from tensmith.backend.packed import unpack_file
    from tensmith.data.gguf import is_gguf
    from tensmith.frontend.gguf import read_gguf

    made = folder / f"{path.stem}.onnx"
    if is_gguf(path):
        write_onnx(read_gguf(path), made)
        return made
    gate.check(path, gate.MODEL)
    if path.suffix != ".packed":
        return path
    unpack_file(path, made)
    return made
