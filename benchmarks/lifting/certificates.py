"""Every certificate of every kernel that lifts, checked by both solvers, the small checker, and its source.

python -m benchmarks.lifting.certificates [--groups c,own]
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks import parts
from benchmarks.lifting.files import SourceFile, arguments, files, on_one_core
from tensmith.lifting.pipeline import lift_file
from tensmith.lifting.recheck import recheck
from tensmith.verify.lift_certificate import check

SOLVERS = ("z3", "cvc5")


def checked(file: SourceFile) -> parts.Found:
    """The certificates of a file: how many, what solvers were asked and solved, in what time."""
    found: Counter[str] = Counter()
    spent: Counter[str] = Counter()
    problems: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for result in lift_file(file.path, output=Path(folder), run=False):
            if not result.proved or result.name not in file.functions:
                continue
            found["certificates"] += 1
            certificate, wrong = Path(folder) / f"{result.name}.cert", list[str]()
            for solver in SOLVERS:
                began = time.perf_counter()
                report = check(certificate, solver)
                spent[solver] += time.perf_counter() - began
                found[f"{solver} obligations"] += report.obligations
                found[f"{solver} solved"] += report.solved
                wrong += report.problems + report.undecided
            began = time.perf_counter()
            wrong += recheck(certificate, file.path, run=False).problems
            spent["source"] += time.perf_counter() - began
            problems += [f"{file}/{result.name}: {line}" for line in wrong]
    return parts.Found(found, tuple(problems), {f"{name} seconds": value for name, value in spent.items()})


def main() -> int:
    """1 where a certificate does not hold."""
    options = arguments(__doc__).parse_args()
    on_one_core()
    settings = {"bench": "lifting_certificates"}
    return parts.main(files(options), checked, options.output, settings)


if __name__ == "__main__":
    sys.exit(main())
