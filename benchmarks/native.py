"""Whole networks in fp32: the native engine against ONNX Runtime and OpenVINO, one thread, taking turns.

    python benchmarks/native.py [--seconds 20] [--only resnet18,...] [--precision bf16]

The real networks of the evaluation data, and published structures with random weights (models.py). Prints the
ratio to the faster of the two other engines with its interval, and the largest difference from ONNX Runtime's
output relative to the output's range. With --precision, the native engine and OpenVINO may both multiply in
that; ONNX Runtime has no such setting.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from tensmith.engine import ENGINES, read_signature
from tensmith.engine.base import Arrays
from tensmith.evaluate.bench import random_inputs
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.latency import compare

DATA = Path(os.environ.get("TENSMITH_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
REAL = ("resnet20_cifar10", "resnet56_cifar10", "resnet8_wide_cifar10", "squeezenet1_1_imagenet",
        "mobilenetv2_imagenet", "stories260k")  # fmt: skip
BUILT = ("resnet18", "resnet50", "vgg16", "mobilenet_v2", "densenet161", "efficientnet_b0", "bert_base",
         "gpt2")  # fmt: skip
TOKENS = 128
OTHERS = ("onnxruntime", "openvino")


def export(name: str, folder: Path) -> Path:
    """A network of models.py at its published size as an ONNX file: one image, or TOKENS tokens."""
    import torch
    from models import build

    path = folder / f"{name}.onnx"
    if not path.exists():
        torch.manual_seed(0)
        module, inputs = build(name)
        one = tuple(x[:1] if x.ndim == 4 else x[:1].repeat(1, TOKENS // x.shape[1]) for x in inputs)
        torch.onnx.export(module, one, str(path), opset_version=18, external_data=False)
    return path


def inputs_of(path: Path) -> Arrays:
    """Made-up inputs: batch 1, and as many tokens as other sizes leave open."""
    specs = []
    for spec in read_signature(path).inputs:
        open_sizes = enumerate(spec.shape or ())
        shape = tuple(
            size if isinstance(size, int) else (1 if axis == 0 else TOKENS) for axis, size in open_sizes
        )
        specs.append(replace(spec, shape=shape))
    return random_inputs(tuple(specs))


def difference(path: Path, settings: tuple[tuple[str, str], ...] = ()) -> float:
    """The largest difference of the outputs of native and ONNX Runtime, relative to the outputs' range."""
    inputs = inputs_of(path)
    native = ENGINES["native"].prepare(path, 1, **dict(settings)).run(inputs)
    other = ENGINES["onnxruntime"].prepare(path, 1).run(inputs)
    return max(
        float(abs(native[name] - other[name]).max() / (other[name].max() - other[name].min() or 1))
        for name in other
    )


def measure(path: Path, seconds: float, precision: str) -> str:
    """One line of the table."""
    inputs = inputs_of(path)
    settings = () if precision == "f32" else (("precision", precision),)
    contenders = [
        Contender(name, path, settings if name != "onnxruntime" else ()) for name in ("native", *OTHERS)
    ]
    found = {latency.contender.engine: latency for latency in compare(contenders, inputs, 1, seconds)}
    best = min(OTHERS, key=lambda name: found[name].latency.value)
    # `compare` takes native as the baseline: how many times slower the other one is, by rounds.
    ratio = found[best].ratio
    times = "  ".join(f"{found[name].latency.value:11.3f}" for name in ("native", *OTHERS))
    return (
        f"{path.stem:24} {times}   {1 / ratio.value:5.2f} [{1 / ratio.high:.2f} to {1 / ratio.low:.2f}]"
        f" over {best:12} {difference(path, settings):.1e}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="how long to measure each network")
    parser.add_argument("--only", default="", help="networks to measure, as A,B")
    parser.add_argument("--precision", default="f32", help="what layers may multiply in: f32, bf16 or f16")
    arguments = parser.parse_args()
    chosen = arguments.only.split(",") if arguments.only else [*REAL, *BUILT]
    names = "  ".join(f"{name:>11}" for name in ("native", *OTHERS))
    print(f"{'ms':24} {names}   ratio to the better one, and the difference")
    cache = Path(tempfile.gettempdir()) / "tensmith-native-benchmark"
    cache.mkdir(exist_ok=True)
    for name in chosen:
        real = DATA / "models" / f"{name}.onnx"
        path = real if real.exists() else export(name, cache)
        print(measure(path, arguments.seconds, arguments.precision), flush=True)


if __name__ == "__main__":
    np.seterr(all="ignore")
    sys.exit(main())
