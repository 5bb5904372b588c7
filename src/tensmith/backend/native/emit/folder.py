"""The folder of a compiled model: library, weights, manifest with hashes, Python loader, C to build in.

model.c and model.h are what the library was made of, main.c an example of a program around them.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from tensmith.backend.native.emit import loader
from tensmith.backend.native.emit.header import print_header
from tensmith.backend.native.emit.source import print_c
from tensmith.backend.native.plan import NativePlan
from tensmith.errors import OutputError, unwritten
from tensmith.files import TemporaryFolder, sha256_file
from tensmith.ir import Program
from tensmith.kernel.toolchain import compile_library

_SOURCE, _HEADER, _EXAMPLE, _LOADER = "model.c", "model.h", "main.c", "model.py"


def write_folder(plan: NativePlan, folder: Path) -> None:
    """Compiles a plan and writes its folder, whole or not at all; OutputError if it exists already."""
    with whole(folder) as made:
        text = print_c(plan)
        shutil.copyfile(compile_library(text, plan.needed), made / loader.LIBRARY)
        plan.weights.tofile(made / loader.WEIGHTS)
        (made / _SOURCE).write_text(text, encoding="utf-8")
        (made / _HEADER).write_text(print_header(plan), encoding="utf-8")
        shutil.copyfile(Path(__file__).with_name(_EXAMPLE), made / _EXAMPLE)
        shutil.copyfile(loader.__file__, made / _LOADER)
        (made / loader.MANIFEST).write_text(json.dumps(_manifest(plan, made), indent=1), encoding="utf-8")


@contextlib.contextmanager
def whole(folder: Path) -> Iterator[Path]:
    """An empty folder that becomes `folder` when all is written; OutputError if that exists already."""
    if folder.exists():
        raise OutputError(f"{folder} exists already; remove it or choose another folder")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryFolder(f".{folder.name}.tmp-", folder.parent) as name:
            made = Path(name) / "made"
            made.mkdir()
            yield made
            made.rename(folder)
    except OSError as error:
        raise unwritten(folder, error) from error


def _manifest(plan: NativePlan, made: Path) -> dict[str, object]:
    said = {
        "schema": loader.SCHEMA,
        "name": plan.program.name,
        "isa": plan.isa.name,
        "architecture": plan.isa.architecture,
        "needs": sorted(plan.needed.needs),
        "inputs": _specs(plan.program, tuple(plan.program.inputs)),
        "outputs": _specs(plan.program, plan.program.outputs),
        "arena_bytes": plan.arena_bytes,
        "threads": plan.threads,
        "weights_bytes": int(plan.weights.nbytes),
        "prepared": [one.to_json() for one in plan.prepared],
        "kernels": {action.writes: str(action.work) for action in plan.kernels},
        "files": {path.name: sha256_file(path) for path in sorted(made.iterdir())},
    }
    return {**said, "digest": loader.digest_of(said)}


def _specs(program: Program, names: tuple[str, ...]) -> list[dict[str, object]]:
    types = [(name, program.type(name)) for name in names]
    return [
        {"name": name, "dtype": type_.numpy.name, "shape": list(type_.static or ())} for name, type_ in types
    ]
