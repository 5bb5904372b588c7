"""Pruned networks in fp32: the native engine against dense ones, one thread, taking turns.

    python -m benchmarks.native.sparse [--only resnet50] [--zeros 80,90,95]

Published structures with random weights (models.py), of which each layer's smallest are set to zero; no layer
is spared. Figures are how many times faster the pruned network is than the dense one in ONNX Runtime, than
the dense one in the native engine, and the share of the expected speed-up that this is: the expected speed-up
of weights with a share `density` left is 1 / density.
"""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from benchmarks import parts, timing
from benchmarks.native.networks import arguments, difference, export, inputs_of
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


def measured(case: tuple[str, int], seconds: float) -> parts.Found:
    """One network with so many per cent of zeros."""
    name, zeros = case
    dense = export(name)
    sparse = pruned(dense, zeros / 100)
    contenders = [Contender("native", sparse), Contender("native", dense), Contender("onnxruntime", dense)]
    names = ("sparse", "dense", "onnxruntime")
    found = dict(zip(names, compare(contenders, inputs_of(dense), 1, seconds)))
    share = (1 - zeros / 100) / found["dense"].ratio.value
    over_dense = timing.faster(found["dense"])
    row = timing.row(found, names[2:]) | {"over dense": over_dense, "share of expected": share}
    return parts.Found(row=row | {"difference": difference(sparse)})


def main() -> int:
    """1 where a network could not be measured."""
    parser = arguments(__doc__, ("resnet50",))
    parser.add_argument("--zeros", type=parts.names, default=["80", "90", "95"], help="percent, as A,B")
    options = parser.parse_args()
    cases = {f"{name} {zeros}%": (name, int(zeros)) for name, zeros in product(options.only, options.zeros)}
    settings = {"bench": "native_sparse", "seconds": options.seconds}
    return parts.main(cases, measured, options.output, settings, seconds=options.seconds)


if __name__ == "__main__":
    sys.exit(main())
