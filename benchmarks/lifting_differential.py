"""Emitted code against compiled sources on thousands of random inputs: a part of lifting.py.

Inputs are those of tests/lifting/harness_inputs.py: sizes 0, 1 and negative, extreme integers, NaN and
infinities, one array passed twice, outputs passed as None, and requirements that are not met. Libraries that
compile for each shape get twelve of them, and what follows the first calls of a shape runs compiled.
"""

from __future__ import annotations

import argparse
import tempfile
import zlib
from pathlib import Path
from typing import Any

import harness
from harness_targets import TARGETS, Loaded
from lifting_coverage import by_file, chosen

from tensmith.lifting.emit import EMITTERS
from tensmith.lifting.lifted import Lifted
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.road import lift_file

INPUTS, QUICK = 10_000, 200
ALIKE = 16  # inputs that have sizes and scalars in common
PER_SHAPE = ("jax", "tensorflow")  # targets that trace anew for every shape: one in 12 inputs has another
SHAPES, TRACES = (0, 1, 3), 12


def differential(options: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    """Inputs compared and mismatches, by group and target."""
    wanted = options.targets.split(",") if options.targets else list(TARGETS)
    names = [name for name in wanted if not TARGETS[name].missing()]
    absent = [name for name in wanted if name not in names]
    if absent:
        print(f"not installed: {', '.join(absent)}")
    count = QUICK if options.quick else INPUTS
    rows: dict[str, dict[str, dict[str, int]]] = {}
    wrong: list[str] = []
    print(
        f"{'group':10} {'target':11} {'kernels':>8} {'compared':>10} {'refused':>9} {'no meaning':>11} wrong"
    )
    for group, kernels in chosen(options).items():
        totals = {
            name: dict.fromkeys(("kernels", "compared", "refused", "meaningless", "wrong"), 0)
            for name in names
        }
        for path, functions in by_file(kernels):
            with tempfile.TemporaryDirectory() as folder:
                for name, function, verdict in judged(path, functions, names, Path(folder), count):
                    total = totals[name]
                    total["kernels"] += 1
                    for part in ("compared", "refused", "meaningless"):
                        total[part] += getattr(verdict, part)
                    total["wrong"] += len(verdict.wrong)
                    wrong += [f"{group}/{path.stem}/{function} {name}: {line}" for line in verdict.wrong[:1]]
        for name, total in totals.items():
            print(
                f"{group:10} {name:11} {total['kernels']:>8} {total['compared']:>10} {total['refused']:>9} "
                f"{total['meaningless']:>11} {total['wrong']}",
                flush=True,
            )
        rows[group] = totals
    for line in wrong:
        print(f"  {line}")
    return {"inputs": count, "groups": rows, "wrong": wrong}, not wrong


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
