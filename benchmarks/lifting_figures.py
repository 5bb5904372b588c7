"""Lifting, measured: what lifts and how fast, against compiled sources, and how fast what comes out is.

    python benchmarks/lifting_figures.py [--quick] [--part coverage|differential|certificates|speed]

coverage      each kernel lifted and proved in this process: counts and seconds; the CLI's cold start
differential  emitted code of every target that runs here against the compiled source, 10,000 inputs a kernel
certificates  each written, and checked again by both solvers, the small checker, and against its source
speed         emitted code against `gcc -O3` on the 69 kernels, taking turns; `auto` against the best

The kernels lie in tests/lifting/kernels. Everything runs on one core. The ablation of the search and the
mutants have scripts of their own: lifting_ablation.py, lift_mutants.py.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "lifting"))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import lifting_coverage  # noqa: E402
import lifting_differential  # noqa: E402
import lifting_speed  # noqa: E402

PARTS = {
    "coverage": lifting_coverage.coverage,
    "differential": lifting_differential.differential,
    "certificates": lifting_coverage.certificates,
    "speed": lifting_speed.speed,
}


def main() -> int:
    """Runs the parts; 1 where a figure that must hold does not."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="200 inputs a kernel, fewer rounds of timing")
    parser.add_argument("--part", choices=sorted(PARTS), action="append", help="only this part; repeatable")
    parser.add_argument("--groups", default="", help="only these groups of kernels, by comma: c,own")
    parser.add_argument("--targets", default="", help="only these targets, by comma: numpy,c")
    parser.add_argument("--json", type=Path, help="write all figures here too")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    figures: dict[str, Any] = {}
    failed = []
    for name in options.part or PARTS:
        print(f"\n-- {name}", flush=True)
        figures[name], well = PARTS[name](options)
        failed += [] if well else [name]
        if options.json:
            options.json.write_text(json.dumps(figures, indent=1) + "\n")
    if failed:
        print(f"\nnot as it must be: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
