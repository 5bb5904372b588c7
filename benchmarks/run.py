"""`make bench`: every measurement behind the README, one after the other, each a script of its own.

    python benchmarks/run.py [--quick]

Takes hours without --quick: six models at ten minutes each, four stock tools on each of them, 10,000 damaged
files, 10,000 inputs for every lifted kernel on every target. A step that fails says so and the others go on;
the exit status is then 1.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = HERE.parent / "build"


def steps(quick: bool) -> list[tuple[str, list[str]]]:
    """(title, command line) of each measurement."""
    fronts = str(BUILD / "figures")
    return [
        ("start-up and import", ["import_speed.py"]),
        ("memory while calibrating", ["calibration_memory.py"]),
        (
            "fronts of the six models",
            ["figures.py", "--output", fronts, *(["--time-budget", "2m"] if quick else [])],
        ),
        ("beside the stock tools", ["peers.py", "--fronts", fronts, *(["--quick"] if quick else [])]),
        ("damaged model files", ["fuzz_importer.py", *(["--mutants", "500"] if quick else [])]),
        ("native networks", ["native.py", *(["--seconds", "5"] if quick else [])]),
        ("native networks in 8 bits", ["native_int8.py", *(["--seconds", "5"] if quick else [])]),
        ("pruned native networks", ["native_sparse.py", *(["--seconds", "5"] if quick else [])]),
        (
            "pruned native networks in 8 bits",
            ["native_sparse_int8.py", *(["--seconds", "5"] if quick else [])],
        ),
        ("pruned layers", ["native_sparse_layers.py", *(["--turns", "2"] if quick else [])]),
        ("layers of 4-bit weights", ["native_codes.py"]),
        ("detectors, compiled in parts", ["native_mixed.py"]),
        ("what tuning brings", ["tuning.py", *(["--budget", "30", "--seconds", "5"] if quick else [])]),
        ("memory of native networks", ["native_memory.py"]),
        ("native kernels", ["native_kernels.py"]),
        ("native kernels in 8 bits", ["native_kernels_int8.py"]),
        ("the standard's node tests, natively", ["native_operators.py", "all", *(["4"] if quick else [])]),
        ("random native kernels", ["native_random.py", *(["--count", "500"] if quick else [])]),
        ("lifting", ["lifting_figures.py", *(["--quick"] if quick else [])]),
        (
            "lifting without parts of its search",
            ["lifting_ablation.py", *(["--limit", "2"] if quick else [])],
        ),
        ("mutants of lifted programs", ["lift_mutants.py", *(["--mutants", "300"] if quick else [])]),
    ]


def main() -> int:
    """Runs all steps; 0 when each ended well."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="minutes instead of hours, wider intervals")
    failed = []
    for title, command in steps(parser.parse_args().quick):
        print(f"\n== {title}: {' '.join(command)}", flush=True)
        if subprocess.run([sys.executable, *command], cwd=HERE).returncode:
            failed.append(title)
    if failed:
        print(f"\nfailed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
