"""An engine with a file: what is timed, judged and weighed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tensmith.engine.base import Arrays, compiler, sizes_in
from tensmith.engine.compiled import CompileOptions, compiled_folder
from tensmith.engine.worker import SessionWorker

_JUDGING_SECONDS = 600.0


@dataclass(frozen=True)
class Contender:
    """An engine with a file: one of those compared.

    folder: what it was compiled to, where that is settled; the cache knows it until kernels are timed anew.
    """

    engine: str
    path: Path
    settings: tuple[tuple[str, str], ...] = ()
    folder: Path | None = field(default=None, compare=False)

    @property
    def engine_name(self) -> str:
        """The engine with its settings: `opencl:precision=f16`."""
        return ":".join([self.engine, *(f"{name}={value}" for name, value in self.settings)])

    @property
    def name(self) -> str:
        """How it is printed: `onnxruntime:model.onnx`."""
        return f"{self.engine_name}:{self.path.name}"

    def start(self, inputs: Arrays, threads: int, *, fresh: bool = False) -> SessionWorker:
        """A worker that has loaded the file for the sizes of `inputs`, been fed them, and run once.

        fresh: see fork_server.start_module.
        """
        given = dict[str, Any](self.settings, fresh=fresh, compiled=self.compiled(inputs, threads))
        worker = SessionWorker(self.engine, self.path, threads, sizes=self.sizes(inputs), **given)
        try:
            worker.feed(inputs)
        except BaseException:
            worker.close()
            raise
        return worker

    def sizes(self, inputs: Arrays) -> dict[str, int]:
        """The sizes that the file leaves open, as they are in `inputs`."""
        return sizes_in(self.path, inputs)

    def to_judge(self, inputs: Arrays, threads: int, judging_threads: int) -> SessionWorker:
        """A worker that has loaded the file to judge it; accuracy needs no quiet machine."""
        sizes, used = self.judging(inputs, threads, judging_threads)
        given = dict[str, Any](self.settings, sizes=sizes, timeout=_JUDGING_SECONDS)
        return SessionWorker(self.engine, self.path, used, **given)

    def judging(
        self, inputs: Arrays, threads: int, judging_threads: int
    ) -> tuple[dict[str, int] | None, int]:
        """The sizes that the file is loaded for to be judged, None for any, and the threads.

        Native code is cut for its threads and sizes: what ships is what is judged.
        """
        if compiler(self.engine):
            return self.sizes(inputs), threads
        return None, judging_threads

    def compiled(self, inputs: Arrays, threads: int) -> Path | None:
        """The folder it is compiled to for the sizes of `inputs`; None where nothing is compiled."""
        if self.folder is not None or not compiler(self.engine):
            return self.folder
        options = CompileOptions.of(self.engine, dict(self.settings), threads)
        return compiled_folder(self.path, self.sizes(inputs), options)
