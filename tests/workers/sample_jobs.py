"""Jobs that tests give to workers: what they do shows in files of the folder that they are told."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from tensmith.errors import DataError

RUNNER = f"{__name__}:Sample"


class Sample:
    """Runs the method of the name that a request has under "do"."""

    def answer(self, request: dict[str, Any], arrays: dict[str, Any], folder: Path) -> tuple[Any, Any]:
        return getattr(self, request["do"])(request, arrays, folder)

    def square(self, request: dict[str, Any], arrays: dict[str, Any], folder: Path) -> tuple[Any, Any]:
        time.sleep(request.get("seconds", 0.0))
        return {"number": request["number"]}, {name: array**2 for name, array in arrays.items()}

    def read(self, request: dict[str, Any], arrays: dict[str, Any], folder: Path) -> tuple[Any, Any]:
        return {name: (folder / name).read_text() for name in request["names"]}, {}

    def refuse(self, request: dict[str, Any], arrays: dict[str, Any], folder: Path) -> tuple[Any, Any]:
        time.sleep(request.get("seconds", 0.0))
        raise DataError(f"job {request['number']} is refused")

    def hang(self, request: dict[str, Any], arrays: dict[str, Any], folder: Path) -> tuple[Any, Any]:
        (Path(request["folder"]) / "hangs").touch()
        time.sleep(600)
        return {}, {}

    def die(self, request: dict[str, Any], arrays: dict[str, Any], folder: Path) -> tuple[Any, Any]:
        """Dies as often as is asked for, then answers."""
        deaths = len(list(Path(request["folder"]).iterdir()))
        if deaths < request["times"]:
            (Path(request["folder"]) / str(deaths)).touch()
            os.write(2, b"it was told to\n")
            os.kill(os.getpid(), signal.SIGKILL)
        return {"deaths": deaths}, {}

    def hang_on(self, request: dict[str, Any], arrays: dict[str, Any], folder: Path) -> tuple[Any, Any]:
        """Hangs on one node of a cluster and answers on the others."""
        import ray

        node = ray.get_runtime_context().get_node_id()
        if node == request["node"]:
            self.hang(request, arrays, folder)
        return {"node": node}, {}
