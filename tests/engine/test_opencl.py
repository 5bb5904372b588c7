"""The OpenCL engine: its setting, its refusals, real networks; skipped where no driver is installed."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path

import numpy as np
import onnx
import pytest
from tiny_models import conv_relu

from nets import Net
from opencl_device import needs_opencl
from tensmith.backend.device.plan import make_plan
from tensmith.engine import ENGINES
from tensmith.engine.base import available
from tensmith.engine.engines.opencl import OpenClMachine, find_device
from tensmith.errors import EngineError

OPENCL = ENGINES["opencl"]


def test_it_is_used_on_request_only() -> None:
    assert "opencl" not in available()


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert OPENCL.missing() == "pyopencl is not installed: pip install 'tensmith[opencl]'"
    with pytest.raises(EngineError, match="pyopencl is not installed"):
        OPENCL.prepare(tmp_path / "m.onnx", 1)


@needs_opencl
def test_its_version_names_what_computes() -> None:
    kind, name = find_device(1).type, find_device(1).name
    version, found = OPENCL.version(), "CPU" if kind & 2 else "GPU" if kind & 4 else "accelerator"
    assert f" on {found} {name} (driver " in version and version.startswith(
        importlib.metadata.version("pyopencl")
    )


@needs_opencl
def test_halves_are_near_floats(tmp_path: Path) -> None:
    model, inputs = conv_relu()
    onnx.save(model, tmp_path / "m.onnx")
    whole = OPENCL.prepare(tmp_path / "m.onnx", 1).run(inputs)["y"]
    half = OPENCL.prepare(tmp_path / "m.onnx", 1, precision="f16").run(inputs)["y"]
    # Weights and bias are rounded to 11 bits, sums of 27 products are floats.
    bound = 2**-11 * (np.abs(inputs["x"]).max() * 27 + 1) * 4
    assert 0 < np.abs(half - whole).max() <= bound


@needs_opencl
def test_a_constant_without_elements_is_read() -> None:
    net = Net(4)
    empty = net.constant(values=np.zeros(0, np.float32))
    plan = make_plan(net.program(net.add("einsum", "x", empty, equation="i,j->i")))
    assert plan.constants[empty].size == 0
    (found,) = OpenClMachine(find_device(1), plan)(x=np.ones(4, np.float32)).values()
    assert np.array_equal(found, np.zeros(4))


@needs_opencl
def test_an_unknown_precision_is_refused(tmp_path: Path) -> None:
    onnx.save(conv_relu()[0], tmp_path / "m.onnx")
    with pytest.raises(EngineError, match="opencl's precision is one of f32, f16, not 'f8'"):
        OPENCL.prepare(tmp_path / "m.onnx", 1, precision="f8")


@needs_opencl
@pytest.mark.data
@pytest.mark.parametrize(("precision", "bound"), [("f32", 1e-5), ("f16", 1e-2)])
def test_a_real_network_on_a_device(data_dir: Path, precision: str, bound: float) -> None:
    # Twenty layers: floats lose some tens of roundings of the spread; halves 2**-11 of it in each layer.
    path = data_dir / "models" / "resnet20_cifar10.onnx"
    x = np.random.default_rng(3).standard_normal((1, 3, 32, 32)).astype(np.float32)
    found = OPENCL.prepare(path, 1, precision=precision).run({"input": x})
    expected = ENGINES["onnxruntime"].prepare(path, 1).run({"input": x})
    for output, array in expected.items():
        assert np.abs(found[output] - array).max() <= bound * float(array.max() - array.min())
