"""Times and tries kernels one by one in another process, which a bad kernel may crash or hang."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tensmith.children import Ending
from tensmith.engine.frame import Array
from tensmith.engine.module_worker import ModuleWorker
from tensmith.errors import EngineError
from tensmith.files import TemporaryFolder
from tensmith.kernel.algorithm import Kernel
from tensmith.kernel.alone import text_alone
from tensmith.kernel.toolchain import compile_library
from tensmith.tune.trial import KernelTrial, given, trial

LONGEST_COMPILE_SECONDS = 60.0
PATIENCE_SECONDS = 30.0


class Timer(Ending):
    """Use as a context: it ends the process and removes the libraries."""

    def __init__(self, patience: float = PATIENCE_SECONDS) -> None:
        self._patience = patience
        self._folder = TemporaryFolder()
        self._worker = ModuleWorker(("tensmith.tune.serve",), patience)

    def end(self) -> None:
        """Leaves the context."""
        self._worker.end()
        self._folder.cleanup()

    def seconds(self, kernel: Kernel, memory: int, span: float) -> float:
        """The least time of a call, measured for `span` seconds; EngineError if it does not compile or run.

        `memory` says where weights come from, as in backend.native.choose.choosers.memory_of.
        """
        answer, _ = self._ask(kernel, trial(kernel, memory), span, back=False)
        return float(answer["seconds"])

    def answer(self, kernel: Kernel, image: Array, weights: Array, bias: Array) -> Array:
        """y [filters, height, width] of floats; EngineError if the kernel does not compile or run.

        image: [channels, height, width]; weights: [filters, channels/groups, *window]; bias: [filters].
        """
        _, arrays = self._ask(kernel, given(kernel, image, weights, bias), 0.0, back=True)
        target = kernel.target
        return target.read(arrays["target"].view(np.float32)[: target.size])

    def _ask(
        self, kernel: Kernel, made: KernelTrial, span: float, back: bool
    ) -> tuple[dict[str, Any], dict[str, Array]]:
        """Seconds, and `back` the target's bytes."""
        room = Path(self._folder.name)
        library = compile_library(text_alone(kernel), kernel.isa, room=room, longest=LONGEST_COMPILE_SECONDS)
        request = {
            "library": str(library),
            "target_bytes": made.target_bytes,
            "scratch_bytes": made.scratch_bytes,
            "copies": made.copies,
            "seconds": span,
            "back": back,
            "alarm": int(self._patience) + 5,
        }
        try:
            return self._worker.ask(request, made.arrays)
        except EngineError as error:
            raise EngineError(f"{kernel} {error} computing a {kernel.problem}") from error
