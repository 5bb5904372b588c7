"""What lifts, in what time, and whether certificates hold: two parts of lifting.py."""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from corpus import ASKED, GROUPS, KERNELS, Kernel

from tensmith.lifting.recheck import recheck
from tensmith.lifting.road import lift_file
from tensmith.verify.lift_certificate import check

SOLVERS = ("z3", "cvc5")
COLD_STARTS = 5


def chosen(options: argparse.Namespace) -> dict[str, tuple[Kernel, ...]]:
    """The groups that were asked for."""
    names = options.groups.split(",") if options.groups else list(GROUPS)
    return {name: GROUPS[name] for name in names}


def by_file(kernels: tuple[Kernel, ...]) -> Iterator[tuple[Path, list[str]]]:
    """Files with the functions wanted of them."""
    for path in dict.fromkeys(kernel.path for kernel in kernels):
        yield path, [kernel.function for kernel in kernels if kernel.path == path]


def coverage(options: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    """Counts and seconds, the reading of the file shared out over its functions."""
    rows, seconds = {}, {}
    lift_file(KERNELS / "c" / "dsp.c", "vadd", run=False)  # what is imported once is not a kernel's
    well = True
    print(f"{'group':10} {'proved':>9} {'median':>8} {'slowest':>8} {'all':>8} {'proof steps':>12}")
    for group, kernels in chosen(options).items():
        spent: dict[str, float] = {}
        proved = steps = 0
        for path, wanted in by_file(kernels):
            began = time.perf_counter()
            results = {result.name: result for result in lift_file(path, run=False)}
            reading = time.perf_counter() - began - sum(r.seconds for r in results.values())
            for name in wanted:
                result = results[name]
                spent[f"{path.stem}/{name}"] = result.seconds + reading / len(results)
                proved, steps = proved + result.proved, steps + result.obligations
                if not result.proved:
                    print(f"  {group}/{path.stem}/{name} {result.line}:{result.column}: {result.reason}")
        slowest = max(spent, key=lambda name: spent[name])
        middle, total = statistics.median(spent.values()), sum(spent.values())
        print(
            f"{group:10} {proved:>4}/{len(kernels):<4} {middle:7.3f}s {spent[slowest]:7.2f}s {total:7.2f}s "
            f"{steps:>12}   slowest {slowest}"
        )
        rows[group] = {
            "proved": proved,
            "of": len(kernels),
            "asked": ASKED[group],
            "median": middle,
            "slowest": [slowest, spent[slowest]],
            "seconds": total,
            "obligations": steps,
        }
        seconds[group] = spent
        well &= proved >= ASKED[group]
    cold = cold_start()
    print(f"cold start of the command line, one kernel: median of {COLD_STARTS}: {cold:.2f} s")
    return {"groups": rows, "seconds": seconds, "cold start": cold}, well


def cold_start() -> float:
    """Seconds of `tensmith lift` on one kernel, process and all."""
    source = KERNELS / "c" / "dsp.c"
    spent = []
    with tempfile.TemporaryDirectory() as folder:
        command = ["lift", source, "--function", "vadd", "--to", "numpy", "--output", folder]
        for _ in range(COLD_STARTS):
            began = time.perf_counter()
            subprocess.run([sys.executable, "-m", "tensmith", *command], check=True, capture_output=True)
            spent.append(time.perf_counter() - began)
    return statistics.median(spent)


def certificates(options: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    """Every certificate of every kernel that lifts, checked by every solver and against its source."""
    found: Counter[str] = Counter()
    spent: Counter[str] = Counter()
    problems: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        for group, kernels in chosen(options).items():
            for path, wanted in by_file(kernels):
                folder = Path(name) / group / path.stem
                for result in lift_file(path, output=folder, run=False):
                    if not result.proved or result.name not in wanted:
                        continue
                    found["certificates"] += 1
                    certificate, wrong = folder / f"{result.name}.cert", list[str]()
                    for solver in SOLVERS:
                        began = time.perf_counter()
                        report = check(certificate, solver)
                        spent[solver] += time.perf_counter() - began
                        found[f"{solver} obligations"] += report.obligations
                        found[f"{solver} solved"] += report.solved
                        wrong += report.problems
                    began = time.perf_counter()
                    wrong += recheck(certificate, path)
                    spent["sources"] += time.perf_counter() - began
                    problems += [f"{group}/{path.stem}/{result.name}: {line}" for line in wrong]
    for solver in SOLVERS:
        print(
            f"{solver}: {found[f'{solver} solved']} scripts and {found[f'{solver} obligations']} obligations "
            f"of {found['certificates']} certificates in {spent[solver]:.0f} s"
        )
    print(f"against their sources, lifted again: {found['certificates']} in {spent['sources']:.0f} s")
    for problem in problems:
        print(f"  {problem}")
    return {"counts": dict(found), "seconds": dict(spent), "problems": problems}, not problems
