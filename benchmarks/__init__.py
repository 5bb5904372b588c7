"""Measurements beside the package: what is timed, and what takes too long for a test.

    python -m benchmarks.run --list

Each bench is a module that runs alone, and writes one document (`parts`); `run` knows them all.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import importlib.util
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tensmith.files import sha256_bytes

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("TENSMITH_DATA") or ROOT.parent / "shared" / "data")
TOOLS = ("onnxruntime", "openvino", "nncf")
_DAY = 86_400.0


@functools.cache
def cache() -> Path:
    """Where networks that benches make are kept between them: those that this code and these tools make.

    What others made goes after a day.
    """
    home = Path(tempfile.gettempdir()) / "tensmith-benchmarks"
    folder = home / made_by()
    folder.mkdir(parents=True, exist_ok=True)
    os.utime(folder)
    for other in home.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another bench removes it
            if time.time() - other.stat().st_mtime > _DAY:
                shutil.rmtree(other, ignore_errors=True)
    return folder


def made_by(*rooms: str) -> str:
    """A hash of the code that quantizes and compiles, of more rooms of it, and of the versions of tools."""
    from tensmith.engine.compiled import code_revision

    return sha256_bytes(json.dumps([code_revision(*rooms), versions()]).encode())[:16]


def versions() -> dict[str, str]:
    """Of the tools that benches compare with, those that are here."""
    here = [tool for tool in TOOLS if importlib.util.find_spec(tool) is not None]
    return {tool: importlib.metadata.version(tool) for tool in here}


def use_tests(*folders: str) -> None:
    """Lets benches import what tests have for themselves, below tests/."""
    found = [str(ROOT / "tests" / folder) for folder in folders]
    sys.path += [path for path in found if path not in sys.path]
