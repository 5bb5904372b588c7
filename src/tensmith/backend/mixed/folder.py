"""The two files of a mixed model: an ONNX file, and the library that ONNX Runtime loads to run it.

options = onnxruntime.SessionOptions()
options.register_custom_ops_library("folder/libmixed.so")
session = onnxruntime.InferenceSession("folder/mixed.onnx", options)
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from tensmith.backend.mixed.library import Library
from tensmith.backend.mixed.model import with_regions
from tensmith.backend.mixed.regions import find_regions
from tensmith.backend.native.choose.choosers import Choosing, estimated
from tensmith.backend.native.emit.folder import whole
from tensmith.backend.native.plan import make_plan
from tensmith.backend.onnx import write_onnx
from tensmith.errors import EngineError
from tensmith.files import sha256_file
from tensmith.frontend.model_files import load_skeleton
from tensmith.ir import Program
from tensmith.kernel.isa import Isa
from tensmith.rewrite.trail import simplify

MODEL, LIBRARY = "mixed.onnx", "libmixed.so"
# The metadata key of the model under which it keeps its library's hash.
LIBRARY_KEY = "tensmith.library_sha256"


def mix(program: Program, isa: Isa, chooser: Choosing = estimated) -> Library:
    """Plans what native code computes of a program of fixed sizes; EngineError if that is nothing."""
    simplified = simplify(program).program
    regions = find_regions(simplified, partial(make_plan, isa=isa, chooser=chooser))
    return Library(simplified, regions, isa)


def write_folder(library: Library, folder: Path) -> None:
    """Compiles and writes both files, whole or not at all; OutputError if the folder exists already."""
    with whole(folder) as made:
        model = with_regions(library.program, library.regions, library.digest)
        library.build(made / LIBRARY)
        known = {**model.origin.metadata, LIBRARY_KEY: sha256_file(made / LIBRARY)}
        write_onnx(replace(model, origin=replace(model.origin, metadata=known)), made / MODEL)


def check_folder(folder: Path) -> None:
    """EngineError if a folder is no mixed model whose library is the one that was written with it."""
    known = {entry.key: entry.value for entry in load_skeleton(folder / MODEL).metadata_props}
    if known.get(LIBRARY_KEY) != sha256_file(folder / LIBRARY):
        raise EngineError(f"{folder / LIBRARY} was altered after it was written; compile the model again")
