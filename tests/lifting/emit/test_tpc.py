"""Emitted TPC-C (host, glue and kernels) means what the program means, on a functional model."""

from __future__ import annotations

import ctypes
import functools
import subprocess
import tempfile
from pathlib import Path

import compiled
import numpy as np
import pytest
import reference
import samples
from compiled import needs_gcc
from samples import F32, F64, I16, I32, U8

from tensmith.formula.types import MachineType
from tensmith.lifting.emit import EMITTERS
from tensmith.lifting.lifted import Lifted
from tensmith.lifting.refusal import Refusal

MODEL = Path(__file__).resolve().parent.parent / "models" / "tpc"
CPP = ("g++", "-std=c++17", "-O0", "-Wall", "-Wno-unused-function", "-fPIC")


@functools.cache
def parsed_model() -> Path:
    """A folder with the model's headers as g++ has parsed them: that is most of what a kernel takes."""
    place = Path(tempfile.mkdtemp(dir=compiled.folder()))
    header = [MODEL / "runtime.hpp", "-o", place / "runtime.hpp.gch"]
    subprocess.run([*CPP, "-x", "c++-header", *header], check=True)
    return place


def build(lifted: Lifted) -> ctypes.CDLL:
    """Host and kernels as one library: each kernel's `main` under its own name, launched by the model."""
    place, name = Path(tempfile.mkdtemp(dir=compiled.folder())), lifted.function.name
    files = EMITTERS["tpc"].emit(lifted).files
    for file, content in files.items():
        (place / file).write_bytes(content)
    kernels = [file.removesuffix(".tpc.c") for file in files if file.endswith(".tpc.c")]
    lines = ['#include "runtime.hpp"', f'#include "{name}.h"']
    for kernel in kernels:
        lines += [
            f"#define main {kernel}_main",
            f"namespace space_{kernel} {{",
            f'#include "{kernel}.tpc.c"',
            "}",
        ]
        lines += ["#undef main", f"unsigned char _binary___{kernel}_o_start[2];"]
        lines += [f"#define _binary___{kernel}_o_end _binary___{kernel}_o_start[1]"]
    glue = (place / f"{name}_glue.cpp").read_text()
    for kernel in kernels:
        glue = glue.replace(f"extern unsigned char _binary___{kernel}_o_start;\n", "")
        glue = glue.replace(f"extern unsigned char _binary___{kernel}_o_end;\n", "")
        glue = glue.replace(f"&_binary___{kernel}_o_start", f"&_binary___{kernel}_o_start[0]")
    (place / f"{name}_glue.cpp").write_text(glue)
    lines += [f'#include "{name}_glue.cpp"', f'extern "C" int {name}_launch(const char *kernel, ']
    lines[-1] += f"const {name}_tensor *t, int count, const int32_t *words, int scalars) {{"
    for kernel in kernels:
        run = f"launch<{kernel}_glue>(space_{kernel}::{kernel}_main, t, count, words, scalars)"
        lines.append(f'    if (!strcmp(kernel, "{kernel}")) return {run};')
    lines += ["    return 97;", "}"]
    (place / "device.cpp").write_text("\n".join(lines) + "\n")
    host = ["gcc", *compiled.FLAGS, "-fPIC", "-c", f"{name}.c"]
    device = [*CPP, f"-I{parsed_model()}", f"-I{MODEL}", "-c", "device.cpp"]
    link = ["g++", "-shared", f"{name}.o", "device.o", "-o", "library.so"]
    for command in (host, device, link):
        found = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
        assert found.returncode == 0, found.stderr + "".join(
            (place / f"{kernel}.tpc.c").read_text() for kernel in kernels
        )
    return ctypes.CDLL(str(place / "library.so"))


def check(lifted: Lifted, cases: list[tuple[dict[str, int], int]], tolerance: float = 0.0) -> None:
    compiled.agrees(lifted, build(lifted), cases, tolerance)


LINES = [({"n": n}, 600) for n in (0, 1, 63, 64, 65, 300, 513)]
GRIDS = [({"m": m, "n": n, "k": k}, 6000) for m, n, k in ((0, 3, 2), (1, 1, 1), (3, 66, 5), (70, 5, 66))]


@needs_gcc
@pytest.mark.parametrize("type_", [F32, I32, I16, U8], ids=str)
@pytest.mark.parametrize("op", ["mul", "max"])
def test_maps_of_every_element_type_that_has_lanes(op: str, type_: MachineType) -> None:
    check(samples.narrow(op, type_), LINES)


@needs_gcc
@pytest.mark.parametrize(
    "lifted, tolerance",
    [
        (samples.dot(), 1e-4),
        (samples.dot(I32), 0),
        (samples.blend(), 0),
        (samples.burn(), 0),
        (samples.in_place(), 1e-6),
    ],
    ids=lambda value: value.function.name if isinstance(value, Lifted) else "",
)
def test_vectors(lifted: Lifted, tolerance: float) -> None:
    check(lifted, LINES, tolerance)


@needs_gcc
@pytest.mark.parametrize(
    "lifted",
    [samples.stencil(), samples.maximum(), samples.variance(F32)],
    ids=lambda lifted: lifted.function.name,
)
def test_vectors_that_may_not_be_empty(lifted: Lifted) -> None:
    check(lifted, [({"n": n}, 600) for n in (2, 64, 65, 300)], 1e-4)


@needs_gcc
@pytest.mark.parametrize(
    "lifted",
    [samples.gemv(), samples.gemv(True), samples.gemm(), samples.gemm(I32, True, True), samples.softmax(),
     samples.columns()],
    ids=lambda lifted: lifted.function.name,
)  # fmt: skip
def test_matrices(lifted: Lifted) -> None:
    check(lifted, GRIDS, 1e-3)


@needs_gcc
def test_outer_products_and_windows() -> None:
    check(samples.outer(), [({"m": m, "n": n}, 80) for m, n in ((0, 4), (3, 70), (80, 5))], 1e-5)
    check(samples.joined(), [({"n": n}, 300) for n in (0, 1, 64, 100)])
    check(samples.convolution(), [({"h": 5, "w": 80}, 500), ({"h": 9, "w": 4}, 500)], 1e-4)


@needs_gcc
def test_integer_division_is_exact_far_beyond_what_floats_hold() -> None:
    lifted = samples.divide()
    library = build(lifted)
    rng = np.random.default_rng(1)
    a = rng.integers(-(2**31), 2**31, 4096).astype(np.int32)
    b = (rng.integers(-(2**31), 2**31, 4096) >> rng.integers(0, 31, 4096)).astype(np.int32)
    b[b == 0] = 7
    ends = np.array([-(2**31), -(2**31) + 1, -5, -1, 1, 5, 2**31 - 1], np.int32)
    a[:49], b[:49] = (x.reshape(-1) for x in np.meshgrid(ends, ends))
    b[(a == -(2**31)) & (b == -1)] = 7
    given = {"a": a, "b": b, "c": a, "n": 4096}
    np.testing.assert_array_equal(
        compiled.call(lifted, library, given)["c"], reference.run(lifted, given)["c"]
    )


@pytest.mark.parametrize(
    "lifted, reason",
    [
        (samples.vadd(F64), "no lanes of f64"),
        (samples.running(), "running total"),
        (samples.picked(), "computed position"),
        (samples.fill(), "32 bits or fewer"),
    ],
    ids=lambda value: value.function.name if isinstance(value, Lifted) else "",
)
def test_what_lanes_cannot_say_is_refused(lifted: Lifted, reason: str) -> None:
    with pytest.raises(Refusal, match=reason):
        EMITTERS["tpc"].emit(lifted)


def test_glue_says_of_every_tensor_what_is_read_of_it() -> None:
    glue = EMITTERS["tpc"].emit(samples.variance(F32)).files["variance_glue.cpp"].decode()
    for kernel in glue.split("\nclass ")[1:]:
        for place in range(kernel.count("in_defs->inputTensors[") // 2):
            assert f"inputTensorAccessPattern[{place}]" in kernel


def test_sources_name_only_public_intrinsics() -> None:
    text = EMITTERS["tpc"].emit(samples.softmax()).files["softmax_2.tpc.c"].decode()
    assert "v_f32_ld_tnsr_b(" in text
    assert "v_exp_f32(" in text
    assert "s_f32_ld_g(gen_addr(" in text
    assert "void main(tensor x, tensor t0, tensor out)" in text
