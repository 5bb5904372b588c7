"""A model at another place: its file, and the weights that lie beside it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from onnx import TensorProto

from tensmith import gate
from tensmith.data.gguf import is_gguf
from tensmith.data.mapped import let_go
from tensmith.errors import OutputError
from tensmith.files import atomic_path, sha256_bytes, sha256_file, write_bytes
from tensmith.frontend.model_files import load_skeleton, model_files, model_tensors, size_of
from tensmith.frontend.onnx_tensor import ExternalFiles, external_bytes

# Where a large tensor may start: the page size that lets runtimes map it. Small ones would grow by it.
_ALIGNMENT, _LARGE = 4096, 1 << 20


def copy_model(source: Path, target: Path) -> None:
    """The ONNX file `source` at `target`; external data goes to `target`.data beside it, tensor by tensor.

    ModelError where the model is none or its data is not whole; OutputError where it would be written over.
    """
    copy = _Copy(source, target.name)
    if not copy.parts:
        write_bytes(target, copy.model())
        return
    refuse_own(source, target)
    with atomic_path(target) as last, atomic_path(target.with_name(copy.beside)) as temporary:
        with temporary.open("wb") as file:
            for piece in copy.data():
                file.write(piece)
        last.write_bytes(copy.model())


def copied_bytes(source: Path) -> int:
    """How large the files of a copy are."""
    copy = _Copy(source, "model.onnx")
    return len(copy.model()) + copy.end if copy.parts else size_of(source)


def copied_hashes(source: Path, name: str) -> dict[str, str]:
    """SHA-256 of the files of a copy as `name`, by their names; ModelError where its data is not whole."""
    copy = _Copy(source, name)
    if not copy.parts:
        return {name: sha256_file(source)}
    digest = hashlib.sha256()
    for piece in copy.data():
        digest.update(piece)
    return {name: sha256_bytes(copy.model()), copy.beside: digest.hexdigest()}


class _Copy:
    """The model at `source` as one file, and one of weights `beside` it where its own lie outside.

    parts: tensors as the source has them, and where each begins in that file, which ends at `end`.
    """

    def __init__(self, source: Path, name: str) -> None:
        self.source, self.beside = source, f"{name}.data"
        self.parts: list[tuple[int, TensorProto]] = []
        self.end = 0
        self._skeleton = load_skeleton(source)
        places: dict[tuple[int, tuple[tuple[str, str], ...]], int] = {}
        for tensor in model_tensors(self._skeleton):
            if tensor.data_location != TensorProto.EXTERNAL:
                continue
            size, entries = external_bytes(tensor), tensor.external_data
            # Of two that begin at one place and do not say how long they are, one may be longer.
            place = size, tuple(sorted((entry.key, entry.value) for entry in entries))
            if place not in places:
                places[place] = self._added(tensor, size)
            del entries[:]
            for key, value in (("location", self.beside), ("offset", places[place]), ("length", size)):
                entries.add(key=key, value=str(value))

    def _added(self, tensor: TensorProto, size: int) -> int:
        """Puts a tensor at the end; where that is."""
        start = self.end + (-self.end % _ALIGNMENT if size >= _LARGE else 0)
        part = TensorProto()
        part.CopyFrom(tensor)
        self.parts.append((start, part))
        self.end = start + size
        return start

    def model(self) -> bytes:
        """The model's file; as it is where nothing lies outside."""
        if self.parts:
            return bytes(self._skeleton.SerializeToString(deterministic=True))
        return gate.read_bytes(self.source, gate.MODEL)

    def data(self) -> Iterator[bytes | memoryview]:
        """The file of weights, piece by piece; a piece is gone when the next one is asked for."""
        external, at = ExternalFiles(self.source), 0
        for start, tensor in self.parts:
            yield bytes(start - at)
            read = external.read(tensor, external_bytes(tensor), f"{self.source}: tensor '{tensor.name}'")
            yield read.data
            let_go(read)
            at = start + read.nbytes


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
    written = {os.path.realpath(target), os.path.realpath(target.with_name(target.name + ".data"))}
    files = [source] if is_gguf(source) or source.suffix == ".packed" else model_files(source)
    if taken := [file for file in files if os.path.realpath(file) in written]:
        raise OutputError(f"{taken[0]} is a file of the model itself; choose another place for the new one")
