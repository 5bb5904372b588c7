"""Pruned networks in 8 bits: the native engine against every engine's dense ones, one thread, taking turns.

    python -m benchmarks.native.sparse_int8 [--only resnet50] [--zeros 90] [--runs 1,4]

Published structures with random weights (models.py), of which each layer's smallest are set to zero: one by
one, or four neighbouring channels at a time; no layer is spared. Quantized as in networks_int8.py. Figures
are how many times faster the pruned network is than the fastest dense one in 8 bits of native, ONNX Runtime,
OpenVINO and OpenVINO with NNCF's file, and than the same zeros in fp32; and the largest difference from ONNX
Runtime's answer to the same file, of the answer's range.
"""

from __future__ import annotations

import sys
from itertools import product

from benchmarks import cache, parts, timing
from benchmarks.compress.stock.ir import IrContender
from benchmarks.native.networks import arguments, difference, export, inputs_of
from benchmarks.native.quantized_files import by_nncf, quantized
from benchmarks.native.sparse import pruned
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.latency import compare

DENSE = ("native", "onnxruntime", "openvino", "NNCF")


def measured(case: tuple[str, int, int], seconds: float) -> parts.Found:
    """One network with so many per cent of zeros, so many channels at a time."""
    name, zeros, run = case
    dense, folder = export(name), cache()
    floats = pruned(dense, zeros / 100, run)
    sparse, whole = quantized(floats, folder), quantized(dense, folder)
    contenders = [
        Contender("native", sparse),
        Contender("native", floats),
        *(Contender(engine, whole) for engine in DENSE[:-1]),
        IrContender("openvino-ir", by_nncf(dense, folder)),
    ]
    names = ("sparse", "sparse fp32", *DENSE)
    found = dict(zip(names, compare(contenders, inputs_of(sparse), 1, seconds)))
    over_floats = timing.faster(found["sparse fp32"])
    row = timing.row(found, DENSE) | {"over sparse fp32": over_floats, "difference": difference(sparse)}
    return parts.Found(row=row)


def main() -> int:
    """1 where a network could not be measured."""
    parser = arguments(__doc__, ("resnet50",))
    parser.add_argument("--zeros", type=parts.names, default=["90"], help="percent, as A,B")
    parser.add_argument("--runs", type=parts.names, default=["1", "4"], help="channels together, as A,B")
    options = parser.parse_args()
    cases = {
        f"{name} {zeros}% by {run}": (name, int(zeros), int(run))
        for name, zeros, run in product(options.only, options.zeros, options.runs)
    }
    settings = {"bench": "native_sparse_int8", "seconds": options.seconds}
    return parts.main(cases, measured, options.output, settings, seconds=options.seconds)


if __name__ == "__main__":
    sys.exit(main())
