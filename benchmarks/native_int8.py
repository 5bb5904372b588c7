"""Whole networks in 8 bits: the native engine against ONNX Runtime, OpenVINO and NNCF's files, one thread.

    python benchmarks/native_int8.py [--seconds 20] [--only resnet18,...]

The convolutional networks of native.py, quantized by tensmith's own int8 method (the form that ONNX Runtime's
documentation recommends: QDQ, bytes, weights by channel), which all three engines run; and by NNCF for
OpenVINO. Calibrated on random numbers, which serves for speed and for comparing the engines' answers, not for
accuracy.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
from native import BUILT, DATA, REAL, difference, export
from stock.ir import IrContender

from tensmith.backend.onnx import write_onnx
from tensmith.data import View, as_dataset
from tensmith.engine import read_signature
from tensmith.errors import EngineError
from tensmith.evaluate.bench import random_inputs
from tensmith.evaluate.calibrator import Calibrator
from tensmith.evaluate.latency import Contender, compare
from tensmith.frontend.onnx import read_onnx
from tensmith.rewrite.method import apply_lossy
from tensmith.rewrite.rule import EVERYWHERE, Step
from tensmith.rewrite.trail import simplify

SAMPLES = 4
WITHOUT = ("stories260k", "bert_base", "gpt2")  # the native engine has no 8-bit products of rows yet
NAMES = ("native", "ORT", "OpenVINO", "NNCF")


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


def by_nncf(path: Path, folder: Path) -> Path:
    """The network at `path` as NNCF's post-training quantization writes it for OpenVINO."""
    made = folder / f"{path.stem}_nncf.xml"
    if not made.exists():
        import nncf
        import openvino

        model = openvino.convert_model(path)
        specs = read_signature(path).inputs
        samples = [random_inputs(specs, seed=seed) for seed in range(SAMPLES)]
        openvino.save_model(nncf.quantize(model, nncf.Dataset(samples), subset_size=SAMPLES), made)
    return made


def measure(path: Path, folder: Path, seconds: float) -> str:
    """One line of the table."""
    ours = quantized(path, folder)
    contenders = [Contender(engine, ours) for engine in ("native", "onnxruntime", "openvino")]
    contenders.append(IrContender("openvino-ir", by_nncf(path, folder)))
    inputs = random_inputs(read_signature(ours).inputs)
    found = compare(contenders, inputs, 1, seconds)
    best = min(range(1, len(found)), key=lambda index: found[index].latency.value)
    ratio = found[best].ratio  # of native, the baseline, to the best of the others
    times = "  ".join(f"{latency.latency.value:9.3f}" for latency in found)
    return (
        f"{path.stem:24} {times}   {1 / ratio.value:5.2f} [{1 / ratio.high:.2f} to {1 / ratio.low:.2f}]"
        f" over {NAMES[best]:8} {difference(ours):.1e}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="how long to measure each network")
    parser.add_argument("--only", default="", help="networks to measure, as A,B")
    arguments = parser.parse_args()
    columns = "  ".join(f"{name:>9}" for name in NAMES)
    print(f"{'network, ms':24} {columns}   ratio to the best other one, and the difference")
    cache = Path(tempfile.gettempdir()) / "tensmith-native-benchmark"
    cache.mkdir(exist_ok=True)
    every = [name for name in (*REAL, *BUILT) if name not in WITHOUT]
    for name in arguments.only.split(",") if arguments.only else every:
        path = DATA / "models" / f"{name}.onnx"
        path = path if path.exists() else export(name, cache)
        try:
            print(measure(path, cache, arguments.seconds), flush=True)
        except EngineError as error:
            print(f"{path.stem:24} {error}", flush=True)


if __name__ == "__main__":
    np.seterr(all="ignore")
    sys.exit(main())
