"""Makes the file of one peer for one model, in a process of its own.

    python -m benchmarks.compress.stock.make --help

Each maker is what the tool's own documentation recommends for this kind of model, given the calibration and
search samples that tensmith gets. It leaves made.json with the file's name and, where the recommended way
failed, a note of what was done instead.
"""

from __future__ import annotations

import argparse
import json
import logging
import resource
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.compress.stock.cases import CASES, Arrays, Case
from tensmith.data import Splits
from tensmith.engine.base import first_line
from tensmith.engine.signature import read_signature
from tensmith.files import write_text

# What a peer may take: some keep every activation of every calibration sample, and would take the machine.
MEMORY_BYTES = 10 << 30


@dataclass(frozen=True)
class Job:
    """What a maker works on; it writes into `folder` only."""

    case: Case
    model: Path
    views: Splits
    folder: Path

    def calibration(self) -> list[Arrays]:
        """The calibration samples, one a batch, by input name."""
        return [arrays for arrays, _ in self.case.singles(self.views.calibration, self.model)]


Made = tuple[Path, str]


# ONNX Runtime


def prepared(job: Job) -> Made:
    """The model as the quantizers want it: `quant_pre_process`, after folding where that fails."""
    from onnxruntime.quantization.shape_inference import quant_pre_process

    path = job.folder / "prepared.onnx"
    try:
        quant_pre_process(str(job.model), str(path))
        return path, ""
    except Exception as error:
        note = f"quant_pre_process crashes as delivered ({first_line(error)}); folded first"
    source = folded(job)[0]
    try:
        quant_pre_process(str(source), str(path))
        return path, note
    except Exception:
        quant_pre_process(str(source), str(path), skip_symbolic_shape=True)
        return path, f"{note}, without symbolic shapes"


def folded(job: Job) -> Made:
    """The model after ONNX Runtime's basic optimizations, twice: the second folds what the first inlines.

    Shapes recorded in the file are dropped: they are the old graph's, and make the quantizers stumble.
    """
    import onnx
    import onnxruntime

    source, path = job.model, job.folder / "folded.onnx"
    for _ in range(2):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = str(path)
        onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])
        source = path
    model = onnx.load(path)
    del model.graph.value_info[:]
    onnx.save(model, path)
    return path, ""


class _Reader:
    """The calibration samples as ONNX Runtime's quantizer asks for them."""

    def __init__(self, samples: Iterable[Arrays]) -> None:
        self._samples = iter(samples)

    def get_next(self) -> Arrays | None:
        return next(self._samples, None)


def ort_static(job: Job, method: str) -> Made:
    """Static QDQ, per channel, uint8 activations and int8 weights: the pair for CPUs with VNNI."""
    from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_static

    source, note = prepared(job)
    path = job.folder / "model.onnx"
    quantize_static(
        str(source),
        str(path),
        _Reader(job.calibration()),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        calibrate_method=CalibrationMethod[method],
    )
    return path, note


def ort_dynamic(job: Job) -> Made:
    """Dynamic int8; its convolutions exist for uint8 weights and one scale only."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    source, path = folded(job)[0], job.folder / "model.onnx"
    convolutions = "Conv" in read_signature(source).operators
    weights = QuantType.QUInt8 if convolutions else QuantType.QInt8
    quantize_dynamic(str(source), str(path), weight_type=weights, per_channel=not convolutions)
    return path, "folded first"


# NNCF on OpenVINO


def _nncf_options(job: Job, preset: str) -> dict[str, Any]:
    import nncf

    transformer = job.case.measure == "loss"
    return {
        "preset": nncf.QuantizationPreset[preset],
        "subset_size": len(job.views.calibration),
        "model_type": nncf.ModelType.TRANSFORMER if transformer else None,
    }


def _saved(model: Any, job: Job) -> Made:
    import openvino

    path = job.folder / "model.xml"
    openvino.save_model(model, path)
    return path, ""


def nncf_quantize(job: Job, preset: str) -> Made:
    """Post-training quantization of the model as OpenVINO converts it."""
    import nncf
    import openvino

    model = openvino.convert_model(job.model)
    dataset = nncf.Dataset(job.calibration())
    return _saved(nncf.quantize(model, dataset, **_nncf_options(job, preset)), job)


def nncf_accuracy_aware(job: Job, preset: str) -> Made:
    """Layers go back to floating point until the search samples lose no more than the budget."""
    import nncf
    import openvino

    model = openvino.convert_model(job.model)
    pairs = list(job.case.singles(job.views.search, job.model))
    fp32 = openvino.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    if job.case.measure == "agreement":
        pairs = [(arrays, fp32(arrays)[0].argmax(axis=1)) for arrays, _ in pairs]
    judge = _negative_loss if job.case.measure == "loss" else _accuracy
    # Its budget is a share; the loss may grow by a share of itself, accuracy may fall by points.
    unit = abs(judge(fp32, pairs)[0]) if job.case.measure == "loss" else 1.0
    quantized = nncf.quantize_with_accuracy_control(
        model,
        nncf.Dataset(job.calibration()),
        nncf.Dataset(pairs, lambda pair: pair[0]),
        judge,
        max_drop=unit * job.case.budget / 100,
        **_nncf_options(job, preset),
    )
    return _saved(quantized, job)


Pairs = Iterable[tuple[Arrays, np.ndarray[Any, Any]]]


def _accuracy(model: Any, pairs: Pairs) -> tuple[float, list[float]]:
    hits = [float(model(arrays)[0].argmax(axis=1)[0] == label[0]) for arrays, label in pairs]
    return float(np.mean(hits)), hits


def _negative_loss(model: Any, pairs: Pairs) -> tuple[float, list[float]]:
    """Minus the nats a token, over all and of each story."""
    sums, counts = [], []
    for arrays, following in pairs:
        logits = model(arrays)[0][0].astype(np.float64)
        likelihood = logits[np.arange(len(logits)), following[0]] - np.logaddexp.reduce(logits, axis=1)
        sums.append(float(likelihood.sum()))
        counts.append(len(logits))
    return sum(sums) / sum(counts), [total / count for total, count in zip(sums, counts)]


MAKERS: dict[str, Callable[[Job], Made]] = {
    "ort-fp32-folded": folded,
    "ort-static-minmax": lambda job: ort_static(job, "MinMax"),
    "ort-static-percentile": lambda job: ort_static(job, "Percentile"),
    "ort-dynamic": ort_dynamic,
    "nncf-performance": lambda job: nncf_quantize(job, "PERFORMANCE"),
    "nncf-mixed": lambda job: nncf_quantize(job, "MIXED"),
    "nncf-accuracy-aware": lambda job: nncf_accuracy_aware(job, "PERFORMANCE"),
}


def main() -> None:
    """Runs one maker; the last line on stderr says why it failed."""
    parser = argparse.ArgumentParser(description="Makes one stock tool's file for one model.")
    parser.add_argument("maker", choices=MAKERS)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    chosen = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    logging.basicConfig(level=logging.WARNING)
    case: Case = CASES[chosen.case]
    job = Job(case, case.model(chosen.data), case.views(chosen.data), chosen.folder)
    path, note = MAKERS[chosen.maker](job)
    write_text(chosen.folder / "made.json", json.dumps({"file": path.name, "note": note}))


if __name__ == "__main__":
    main()
