"""`tensmith compile` writes a folder for a device that is not at hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from command_line import refused, tensmith


@pytest.mark.parametrize("target", ["raspberry-pi-5", "server-avx2"])
def test_a_folder_for_another_device(tiny: Path, tmp_path: Path, target: str) -> None:
    pytest.importorskip("ziglang", reason="no ziglang: pip install ziglang")
    words = ("compile", str(tiny / "tiny.onnx"), "--target", target, "--json")
    document = json.loads(tensmith(*words, folder=tmp_path).stdout)
    manifest = json.loads((tmp_path / f"tiny-{target}" / "model.json").read_text())
    machine = {"raspberry-pi-5": ("aarch64", ["neon"]), "server-avx2": ("x86_64", ["avx2", "fma"])}[target]
    assert document["architecture"] == manifest["architecture"] == machine[0]
    assert manifest["needs"] == document["needs"] == machine[1], "floats need no products of bytes"
    assert document["kernels"]
    assert (tmp_path / f"tiny-{target}" / "main.c").exists()


def test_sizes_that_are_not_open_are_refused(tiny: Path, tmp_path: Path) -> None:
    words = ("compile", str(tiny / "tiny.onnx"), "--sizes")
    refused(tensmith(*words, "depth=3", folder=tmp_path), 2, "no input leaves a size 'depth' open")
    refused(tensmith(*words, "depth", folder=tmp_path), 2, "write --sizes NAME=N")


def test_a_size_that_was_guessed_wrong_is_named(tmp_path: Path) -> None:
    """A table of 16 positions, and text of any length."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", "length"]) for name in "xy"]
    table = numpy_helper.from_array(np.ones(16, np.float32), "positions")
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "positions"], ["y"])], "g", ends[:1], ends[1:], [table]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "text.onnx")
    told = "sizes left open were taken as batch=1, length=128; --sizes says otherwise"
    refused(tensmith("compile", "text.onnx", folder=tmp_path), 1, told)
    assert tensmith("compile", "text.onnx", "--sizes", "length=16", folder=tmp_path).returncode == 0


def test_a_device_without_a_cpu_is_refused(tiny: Path, tmp_path: Path) -> None:
    words = ("compile", str(tiny / "tiny.onnx"), "--target", "nvidia-a100")
    refused(tensmith(*words, folder=tmp_path), 2, "native code is made for CPUs")


def test_halves_are_for_devices_that_multiply_them(tiny: Path, tmp_path: Path) -> None:
    words = ("compile", str(tiny / "tiny.onnx"), "--half", "--target", "raspberry-pi-4")
    refused(tensmith(*words, folder=tmp_path), 2, "does not multiply f16")


def test_half_and_another_precision_contradict(tiny: Path, tmp_path: Path) -> None:
    words = ("compile", str(tiny / "tiny.onnx"), "--half", "--precision", "bf16")
    refused(tensmith(*words, folder=tmp_path), 2, "leave out one of them")
    words = ("compile", str(tiny / "tiny.onnx"), "--precision", "f8")
    refused(tensmith(*words, folder=tmp_path), 2, "precision is one of f32, bf16, f16, not 'f8'")


def test_a_mixed_folder_is_for_onnx_runtime(tiny: Path, tmp_path: Path) -> None:
    words = ("compile", str(tiny / "tiny.onnx"), "--mixed", "--output", "mixed", "--json")
    document = json.loads(tensmith(*words, folder=tmp_path).stdout)
    assert document["regions"] == 1 and document["kernels"]
    assert {path.name for path in (tmp_path / "mixed").iterdir()} == {"libmixed.so", "mixed.onnx"}
    refused(tensmith(*words, "--threads", "2", folder=tmp_path), 2, "--mixed compiles for one thread")
