"""Mixed folders in ONNX Runtime as any application uses them, and errors that say what is wrong."""

from __future__ import annotations

import platform
import shutil
import subprocess
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from mixed_models import I64, branching, compile_mixed, convolution, detector, model, weights
from onnx import helper

from tensmith.backend.mixed import library
from tensmith.backend.mixed.folder import LIBRARY, MODEL, check_folder
from tensmith.engine.engines import mixed
from tensmith.errors import EngineError, OutputError
from tensmith.kernel import host_isa
from tensmith.kernel.toolchain import has_compiler

Array = np.ndarray[Any, Any]

pytestmark = pytest.mark.skipif(not has_compiler(), reason="no C compiler is installed")


def opened(folder: Path, library: Path | None = None) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.register_custom_ops_library(str(library or folder / LIBRARY))
    return onnxruntime.InferenceSession(str(folder / MODEL), options)


def images(count: int) -> list[Array]:
    random = np.random.default_rng(3)
    return [random.standard_normal((1, 3, 8, 8)).astype(np.float32) for _ in range(count)]


@pytest.mark.parametrize("made", [detector, branching])
def test_it_answers_as_the_model_does(made: Any, tmp_path: Path) -> None:
    folder = compile_mixed(made(), tmp_path)
    assert {path.name for path in folder.iterdir()} == {LIBRARY, MODEL}
    session, truth = opened(folder), onnxruntime.InferenceSession(made().SerializeToString())
    for x in (images(1)[0], -images(1)[0]):
        for found, expected in zip(session.run(None, {"x": x}), truth.run(None, {"x": x})):
            # 144 products of about 1 and their sums, each rounded once.
            np.testing.assert_allclose(found, expected, rtol=0, atol=144 * np.finfo(np.float32).eps * 4)


def test_the_shapes_of_regions_are_known_to_others(tmp_path: Path) -> None:
    folder = compile_mixed(detector(), tmp_path)
    graph = onnx.shape_inference.infer_shapes(onnx.load(folder / MODEL)).graph
    assert "scores" in {value.name for value in graph.value_info}
    assert [node.domain for node in graph.node] == ["tensmith", ""]


def test_threads_run_one_session_at_the_same_time(tmp_path: Path) -> None:
    session = opened(compile_mixed(branching(), tmp_path))
    inputs = images(4)
    alone = [session.run(None, {"x": x})[0] for x in inputs]
    wrong: list[int] = []

    def work(index: int) -> None:
        for _ in range(200):
            if not np.array_equal(session.run(None, {"x": inputs[index]})[0], alone[index]):
                wrong.append(index)

    workers = [threading.Thread(target=work, args=(index,)) for index in range(len(inputs))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []


def test_a_processor_without_a_feature_is_told(tmp_path: Path) -> None:
    isa = host_isa()
    needing = replace(isa, needs=isa.needs | {"quantum"})
    folder = compile_mixed(detector(), tmp_path, needing)
    with pytest.raises(Exception, match=r"compiled for a CPU with .*quantum.*, which this one has not"):
        opened(folder)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="tile registers are x86's")
def test_tile_registers_that_the_system_does_not_lend_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "TILES", host_isa().needs)
    monkeypatch.setattr(library, "ASK_FOR_TILES", (158, 0x1023, 999))
    folder = compile_mixed(detector(), tmp_path)
    with pytest.raises(Exception, match="whose tile registers the system does not let this process use"):
        opened(folder)


def test_altered_weights_are_told(tmp_path: Path) -> None:
    folder = compile_mixed(detector(), tmp_path)
    check_folder(folder)
    library = folder / LIBRARY
    sections = subprocess.run(["readelf", "-SW", library], capture_output=True, text=True, check=False).stdout
    if not sections:
        pytest.skip("readelf is not installed")
    (rodata,) = (line.split("]")[1].split() for line in sections.splitlines() if " .rodata " in line)
    content = bytearray(library.read_bytes())
    content[int(rodata[3], 16) + 4096 + 256] ^= 1
    library.write_bytes(content)
    with pytest.raises(Exception, match="weights were altered after they were written"):
        opened(folder)
    with pytest.raises(EngineError, match="was altered after it was written"):
        check_folder(folder)


def test_the_library_of_another_model_is_told(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    folder, other = compile_mixed(detector(), tmp_path), compile_mixed(detector(3), tmp_path / "other")
    with pytest.raises(Exception, match="the model and its library were not compiled together"):
        opened(folder, other / LIBRARY)


def test_a_library_of_other_sizes_is_told(tmp_path: Path) -> None:
    """The same code and weights, which make another shape of the same elements."""

    def places(shape: list[int]) -> onnx.ModelProto:
        nodes = [
            convolution("x", "f", "a"),
            helper.make_node("Reshape", ["a", "shape"], ["b"]),
            helper.make_node("NonZero", ["b"], ["y"]),
        ]
        constants = {"shape": np.array(shape), **weights(f=(16, 3, 3, 3))}
        return model(nodes, {"y": (I64, (len(shape), "n"))}, constants)

    (tmp_path / "other").mkdir()
    folder = compile_mixed(places([2, 8, 64]), tmp_path)
    other = compile_mixed(places([4, 4, 64]), tmp_path / "other")
    with pytest.raises(Exception, match="the model and its library were not compiled together"):
        opened(folder, other / LIBRARY)


def test_a_folder_that_exists_is_kept(tmp_path: Path) -> None:
    compile_mixed(detector(), tmp_path)
    with pytest.raises(OutputError, match="exists already"):
        compile_mixed(detector(), tmp_path)


def test_a_folder_that_took_the_place_of_another_answers_for_itself(tmp_path: Path) -> None:
    (x,) = images(1)
    for seed in (2, 3):
        shutil.rmtree(tmp_path / "mixed", ignore_errors=True)
        session = mixed._load(compile_mixed(detector(seed), tmp_path), 1, tmp_path)
        truth = onnxruntime.InferenceSession(detector(seed).SerializeToString())
        for found, expected in zip(session.run({"x": x}).values(), truth.run(None, {"x": x})):
            np.testing.assert_allclose(found, expected, rtol=0, atol=144 * np.finfo(np.float32).eps * 4)
