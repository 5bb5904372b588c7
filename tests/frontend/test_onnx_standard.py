"""Operators of the standard that are read as bodies of simpler ones compute what ONNX Runtime does."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper
from test_onnx_contrib import answers, normal, one_node, reads, stays

from tensmith.backend.native.emit.folder import write_folder
from tensmith.backend.native.emit.loader import Model
from tensmith.backend.native.plan import make_plan
from tensmith.formula.arith import Array
from tensmith.frontend import onnx as onnx_reader
from tensmith.frontend.onnx import read_onnx
from tensmith.kernel import host_isa


def runs_natively(
    op_type: str, inputs: list[Array | None], folder: Path, constants: Collection[int] = (), **attributes: Any
) -> None:
    """Such a use of fixed sizes compiles, and gives what ONNX Runtime gives."""
    sizes = {f"x{number}": array.shape for number, array in enumerate(inputs) if array is not None}
    model, fed = one_node(op_type, inputs, domain="", constants=constants, sizes=sizes, **attributes)
    write_folder(make_plan(read_onnx(model), host_isa()), folder)
    (found,) = Model(folder)(**fed).values()
    np.testing.assert_allclose(found, answers(model, fed)[0], rtol=1e-4, atol=1e-4)


def positions(*shape: int, seed: int = 0) -> Array:
    """Inside and outside of images, some on their borders."""
    found = np.random.default_rng(seed).uniform(-1.6, 1.6, shape).astype(np.float32)
    found.reshape(-1)[: shape[-2]] = np.resize([-1, 1, 0, -30, 1e4, -1e4], shape[-2])
    return found


@pytest.mark.parametrize("opset", [16, 20])
@pytest.mark.parametrize("padding", ["zeros", "border"])
@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_images_at_positions(opset: int, padding: str, aligned: int, mode: str, tmp_path: Path) -> None:
    mode = "bilinear" if opset == 16 and mode == "linear" else mode
    own = {"mode": mode, "padding_mode": padding, "align_corners": aligned, "opset": opset}
    for number, (height, width) in enumerate([(5, 7), (1, 1), (4, 1)]):
        x, grid = normal(2, 3, height, width), positions(2, 4, 6, 2, seed=number)
        sizes = {"x0": ["n", 3, "h", "w"], "x1": ["n", "a", "b", 2]}
        reads("GridSample", [x, grid], domain="", sizes=sizes, **own)
    if opset == 20:
        runs_natively("GridSample", [normal(2, 3, 5, 7), positions(2, 4, 6, 2)], tmp_path / "f", **own)


@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("padding", ["zeros", "border"])
@pytest.mark.parametrize("aligned", [0, 1])
def test_what_is_no_number_stays_where_it_is(mode: str, padding: str, aligned: int, tmp_path: Path) -> None:
    """What is outside of an image is no multiple of a pixel, and a position that is none reads no memory."""
    x = np.full((1, 1, 2, 2), np.inf, np.float32)
    x[0, 0, 1] = 3
    grid = np.array(
        [[[[-5, -5], [np.nan, 0], [0, np.nan], [1, 1], [np.inf, 1], [-np.inf, 1], [-1.5, 1], [3, -3]]]],
        np.float32,
    )
    sizes = {"x0": x.shape, "x1": grid.shape}
    own = {"mode": mode, "padding_mode": padding, "opset": 20, "align_corners": aligned}
    reads("GridSample", [x, grid], domain="", sizes=sizes, **own)
    runs_natively("GridSample", [x, grid], tmp_path / "f", **own)


def test_images_that_stay() -> None:
    x, grid = normal(2, 3, 5, 7), positions(2, 4, 6, 2)
    sizes = {"x0": x.shape, "x1": grid.shape}
    for own in ({"mode": "cubic"}, {"padding_mode": "reflection"}):
        stays("GridSample", [x, grid], domain="", sizes=sizes, opset=20, **own)


@pytest.mark.parametrize("length", [None, 3, 8, 9])
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize(("inverse", "one_sided"), [(0, 0), (1, 0), (0, 1)])
def test_transforms(length: int | None, parts: int, inverse: int, one_sided: int, tmp_path: Path) -> None:
    own = {"inverse": inverse, "onesided": one_sided}
    points = None if length is None else np.array(length)
    for axis, shape in [(1, (2, 8, parts)), (1, (2, 5, 3, parts)), (2, (2, 3, 6, parts))]:
        x = normal(*shape)
        old: dict[str, Any] = {"domain": "", "constants": (1, 2), "sizes": {"x0": shape}, **own}
        new = {**old, "opset": 20}
        given = [x, points, np.array(axis)]
        if one_sided and parts == 2:
            stays("DFT", [x, points], axis=axis, **old)
            stays("DFT", given, **new)
        else:
            reads("DFT", [x, points], axis=axis, **old)
            reads("DFT", given, **new)
            reads("DFT", given, **{**new, "sizes": {"x0": ["n", *shape[1:]]}})
    if not (one_sided and parts == 2):
        runs_natively(
            "DFT", [normal(2, 8, parts), points, np.array(1)], tmp_path / "f", (1, 2), opset=20, **own
        )


def test_many_large_transforms_of_a_small_file_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of some hundred bytes a transform could ask for megabytes each."""
    monkeypatch.setattr(onnx_reader, "_MOST_WRITTEN", 3 * 4 * 2 * 64 * 64)
    nodes = [helper.make_node("DFT", ["x", "", "axis"], [f"y{n}"]) for n in range(9)]
    infos = [helper.make_tensor_value_info(f"y{n}", 1, [2, 64, 2]) for n in range(9)]
    given = helper.make_tensor_value_info("x", 1, [2, 64, 1])
    graph = helper.make_graph(nodes, "many", [given], infos, [numpy_helper.from_array(np.array(1), "axis")])
    program = read_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10))
    stayed = sum(node.opaque is not None for node in program.nodes)
    assert 4 <= stayed <= 6


@pytest.mark.parametrize("number", [np.inf, np.nan, 4.7])
def test_lengths_that_are_no_integers(number: float) -> None:
    length = np.array(number, np.float32)
    stays("DFT", [normal(2, 8, 1), length, np.array(1)], constants=(1, 2), domain="", opset=20)


def test_transforms_that_stay() -> None:
    x = normal(2, 8, 1)
    own: dict[str, Any] = {"domain": "", "opset": 20}
    stays("DFT", [x, None, np.array(1)], constants=(2,), **own)  # of a length that is not known
    stays("DFT", [x, np.array(5), np.array(1)], constants=(2,), sizes={"x0": x.shape}, **own)
    stays("DFT", [normal(1, 5000, 1), None, np.array(1)], constants=(2,), sizes={"x0": (1, 5000, 1)}, **own)


@pytest.mark.parametrize("windowed", [False, True])
@pytest.mark.parametrize("size", [8, 7])
@pytest.mark.parametrize(("parts", "one_sided"), [(1, 0), (1, 1), (2, 0)])
def test_transforms_of_frames(windowed: bool, size: int, parts: int, one_sided: int, tmp_path: Path) -> None:
    window = np.hanning(size).astype(np.float32) if windowed else None
    length = None if windowed else np.array(size)
    inputs = [normal(2, 30, parts), np.array(3), window, length]
    for sizes in ({"x0": (2, 30, parts)}, {"x0": ["n", "l", parts]}):
        own: dict[str, Any] = {"domain": "", "sizes": sizes, "onesided": one_sided}
        reads("STFT", inputs, constants=(1, 2, 3), **own)
    if windowed:
        stays("STFT", inputs, constants=(2,), **own)
    runs_natively("STFT", inputs, tmp_path / "f", (1, 2, 3), onesided=one_sided)
