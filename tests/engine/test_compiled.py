"""Compiled folders: found again, compiled anew when timings are known, and not too many of them."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tiny_models import conv_relu

from own_cache import own_cache
from tensmith import cache, registry
from tensmith.backend.native.choose.choosers import in_family
from tensmith.backend.native.choose.tuning import TUNED, UNTUNED
from tensmith.engine import ENGINES, compiled
from tensmith.engine.base import compilers
from tensmith.engine.compile import main as compile_main
from tensmith.engine.compiled import NATIVE, CompileOptions, code_revision, compiled_folder
from tensmith.engine.engines.native import loaded
from tensmith.errors import EngineError, OutputError, is_of_disk
from tensmith.kernel import ConvolutionProblem, candidates, host_isa
from tensmith.kernel.timings import Timings
from tensmith.kernel.toolchain import find_compiler

PLAIN = CompileOptions.of(NATIVE)
pytestmark = pytest.mark.skipif(bool(ENGINES[NATIVE].missing()), reason="no C compiler is installed")


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model file; what is compiled and timed goes to a folder of this test."""
    own_cache(tmp_path / "cache", monkeypatch)
    onnx.save(conv_relu()[0], tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def test_a_file_is_compiled_once_until_a_kernel_was_timed(model: Path) -> None:
    first = compiled_folder(model, {}, PLAIN)
    assert compiled_folder(model, {}, PLAIN) == first
    problem = ConvolutionProblem(3, 8, 8, 4, (3, 3), pads=(1, 1, 1, 1))
    slowest = candidates(problem, host_isa())[-1]
    Timings().add(slowest, 0, 1e-9)
    tuned = loaded(compiled_folder(model, {}, PLAIN))
    assert list(tuned.manifest["kernels"].values()) == [str(slowest)]
    untuned = loaded(compiled_folder(model, {}, CompileOptions.of(NATIVE, {"tuning": UNTUNED})))
    assert untuned.manifest["kernels"] == loaded(first).manifest["kernels"]


def versions_here() -> list[str]:
    return [engine.version() for engine in compilers().values()]


def test_another_compiler_compiles_anew(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, versions = compiled_folder(model, {}, PLAIN), versions_here()
    monkeypatch.setenv("CC", f"{find_compiler().command[0]} -fno-plt")
    assert compiled_folder(model, {}, PLAIN) != first
    assert all(find_compiler().version in version for version in versions)
    assert not {*versions} & {*versions_here()}


def test_a_compiler_that_does_not_answer_is_no_matter_of_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "false")
    assert all("does not answer" in version for version in versions_here())


def test_a_full_disk_is_not_the_model_s_fault(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = model.parent / "full"
    script.write_text(
        "#!/bin/sh\n"
        'case "$*" in *--version) echo full 1; exit;; esac\n'
        'echo "unit0.c:1: fatal error: error writing to unit0.o: No space left on device" >&2; exit 1\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("CC", str(script))
    with pytest.raises(
        OutputError, match=r"cannot compile .*model.onnx: .*No space left.*free some space"
    ) as full:
        compiled_folder(model, {}, PLAIN)
    assert is_of_disk(full.value)


def test_what_the_system_says_while_compiling_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*words: Any, **more: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/full/scratch")

    monkeypatch.setattr(type(ENGINES[NATIVE]), "compile", full)
    asked = '{"settings": {}, "sizes": {}, "threads": 1}'
    monkeypatch.setattr(sys, "argv", ["", type(ENGINES[NATIVE]).__module__, NATIVE, "m", "made", asked])
    assert compile_main() == compiled.UNWRITTEN
    assert capsys.readouterr().err == (
        "the system refused (/full/scratch): No space left on device; free some space\n"
    )


def test_a_compiler_in_another_s_place_compiles_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "mine"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.setenv("CC", str(script))
    before = compiled.compiling(NATIVE).revision(tuning=UNTUNED)
    assert compiled.compiling(NATIVE).revision(tuning=UNTUNED) == before
    script.write_text("#!/bin/sh\n# newer\n")
    assert compiled.compiling(NATIVE).revision(tuning=UNTUNED) != before


def test_it_is_compiled_in_a_process_of_its_own(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = compiled_folder(model, {}, PLAIN)
    compiled.compile_anew(model, model.parent / "made", {}, PLAIN)
    for name in ("model.c", "weights.bin"):
        assert (model.parent / "made" / name).read_bytes() == (elsewhere / name).read_bytes()
    (model.parent / "broken.onnx").write_bytes(b"garbage!")
    with pytest.raises(EngineError, match="native cannot load"):
        compiled.compile_anew(model.parent / "broken.onnx", model.parent / "no", {}, PLAIN)


def test_a_replaced_library_is_compiled_again_and_never_run(model: Path) -> None:
    folder = compiled_folder(model, {}, PLAIN)
    whole = (folder / "libmodel.so").read_bytes()
    (folder / "libmodel.so").write_bytes(b"not what was compiled")
    libraries = list((folder.parents[1] / "native").glob("*/kernels.so"))
    libraries[0].write_bytes(b"nor is this")
    assert compiled_folder(model, {}, PLAIN) == folder
    assert (folder / "libmodel.so").read_bytes() == libraries[0].read_bytes() == whole


def test_nothing_is_kept_of_a_file_that_is_replaced_meanwhile(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replacing(path: Path, folder: Path, *_: object) -> None:
        folder.mkdir()
        other = onnx.load(path)
        other.doc_string = "another model"
        onnx.save(other, path)

    monkeypatch.setattr(compiled, "compile_anew", replacing)
    with pytest.raises(EngineError, match="it has just been replaced"):
        compiled_folder(model, {}, PLAIN)
    assert cache.entries(cache.user_cache("models")) == []


def test_the_engine_takes_the_setting(model: Path) -> None:
    inputs = conv_relu()[1]
    answers = [
        ENGINES[NATIVE].prepare(model, 1, tuning=tuning).run(inputs)["y"] for tuning in (TUNED, UNTUNED)
    ]
    np.testing.assert_allclose(*answers, rtol=1e-5, atol=1e-5)
    with pytest.raises(EngineError, match="tuning is one of tuned, untuned, metaschedule, not 'often'"):
        ENGINES[NATIVE].prepare(model, 1, tuning="often")


def test_an_algorithm_computes_every_layer_that_it_takes(model: Path) -> None:
    for algorithm in ("direct", "gemm"):
        options = CompileOptions.of(NATIVE, {"tuning": UNTUNED, "algorithm": algorithm})
        made = loaded(compiled_folder(model, {}, options))
        assert [
            in_family(kernel.partition(" ")[0], algorithm) for kernel in made.manifest["kernels"].values()
        ] == [True]
    with pytest.raises(EngineError, match=r"algorithm is one of any, direct, .*, not 'quick'"):
        ENGINES[NATIVE].prepare(model, 1, algorithm="quick")


def test_the_engine_refuses_precisions_that_there_are_not(model: Path) -> None:
    with pytest.raises(EngineError, match="precision is one of f32, bf16, f16, not 'f8'"):
        ENGINES[NATIVE].prepare(model, 1, precision="f8")


def test_settings_have_a_folder_of_their_own(model: Path) -> None:
    folders = {
        compiled_folder(model, {}, CompileOptions.of(NATIVE, {"tuning": UNTUNED, "algorithm": name}))
        for name in ("any", "direct")
    }
    assert len(folders) == 2


def test_folders_used_least_recently_go(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newest = compiled_folder(model, {}, PLAIN)
    for age, name in enumerate(("young", "middle", "old"), start=1):
        other = newest.parent / name
        other.mkdir()
        (other / "weights.bin").write_bytes(bytes(1000))
        os.utime(other, (1e9 - age, 1e9 - age))
    size = sum(file.stat().st_size for file in newest.iterdir())
    monkeypatch.setattr(compiled, "_MOST_BYTES", size + 1500)
    cache.tidy(newest, compiled._MOST_BYTES)
    assert sorted(folder.name for folder in newest.parent.iterdir()) == sorted([newest.name, "young"])


def test_threads_have_a_folder_of_their_own_and_answer_alike(model: Path) -> None:
    inputs = conv_relu()[1]
    one, two = (ENGINES[NATIVE].prepare(model, threads).run(inputs)["y"] for threads in (1, 2))
    np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-5)


def test_weights_in_another_folder_are_part_of_the_file(model: Path) -> None:
    proto = onnx.load(model)
    inputs = conv_relu()[1]
    (model.parent / "sub").mkdir()
    onnx.save(
        proto, model, save_as_external_data=True, location="sub/weights.bin", size_threshold=0,
        all_tensors_to_one_file=True,
    )  # fmt: skip
    native = ENGINES[NATIVE]
    first = native.prepare(model, 1).run(inputs)["y"]
    weights = model.parent / "sub" / "weights.bin"
    (2 * np.fromfile(weights, np.float32)).tofile(weights)
    np.testing.assert_allclose(native.prepare(model, 1).run(inputs)["y"], 2 * first, rtol=1e-5, atol=1e-5)


def test_the_code_of_more_rooms_and_modules_is_asked_for() -> None:
    assert len({code_revision(), code_revision("search"), code_revision("compression")}) == 3


def test_what_plugins_and_numpy_are_is_part_of_the_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ops, rules and readers that decide what is compiled may be a plugin's; NumPy computes constants."""
    package, described = tmp_path / "some_ops", tmp_path / "some_ops-1.dist-info"
    for folder in (package, described):
        folder.mkdir()

    def written(version: str, code: str) -> str:
        (package / "__init__.py").write_text("from some_ops import inner\n")
        (package / "inner.py").write_text(code)
        (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: some-ops\nVersion: {version}\n")
        (described / "entry_points.txt").write_text("[tensmith.plugins]\nrules = some_ops\n")
        code_revision.cache_clear()
        return code_revision()

    monkeypatch.setattr(registry, "_plugins_loaded", True)
    try:
        code_revision.cache_clear()
        found = [code_revision()]
        monkeypatch.syspath_prepend(tmp_path)
        found += [written("1", "a = 1"), written("1", "a = 2"), written("2", "a = 2")]
        monkeypatch.setattr(np, "__version__", "0.1")
        found.append(written("2", "a = 2"))
        assert len(set(found)) == 5
        assert written("2", "a = 2") == found[-1]
    finally:
        code_revision.cache_clear()
