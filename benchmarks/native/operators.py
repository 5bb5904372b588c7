"""Node tests of the ONNX standard through the native engine: every use compiled, run, and compared.

    python -m benchmarks.native.operators [--only OP,OP...] [--uses 4]

Planning is what docs/native_operators.md counts; this says whether the numbers are right, by the tests' own
tolerances or 1e-5 of the largest, whichever is wider. Takes about a third of a second a use.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

from benchmarks import parts
from benchmarks.native.coverage import OperatorUse, uses
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


def measured(used: list[OperatorUse]) -> parts.Found:
    """What becomes of the uses of one operator; what is refused is no fault, as its page says which."""
    found = {use.case.name: outcome(use) for use in used}
    wrong = tuple(f"wrong: {name}" for name, word in found.items() if word == "wrong")
    return parts.Found(Counter(found.values()), wrong)


def main() -> int:
    """1 if a number is wrong."""
    parser = parts.arguments(__doc__)
    parser.add_argument("--only", type=parts.names, default=[], help="operators, as A,B")
    parser.add_argument("--uses", type=int, default=1000, help="at most so many of each")
    options = parser.parse_args()
    by_operator: dict[str, list[OperatorUse]] = {}
    for use in uses(options.uses):
        if not options.only or use.op in options.only:
            by_operator.setdefault(use.op, []).append(use)
    settings = {"bench": "native_operators", "uses": options.uses}
    return parts.main(by_operator, measured, options.output, settings)


if __name__ == "__main__":
    sys.exit(main())
