"""Node tests of the ONNX standard through the native engine: every use compiled, run, and compared.

    python benchmarks/native_operators.py [all | OP,OP...] [USES OF EACH]

Planning is what docs/native_operators.md counts; this says whether the numbers are right, by the tests' own
tolerances or 1e-5 of the largest, whichever is wider. Takes about a third of a second a use.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

from tensmith.backend.native.coverage import OperatorUse, uses
from tensmith.backend.native.emit.folder import write_folder
from tensmith.backend.native.emit.loader import Model
from tensmith.backend.native.plan import make_plan
from tensmith.errors import EngineError
from tensmith.kernel.isa import host_isa


def outcome(use: OperatorUse) -> str:
    """ "right", "wrong" or "refused"."""
    try:
        plan = make_plan(use.program, host_isa())
    except EngineError:
        return "refused"
    with tempfile.TemporaryDirectory() as folder:
        write_folder(plan, Path(folder) / "compiled")
        found = Model(Path(folder) / "compiled")(**use.inputs)
    rtol, atol = max(use.case.rtol, 1e-5), max(use.case.atol, 1e-5)
    same = all(
        np.allclose(found[name], want, rtol, atol * max(1, _largest(want)), equal_nan=True)
        for name, want in use.expected.items()
    )
    return "right" if same else "wrong"


def _largest(array: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> float:
    finite = array[np.isfinite(array)]
    return float(abs(finite).max(initial=0)) if array.dtype.kind == "f" else 0.0


def main() -> None:
    """Prints what is not right, and how many of each there are."""
    wanted = set(sys.argv[1].split(",") if len(sys.argv) > 1 else ()) - {"all"}
    counts: Counter[str] = Counter()
    for use in uses(int(sys.argv[2]) if len(sys.argv) > 2 else 1000):
        if wanted and use.op not in wanted:
            continue
        found = outcome(use)
        counts[found] += 1
        if found != "right":
            print(f"{found:8} {use.op:28} {use.case.name}")
    print(", ".join(f"{count} {word}" for word, count in sorted(counts.items())))


if __name__ == "__main__":
    main()
