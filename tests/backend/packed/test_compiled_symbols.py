"""C and NumPy read the same symbols from every file and refuse the same ones, and C stays in its memory."""

from __future__ import annotations

import os
import random
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packed_damage import damaged
from packed_samples import model_of, tensor, varied_model

from tensmith.backend.packed import compiled, model, pack, predicted, scaled, unpack
from tensmith.backend.packed.compiled import bind, compiled_library, text
from tensmith.backend.packed.frequency import FARTHEST, LEVELS, MEANS, normalise
from tensmith.backend.packed.rans import TOTAL, Decoder, batch_of, encode
from tensmith.backend.packed.streams import StreamReader
from tensmith.children import run
from tensmith.errors import MissingExtra, ModelError, TensmithError
from tensmith.kernel import host_isa, isa_named
from tensmith.kernel.toolchain import OPTIMIZED, find_compiler, has_compiler, load_library

pytestmark = pytest.mark.skipif(not has_compiler(), reason="no C compiler")

SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g1")
MODEL = varied_model()


@pytest.fixture(scope="module")
def packed() -> bytes:
    """MODEL, packed."""
    return pack(MODEL)


def ending(file: bytes, compiled: bool) -> bytes | str:
    """The model, or the class of the error."""
    try:
        return unpack(file, compiled=compiled)
    except TensmithError as error:
        return type(error).__name__


def test_both_give_every_byte(packed: bytes) -> None:
    assert compiled_library(1 << 40) is not None
    assert unpack(packed, compiled=True) == unpack(packed, compiled=False) == MODEL


def test_both_write_the_same_file(packed: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "compiled_library", lambda elements: None)
    plain = pack(MODEL)
    monkeypatch.undo()
    assert compiled_library(1 << 40) is not None and pack(MODEL) == plain == packed


def test_the_same_files_are_refused(packed: bytes) -> None:
    rng = random.Random(5)
    files = [damaged(packed, rng, len(MODEL)) for _ in range(120)]
    endings = [(ending(file, True), ending(file, False)) for file in files]
    assert [compiled for compiled, _ in endings] == [plain for _, plain in endings]
    assert "ModelError" in {compiled for compiled, _ in endings}


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 3, 7, 8, 60, 127, 500, 1023]), st.floats(0, 0.95))
def test_integers_of_any_range_and_shape(seed: int, top: int, zeros: float) -> None:
    rng = np.random.default_rng(seed)
    shape = (int(rng.integers(1, 65)), *rng.integers(1, 6, rng.integers(0, 4)).tolist())
    values = np.cumsum(rng.laplace(0, top / 6, shape), axis=-1).round().clip(-top, top)
    values[rng.random(shape) < zeros] = 0
    whole = model_of(tensor("w", values.astype(np.int16)), tensor("v", values.astype(np.int16).ravel()[::-1]))
    file = pack(whole)
    assert unpack(file, compiled=True) == unpack(file, compiled=False) == whole


def test_code_for_any_processor_reads_the_same(packed: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the vectors that this machine has."""
    if host_isa().architecture != "x86_64":
        pytest.skip("generic code is made for x86-64")
    generic = bind(load_library(text(), isa_named("generic")))
    monkeypatch.setattr(model, "compiled_library", lambda elements: generic)
    assert unpack(packed, compiled=True) == MODEL


def test_the_constants_of_both_are_one() -> None:
    found = {name: eval(value) for name, value in re.findall(r"(\w+) = ([0-9 <]+)[,;}]", text())}
    expected = {"LEVELS": LEVELS, "MEANS": MEANS, "MIDDLE": FARTHEST, "PRECISION": 15, "MOST_SYMBOLS": 2048}
    assert {name: found[name] for name in expected} == expected
    assert found["NEAR"] == predicted._NEAR == compiled._NEAR and found["NODE"] == compiled._NODE


@pytest.mark.parametrize("lanes", [1, 4, 32, 4096])
def test_both_write_the_same_words(lanes: int) -> None:
    rng = np.random.default_rng(lanes)
    library = compiled_library(1 << 40)
    assert library is not None
    batches = [batch_of(np.zeros(77, np.int64), np.zeros(77, np.uint8), np.array([[TOTAL]]))]
    for size, alphabet, rows in ((3, 2, 1), (5000, 256, 5), (9001, 2000, 300), (0, 7, 1)):
        table = normalise(rng.integers(0, 2000, (rows, alphabet)))
        contexts = rng.integers(0, rows, size).astype(np.uint16)
        batches.append(batch_of(rng.integers(0, alphabet, size), contexts, table))
    assert compiled.compiled_encode(batches, lanes, library) == encode(batches, lanes)
    assert compiled.compiled_encode([], 1, library) == encode([], 1)


def test_no_elements_have_no_symbols_by_both() -> None:
    """NumPy read one for the level that they have."""
    library = compiled_library(1 << 40)
    assert library is not None
    values = np.array([-1, 0, 1, 1])
    written = scaled.encode(values, values.shape)
    stream = encode([], 1)
    for decoder in (Decoder(stream, 1), compiled.CompiledDecoder(stream, 1, library)):
        assert scaled.decode(StreamReader(written.parameters, b"", decoder), (0,), 0).size == 0
        decoder.finish()


def test_too_few_lanes_are_refused_by_both() -> None:
    certain, words = normalise(np.array([[1, 1]])), encode([], 1)
    with pytest.raises(ModelError, match="too few lanes"):
        Decoder(words, 1).read(np.zeros(1 << 20, np.uint8), certain)
    library = compiled_library(1 << 40)
    assert library is not None
    with pytest.raises(ModelError, match="too few lanes"):
        compiled.CompiledDecoder(words, 1, library).alike(1 << 20, np.array([1, 1]))


def test_a_small_model_waits_for_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(compiled, "_loaded", compiled.functools.cache(lambda: asked.append("made")))
    monkeypatch.setattr(compiled, "_kept", lambda: asked.append("looked") or False)
    assert compiled_library(compiled.WORTH_LOADING - 1) is None and asked == []
    assert compiled_library(compiled.WORTH_COMPILING - 1) is None and asked == ["looked"]
    assert compiled_library(compiled.WORTH_COMPILING) is None and asked == ["looked", "made"]


def test_without_a_compiler_numpy_reads(packed: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*arguments: object) -> None:
        raise MissingExtra("compiling", "native")

    monkeypatch.setattr("tensmith.kernel.toolchain.compile_library", none)
    monkeypatch.setattr(compiled, "_loaded", compiled.functools.cache(compiled._loaded.__wrapped__))
    assert compiled_library(1 << 40) is None
    assert unpack(packed, compiled=True) == MODEL


def sanitized(folder: Path, source: str) -> tuple[int, str]:
    """How unpacking the folder's files under the sanitizers ended, and what it printed."""
    (folder / "symbols.c").write_text(source)
    compiler = find_compiler().command
    command = (*compiler, *OPTIMIZED, *host_isa().flags, *SANITIZED, "-fPIC", "-shared", "-o", "symbols.so")
    built = run([*command, "symbols.c"], 300, folder=folder)
    assert built.code == 0, built.stderr
    settings = {
        "LD_PRELOAD": run([*compiler, "-print-file-name=libasan.so"], 60).stdout.strip(),
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    script = [sys.executable, str(Path(__file__).with_name("sanitized_unpack.py"))]
    done = run([*script, str(folder / "symbols.so"), str(folder)], 600, environment=os.environ | settings)
    return done.code, done.stdout + done.stderr


@pytest.mark.skipif(
    sys.platform != "linux" or not has_compiler() or "clang" in find_compiler().version,
    reason="gcc's sanitizers are loaded into Python on Linux",
)
def test_no_damage_leads_beyond_memory(packed: bytes, tmp_path: Path) -> None:
    rng = random.Random(7)
    for number in range(120):
        (tmp_path / f"{number}.packed").write_bytes(damaged(packed, rng, len(MODEL)))
    (tmp_path / "whole.packed").write_bytes(packed)
    code, said = sanitized(tmp_path, text())
    assert code == 0, said[-3000:]
    assert 100 < int(said) <= 120
    unchecked = text().replace("left < run ?", "0 ?")
    assert unchecked != text()
    code, said = sanitized(tmp_path, unchecked)
    assert code != 0 and "heap-buffer-overflow" in said
