"""`tensmith compress` as a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def compress(model: Path, data: str, out: Path, *options: str, **env: str) -> Mapping[str, Any]:
    """Runs it anew in the folder `out`, as a user would first start it; its front. env: more of it."""
    shutil.rmtree(out, ignore_errors=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    words = ("compress", str(model), "--data", data, "--output", str(out), *options)
    subprocess.run([sys.executable, "-m", "tensmith", *words], check=True, env={**os.environ, **env})
    return json.loads((out / "front.json").read_text())


def within_budget(front: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The points of a front that hold the drop budget."""
    return [point for point in front["points"] if point["within_budget"]]
