"""Emitted code of every target that runs here against compiled sources, on thousands of random inputs.

    python -m benchmarks.lifting.differential [--inputs 1000] [--groups c,own] [--targets numpy,c]

Inputs are those of tests/lifting/harness_inputs.py: sizes 0, 1 and negative, extreme integers, NaN and
infinities, one array passed twice, outputs passed as None, and requirements that are not met. Libraries that
compile for each shape get twelve of them, and what follows the first calls of a shape runs compiled.
"""

from __future__ import annotations

import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

import harness
from harness_targets import TARGETS, Loaded

from benchmarks import parts
from benchmarks.lifting.files import SourceFile, arguments, files, on_one_core
from tensmith.lifting.emit import EMITTERS
from tensmith.lifting.lifted import Lifted
from tensmith.lifting.pipeline import lift_file
from tensmith.lifting.refusal import Refusal

ALIKE = 16  # inputs that have sizes and scalars in common
PER_SHAPE = ("jax", "tensorflow")  # targets that trace anew for every shape: one in 12 inputs has another
SHAPES, TRACES = (0, 1, 3), 12


def compared(file: SourceFile, targets: list[str], count: int) -> parts.Found:
    """How the functions of a file do, by target: kernels, inputs compared, refused and without a meaning."""
    counts: dict[str, dict[str, int]] = {}
    wrong: list[str] = []
    left = set(file.functions)
    with tempfile.TemporaryDirectory() as folder:
        for name, function, verdict in judged(file.path, [*file.functions], targets, Path(folder), count):
            one = {part: getattr(verdict, part) for part in ("compared", "refused", "meaningless")}
            counts = parts.added(counts, {name: {"kernels": 1, **one, "wrong": len(verdict.wrong)}})
            wrong += [f"{file}/{function} {name}: {line}" for line in verdict.wrong[:1]]
            left.discard(function)
    wrong += [f"{file}/{function}: it did not lift, or to no target" for function in sorted(left)]
    return parts.Found(counts, tuple(wrong))


def judged(
    path: Path, functions: list[str], names: list[str], folder: Path, count: int
) -> list[tuple[str, str, harness.Verdict]]:
    """(target, function, verdict) for the functions of a file."""
    results = {
        r.name: r.work.lifted
        for r in lift_file(path, targets=(), run=False)
        if r.proved and r.name in functions
    }
    lifted = {name: found for name, found in results.items() if found is not None}
    library = None if path.suffix == ".py" else harness.build(path, list(lifted), folder)
    code = {name: emitted(name, lifted, folder / name) for name in names}
    verdicts = []
    for function, found in lifted.items():
        source = harness.source_of(path, found.function, library)
        seed = zlib.crc32(f"{path.parent.name}/{function}".encode())
        for shaped in (False, True):
            loaded = {
                n: code[n][function] for n in names if function in code[n] and (n in PER_SHAPE) == shaped
            }
            if loaded:
                alike: dict[str, Any] = {"repeat": min(ALIKE, count // 50)}
                few = {"sizes": SHAPES, "slack": (0,), "repeat": -(-count // TRACES)}
                judged = harness.judge(found, source, loaded, count, seed, **(few if shaped else alike))
                verdicts += [(target, function, verdict) for target, verdict in judged.items()]
    return verdicts


def emitted(target: str, lifted: dict[str, Lifted], folder: Path) -> dict[str, Loaded]:
    """The functions of a file as a target emits them, loaded; without those whose types it lacks."""
    folder.mkdir()
    names = []
    for name, found in lifted.items():
        try:
            files = EMITTERS[target].emit(found).files
        except Refusal as refusal:
            print(f"  {name}: {refusal.reason}")
            continue
        names.append(name)
        for file, content in files.items():
            (folder / file).write_bytes(content)
    TARGETS[target].prepare(names, folder)
    return {name: TARGETS[target](lifted[name], folder) for name in names}


def main() -> int:
    """1 where something differs."""
    parser = arguments(__doc__)
    parser.add_argument("--inputs", type=int, default=1000, help="of a kernel")
    parser.add_argument("--targets", type=parts.names, default=[*TARGETS], help="as A,B; those that are here")
    options = parser.parse_args()
    on_one_core()
    targets = [name for name in options.targets if not TARGETS[name].missing()]
    settings = {"bench": "lifting_differential", "inputs": options.inputs, "targets": targets}
    return parts.main(
        files(options), compared, options.output, settings, targets=targets, count=options.inputs
    )


if __name__ == "__main__":
    sys.exit(main())
