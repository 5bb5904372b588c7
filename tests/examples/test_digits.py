"""The demo's network and data are what examples/digits/README.md says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from tensmith.data import open_dataset
from tensmith.frontend.onnx import read_onnx
from tensmith.rewrite.trail import simplify

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"


def test_the_files_are_small_and_name_no_machine() -> None:
    model = (DIGITS / "digits.onnx").read_bytes()
    assert len(model) + (DIGITS / "digits.npz").stat().st_size < 1 << 20
    assert b".py" not in model and b"/home" not in model


def test_the_network_gets_over_97_per_cent_right() -> None:
    data = open_dataset(f"npz:{DIGITS / 'digits.npz'}")
    assert {name: len(part) for name, part in data.parts.items()} == {"train": 1297, "test": 500}
    assert (data.task, data.classes, data.modality) == ("classification", 10, "image")
    test = data.part("test")
    images = test.inputs(np.arange(500))
    assert images.shape == (500, 1, 8, 8) and images.min() == 0 and images.max() == 255
    session = onnxruntime.InferenceSession(DIGITS / "digits.onnx", providers=["CPUExecutionProvider"])
    (logits,) = session.run(None, {"images": (images / 255).astype(np.float32)})
    assert (logits.argmax(1) == test.labels(np.arange(500))).mean() > 0.97


def test_the_clean_up_rules_have_work() -> None:
    program = read_onnx(DIGITS / "digits.onnx")
    assert not any(node.opaque is not None for node in program.nodes)
    before = {node.op for node in program.nodes}
    assert {"batch_normalization", "expand", "cast_like", "shape"} <= before
    after = simplify(program).program
    assert {node.op for node in after.nodes} == {"conv", "relu", "add", "reduce_mean", "gemm"}
    onnx.checker.check_model(onnx.load(DIGITS / "digits.onnx"), full_check=True)
