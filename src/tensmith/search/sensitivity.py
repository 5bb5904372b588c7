"""How much each layer's precision matters: the change of the answers when its weights alone get coarse."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tensmith.backend.onnx import write_onnx
from tensmith.data import View
from tensmith.data.dataset import Inputs
from tensmith.engine.base import ENGINES
from tensmith.evaluate.accuracy import Preprocess, as_model
from tensmith.evaluate.likelihood import log_softmax
from tensmith.files import Scratch
from tensmith.formula.arith import Array
from tensmith.ir import Program
from tensmith.rewrite.calibration import Calibration
from tensmith.rewrite.lossy.grid import on_grid
from tensmith.rewrite.lossy.weights import weighted_layers

PROBE_BITS = 4


@dataclass(frozen=True)
class Sensitivity:
    """What a layer at PROBE_BITS does to the answers: divergence in nats, flipped answers in per cent."""

    divergence: float
    flips: float


def layer_sensitivity(
    program: Program,
    view: View,
    preprocess: Preprocess | None,
    calibration: Calibration,
    threads: int,
    seconds: float,
) -> dict[str, Sensitivity]:
    """Sensitivity of layers by site, on as many samples as `seconds` allow.

    The largest layers come first, and one is always probed; those that time does not reach are left out.
    Divergence is KL(original || probed) of the softmax of the first output (Kullback and Leibler 1951).
    """
    until = time.monotonic() + seconds
    layers = sorted(weighted_layers(program), key=lambda layer: -math.prod(layer.shape))
    inputs, reference = _reference(program, view, preprocess, threads, seconds / (len(layers) + 1))
    found: dict[str, Sensitivity] = {}
    for layer in layers:
        if found and time.monotonic() > until:
            break
        grid = on_grid(program, layer, PROBE_BITS, {}, calibration)
        shape = tuple(-1 if axis == grid.axis else 1 for axis in range(grid.codes.ndim))
        weights = (grid.codes * grid.scales.reshape(shape)).astype(program.constants[layer.weight].dtype)
        answers = list(_answers(program.with_constants({layer.weight: weights}), inputs, preprocess, threads))
        found[layer.site] = _compare(reference, answers)
    return found


def for_all_layers(program: Program, found: Mapping[str, Sensitivity]) -> dict[str, Sensitivity]:
    """A sensitivity for every layer: one that was not probed counts as the most sensitive of the others."""
    careful = max(found.values(), key=lambda each: each.divergence, default=Sensitivity(0.0, 0.0))
    return {layer.site: found.get(layer.site, careful) for layer in weighted_layers(program)}


def _reference(
    program: Program, view: View, preprocess: Preprocess | None, threads: int, seconds: float
) -> tuple[list[Inputs], list[Array]]:
    """Batches of inputs, as many as run in `seconds` with loading the model, and the answers to them."""
    inputs: list[Inputs] = []
    answers: list[Array] = []
    with Scratch() as folder:
        started = time.monotonic()
        run = _model(program, Path(folder), preprocess, threads)
        for batch in view.batches(8):
            inputs.append(batch.inputs)
            answers.append(run(batch.inputs))
            if time.monotonic() - started > seconds:
                break
    return inputs, answers


def _answers(
    program: Program, inputs: list[Inputs], preprocess: Preprocess | None, threads: int
) -> Iterator[Array]:
    with Scratch() as folder:
        run = _model(program, Path(folder), preprocess, threads)
        for batch in inputs:
            yield run(batch)


def _model(
    program: Program, folder: Path, preprocess: Preprocess | None, threads: int
) -> Callable[[Inputs], Array]:
    path = folder / "probe.onnx"
    write_onnx(program, path)
    session = ENGINES["onnxruntime"].prepare(path, threads)
    model, name = as_model(session, preprocess), session.outputs[0].name
    return lambda batch: model(batch)[name]


def _compare(reference: list[Array], probed: list[Array]) -> Sensitivity:
    divergence, flips, count = 0.0, 0, 0
    for before, after in zip(reference, probed):
        p, q = (log_softmax(x.reshape(-1, x.shape[-1])) for x in (before, after))
        divergence += float(np.sum(np.exp(p) * (p - q)))
        flips += int(np.sum(p.argmax(axis=1) != q.argmax(axis=1)))
        count += len(p)
    return Sensitivity(max(0.0, divergence) / max(1, count), 100 * flips / max(1, count))


def allocate_bits(
    program: Program, sensitivity: Mapping[str, Sensitivity], level: float, lowest: int = 2, highest: int = 8
) -> dict[str, int]:
    """Bits of each layer at a price of 2**level nats a megabyte: each minimises damage + price * bytes.

    Damage of b bits is the probed divergence times 4**(PROBE_BITS - b), as quantization noise power is; a
    weight of b bits packs into about b - 0.75 (the entropy of a Gaussian on such a grid).
    """
    price = 2.0**level / 1e6
    bits: dict[str, int] = {}
    for layer in weighted_layers(program):
        elements = float(np.prod(layer.shape))
        floor = max(sensitivity[layer.site].divergence, 1e-9)

        def cost(b: int, floor: float = floor, elements: float = elements) -> float:
            return float(floor * 4.0 ** (PROBE_BITS - b) + price * elements * (b - 0.75) / 8)

        bits[layer.site] = min(range(lowest, highest + 1), key=cost)
    return bits


def predicted_divergence(bits: Mapping[str, int], sensitivity: Mapping[str, Sensitivity]) -> float:
    """Divergence of an allocation, as if layers added up: nats a sample."""
    return sum(sensitivity[site].divergence * 4.0 ** (PROBE_BITS - count) for site, count in bits.items())
