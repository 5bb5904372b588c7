"""Detectors, which the native engine refuses whole: the engine mixed against ONNX Runtime and OpenVINO.

    python -m benchmarks.native.mixed [--seconds 20] [--only mobilenet_v2,...] [--size 320]

Published backbones with random weights (models.py), behind them a head of convolutions that gives boxes and
scores at stride 32, and NonMaxSuppression, which no native kernel computes: how much it selects is known at
run time only. One thread, taking turns. Figures are the latencies, and the ratio to the faster of the others.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper
from torch import Tensor, nn

from benchmarks import cache, parts, timing
from benchmarks.models import build
from benchmarks.native.networks import OTHERS, arguments
from tensmith.engine import read_signature
from tensmith.evaluate.bench import random_inputs
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.latency import compare

BACKBONES = ("mobilenet_v2", "resnet18", "resnet50")
ANCHORS, CLASSES = 9, 20
SELECTION = {"most": np.array([100]), "overlap": np.float32([0.5]), "least": np.float32([0.08])}


class Detector(nn.Module):
    """Features at stride 32 -> boxes (N, boxes, 4) and scores (N, classes, boxes)."""

    def __init__(self, body: nn.Module, channels: int) -> None:
        super().__init__()
        self.body = body
        self.head = nn.Sequential(
            nn.Conv2d(channels, 256, 3, padding=1), nn.ReLU(), nn.Conv2d(256, 256, 3, padding=1), nn.ReLU()
        )
        self.boxes = nn.Conv2d(256, ANCHORS * 4, 3, padding=1)
        self.scores = nn.Conv2d(256, ANCHORS * CLASSES, 3, padding=1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        found = self.head(self.body(x))
        count = found.shape[0]
        boxes = self.boxes(found).reshape(count, ANCHORS, 4, -1).transpose(2, 3).reshape(count, -1, 4)
        scores = self.scores(found).reshape(count, ANCHORS, CLASSES, -1).transpose(1, 2)
        return boxes.sigmoid(), scores.reshape(count, CLASSES, -1).softmax(1)


def export(name: str, size: int, path: Path) -> None:
    """Writes a detector as an ONNX file, for one image."""
    torch.manual_seed(0)
    module, _ = build(name)
    body = nn.Sequential(*list(module.children())[:-1])
    image = torch.randn(1, 3, size, size)
    with torch.no_grad():
        detector = Detector(body, body(image).shape[1]).eval()
    torch.onnx.export(
        detector, (image,), str(path), opset_version=18, external_data=False,
        input_names=["image"], output_names=["boxes", "scores"],
    )  # fmt: skip
    model = onnx.load(path)
    model.graph.initializer.extend(numpy_helper.from_array(array, key) for key, array in SELECTION.items())
    inputs = ["boxes", "scores", *SELECTION]
    model.graph.node.append(helper.make_node("NonMaxSuppression", inputs, ["selected"]))
    selected = helper.make_tensor_value_info("selected", onnx.TensorProto.INT64, ["found", 3])
    model.graph.output.append(selected)
    onnx.save(model, path)


def measured(name: str, seconds: float, size: int) -> parts.Found:
    """One detector."""
    path = cache() / f"{name}_detector_{size}.onnx"
    if not path.exists():
        export(name, size, path)
    names = ("mixed", *OTHERS)
    contenders = [Contender(engine, path) for engine in names]
    found = compare(contenders, random_inputs(read_signature(path).inputs), 1, seconds)
    return parts.Found(row=timing.row(dict(zip(names, found))))


def main() -> int:
    """1 where a detector could not be measured."""
    parser = arguments(__doc__, BACKBONES)
    parser.add_argument("--size", type=int, default=320, help="rows and columns of the image")
    options = parser.parse_args()
    how = {"seconds": options.seconds, "size": options.size}
    settings = {"bench": "native_mixed"} | how
    return parts.main(options.only, measured, options.output, settings, **how)


if __name__ == "__main__":
    sys.exit(main())
