"""A model at another place: its file, and the weights that lie beside it."""

from __future__ import annotations

from pathlib import Path

from onnx import TensorProto

from tensmith import gate
from tensmith.data.mapped import let_go
from tensmith.errors import OutputError
from tensmith.files import atomic_path, write_bytes
from tensmith.frontend.model_files import load_skeleton, model_files, tensors
from tensmith.frontend.onnx_tensor import ExternalFiles, external_bytes

# Where a large tensor may start: the page size that lets runtimes map it. Small ones would grow by it.
_ALIGNMENT, _LARGE = 4096, 1 << 20


def copy_model(source: Path, target: Path) -> None:
    """The ONNX file `source` at `target`; external data goes to `target`.data beside it, tensor by tensor.

    ModelError where the model is none or its data is not whole; OutputError where it would be written over.
    """
    model = load_skeleton(source)
    outside = [each for each in tensors(model.graph) if each.data_location == TensorProto.EXTERNAL]
    if not outside:
        write_bytes(target, gate.read_bytes(source, gate.MODEL))
        return
    refuse_own(source, target)
    external, data = ExternalFiles(source.parent), target.with_name(target.name + ".data")
    places: dict[tuple[tuple[str, str], ...], int] = {}
    with atomic_path(data) as temporary, temporary.open("wb") as file:
        for tensor in outside:
            read = external.read(tensor, external_bytes(tensor), f"{source}: tensor '{tensor.name}'")
            place = tuple(sorted((entry.key, entry.value) for entry in tensor.external_data))
            if place not in places:
                if read.nbytes >= _LARGE:
                    file.write(b"\0" * (-file.tell() % _ALIGNMENT))
                places[place] = file.tell()
                file.write(read.data)
                let_go(read)
            del tensor.external_data[:]
            for key, value in (("location", data.name), ("offset", places[place]), ("length", read.nbytes)):
                tensor.external_data.add(key=key, value=str(value))
    write_bytes(target, model.SerializeToString(deterministic=True))


def gathered(path: Path, folder: Path) -> Path:
    """The model at `path` as one file, and one of weights at most: itself, or else a copy in `folder`.

    A run measures, ships and certifies that; a folder may hold weights in hundreds of files, by any name.
    """
    if len(model_files(path)) == 1:
        return path
    copy_model(path, folder / "model.onnx")
    return folder / "model.onnx"


def refuse_own(source: Path, target: Path) -> None:
    """OutputError where writing `target`, and the data beside it, would write over files of `source`."""
    written = {target.resolve(), target.with_name(target.name + ".data").resolve()}
    if taken := [file for file in model_files(source) if file.resolve() in written]:
        raise OutputError(f"{taken[0]} is a file of the model itself; choose another place for the new one")
