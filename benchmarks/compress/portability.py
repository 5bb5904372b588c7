"""Plain int8 on this CPU, engine by engine: weights of 8 bits, and of 7, whose products cannot saturate.

    python -m benchmarks.compress.portability [--only MODEL,...] [--samples 2000]

Without VNNI, engines may add pairs of products of bytes in 16 bits, where two large ones do not fit;
`compress` gives such CPUs 7 bits. Figures are points of accuracy lost against the float model in ONNX
Runtime, paired, with 95 % intervals. The native engine's sums are exact, so its 8 bits answer as a CPU with
VNNI does: where 7 bits are surely over ASKED points below that in some engine, that is a failure.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import DATA, parts
from benchmarks.compress.stock.cases import CASES, Case
from tensmith.backend.onnx import write_onnx
from tensmith.data import Subset, parse_preprocess
from tensmith.engine import ENGINES, available
from tensmith.evaluate.calibrator import Calibrator
from tensmith.evaluate.task import Task
from tensmith.frontend.onnx import read_onnx
from tensmith.hardware import detect_cpu
from tensmith.rewrite.method import apply_lossy
from tensmith.rewrite.rule import Step
from tensmith.rewrite.trail import simplify

ASKED = 0.3
MODELS = ("resnet20_cifar10", "resnet8_wide_cifar10", "mobilenetv2_imagenet")


def judged(task: Task, engine: str, path: Path, samples: Subset) -> Any:
    """What an engine answers, sample by sample."""
    sizes = {"batch": 1} if engine == "native" else None
    session = ENGINES[engine].prepare(path, 1, sizes=sizes)
    try:
        return task.outcome(session, samples, None)
    finally:
        session.close()


def measured(case: Case, samples: int) -> parts.Found:
    """One model, all engines."""
    views, preprocess = case.views(DATA), parse_preprocess(case.preprocess or "raw")
    task, held_out = Task("accuracy", preprocess), views.held_out.take(samples)
    program = simplify(read_onnx(case.model(DATA))).program
    calibrator = Calibrator(views.calibration, preprocess, 1)
    original = judged(task, "onnxruntime", case.model(DATA), held_out)
    row, wrong = {"float": str(original.metric())}, []
    with tempfile.TemporaryDirectory() as folder:
        found = {}
        for bits in (8, 7):
            step = Step("int8", "*", {"calibration": "minmax", "default_bits": bits}, "lossy")
            path = Path(folder) / f"{bits}.onnx"
            write_onnx(simplify(apply_lossy(program, step, calibrator)).program, path)
            for engine in available():
                found[engine, bits] = judged(task, engine, path, held_out)
                row[f"{engine}, {bits} bits"] = str(found[engine, bits].drop(original))
    for engine in available():
        drop = found[engine, 7].drop(found["native", 8])
        if drop.low > ASKED:
            wrong.append(f"{engine}: 7 bits answer {drop} worse than exact 8 bits")
    return parts.Found(row=row, wrong=tuple(wrong))


def main() -> int:
    """1 where 7 bits answer worse than they may."""
    parser = parts.arguments(__doc__)
    parser.add_argument("--only", type=parts.names, default=list(MODELS), help="models, as A,B")
    parser.add_argument("--samples", type=int, default=2000)
    options = parser.parse_args()
    dot = sorted(feature for feature in detect_cpu().features if "vnni" in feature)
    settings = {"bench": "portability", "samples": options.samples, "vnni": ", ".join(dot) or "none"}
    works = {name: CASES[name] for name in options.only}
    return parts.main(works, measured, options.output, settings, samples=options.samples)


if __name__ == "__main__":
    sys.exit(main())
