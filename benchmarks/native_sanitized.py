"""Generated C under the sanitizers, on random graphs and on networks: 0 reports, answers as ONNX Runtime's.

    python benchmarks/native_sanitized.py [MODEL...] [--count 2000] [--seed 0] [--optimize]

Each program is planned for 1, 2 or 3 threads and run with every array, the weights and the arena in a heap
block of exactly its size, under the address and undefined behaviour sanitizers; what is cut for threads runs
under the thread sanitizer, too. MODELs are ONNX files; sizes that they leave open are 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "backend" / "native"))

from sanitized import MEMORY, THREADS, UNOPTIMIZED, sanitized
from test_native_graphs import Graph

from tensmith.backend.native.plan import Plan, fixed, make_plan
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


def complaint(program: Program, threads: int, seed: int, level: tuple[str, ...]) -> str:
    """What is wrong with a program's C; "" if nothing is."""
    plan = make_plan(program, host_isa(), threads=threads)
    inputs = drawn(program, seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found, report = sanitized(plan, inputs, folder, MEMORY + level)
        if not report and plan.threads > 1:
            report = raced(plan, inputs, folder, level)
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


def raced(plan: Plan, inputs: dict[str, Array], folder: Path, level: tuple[str, ...]) -> str:
    """What the thread sanitizer reports."""
    return sanitized(plan, inputs, folder, THREADS + level, runs=3)[1]


def cases(models: list[Path], seed: int, count: int) -> Iterator[tuple[str, Program, int]]:
    """(what it is, program, threads)."""
    for path in models:
        for threads in (1, 2, 3):
            yield f"{path.name} in {threads} threads", network(path), threads
    for number in range(seed, seed + count):
        threads = number % 3 + 1
        yield f"graph {number} in {threads} threads", Graph(number).program, threads


def main() -> int:
    """1 where anything is reported or wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--count", type=int, default=2000, help="random graphs")
    parser.add_argument("--seed", type=int, default=0, help="of the first one")
    parser.add_argument("--optimize", action="store_true", help="compile as it is shipped, at -O2")
    options = parser.parse_args()
    level = () if options.optimize else UNOPTIMIZED
    done = wrong = 0
    began = time.monotonic()
    for what, program, threads in cases(options.models, options.seed, options.count):
        try:
            found = complaint(program, threads, options.seed, level)
        except TensmithError as error:
            found = str(error)
        done, wrong = done + 1, wrong + bool(found)
        if found:
            print(f"{what}: {found}", flush=True)
        print(f"{done:6} run, {wrong} wrong", end="\r", file=sys.stderr, flush=True)
    print(f"{done} programs in {time.monotonic() - began:.0f} s, {wrong} reported or wrong", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
