"""Whole networks in 8 bits: the native engine against ONNX Runtime and OpenVINO on the same file, one thread.

    python benchmarks/native_int8.py [--seconds 20] [--only resnet18,...]

The networks of native.py, quantized by tensmith's own int8 method; calibrated on random numbers, which serves
for speed and for comparing the engines' answers, not for accuracy.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
from native import BUILT, DATA, REAL, export, measure

from tensmith.backend.onnx import write_onnx
from tensmith.data import View, as_dataset
from tensmith.evaluate.calibrator import Calibrator
from tensmith.frontend.onnx import read_onnx
from tensmith.rewrite.method import apply_lossy
from tensmith.rewrite.rule import EVERYWHERE, Step
from tensmith.rewrite.trail import simplify

SAMPLES = 4


def quantized(path: Path, folder: Path) -> Path:
    """The network at `path` in 8 bits, as an ONNX file in `folder`."""
    made = folder / f"{path.stem}_int8.onnx"
    if not made.exists():
        program = simplify(read_onnx(path)).program
        (shape,) = (type_.shape for type_ in program.inputs.values())
        sizes = [size for size in (shape or ())[1:] if isinstance(size, int)]
        numbers = np.random.default_rng(0).standard_normal((SAMPLES, *sizes), np.float32)
        view = View(as_dataset((numbers, None)).part("all"), np.arange(SAMPLES))
        step = Step("int8", EVERYWHERE, {"calibration": "minmax"}, "lossy")
        write_onnx(apply_lossy(program, step, Calibrator(view, SAMPLES, None, 1)), made)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="how long to measure each network")
    parser.add_argument("--only", default="", help="networks to measure, as A,B")
    arguments = parser.parse_args()
    columns = "  ".join(f"{name:>9}" for name in ("native ms", "ORT ms", "OV ms"))
    print(f"{'network':24} {columns}   ratio to the better one     difference")
    cache = Path(tempfile.gettempdir()) / "tensmith-native-benchmark"
    cache.mkdir(exist_ok=True)
    for name in arguments.only.split(",") if arguments.only else [*REAL, *BUILT]:
        path = DATA / "models" / f"{name}.onnx"
        path = path if path.exists() else export(name, cache)
        print(measure(quantized(path, cache), arguments.seconds), flush=True)


if __name__ == "__main__":
    np.seterr(all="ignore")
    sys.exit(main())
