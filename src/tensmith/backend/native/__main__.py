"""Compiles a model file into a folder.

    python -m tensmith.backend.native TUNING PRECISION ALGORITHM THREADS MODEL FOLDER [SYMBOL=SIZE...]

TUNING is untuned, tuned or metaschedule, PRECISION f32, bf16 or f16, ALGORITHM any or a family of kernels.

The engines native and mixed run it in a process of its own. An error is one line on standard error, and exit
code 1.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from tensmith.backend.native.choose.choosers import Choosing, restricted_to
from tensmith.backend.native.choose.measured import measured, metascheduled
from tensmith.backend.native.choose.precision import in_precision
from tensmith.backend.native.emit.folder import write_folder
from tensmith.backend.native.plan import fixed, make_plan
from tensmith.errors import TensmithError
from tensmith.frontend.onnx import read_onnx
from tensmith.ir import Program
from tensmith.kernel.isa import Isa, host_isa
from tensmith.kernel.timings import Timings


def main(arguments: list[str], write: Callable[[Program, Isa, Choosing, int, Path], None]) -> int:
    """The command; `write` compiles a program for so many threads into a folder."""
    tuning, precision, algorithm, threads, model, folder, *sizes = arguments
    pairs = (size.rpartition("=") for size in sizes)
    try:
        chooser = in_precision(_chooser(tuning, restricted_to(algorithm)), precision)
        program = fixed(read_onnx(Path(model)), {name: int(size) for name, _, size in pairs})
        write(program, host_isa(), chooser, int(threads), Path(folder))
    except TensmithError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _native(program: Program, isa: Isa, chooser: Choosing, threads: int, folder: Path) -> None:
    write_folder(make_plan(program, isa, chooser, threads), folder)


def _chooser(tuning: str, untuned: Choosing) -> Choosing:
    if tuning == "untuned":
        return untuned
    timings = Timings()
    known = measured(timings, untuned)
    return metascheduled(known, timings) if tuning == "metaschedule" else known


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], _native))
