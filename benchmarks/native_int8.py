"""Whole networks in 8 bits: the native engine against ONNX Runtime, OpenVINO and NNCF's files, one thread.

    python benchmarks/native_int8.py [--seconds 20] [--only resnet18,...]

The networks of native.py, quantized by tensmith's own int8 method (the form that ONNX Runtime's documentation
recommends: QDQ, bytes, weights by channel), which all three engines run; by NNCF for OpenVINO; and, where
products are what counts, by ONNX Runtime's own static and dynamic quantizers. See quantized_files.py. An
engine that dies on a file is left out, and named. The last line is the geometric mean over the networks.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from native import BUILT, DATA, REAL, difference, export, inputs_of
from quantized_files import by_nncf, by_onnxruntime, is_sequence, quantized
from stock.ir import IrContender

from tensmith.engine.base import Arrays, first_line
from tensmith.errors import EngineError
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.latency import compare

NAMES = ("native", "ORT", "OpenVINO", "NNCF", "ORT static", "ORT dynamic")


@dataclass(frozen=True)
class Line:
    """One network: what is printed, and how many times faster native is than the best other one."""

    text: str
    ratio: float


def contenders(path: Path, folder: Path) -> dict[str, Contender]:
    """Who runs which file of a network, native first."""
    ours = quantized(path, folder)
    found = dict(zip(NAMES, (Contender(name, ours) for name in ("native", "onnxruntime", "openvino"))))
    found["NNCF"] = IrContender("openvino-ir", by_nncf(path, folder))
    if is_sequence(path):
        for way in ("static", "dynamic"):
            found[f"ORT {way}"] = Contender("onnxruntime", by_onnxruntime(path, folder, way))
    return found


def alive(found: dict[str, Contender], inputs: Arrays) -> tuple[dict[str, Contender], list[str]]:
    """Those that load and run once, each in a process of its own, and what the others died of."""
    living, epitaphs = {}, []
    for name, contender in found.items():
        try:
            contender.start(inputs, 1).close()
            living[name] = contender
        except EngineError as error:
            if name == NAMES[0]:
                raise
            epitaphs.append(f"{name}: {first_line(error)}")
    return living, epitaphs


def measure(path: Path, folder: Path, seconds: float) -> Line:
    """One line of the table."""
    inputs = inputs_of(path)
    running, epitaphs = alive(contenders(path, folder), inputs)
    found = dict(zip(running, compare(list(running.values()), inputs, 1, seconds)))
    best = min((name for name in found if name != NAMES[0]), key=lambda name: found[name].latency.value)
    ratio = found[best].ratio  # of native, the baseline, to the best of the others
    times = "  ".join(f"{found[name].latency.value:11.3f}" if name in found else 11 * " " for name in NAMES)
    text = (
        f"{path.stem:24} {times}   {1 / ratio.value:5.2f} [{1 / ratio.high:.2f} to {1 / ratio.low:.2f}]"
        f" over {best:11} {difference(running[NAMES[0]].path):.1e}"
    )
    return Line("\n".join([text, *(f"    {epitaph}" for epitaph in epitaphs)]), 1 / ratio.value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="how long to measure each network")
    parser.add_argument("--only", default="", help="networks to measure, as A,B")
    arguments = parser.parse_args()
    columns = "  ".join(f"{name:>11}" for name in NAMES)
    print(f"{'network, ms':24} {columns}   ratio to the best other one, and the difference")
    cache = Path(tempfile.gettempdir()) / "tensmith-native-benchmark"
    cache.mkdir(exist_ok=True)
    ratios = []
    for name in arguments.only.split(",") if arguments.only else (*REAL, *BUILT):
        path = DATA / "models" / f"{name}.onnx"
        path = path if path.exists() else export(name, cache)
        try:
            line = measure(path, cache, arguments.seconds)
        except EngineError as error:
            print(f"{path.stem:24} {error}", flush=True)
        else:
            ratios.append(line.ratio)
            print(line.text, flush=True)
    if len(ratios) > 1:
        print(f"geometric mean of {len(ratios)}: {math.prod(ratios) ** (1 / len(ratios)):.2f}")


if __name__ == "__main__":
    np.seterr(all="ignore")
    sys.exit(main())
