"""What lifts, and in what time: each kernel lifted and proved in this process, and the CLI's cold start.

python -m benchmarks.lifting.coverage [--groups c,own]
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time

from corpus import ASKED, KERNELS

from benchmarks import parts
from benchmarks.lifting.files import SourceFile, arguments, files, on_one_core
from tensmith.lifting.pipeline import lift_file

COLD_STARTS = 5


def measured(file: SourceFile | None) -> parts.Found:
    """Seconds of each kernel of a file, reading it shared out over its functions; None: of a cold start."""
    if file is None:
        return parts.Found(row={"seconds": cold_start()})
    began = time.perf_counter()
    results = {result.name: result for result in lift_file(file.path, run=False)}
    reading = time.perf_counter() - began - sum(result.seconds for result in results.values())
    wanted = [results[name] for name in file.functions]
    for result in wanted:
        if not result.proved:
            print(f"  {file}/{result.name} {result.line}:{result.column}: {result.reason}")
    counts = {
        "proved": sum(result.proved for result in wanted),
        "of": len(wanted),
        "obligations": sum(result.obligations for result in wanted),
    }
    seconds = {result.name: result.seconds + reading / len(results) for result in wanted}
    row = {
        "median": statistics.median(seconds.values()),
        "slowest": max(seconds.values()),
        "seconds": seconds,
    }
    return parts.Found({file.group: counts}, row=row)


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


def main() -> int:
    """1 where fewer kernels of a group lift than must."""
    options = arguments(__doc__).parse_args()
    on_one_core()
    lift_file(KERNELS / "c" / "dsp.c", "vadd", run=False)  # what is imported once is not a kernel's
    every = {**files(options), "cold start": None}
    document = parts.run(every, measured, options.output, {"bench": "lifting_coverage"})
    few = [
        group for group in options.groups if document["counts"].get(group, {}).get("proved", 0) < ASKED[group]
    ]
    print(f"too few: {', '.join(few)}\n" if few else "", end="")
    return parts.ended(document) or int(bool(few))


if __name__ == "__main__":
    sys.exit(main())
