"""MLPerf Tiny's four networks on a sensor node: 256 KiB of flash, 64 KiB of RAM, one Cortex-M4F, emulated.

    python -m benchmarks.native.sensor_node [--only resnet8,...]

In 8 bits by tensmith's own int8 method. ResNet-8 is the trained one of the evaluation data, calibrated and
run on images of CIFAR-10; the others have random weights in the published shapes (Banbury et al., NeurIPS
Datasets and Benchmarks 2021), and end in logits. Images for visual wake words are taken as bytes: as
floats they take more than the RAM. Counted are RAM and flash, with stack and code. All run in Unicorn with
nothing mapped but these, and their answers are compared with the host's, bit by bit; what takes more than the
flash is refused, and runs with twice as much.
"""

from __future__ import annotations

import itertools
import lzma
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks import DATA, cache, parts, use_tests
from benchmarks.native.quantized_files import SAMPLES, quantized
from tensmith.backend.native.emit.folder import write_folder
from tensmith.backend.native.emit.loader import Model
from tensmith.backend.native.patches import fit
from tensmith.backend.native.plan import make_plan
from tensmith.backend.native.prepare.codes import in_codes
from tensmith.cli.sizes import with_batch
from tensmith.engine import read_signature
from tensmith.engine.base import Arrays
from tensmith.errors import EngineError
from tensmith.evaluate.bench import random_inputs
from tensmith.ir import Program
from tensmith.kernel import host_isa, isa_named

use_tests("backend/native")

RAM, FLASH, RUNS = 64 << 10, 256 << 10, 5
# Networks that take their input as bytes.
IN_CODES = frozenset({"visual_wake_words"})
_IMAGE = 1 + 3 * 32 * 32


def keyword_spotting() -> Path:
    """DS-CNN: a convolution, four pairs of depthwise and pointwise ones, on 49 x 10 features of a second."""
    from torch import nn

    def normed(*layer: nn.Module) -> list[nn.Module]:
        return [*layer, nn.BatchNorm2d(64), nn.ReLU()]

    layers = normed(nn.ZeroPad2d((1, 1, 4, 5)), nn.Conv2d(1, 64, (10, 4), 2))
    for _ in range(4):
        layers += normed(nn.Conv2d(64, 64, 3, padding=1, groups=64)) + normed(nn.Conv2d(64, 64, 1))
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 12))
    return _exported("keyword_spotting", nn.Sequential(*layers, *head), (1, 1, 49, 10))


def anomaly_detection() -> Path:
    """An autoencoder of ten dense layers, on 640 features of machine sound."""
    from torch import nn

    sizes = (640, 128, 128, 128, 128, 8, 128, 128, 128, 128, 640)
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(sizes):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return _exported("anomaly_detection", nn.Sequential(*layers[:-1]), (1, 640))


def visual_wake_words() -> Path:
    """MobileNetV1 of a quarter of the width, on images of 96 x 96."""
    from benchmarks.models import mobilenet_v1

    return _exported("visual_wake_words", mobilenet_v1(0.25, 2), (1, 3, 96, 96))


def _exported(name: str, module: object, shape: tuple[int, ...]) -> Path:
    path = cache() / f"{name}.onnx"
    if not path.exists():
        import torch

        assert isinstance(module, torch.nn.Module)
        example = (torch.zeros(shape),)
        torch.onnx.export(module.eval(), example, str(path), opset_version=18, external_data=False)
    return path


NETWORKS: dict[str, Callable[[], Path]] = {
    "resnet8": lambda: DATA / "models" / "resnet8_cifar10.onnx",
    "keyword_spotting": keyword_spotting,
    "anomaly_detection": anomaly_detection,
    "visual_wake_words": visual_wake_words,
}


def samples_of(path: Path, count: int) -> list[Arrays]:
    """Images of CIFAR-10's test set for ResNet-8, numbers at random for the others."""
    if path.parent != DATA / "models":
        return [random_inputs(read_signature(path).inputs, seed=seed) for seed in range(count)]
    with lzma.open(DATA / "cifar10" / "test_batch.bin.xz") as file:
        records = np.frombuffer(file.read(count * _IMAGE), np.uint8).reshape(count, _IMAGE)
    images = records[:, 1:].reshape(count, 1, 3, 32, 32).astype(np.float32)
    return [{"input": image} for image in images]


def measured(name: str) -> parts.Found:
    """What one network takes, and whether the emulated device answers as the host does."""
    from emulated import Device  # below tests/

    path = NETWORKS[name]()
    inputs = samples_of(path, RUNS)
    program = with_batch(quantized(path, cache(), samples_of(path, SAMPLES)), 1)
    if name in IN_CODES:
        program = in_codes(program)
        inputs = [_bytes(program, seed) for seed in range(RUNS)]
    fitted = fit(program, isa_named("cortex-m"), RAM, 2 * FLASH)
    assert fitted.image is not None, "no ziglang: pip install ziglang"
    row = {**fitted.takes.to_json(), "patches": fitted.to_json()}
    flash = FLASH
    try:
        fitted.takes.require(RAM, FLASH, fitted.plan)
    except EngineError as error:
        row, flash = row | {"refused": str(error)}, 2 * FLASH
    device = Device(fitted.plan, fitted.image, flash, RAM)
    with tempfile.TemporaryDirectory() as folder:
        write_folder(make_plan(program, host_isa()), Path(folder) / "host")
        host = Model(Path(folder) / "host")
        equal = [_equal(device.run(**one), host(**one)) for one in inputs]
    row |= {"flash_mapped": flash, "runs": len(equal), "equal": sum(equal), "stack_used": device.stack}
    wrong = () if all(equal) else (f"{name}: {equal.count(False)} answers differ from the host's",)
    return parts.Found(row=row, wrong=wrong)


def _bytes(program: Program, seed: int) -> Arrays:
    random = np.random.default_rng(seed)
    shapes = {name: type_.static for name, type_ in program.inputs.items()}
    return {name: random.integers(0, 256, shape).astype(np.uint8) for name, shape in shapes.items()}


def _equal(one: Arrays, other: Arrays) -> bool:
    return all(one[name].tobytes() == other[name].tobytes() for name in other)


def main() -> int:
    """1 where a network could not be measured, or answers differ."""
    parser = parts.arguments(__doc__)
    parser.add_argument("--only", type=parts.names, default=list(NETWORKS))
    options = parser.parse_args()
    settings = {"bench": "sensor_node", "ram": RAM, "flash": FLASH}
    return parts.main(options.only, measured, options.output, settings)


if __name__ == "__main__":
    sys.exit(main())
