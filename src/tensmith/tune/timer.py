"""Times kernels one by one in another process, which a bad kernel may crash or hang."""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import TracebackType

from tensmith.errors import EngineError
from tensmith.kernel.algorithm import Kernel
from tensmith.kernel.alone import text_alone
from tensmith.kernel.toolchain import compile_library
from tensmith.tune.trial import trial
from tensmith.tune.worker import Worker, WorkerEnded

LONGEST_COMPILE_SECONDS = 60.0
PATIENCE_SECONDS = 30.0


class Timer:
    """Use as a context: it ends the process and removes the libraries."""

    def __init__(self, patience: float = PATIENCE_SECONDS) -> None:
        self._patience = patience
        self._folder = tempfile.TemporaryDirectory(prefix="tensmith-tune-")
        self._worker = Worker(("tensmith.tune.serve",), patience)

    def __enter__(self) -> Timer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._worker.end()
        self._folder.cleanup()

    def seconds(self, kernel: Kernel, memory: int, span: float) -> float:
        """The least time of a call, measured for `span` seconds; EngineError if it does not compile or run.

        `memory` says where weights come from, as in backend.native.choosers.memory_of.
        """
        cache = Path(self._folder.name)
        library = compile_library(
            text_alone(kernel), kernel.isa, cache=cache, longest=LONGEST_COMPILE_SECONDS
        )
        made = trial(kernel, memory)
        request = {
            "library": str(library),
            "target_bytes": made.target_bytes,
            "scratch_bytes": made.scratch_bytes,
            "copies": made.copies,
            "seconds": span,
            "alarm": int(self._patience) + 5,
        }
        try:
            answer, _ = self._worker.ask(request, made.arrays)
        except WorkerEnded as error:
            raise EngineError(f"{kernel} {error} computing a {kernel.problem}") from error
        return float(answer["seconds"])
