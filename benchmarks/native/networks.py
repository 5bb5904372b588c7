"""Whole networks: the native engine against ONNX Runtime and OpenVINO, taking turns.

    python -m benchmarks.native.networks [--only resnet18,...] [--precision bf16] [--threads 2]

The real networks of the evaluation data, and published structures with random weights (models.py). Figures
are milliseconds, the ratio to the faster of the two other engines with its interval, and the largest
difference from ONNX Runtime's output relative to the output's range. With --precision, the native engine and
OpenVINO may both multiply in that; ONNX Runtime has no such setting.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks import DATA, cache, parts, timing
from tensmith.engine import ENGINES, read_signature
from tensmith.engine.base import Arrays
from tensmith.evaluate.bench import random_inputs
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.latency import compare

REAL = ("resnet20_cifar10", "resnet56_cifar10", "resnet8_wide_cifar10", "squeezenet1_1_imagenet",
        "mobilenetv2_imagenet", "stories260k")  # fmt: skip
BUILT = ("resnet18", "resnet50", "vgg16", "mobilenet_v2", "densenet161", "efficientnet_b0", "bert_base",
         "gpt2")  # fmt: skip
TOKENS = 128
OTHERS = ("onnxruntime", "openvino")


def arguments(doc: str | None, only: Sequence[str] = (*REAL, *BUILT)) -> ArgumentParser:
    """The options of a bench that times networks."""
    parser = parts.arguments(doc)
    parser.add_argument("--only", type=parts.names, default=[*only], help="networks to measure, as A,B")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long to measure each case")
    return parser


def file_of(name: str) -> Path:
    """A network's file: of the evaluation data, or made."""
    real = DATA / "models" / f"{name}.onnx"
    return real if real.exists() else export(name)


def export(name: str) -> Path:
    """A network of models.py at its published size as an ONNX file: one image, or TOKENS tokens."""
    path = cache() / f"{name}.onnx"
    if not path.exists():
        import torch

        from benchmarks.models import build

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


def measured(name: str, seconds: float, precision: str, threads: int) -> parts.Found:
    """One network."""
    path = file_of(name)
    settings = () if precision == "f32" else (("precision", precision),)
    contenders = {
        engine: Contender(engine, path, settings if engine != "onnxruntime" else ())
        for engine in ("native", *OTHERS)
    }
    found = dict(zip(contenders, compare(list(contenders.values()), inputs_of(path), threads, seconds)))
    return parts.Found(row=timing.row(found) | {"difference": difference(path, settings)})


def main() -> int:
    """1 where a network could not be measured."""
    parser = arguments(__doc__)
    parser.add_argument("--precision", default="f32", help="what layers may multiply in: f32, bf16 or f16")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    how = {"seconds": options.seconds, "precision": options.precision, "threads": options.threads}
    return parts.main(options.only, measured, options.output, {"bench": "native"} | how, **how)


if __name__ == "__main__":
    sys.exit(main())
