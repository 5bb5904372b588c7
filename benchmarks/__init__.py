"""Measurements beside the package: what is timed, and what takes too long for a test.

    python -m benchmarks.run --list

Each bench is a module that runs alone, and writes one document (`parts`); `run` knows them all.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("TENSMITH_DATA") or ROOT.parent / "shared" / "data")


def cache() -> Path:
    """Where networks that benches make are kept between them."""
    folder = Path(tempfile.gettempdir()) / "tensmith-benchmarks"
    folder.mkdir(exist_ok=True)
    return folder


def use_tests(*folders: str) -> None:
    """Lets benches import what tests have for themselves, below tests/."""
    found = [str(ROOT / "tests" / folder) for folder in folders]
    sys.path += [path for path in found if path not in sys.path]
