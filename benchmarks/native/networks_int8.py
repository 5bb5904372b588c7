"""Whole networks in 8 bits: the native engine against ONNX Runtime, OpenVINO and NNCF's files, one thread.

    python -m benchmarks.native.networks_int8 [--only resnet18,...]

The networks of networks.py, quantized by tensmith's own int8 method (the form that ONNX Runtime's
documentation recommends: QDQ, bytes, weights by channel, of 7 bits without VNNI), which all three engines
run; by NNCF for OpenVINO; and, where products are what counts, by ONNX Runtime's own static and dynamic
quantizers (quantized_files.py). An engine that dies on a file is left out, and why is in its row.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks import cache, parts, timing
from benchmarks.compress.stock.entries import BF16
from benchmarks.compress.stock.ir import IrContender
from benchmarks.native.networks import arguments, difference, file_of, inputs_of
from benchmarks.native.quantized_files import by_nncf, by_onnxruntime, is_sequence, quantized
from tensmith.engine.base import Arrays, first_line
from tensmith.errors import EngineError
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.latency import compare

_OURS = "native"


def contenders(path: Path, folder: Path) -> dict[str, Contender]:
    """Who runs which file of a network, native first."""
    ours, theirs = quantized(path, folder), by_nncf(path, folder)
    found = {
        _OURS: Contender("native", ours),
        "ORT": Contender("onnxruntime", ours),
        "OpenVINO": Contender("openvino", ours),
        "OpenVINO bf16": Contender("openvino", ours, BF16),
        "NNCF": IrContender("openvino-ir", theirs),
        "NNCF bf16": IrContender("openvino-ir", theirs, BF16),
    }
    if is_sequence(path):
        for way in ("static", "dynamic"):
            found[f"ORT {way}"] = Contender("onnxruntime", by_onnxruntime(path, folder, way))
    return found


def alive(found: dict[str, Contender], inputs: Arrays) -> tuple[dict[str, Contender], dict[str, str]]:
    """Those that load and run once, each in a process of its own, and what the others died of."""
    living, died = {}, {}
    for name, contender in found.items():
        try:
            contender.start(inputs, 1).close()
            living[name] = contender
        except EngineError as error:
            if name == _OURS:
                raise
            died[name] = first_line(error)
    return living, died


def measured(name: str, seconds: float) -> parts.Found:
    """One network."""
    path = file_of(name)
    inputs = inputs_of(path)
    running, died = alive(contenders(path, cache()), inputs)
    found = dict(zip(running, compare(list(running.values()), inputs, 1, seconds)))
    row = timing.row(found) | {"difference": difference(running[_OURS].path), "died": died}
    return parts.Found(row=row)


def main() -> int:
    """1 where a network could not be measured."""
    options = arguments(__doc__).parse_args()
    settings = {"bench": "native_int8", "seconds": options.seconds}
    return parts.main(options.only, measured, options.output, settings, seconds=options.seconds)


if __name__ == "__main__":
    sys.exit(main())
