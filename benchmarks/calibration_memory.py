"""Peak resident memory while calibrating, against twice the model plus one batch.

    python benchmarks/calibration_memory.py [MODEL...]

Each model is read, simplified and calibrated (histograms and means of every value, moments of every layer)
in a process of its own, on random samples: how many does not matter, what they show neither. The baseline is
the process after the same on a tiny model, when every library is loaded. One batch is what its activations
take together, of as many samples as are run at once: one of a large model, more of a small one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from tensmith.data import DatasetPart, Subset
from tensmith.data.dataset import Array, Indices
from tensmith.engine.resident import peak_bytes, release_freed, reset_peak, resident_bytes
from tensmith.evaluate.calibrator import Calibrator
from tensmith.frontend.onnx import read_onnx
from tensmith.ir import Program, TensorType, make_node
from tensmith.rewrite.lossy.weights import weighted_layers
from tensmith.rewrite.trail import simplify

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("TENSMITH_DATA") or ROOT.parent / "shared" / "data")
MODELS = [DATA / "models" / f"{name}.onnx" for name in ("squeezenet1_1_imagenet", "mobilenetv2_imagenet")]
_SAMPLES = 8
_MIB = 1 << 20


class Noise(DatasetPart):
    """Random samples, made when asked for: data in memory would count."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._shape = shape
        self.largest_batch = 0

    def __len__(self) -> int:
        return _SAMPLES

    def inputs(self, indices: Indices) -> Array:
        self.largest_batch = max(self.largest_batch, len(indices))
        samples = [np.random.default_rng(int(index)).random(self._shape, np.float32) for index in indices]
        return np.stack(samples)

    def labels(self, indices: Indices) -> Array | None:
        return None


def calibrate(program: Program) -> int:
    """Asks everything that lossy methods may ask about a program's values; returns the largest batch."""
    (type_,) = program.inputs.values()
    shape = tuple(dim if isinstance(dim, int) else 1 for dim in type_.dims[1:])
    noise = Noise(shape)
    calibrator = Calibrator(Subset(noise, np.arange(_SAMPLES)), _SAMPLES, None, 1)
    values = [name for node in program.nodes for name in node.outputs]
    calibrator.histograms(program, values)
    calibrator.means(program, values)
    for layer in weighted_layers(program):
        calibrator.moment(program, layer.site)
    return noise.largest_batch


def activation_bytes(program: Program) -> int:
    """Bytes of all values that one sample makes, symbolic sizes taken as one."""
    types = [program.type(name) for node in program.nodes for name in node.outputs]
    shapes = [[dim if isinstance(dim, int) else 1 for dim in type_.dims] for type_ in types]
    return sum(int(np.prod(shape)) * type_.bits // 8 for shape, type_ in zip(shapes, types))


def measured(path: Path) -> dict[str, int]:
    """Bytes: of the model, of one batch, and the peaks of reading and of calibrating above the baseline."""
    weights = {"w": np.ones((4, 3, 3, 3), np.float32)}
    conv = make_node("conv", ("x", "w"), ("y",), {"strides": (1, 1), "dilations": (1, 1), "pads": (0,) * 4})
    calibrate(Program("tiny", {"x": TensorType("f32", (1, 3, 8, 8))}, ("y",), (conv,), weights))
    release_freed()
    if not reset_peak():
        raise SystemExit("this system does not let a process reset its peak memory (/proc/self/clear_refs)")
    before = resident_bytes()
    program = simplify(read_onnx(path)).program
    reading = (peak_bytes() or 0) - before
    release_freed()
    reset_peak()
    samples = calibrate(program)
    return {
        "model": path.stat().st_size,
        "batch": samples * activation_bytes(program),
        "reading": reading,
        "calibrating": (peak_bytes() or 0) - before,
    }


def main(arguments: Iterable[str] | None = None) -> int:
    """Prints a line a model; 1 if one takes more than it may."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("models", nargs="*", type=Path, default=MODELS)
    parser.add_argument("--json", action="store_true", help="one model, in this very process, as JSON")
    options = parser.parse_args(None if arguments is None else list(arguments))
    if options.json:
        print(json.dumps(measured(options.models[0])))
        return 0
    over = 0
    print(_line("MiB above the libraries", "model", "batch", "limit", "reading", "calibrating"))
    for path in options.models:
        command = [sys.executable, __file__, str(path), "--json"]
        found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        limit = 2 * found["model"] + found["batch"]
        over += found["calibrating"] > limit
        sizes = (found["model"], found["batch"], limit, found["reading"], found["calibrating"])
        print(_line(path.name, *(f"{size / _MIB:.1f}" for size in sizes)), flush=True)
    return 1 if over else 0


def _line(name: str, *columns: str) -> str:
    return f"{name:32}" + "".join(f"{column:>12}" for column in columns)


if __name__ == "__main__":
    sys.exit(main())
