"""Pruned networks in fp32: the native engine against dense ones, one thread, taking turns.

    python benchmarks/native_sparse.py [--seconds 20] [--only resnet50] [--zeros 80,90,95]

Published structures with random weights (models.py), of which each layer's smallest are set to zero; no layer
is spared. Prints how many times faster the pruned network is than the dense one in ONNX Runtime, than the
dense one in the native engine, and the share of the expected speed-up that this is: the expected speed-up of
weights with a share `density` left is 1 / density.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from native import difference, export
from onnx import numpy_helper

from tensmith.engine import read_signature
from tensmith.evaluate.bench import random_inputs
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.latency import compare


def pruned(path: Path, zeros: float, run: int = 1) -> Path:
    """The network with the smallest weights of each layer set to zero, in runs of so many channels."""
    runs = f"_by_{run}" if run > 1 else ""
    found = path.with_name(f"{path.stem}_{zeros:.0%}{runs}.onnx".replace("%", ""))
    if not found.exists():
        model = onnx.load(path)
        for tensor in model.graph.initializer:
            values = numpy_helper.to_array(tensor)
            if values.ndim >= 2 and values.dtype == np.float32:
                run_here = run if values.shape[1] % run == 0 else 1
                sizes = abs(values).reshape(len(values), -1, run_here, *values.shape[2:]).sum(2)
                left = np.repeat(sizes > np.quantile(sizes, zeros), run_here, 1)
                kept = np.where(left, values, np.float32(0))
                tensor.CopyFrom(numpy_helper.from_array(kept, tensor.name))
        onnx.save(model, found)
    return found


def measure(dense: Path, zeros: float, seconds: float) -> str:
    """One line of the table."""
    sparse = pruned(dense, zeros)
    inputs = random_inputs(read_signature(dense).inputs)
    contenders = [Contender("native", sparse), Contender("native", dense), Contender("onnxruntime", dense)]
    mine, own, other = compare(contenders, inputs, 1, seconds)
    times = "  ".join(f"{latency.latency.value:11.3f}" for latency in (mine, own, other))
    # `compare` takes the first as the baseline: how many times slower the other one is, by rounds.
    over = [
        f"{1 / ratio.value:5.2f} [{1 / ratio.high:.2f} to {1 / ratio.low:.2f}]"
        for ratio in (other.ratio, own.ratio)
    ]
    share = (1 - zeros) / own.ratio.value
    ratios = "   ".join(over)
    return f"{dense.stem:16} {zeros:4.0%} {times}   {ratios}   {share:4.0%}  {difference(sparse):.1e}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="how long to measure each network")
    parser.add_argument("--only", default="resnet50", help="networks to measure, as A,B")
    parser.add_argument("--zeros", default="80,90,95", help="percent of zeros, as A,B")
    arguments = parser.parse_args()
    names = "  ".join(f"{name:>11}" for name in ("sparse", "dense", "onnxruntime"))
    print(f"{'ms':21} {names}   over onnxruntime     over dense       share  difference")
    cache = Path(tempfile.gettempdir()) / "tensmith-native-benchmark"
    cache.mkdir(exist_ok=True)
    for name in arguments.only.split(","):
        for zeros in arguments.zeros.split(","):
            print(measure(export(name, cache), int(zeros) / 100, arguments.seconds), flush=True)


if __name__ == "__main__":
    np.seterr(all="ignore")
    sys.exit(main())
