"""Times kernels one by one in another process, which a bad kernel may crash or hang."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from tensmith.engine.frame import Array, read_frame, write_frame
from tensmith.errors import EngineError
from tensmith.kernel.algorithm import Kernel
from tensmith.kernel.alone import text_alone
from tensmith.kernel.problem import Convolution
from tensmith.kernel.quantized import Grid, Rescaling, constants
from tensmith.kernel.toolchain import compile_library

_LONGEST_COMPILE_SECONDS = 60.0
_PATIENCE_SECONDS = 30.0
# Bytes that the copies of a kernel's weights take together, for each memory that they are to come from
# (backend.native.layout.memory_of): the second cache, the third, beyond.
_SPREAD_BYTES = (1, 6 << 20, 96 << 20)
_DTYPES = {"f32": "float32", "f16": "float16", "u8": "uint8"}


class Timer:
    """Use as a context: it ends the process and removes the libraries."""

    def __init__(self, patience: float = _PATIENCE_SECONDS) -> None:
        self._patience = patience
        self._folder = tempfile.TemporaryDirectory(prefix="tensmith-tune-")
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Timer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        self._folder.cleanup()

    def seconds(self, kernel: Kernel, memory: int, span: float) -> float:
        """The least time of a call, measured for `span` seconds; EngineError if it does not compile or run.

        `memory` says where weights come from, as in backend.native.layout.memory_of.
        """
        cache = Path(self._folder.name)
        library = compile_library(
            text_alone(kernel), kernel.isa, cache=cache, longest=_LONGEST_COMPILE_SECONDS
        )
        packed, numbers = _operands(kernel)
        request = {
            "library": str(library),
            "source_bytes": kernel.source.bytes,
            "target_bytes": kernel.isa.round_up(kernel.target.size) * 4,
            "scratch_bytes": kernel.scratch_bytes,
            "dtype": _DTYPES[kernel.source.dtype],
            "copies": max(1, _SPREAD_BYTES[memory] // max(1, packed.nbytes)),
            "seconds": span,
            "alarm": int(self._patience) + 5,
        }
        return float(self._ask(kernel, request, {"weights": packed, "constants": numbers})["seconds"])

    def _ask(self, kernel: Kernel, request: Mapping[str, Any], arrays: Mapping[str, Array]) -> dict[str, Any]:
        process = self._started()
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            process.kill()

        watch = threading.Timer(self._patience, expire)
        watch.start()
        try:
            write_frame(process.stdin, request, arrays)  # type: ignore[arg-type]
            return read_frame(process.stdout)[0]  # type: ignore[arg-type]
        except (EOFError, OSError, ValueError) as error:
            self._end()
            how = f"did not end within {self._patience:g} s" if expired.is_set() else "died"
            raise EngineError(f"{kernel} {how} computing a {kernel.problem}") from error
        except BaseException:
            self._end()  # the answer of an interrupted request must not pass for the next one's
            raise
        finally:
            watch.cancel()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tensmith.tune.serve"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the parent
            )
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with contextlib.suppress(BrokenPipeError):
                        stream.close()


def _operands(kernel: Kernel) -> tuple[Array, Array]:
    """Packed random weights, and the constants that go with them."""
    problem, generator = kernel.problem, np.random.default_rng(0)
    shape = (problem.filters, problem.channels // problem.groups, *problem.window)
    if problem.dtype != "u8":
        weights = generator.standard_normal(shape, np.float32)
        weights[generator.random(shape) >= problem.density] = 0
        return kernel.pack(weights), np.zeros(kernel.isa.round_up(problem.filters), np.float32)
    codes = generator.integers(-127, 128, shape).astype(np.int8)
    codes[generator.random(shape) >= problem.density] = 0
    return kernel.pack(codes), constants(problem, kernel.isa, codes, _rescaling(problem), curved=False)


def _rescaling(problem: Convolution) -> Rescaling:
    """Between grids on which random sums fill a byte."""
    target = Grid(0.05 * float(np.sqrt(problem.depth)), 0)
    return Rescaling(Grid(0.02, 0), np.full(problem.filters, 0.01, np.float32), target)
