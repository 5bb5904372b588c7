"""Networks of MLPerf Tiny made with Keras, channels last, compressed beside their channels-first twins.

    python -m benchmarks.compress.keras_twins [--only resnet8,...] [--seconds 5] [--time-budget 60s]

Both twins have the same weights: Keras's are those of the channels-first file, with a batch norm behind every
convolution, and tf2onnx writes them. A part is one plan (nothing lossy, or 8 bits everywhere) that both are
brought to, by `quantized_files` and the same samples, and compiled; or, where there are labelled data, the
front of `tensmith compress` within an equal budget.

ms       one inference, one thread, the twins taking turns; ratio: how many times faster the Keras one is
bytes    packed, as it would ship
answers  the largest difference between the two, of the range of the answers; of a plan that is exact
A Keras twin that is over SLACK slower or larger, or answers otherwise, is wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks import DATA, ROOT, cache, parts, timing
from benchmarks.compress.command import compress, within_budget
from benchmarks.native import sensor_node
from benchmarks.native.quantized_files import SAMPLES, quantized
from benchmarks.trust.exported import of_keras
from tensmith.backend.onnx import write_onnx
from tensmith.backend.packed import pack
from tensmith.engine import ENGINES, read_signature
from tensmith.engine.base import Arrays
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.latency import compare
from tensmith.frontend.onnx import read_onnx
from tensmith.ir import Program
from tensmith.rewrite.trail import simplify

SLACK = 1.05
ROUNDING = 1e-4
Weights = Iterator[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]


def weights_of(program: Program) -> Weights:
    """Kernel and bias of every convolution (O, I, H, W) and product (O, I), in order."""
    for node in program.nodes:
        if node.op in ("conv", "gemm"):
            kernel, bias = (program.constants[name] for name in node.inputs[1:3])
            turned = node.op == "gemm" and not node.attrs["transB"]
            yield kernel.T if turned else kernel, bias


class _Layers:
    """Keras's layers, which take their weights from a channels-first network in its order."""

    def __init__(self, weights: Weights) -> None:
        from keras import layers

        self._keras, self._weights = layers, weights

    def convolution(self, x: Any, strides: int = 1, depthwise: bool = False) -> Any:
        """A convolution and a batch norm that does nothing but add the bias."""
        kernel, bias = next(self._weights)
        filters, _, *window = kernel.shape
        options = {"strides": strides, "padding": "same", "use_bias": False}
        if depthwise:
            layer = self._keras.DepthwiseConv2D(window, **options)
        else:
            layer = self._keras.Conv2D(filters, window, **options)
        norm = self._keras.BatchNormalization()
        y = norm(layer(x))
        layer.set_weights([kernel.transpose((2, 3, 0, 1) if depthwise else (2, 3, 1, 0))])
        one, zero = np.ones_like(bias), np.zeros_like(bias)
        norm.set_weights([one, bias, zero, one - np.float32(norm.epsilon)])
        return y

    def relu(self, x: Any) -> Any:
        """max(x, 0)."""
        return self._keras.ReLU()(x)

    def head(self, x: Any) -> Any:
        """The mean of each channel, and a classifier that ends in logits."""
        kernel, bias = next(self._weights)
        layer = self._keras.Dense(len(kernel))
        y = layer(self._keras.GlobalAveragePooling2D()(x))
        layer.set_weights([kernel.T, bias])
        return y

    def sum(self, *values: Any) -> Any:
        """Of a residual."""
        return self._keras.Add()([*values])


def _resnet8(layers: _Layers, x: Any) -> Any:
    x = layers.relu(layers.convolution(x))
    for strides in (1, 2, 2):
        y = layers.relu(layers.convolution(x, strides))
        y = layers.convolution(y)
        x = layers.relu(layers.sum(x if strides == 1 else layers.convolution(x, strides), y))
    return layers.head(x)


def _keyword_spotting(layers: _Layers, x: Any) -> Any:
    x = layers.relu(layers.convolution(x, 2))
    for _ in range(4):
        x = layers.relu(layers.convolution(x, depthwise=True))
        x = layers.relu(layers.convolution(x))
    return layers.head(x)


@dataclass(frozen=True)
class Twins:
    """A network in both orders of its axes."""

    first: Path
    last: Path

    def inputs(self, samples: list[Arrays]) -> tuple[list[Arrays], list[Arrays]]:
        """Samples of the channels-first network, and the same as the other takes them."""
        (spec,) = read_signature(self.last).inputs
        turned = [{spec.name: np.ascontiguousarray(np.moveaxis(array, 1, -1))}
                  for sample in samples for array in sample.values()]  # fmt: skip
        return samples, turned


NETWORKS: dict[str, Callable[[_Layers, Any], Any]] = {
    "resnet8": _resnet8,
    "keyword_spotting": _keyword_spotting,
}


def twins(name: str) -> Twins:
    """A network's files; Keras's is made once."""
    first, last = sensor_node.NETWORKS[name](), cache() / f"{name}_keras.onnx"
    if not last.exists():
        import keras

        (spec,) = read_signature(first).inputs
        assert spec.shape is not None
        _, *channels_first = spec.shape
        shape = (*channels_first[1:], channels_first[0])
        x = keras.Input(shape)
        layers = _Layers(weights_of(simplify(read_onnx(first)).program))
        onnx.save(of_keras(keras.Model(x, NETWORKS[name](layers, x)), *shape), last)
    return Twins(first, last)


def brought_to(plan: str, path: Path, samples: list[Arrays]) -> Path:
    """The network by that plan."""
    if plan == "int8":
        return quantized(path, cache(), samples)
    made = cache() / f"{path.stem}_exact.onnx"
    if not made.exists():
        write_onnx(simplify(read_onnx(path)).program, made)
    return made


def by_plan(part: tuple[str, str], seconds: float) -> parts.Found:
    """Both twins by one plan."""
    name, plan = part
    pair = twins(name)
    ours, theirs = pair.inputs(sensor_node.samples_of(pair.first, SAMPLES))
    files = [brought_to(plan, path, samples) for path, samples in ((pair.last, theirs), (pair.first, ours))]
    found = compare([Contender("native", file) for file in files], [theirs[0], ours[0]], 1, seconds)
    row = timing.row(dict(zip(("last", "first"), found)))
    packed = {key: len(pack(file.read_bytes())) for key, file in zip(("last", "first"), files)}
    row |= {"bytes": packed, "answers": _difference(files, (theirs, ours))}
    wrong = []
    if row["high"] * SLACK < 1:
        wrong.append(f"{name} by Keras, {plan}: {1 / row['ratio']:.2f} times as slow as its twin")
    if packed["last"] > SLACK * packed["first"]:
        wrong.append(f"{name} by Keras, {plan}: {packed['last']} bytes, its twin has {packed['first']}")
    if plan == "exact" and row["answers"] > ROUNDING:
        wrong.append(f"{name} by Keras: its answers differ by {row['answers']:.1e} of their range")
    return parts.Found(row=row, wrong=tuple(wrong))


def _difference(files: list[Path], samples: tuple[list[Arrays], list[Arrays]]) -> float:
    """Between the answers of two files, relative to their range."""
    answers = []
    for file, inputs in zip(files, samples):
        session = ENGINES["onnxruntime"].prepare(file, 1)
        answers.append(np.stack([next(iter(session.run(one).values())) for one in inputs]))
        session.close()
    return float(np.abs(answers[0] - answers[1]).max() / np.ptp(answers[1]))


def by_search(name: str, budget: str, folder: Path) -> parts.Found:
    """What a front holds of each: the smallest and the fastest point within the budget."""
    pair, row = twins(name), {}
    for key, path in (("first", pair.first), ("last", pair.last)):
        out = folder / f"{name}-{key}"
        words = ("--preprocess", "raw", "--only", "int8", "--time-budget", budget)
        front = compress(path, f"cifar10:{DATA / 'cifar10'}", out, *words)
        points = [point["metrics"] for point in within_budget(front)]
        row[key] = {"accuracy": front["original"]["metrics"]["accuracy"]["value"]} | {
            metric: max(point[metric]["value"] for point in points) for metric in ("speedup", "size_ratio")
        }
    return parts.Found(row=row)


def main() -> int:
    """1 where a Keras twin is slower or larger than the other, or could not be made."""
    parser = parts.arguments(__doc__)
    parser.add_argument("--only", type=parts.names, default=list(NETWORKS))
    parser.add_argument("--seconds", type=float, default=5.0, help="how long to measure each pair")
    parser.add_argument("--time-budget", default="60s", help="of each search")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "keras_twins", help="of the fronts")
    options = parser.parse_args()
    every: dict[str, Callable[[], parts.Found]] = {
        f"{name} {plan}": partial(by_plan, (name, plan), options.seconds)
        for name, plan in product(options.only, ("exact", "int8"))
    }
    if "resnet8" in options.only:
        every["resnet8 front"] = partial(by_search, "resnet8", options.time_budget, options.folder)
    settings = {"bench": "keras_twins", "seconds": options.seconds, "time_budget": options.time_budget}
    return parts.main(every, lambda part: part(), options.output, settings)


if __name__ == "__main__":
    sys.exit(main())
