"""Peak resident memory while calibrating, against twice the model plus one batch.

    python -m benchmarks.compress.calibration_memory [MODEL...]

Each model is read, simplified and calibrated (histograms and means of every value, moments of every layer)
in a process of its own, on random samples: how many does not matter, what they show neither. The baseline is
the process after the same on a tiny model, when every library is loaded. One batch is what its activations
take together, of as many samples as are run at once: one of a large model, more of a small one.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from benchmarks import DATA, ROOT, parts
from tensmith.data import DatasetPart, Subset
from tensmith.data.dataset import Array, Indices
from tensmith.engine.resident import peak_bytes, release_freed, reset_peak, resident_bytes
from tensmith.evaluate.calibrator import Calibrator
from tensmith.frontend.onnx import read_onnx
from tensmith.ir import Program, TensorType, make_node
from tensmith.rewrite.lossy.weights import weighted_layers
from tensmith.rewrite.trail import simplify

MODELS = [DATA / "models" / f"{name}.onnx" for name in ("squeezenet1_1_imagenet", "mobilenetv2_imagenet")]
_SAMPLES = 8


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
    calibrator = Calibrator(Subset(noise, np.arange(_SAMPLES)), None, 1)
    values = [name for node in program.nodes for name in node.outputs]
    calibrator.histograms(program, values)
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


def apart(path: Path) -> parts.Found:
    """What a model takes in a process of its own, and whether that is more than it may."""
    command = [sys.executable, "-m", "benchmarks.compress.calibration_memory", str(path.absolute()), "--json"]
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=ROOT).stdout)
    limit = 2 * found["model"] + found["batch"]
    over = (f"{path.name}: {found['calibrating']} bytes, over {limit}",)
    return parts.Found(row={**found, "limit": limit}, wrong=over if found["calibrating"] > limit else ())


def main() -> int:
    """1 if a model takes more than it may."""
    parser = parts.arguments(__doc__)
    parser.add_argument("models", nargs="*", type=Path, default=MODELS)
    parser.add_argument("--json", action="store_true", help="one model, in this very process, as JSON")
    options = parser.parse_args()
    if options.json:
        print(json.dumps(measured(options.models[0])))
        return 0
    models = {path.name: path for path in options.models}
    return parts.main(models, apart, options.output, {"bench": "calibration_memory"})


if __name__ == "__main__":
    sys.exit(main())
