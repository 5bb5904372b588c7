"""Points that the native engine runs: what is deployed is what was measured, and it runs alone."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensmith
from command_line import refused
from command_line import tensmith as command
from own_cache import own_cache
from tensmith import compression
from tensmith.backend.native.choose.precision import refusal
from tensmith.backend.native.emit import loader
from tensmith.cache import user_cache
from tensmith.deploy import finalize
from tensmith.deploy.again import verify_point
from tensmith.engine import ENGINES, compiled, tunable
from tensmith.engine.compiled import NATIVE
from tensmith.engine.worker import SessionWorker
from tensmith.errors import EngineError, ProgramError, VerificationError
from tensmith.evaluate.contender import Contender
from tensmith.kernel.isa import host_isa
from tensmith.verify import library

pytestmark = pytest.mark.skipif(bool(ENGINES[NATIVE].missing()), reason="no C compiler is installed")


@pytest.fixture(scope="module")
def out(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on the tiny model by the native engine alone; for reading only."""
    folder = tmp_path_factory.mktemp("native") / "out"
    with pytest.MonkeyPatch.context() as patch:
        own_cache(folder.parent / "cache", patch)
        tensmith.compress(
            tiny / "tiny.onnx", f"npz:{tiny / 'tiny.npz'}", output=folder, engines=(NATIVE,),
            time_budget=1, preprocess="raw", prefer="latency",
        )  # fmt: skip
    return folder


@pytest.fixture
def point(out: Path) -> Path:
    """The folder of a native point."""
    points = json.loads((out / "front.json").read_text())["points"]
    number = next(number for number, point in enumerate(points) if point["engine"] == NATIVE)
    assert points[number]["metrics"]["native_bytes"]["value"] > 0
    assert "libmodel.so" in points[number]["files"]
    return out / "candidates" / f"{number:03d}"


def test_the_folder_needs_numpy_alone(point: Path) -> None:
    script = (
        "import sys, numpy; sys.path.insert(0, sys.argv[1])\n"
        "from model import Model\n"
        "print(Model()(x=numpy.ones((1, 3, 8, 8), 'f4'))['y'].tolist())\n"
        "assert not any(name.startswith(('onnx', 'tensmith')) for name in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-I", "-B", "-c", script, str(point)], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    other = tensmith.load(point, engine="onnxruntime")(np.ones((1, 3, 8, 8), np.float32))
    np.testing.assert_allclose(json.loads(run.stdout), other, rtol=1e-3, atol=1e-2)


def test_load_takes_the_compiled_folder_for_any_number_of_samples(point: Path) -> None:
    x = np.random.default_rng(0).standard_normal((5, 3, 8, 8)).astype(np.float32)
    compiled, onnx = tensmith.load(point), tensmith.load(point, engine="onnxruntime")
    assert compiled.session.inputs[0].shape == (1, 3, 8, 8)
    np.testing.assert_allclose(compiled(x), onnx(x), rtol=1e-3, atol=1e-2)
    assert "conv" in str(compiled)


def test_verify_holds_and_an_altered_library_is_refused(
    point: Path, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_cache(point.parents[2] / "cache", monkeypatch)
    copy = Path(shutil.copytree(point, tmp_path / "point"))
    arguments = ("verify", copy, "--original", tiny / "tiny.onnx")
    result = command(*arguments, folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "libmodel.so is the file that was certified" in result.stdout
    assert "libmodel.so is what model.onnx compiles to (compiled again, byte for byte)" in result.stdout
    library = copy / "libmodel.so"
    library.write_bytes(library.read_bytes() + b"\0")
    refused(command(*arguments, folder=tmp_path), 1, "libmodel.so", "SHA-256")
    with pytest.raises(VerificationError, match=r"libmodel\.so"):
        tensmith.load(copy)
    (copy / "certificate.json").unlink()
    with pytest.raises(EngineError, match="altered"):
        _ = tensmith.load(copy).session


def test_verify_compiles_it_again_to_the_byte_with_nothing_cached(
    point: Path, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    found = {f.claim: f for f in verify_point(point, tiny / "tiny.onnx").findings}
    for name in ("libmodel.so", "model.c", "model.h", "model.json", "model.py", "weights.bin"):
        assert found[f"{name} is what model.onnx compiles to"].outcome == "holds"
    assert found["libmodel.so computes what model.onnx does, but for rounding"].outcome == "holds"


def _moved(answers: Any) -> Any:
    return {name: 2 * array + 9 for name, array in answers.items()}


def _refused(answers: Any) -> Any:
    raise ProgramError("an op has no meaning")


@pytest.mark.parametrize(
    ("meant", "outcome"), [(dict, "holds"), (_moved, "does not hold"), (_refused, "does not hold")]
)
def test_where_onnx_runtime_is_off_the_interpreter_decides(
    meant: Any, outcome: str, point: Path, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a model of codes: all outputs that are compared first are wrong; the interpreter's may be."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    monkeypatch.setattr(library, "_ROUNDING", library._QUANTIZED)
    run, interpreted = SessionWorker.run, library.interpret

    def off(self: SessionWorker, inputs: Any) -> Any:
        found = run(self, inputs)
        return _moved(found) if self.engine == "onnxruntime" else found

    monkeypatch.setattr(SessionWorker, "run", off)
    monkeypatch.setattr(library, "interpret", lambda *given: meant(interpreted(*given)))
    found = {f.claim: f for f in verify_point(point, tiny / "tiny.onnx").findings}
    claim = found["libmodel.so computes what model.onnx does, but for rounding"]
    assert claim.outcome == outcome, claim.detail
    assert ("ONNX Runtime" in claim.detail) == (meant is not _refused)


def compressed(tiny: Path, output: Path, **more: Any) -> None:
    """Compresses for latency in the native engine, which is on the front."""
    made = tensmith.compress(
        tiny / "tiny.onnx", f"npz:{tiny / 'tiny.npz'}", output=output, engines=(NATIVE,),
        time_budget=1, preprocess="raw", prefer="latency", **more,
    )  # fmt: skip
    assert NATIVE in {point.engine for point in made.points}


def test_a_point_is_delivered_where_the_cache_was_emptied_meanwhile(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_cache(tmp_path / "cache", monkeypatch)
    write = compression.write_run

    def emptied(*words: Any) -> None:
        shutil.rmtree(user_cache("models"))
        write(*words)

    monkeypatch.setattr(compression, "write_run", emptied)
    compressed(tiny, tmp_path / "out")
    assert (tmp_path / "out" / "best" / loader.LIBRARY).is_file()


def test_a_point_is_what_was_timed_though_kernels_are_timed_meanwhile(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_cache(tmp_path / "cache", monkeypatch)
    compare = finalize.compare

    def refuse(*words: Any) -> None:
        raise EngineError("compiled anew")

    def tuned_meanwhile(*words: Any, **more: Any) -> Any:
        monkeypatch.setattr(tunable, "timings_revision", lambda _: "another")
        monkeypatch.setattr(compiled, "compile_anew", refuse)
        return compare(*words, **more)

    monkeypatch.setattr(finalize, "compare", tuned_meanwhile)
    compressed(tiny, tmp_path / "out")


def test_a_native_run_is_resumed(
    out: Path, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_cache(tmp_path / "another", monkeypatch)
    compressed(tiny, out, resume=True)


@pytest.mark.skipif(bool(refusal("bf16", host_isa())), reason="this CPU does not multiply bfloat16")
def test_a_point_in_less_precision_ships_what_was_compiled_for_that(tiny: Path) -> None:
    example = {"x": np.zeros((1, 3, 8, 8), np.float32)}
    manners = (), (("precision", "bf16"),)
    plain, half = (
        Contender(NATIVE, tiny / "tiny.onnx", settings).compiled(example, 1) for settings in manners
    )
    assert half and plain != half and (half / loader.MANIFEST).exists()
