"""`tensmith.compress` of a PyTorch module: exported into the run's folder, resumed by what it computes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from command_line import images
from tensmith import Front, compress, load, quantize
from tensmith.errors import MissingExtra, ModelError, OutputError, UsageError

IMAGES = images()


def run(module: Any, out: Path, **options: Any) -> Front:
    labels = IMAGES.mean((1, 2)).argmax(1)
    return compress(
        module,
        (IMAGES, labels),
        output=out,
        engines=("onnxruntime",),
        time_budget=1,
        preprocess="raw",
        **options,
    )


def test_a_module_is_compressed_and_resumed(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="the torch extra is not installed")
    pytest.importorskip("onnxscript", reason="the torch extra is not installed")
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3),
        torch.nn.ReLU(),
        torch.nn.AvgPool2d(6),
        torch.nn.Flatten(),
        torch.nn.Linear(4, 3),
    )
    example = torch.zeros(1, 3, 8, 8)
    out = tmp_path / "out"
    front = run(module, out, example_inputs=example)
    assert front.points
    model = yaml.safe_load((out / "config.yaml").read_text())["model"]
    assert Path(model) == out / "work" / "model.onnx" and Path(model).exists()

    assert run(module, out, example_inputs=example, resume=True).points
    with torch.no_grad():
        module[0].weight += 1
    with pytest.raises(OutputError, match="another model"):
        run(module, out, example_inputs=example, resume=True)
    with pytest.raises(ModelError, match="pass the module itself"):
        run(np.ones(3), tmp_path / "other", example_inputs=example)
    assert not (tmp_path / "other").exists()


def test_example_inputs_are_needed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="example_inputs"):
        run(object(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_without_torch_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"tensmith\[torch\]"):
        run(object(), tmp_path / "out", example_inputs=np.zeros((1, 3, 8, 8)))
    assert not (tmp_path / "out").exists()


def test_a_module_is_quantized_without_data(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="the torch extra is not installed")
    pytest.importorskip("onnxscript", reason="the torch extra is not installed")
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(64, 96), torch.nn.ReLU(), torch.nn.Linear(96, 40))
    found = quantize(module, tmp_path / "small.onnx", example_inputs=torch.zeros(1, 64))
    assert [tensor.bits for tensor in found.tensors] == [4, 4]
    x = torch.randn(3, 64)
    answer, exact = load(tmp_path / "small.onnx")(x.numpy()), module(x).detach().numpy()
    assert 0 < np.linalg.norm(answer - exact) < 0.3 * np.linalg.norm(exact)
    with pytest.raises(UsageError, match="needs example_inputs="):
        quantize(module, tmp_path / "other.onnx")
