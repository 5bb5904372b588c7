"""Emitted Gemmini code means what the program means, on a functional model of the ISA."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from pathlib import Path

import compiled
import numpy as np
import pytest
import samples
from compiled import needs_gcc
from samples import F32, F64, I8, I32, Draft, K, M, N, flat, longer

from tensmith.lifting.emit import EMITTERS
from tensmith.lifting.lifted import Lifted, Output
from tensmith.lifting.loops import Array

MODEL = Path(__file__).resolve().parent.parent / "models" / "gemmini"


def build(lifted: Lifted) -> ctypes.CDLL:
    place, name = Path(tempfile.mkdtemp(dir=compiled.folder())), lifted.function.name
    files = EMITTERS["gemmini"].emit(lifted).files
    for file, content in files.items():
        (place / file).write_bytes(content)
    floats = ["-DGEMMINI_FP32"] if b"fp32 build" in files[f"{name}.h"] else []
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", *floats]
    command = ["gcc", *flags, "-shared", "-fPIC", f"-I{MODEL}", f"{name}.c", "-o", "library.so", "-lm"]
    found = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr + (place / f"{name}.c").read_text()
    return ctypes.CDLL(str(place / "library.so"))


def check(lifted: Lifted, cases: list[dict[str, int]], tolerance: float = 0.0, room: int = 6000) -> None:
    compiled.agrees(lifted, build(lifted), [(sizes, room) for sizes in cases], tolerance)


def product(bias: bool, relu: bool = False) -> Lifted:
    """C = A B (+ C) of int8 matrices into 32 bits, perhaps with a maximum after it."""
    d = Draft(
        "product",
        [("m", I32), ("n", I32), ("k", I32), ("A", Array(I8)), ("B", Array(I8)), ("C", Array(I32))],
        {"m": M, "n": N, "k": K},
    )
    a, b = (d.cast(d.view(x, flat(x, *s), I8), "i32") for x, s in (("A", (M, K)), ("B", (K, N))))
    y = d.op("matmul", a, b)
    y = d.op("add", d.view("C", flat("C", M, N), I32), y) if bias else y
    y = d.op("max", y, d.const(0, np.int32)) if relu else y
    d.requires += [longer("A", M * K), longer("B", K * N), longer("C", M * N)]
    return d.done(Output(y, I32, flat("C", M, N), whole=not bias))


SIZES = ((1, 1, 1), (16, 16, 16), (17, 15, 33), (3, 40, 2), (40, 3, 50), (0, 3, 2), (3, 0, 5), (4, 5, 0))
GRIDS = [{"m": m, "n": n, "k": k} for m, n, k in SIZES]


@needs_gcc
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("relu", [False, True])
def test_int8_products_with_ragged_edges(bias: bool, relu: bool) -> None:
    check(product(bias, relu), GRIDS)


@needs_gcc
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
def test_float_products_and_an_epilogue_on_the_core(turned: tuple[bool, bool]) -> None:
    check(samples.gemm(F32, *turned), GRIDS, 1e-4)


@needs_gcc
@pytest.mark.parametrize("turned", [False, True])
def test_matrix_times_vector(turned: bool) -> None:
    check(samples.gemv(turned), GRIDS, 1e-4)


@needs_gcc
@pytest.mark.parametrize(
    "lifted", [samples.vadd(I32), samples.vadd(F32), samples.narrow("sub", F32)], ids=str
)
def test_sums_through_the_accumulator(lifted: Lifted) -> None:
    check(lifted, [{"n": n} for n in (0, 1, 15, 16, 17, 255, 256, 257, 1000)])


@needs_gcc
def test_scaled_sums_through_the_scalers() -> None:
    d = Draft("axpby", [("a", F32), ("b", F32), ("x", Array(F32)), ("y", Array(F32)), ("n", I32)], {"n": N})
    x, y = (d.view(v, flat(v, N), F32) for v in "xy")
    z = d.op("add", d.op("mul", d.scalar("a", F32), x), d.op("mul", y, d.scalar("b", F32)))
    d.requires += [longer("x", N), longer("y", N)]
    check(d.done(Output(z, F32, flat("y", N))), [{"n": n} for n in (0, 5, 300)], 1e-6)


def test_sources_name_the_public_macros_and_say_what_runs_where() -> None:
    files = EMITTERS["gemmini"].emit(samples.gemm()).files
    source, header = files["gemm.c"].decode(), files["gemm.h"].decode()
    for macro in ("mvin(", "mvin2(", "preload(", "compute_preloaded(", "mvout("):
        assert f"gemmini_extended_{macro}" in source
    assert "On Gemmini (fp32 build): t0, C." in header
    header = EMITTERS["gemmini"].emit(product(False, True)).files["product.h"].decode()
    assert "On Gemmini (int8 build): t2." in header
    assert "On the CPU core, for want of a counterpart: C." in header
    assert "functional model" in header


@needs_gcc
@pytest.mark.parametrize(
    "lifted", [samples.vadd(F64), samples.blend(), samples.running()], ids=lambda lifted: lifted.function.name
)
def test_what_the_mesh_lacks_runs_on_the_core_and_says_so(lifted: Lifted) -> None:
    emitted = EMITTERS["gemmini"].emit(lifted)
    assert emitted.notes[0].startswith("Nothing of it runs on Gemmini")
    check(lifted, [{"n": 0}, {"n": 50}])
