"""Networks in 8 bits as tensmith, ONNX Runtime and NNCF write them, for benchmarks.

Calibrated on made-up inputs, which serves for speed and for comparing the engines' answers, not for accuracy.
Files are made once a folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.native.networks import inputs_of
from tensmith.backend.onnx import write_onnx
from tensmith.engine import read_signature
from tensmith.engine.base import Arrays
from tensmith.evaluate.bench import random_inputs
from tensmith.evaluate.calibrator import Calibrator
from tensmith.frontend.onnx import read_onnx
from tensmith.hardware import detect_cpu
from tensmith.ir import Program
from tensmith.ir.part import without_dead
from tensmith.rewrite.method import apply_lossy
from tensmith.rewrite.rule import EVERYWHERE, Step
from tensmith.rewrite.trail import simplify

SAMPLES = 4


def is_sequence(path: Path) -> bool:
    """Whether a network reads tokens: its peers then quantize products, not convolutions."""
    return all(spec.dtype.startswith("int") for spec in read_signature(path).inputs)


def _samples(path: Path) -> list[Arrays]:
    if is_sequence(path):
        return [inputs_of(path)] * SAMPLES
    return [random_inputs(read_signature(path).inputs, seed=seed) for seed in range(SAMPLES)]


@dataclass(frozen=True)
class _Batch:
    inputs: Arrays


@dataclass(frozen=True)
class _View:
    """What a calibrator reads batches from: one sample a batch."""

    samples: Sequence[Arrays]

    def __len__(self) -> int:
        return len(self.samples)

    def batches(self, size: int) -> Iterator[_Batch]:
        return map(_Batch, self.samples)


def quantized(path: Path, folder: Path, samples: Sequence[Arrays] = ()) -> Path:
    """The network at `path` by tensmith's own int8 method, calibrated on SAMPLES samples: made up if none.

    As `compress` does, weights take 7 bits on a CPU whose products of bytes would saturate.
    """
    bits = 8 if detect_cpu().has_int8_dot else 7
    made = folder / f"{path.stem}_int{bits}.onnx"
    if not made.exists():
        program: Program = simplify(read_onnx(path)).program
        step = Step("int8", EVERYWHERE, {"calibration": "minmax", "default_bits": bits}, "lossy")
        calibrator = Calibrator(_View(samples or _samples(path)), None, 1)  # type: ignore[arg-type]
        write_onnx(without_dead(apply_lossy(program, step, calibrator)), made)
    return made


def by_nncf(path: Path, folder: Path) -> Path:
    """The network at `path` as NNCF's post-training quantization writes it for OpenVINO."""
    made = folder / f"{path.stem}_nncf.xml"
    if not made.exists():
        import nncf
        import openvino

        model = openvino.convert_model(path)
        if is_sequence(path):
            model.reshape({name: array.shape for name, array in inputs_of(path).items()})
        kind = nncf.ModelType.TRANSFORMER if is_sequence(path) else None
        data = nncf.Dataset(_samples(path))
        openvino.save_model(nncf.quantize(model, data, subset_size=SAMPLES, model_type=kind), made)
    return made


def by_onnxruntime(path: Path, folder: Path, way: str) -> Path:
    """The network at `path` as ONNX Runtime quantizes it: "static" (QDQ), or "dynamic" for products."""
    made = folder / f"{path.stem}_ort_{way}.onnx"
    if made.exists():
        return made
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    if way == "dynamic":
        quantize_dynamic(str(path), str(made), weight_type=QuantType.QInt8, per_channel=True)
        return made
    prepared = folder / f"{path.stem}_prepared.onnx"
    quant_pre_process(str(path), str(prepared), skip_symbolic_shape=True)
    quantize_static(
        str(prepared), str(made), _Reader(_samples(path)), quant_format=QuantFormat.QDQ, per_channel=True,
        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
    )  # fmt: skip
    prepared.unlink()
    return made


class _Reader:
    """The samples as ONNX Runtime's quantizer asks for them."""

    def __init__(self, samples: list[Arrays]) -> None:
        self._samples = iter(samples)

    def get_next(self) -> dict[str, np.ndarray] | None:
        found = next(self._samples, None)
        return None if found is None else dict(found)
