"""Makes src/tensmith/kernel/tables/ISA.json: the fastest kernels of well-known networks on this machine.

    python -m benchmarks.native.kernel_table [--budget 600] [--only resnet18,...] [--dtype u8]

Tunes the networks of networks.py in fp32 and those of networks_int8.py, as `tensmith tune` does, for at most
`--budget` seconds each; what is in the database of timings already is not timed again, and with --budget 0
the table is written of what is known. An entry names the fastest kernel and the first guess, or the guess
alone where nothing else gains 2 %. With --dtype layers of one element type alone are tuned: entries of others
stay as they are.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import tensmith
from benchmarks import cache, parts
from benchmarks.native.networks import BUILT, REAL, file_of, inputs_of
from benchmarks.native.quantized_files import quantized
from tensmith.backend.native.plan import fixed
from tensmith.engine import read_signature
from tensmith.engine.base import sizes_of
from tensmith.files import write_text
from tensmith.frontend.onnx import read_onnx
from tensmith.hardware import detect_cpu
from tensmith.kernel import host_isa, isa_named
from tensmith.kernel.alone import function_version
from tensmith.kernel.isa import BFLOAT_TILES, TILES
from tensmith.kernel.shipped import Document, Ranked, ShippedEntry
from tensmith.kernel.timings import Timings
from tensmith.kernel.toolchain import find_compiler
from tensmith.tune.network import tasks_of
from tensmith.tune.search import Budget, TuningSearch, TuningTask
from tensmith.tune.timer import Timer

GAIN = 0.98


def files(names: list[str], dtype: str) -> Iterator[Path]:
    """Each network in fp32 and in 8 bits, or one of them, made where it is missing."""
    for name in names:
        if dtype != "u8":
            yield file_of(name)
        if dtype != "f32":
            yield quantized(file_of(name), cache())


def kept(table: Path, dtype: str) -> list[ShippedEntry]:
    """The entries of other element types."""
    entries = Document.model_validate_json(table.read_bytes()).entries if dtype else ()
    return [each for each in entries if each.problem.dtype != dtype]


def entry(task: TuningTask, memory: int) -> ShippedEntry | None:
    """What was found for a problem; None if too little was timed to say anything."""
    if task.guess not in task.seconds or len(task.seconds) < min(2, len(task.kernels)):
        return None
    guess = task.seconds[task.guess]
    ranked = [Ranked(str(task.guess), 1.0, function_version(task.guess))]
    if task.seconds[task.best] < GAIN * guess:
        ratio = round(task.seconds[task.best] / guess, 3)
        ranked.insert(0, Ranked(str(task.best), ratio, function_version(task.best)))
    return ShippedEntry(problem=task.problem, memory=memory, kernels=tuple(ranked))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--budget", type=float, default=600.0, help="seconds to tune each network")
    parser.add_argument(
        "--only",
        type=parts.names,
        default=[*REAL, *BUILT],
        help="networks to tune, as A,B; the table has these",
    )
    parser.add_argument("--dtype", choices=("f32", "u8"), default="", help="of the layers to tune")
    arguments = parser.parse_args()
    # The table is of CPUs without tile registers; where there are some, its floats are believed all the same.
    isa = isa_named(host_isa().name, host_isa().features - {TILES, BFLOAT_TILES})
    timings, dtype = Timings(), arguments.dtype
    table = Path(tensmith.__file__).parent / "kernel" / "tables" / f"{isa.name}.json"
    found = {(each.problem, each.memory): each for each in kept(table, dtype)}
    with Timer() as timer:
        for path in files(arguments.only, dtype):
            program = fixed(read_onnx(path), sizes_of(read_signature(path).inputs, inputs_of(path)))
            tasks, memory = tasks_of(program, isa)
            wanted = [task for task in tasks if dtype in ("", task.problem.dtype)]
            search = TuningSearch(wanted, memory, timings, timer.seconds)
            search.run(Budget(arguments.budget))
            made = {(task.problem, search.memory): entry(task, search.memory) for task in search.tasks}
            found |= {key: one for key, one in made.items() if one is not None}
            print(f"{path.stem:28} {search.trials} trials, {len(made)} problems, {len(found)} entries so far")
    cpu = detect_cpu()
    document = Document(
        version=1, isa=isa.name, needs=tuple(sorted(isa.needs)), cpu=cpu.model, cache_bytes=cpu.cache_bytes,
        compiler=find_compiler().version, entries=tuple(found.values()),
    )  # fmt: skip
    write_text(table, document.text())
    print(f"{table}: {len(document.entries)} entries, {table.stat().st_size:,} bytes")


if __name__ == "__main__":
    np.seterr(all="ignore")
    sys.exit(main())
