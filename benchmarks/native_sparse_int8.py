"""Pruned networks in 8 bits: the native engine against every engine's dense ones, one thread, taking turns.

    python benchmarks/native_sparse_int8.py [--seconds 20] [--only resnet50] [--zeros 90] [--runs 1,4]

Published structures with random weights (models.py), of which each layer's smallest are set to zero: one by
one, or four neighbouring channels at a time; no layer is spared. Quantized as in native_int8.py. Prints how
many times faster the pruned network is than the fastest dense one in 8 bits of native, ONNX Runtime, OpenVINO
and OpenVINO with NNCF's file, and than the same zeros in fp32; and the largest difference from ONNX Runtime's
answer to the same file, of the answer's range.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
from native import difference, export
from native_int8 import by_nncf, quantized
from native_sparse import pruned
from stock.ir import IrContender

from tensmith.engine import read_signature
from tensmith.evaluate.bench import random_inputs
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.latency import compare

DENSE = ("native", "onnxruntime", "openvino", "NNCF")


def measure(dense: Path, zeros: float, run: int, seconds: float) -> str:
    """One line of the table."""
    folder = dense.parent
    floats = pruned(dense, zeros, run)
    sparse, whole = quantized(floats, folder), quantized(dense, folder)
    contenders = [
        Contender("native", sparse),
        Contender("native", floats),
        *(Contender(engine, whole) for engine in DENSE[:-1]),
        IrContender("openvino-ir", by_nncf(dense, folder)),
    ]
    found = compare(contenders, random_inputs(read_signature(sparse).inputs), 1, seconds)
    times = "  ".join(f"{latency.latency.value:11.3f}" for latency in found)
    best = min(range(2, len(found)), key=lambda index: found[index].latency.value)
    # `compare` takes the first as the baseline: how many times slower the other one is, by rounds.
    over, floating = (
        f"{1 / ratio.value:5.2f} [{1 / ratio.high:.2f} to {1 / ratio.low:.2f}]"
        for ratio in (found[best].ratio, found[1].ratio)
    )
    name = f"{dense.stem} {zeros:.0%}{f' by {run}' if run > 1 else ''}"
    return f"{name:20} {times}   {over} over {DENSE[best - 2]:11} {floating}  {difference(sparse):.1e}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="how long to measure each network")
    parser.add_argument("--only", default="resnet50", help="networks to measure, as A,B")
    parser.add_argument("--zeros", default="90", help="percent of zeros, as A,B")
    parser.add_argument("--runs", default="1,4", help="how many channels are pruned together, as A,B")
    arguments = parser.parse_args()
    names = "  ".join(f"{name:>11}" for name in ("sparse", "sparse fp32", *DENSE))
    print(f"{'ms':20} {names}   over the fastest dense one         over sparse fp32   difference")
    cache = Path(tempfile.gettempdir()) / "tensmith-native-benchmark"
    cache.mkdir(exist_ok=True)
    for name in arguments.only.split(","):
        for zeros in arguments.zeros.split(","):
            for run in arguments.runs.split(","):
                dense = export(name, cache)
                print(measure(dense, int(zeros) / 100, int(run), arguments.seconds), flush=True)


if __name__ == "__main__":
    np.seterr(all="ignore")
    sys.exit(main())
