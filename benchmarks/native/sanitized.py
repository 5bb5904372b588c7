"""Generated C under the sanitizers, on random graphs and on networks: 0 reports, answers as ONNX Runtime's.

    python -m benchmarks.native.sanitized [MODEL...] [--count 2000] [--seed 0] [--optimize] [--output FILE]

Each program is planned for 1, 2 or 3 threads and run with every array, the weights and the arena in a heap
block of exactly its size, under the address and undefined behaviour sanitizers; what is cut for threads runs
under the thread sanitizer, too. MODELs are ONNX files; sizes that they leave open are 1.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sanitized import MEMORY, THREADS, UNOPTIMIZED, sanitized
from test_native_graphs import Graph

from benchmarks import parts
from tensmith.backend.native.plan import NativePlan, fixed, make_plan
from tensmith.backend.onnx import write_onnx
from tensmith.engine import ENGINES
from tensmith.errors import TensmithError
from tensmith.frontend.onnx import read_onnx
from tensmith.ir import Program
from tensmith.kernel import host_isa

Array = np.ndarray[Any, Any]


def network(path: Path) -> Program:
    """A file's program, open sizes 1."""
    program = read_onnx(path)
    sizes = {str(d): 1 for type_ in program.inputs.values() for d in type_.dims if not isinstance(d, int)}
    return fixed(program, sizes)


def drawn(program: Program, seed: int) -> dict[str, Array]:
    """Random inputs: floats around 0, integers that index anything."""
    random = np.random.default_rng(seed)
    found = {}
    for name, type_ in program.inputs.items():
        real = np.issubdtype(type_.numpy, np.floating)
        values = random.standard_normal(type_.static) if real else random.integers(0, 2, type_.static)
        found[name] = np.asarray(values, type_.numpy)
    return found


@dataclass(frozen=True)
class Case:
    """What is compiled: a file, or a random graph by its number; for so many threads."""

    source: Path | int
    threads: int

    def __str__(self) -> str:
        name = self.source if isinstance(self.source, Path) else f"graph {self.source}"
        return f"{name} in {self.threads} threads"

    @property
    def program(self) -> Program:
        return network(self.source) if isinstance(self.source, Path) else Graph(self.source).program


def judged(case: Case, level: tuple[str, ...]) -> parts.Found:
    """What a case comes to."""
    try:
        program = case.program
        plan = make_plan(program, host_isa(), threads=case.threads)
        found = complaint(program, plan, case.source if isinstance(case.source, int) else 0, level)
    except TensmithError as error:
        return parts.Found({"not planned": 1}, (f"{case}: {error}",))
    return parts.Found({f"in {plan.threads} threads": 1}, (f"{case}: {found}",) if found else ())


def complaint(program: Program, plan: NativePlan, seed: int, level: tuple[str, ...]) -> str:
    """What is wrong with the C of a program's plan; "" if nothing is."""
    inputs = drawn(program, seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found, report = sanitized(plan, inputs, folder, MEMORY + level)
        if not report and plan.threads > 1:
            report = sanitized(plan, inputs, folder, THREADS + level, runs=3)[1]
        if report:
            return report
        write_onnx(program, folder / "model.onnx")
        expected = ENGINES["onnxruntime"].prepare(folder / "model.onnx", 1).run(inputs)
    for output, truth in expected.items():
        scale = float(np.abs(truth).max(initial=1.0)) if truth.dtype.kind == "f" else 1.0
        # A few hundred roundings in a row, of sums in another order; bytes may differ by a unit.
        allowed = 2e-4 * scale if truth.dtype.kind == "f" else 1
        off = np.abs(found[output].astype(np.float64) - truth).max(initial=0.0)
        if not off <= allowed:
            return f"'{output}' is off by {off:.3g}, and {allowed:.3g} is allowed"
    return ""


def cases(models: list[Path], seed: int, count: int) -> Iterator[Case]:
    """Every model in 1 to 3 threads, every graph in one number of them."""
    for path in models:
        yield from (Case(path, threads) for threads in (1, 2, 3))
    for number in range(seed, seed + count):
        yield Case(number, number % 3 + 1)


def main() -> int:
    """1 where anything is reported or wrong."""
    parser = parts.arguments(__doc__)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--count", type=int, default=2000, help="random graphs")
    parser.add_argument("--seed", type=int, default=0, help="of the first one")
    parser.add_argument("--optimize", action="store_true", help="compile as it is shipped, at -O2")
    options = parser.parse_args()
    level = () if options.optimize else UNOPTIMIZED
    every = {str(case): case for case in cases(options.models, options.seed, options.count)}
    settings = {"bench": "native_sanitized", "optimize": options.optimize}
    return parts.main(every, judged, options.output, settings, level=level)


if __name__ == "__main__":
    sys.exit(main())
