"""The ONNX file that engines load in place of a packed or a GGUF file."""

from __future__ import annotations

from pathlib import Path


def engine_file(path: Path, folder: Path) -> Path:
    """`path` itself, or the ONNX file that is made of it in `folder`, called alike.

    Of a folder that a compression wrote it is the file to deploy, or that of the point, if it is certified as
    it is there.
    """
    from tensmith import gate
    from tensmith.backend.onnx import write_onnx
    from tensmith.backend.packed import unpack_file
    from tensmith.data.gguf import is_gguf
    from tensmith.frontend.gguf import read_gguf

    path = _held(path)
    made = folder / f"{path.stem}.onnx"
    if is_gguf(path):
        write_onnx(read_gguf(path), made)
        return made
    gate.check(path, gate.MODEL)
    if path.suffix != ".packed":
        return path
    unpack_file(path, made)
    return made


def _held(path: Path) -> Path:
    """The model in a folder; what is no folder, or holds none, as it is."""
    if not path.is_dir():
        return path
    from tensmith.deploy.model import point_folder

    folder = point_folder(path)
    held = (folder / f"model.{kind}" for kind in ("packed", "onnx"))
    return next((file for file in held if file.is_file()), path)
