"""Emitted C compiles without a warning, means what the program means, and refuses what it must."""

from __future__ import annotations

import subprocess
from pathlib import Path

import compiled
import numpy as np
import pytest
import reference
import samples
from compiled import needs_gcc
from samples import F64, I8, I16, I32, I64, U8

from tensmith.formula.types import MachineType
from tensmith.lifting.emit import EMITTERS
from tensmith.lifting.lifted import Lifted
from tensmith.lifting.running import load

SANITIZED = (
    *compiled.FLAGS[:1],
    "-O1",
    "-g",
    *compiled.FLAGS[2:],
    "-fsanitize=undefined,address",
    "-static-libasan",
)


def check(lifted: Lifted, cases: list[tuple[dict[str, int], int]], tolerance: float = 0.0) -> None:
    compiled.agrees(lifted, compiled.build(lifted), cases, tolerance)


LINES = [({"n": n}, 70) for n in (0, 1, 2, 7, 16, 33, 70, -3)]
SQUARES = [
    ({"m": m, "n": n, "k": k}, 9000) for m, n, k in ((0, 3, 2), (1, 1, 1), (3, 0, 5), (4, 5, 0), (67, 66, 65))
]
FLOAT, DOUBLE = 2e-5, 1e-12


@needs_gcc
@pytest.mark.parametrize("type_", [I32, I64, F64, U8, I8, I16, MachineType("u16"), MachineType("u32")])
def test_sums_of_vectors(type_: MachineType) -> None:
    check(samples.vadd(type_), LINES)


@needs_gcc
@pytest.mark.parametrize("type_, tolerance", [(I32, 0), (F64, DOUBLE), (samples.F32, FLOAT)])
def test_sums_that_run_along_memory(type_: MachineType, tolerance: float) -> None:
    check(samples.dot(type_), LINES, tolerance)


@needs_gcc
@pytest.mark.parametrize("turned", [False, True])
def test_matrix_times_vector(turned: bool) -> None:
    check(samples.gemv(turned), SQUARES, FLOAT)


@needs_gcc
@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("type_, tolerance", [(I32, 0), (samples.F32, 1e-4)])
def test_matrix_products(turned: tuple[bool, bool], type_: MachineType, tolerance: float) -> None:
    check(samples.gemm(type_, *turned), SQUARES, tolerance)


@needs_gcc
@pytest.mark.parametrize(
    "lifted, tolerance",
    [
        (samples.blend(), 0),
        (samples.burn(), 0),
        (samples.in_place(), FLOAT),
        (samples.running(), 0),
        (samples.running(F64), DOUBLE),
        *((samples.running(F64, op, 1), 0) for op in ("cum_max", "cum_min")),
        *((samples.running(op=op, reverse=1), 0) for op in ("cum_prod", "cum_max", "cum_min")),
        (samples.picked(), 0),
        (samples.fill(), 0),
    ],
    ids=lambda value: value.function.name if isinstance(value, Lifted) else "",
)
def test_vectors(lifted: Lifted, tolerance: float) -> None:
    check(lifted, LINES, tolerance)


@needs_gcc
@pytest.mark.parametrize(
    "lifted, tolerance",
    [
        (samples.stencil(), FLOAT),
        (samples.variance(), DOUBLE),
        (samples.maximum(), 0),
        (samples.maximum(I32), 0),
        (samples.backwards(), 0),
    ],
    ids=lambda value: value.function.name if isinstance(value, Lifted) else "",
)
def test_vectors_that_may_not_be_empty(lifted: Lifted, tolerance: float) -> None:
    check(lifted, [({"n": n}, 70) for n in (2, 3, 40, 70)], tolerance)


@needs_gcc
@pytest.mark.parametrize(
    "lifted", [samples.softmax(), samples.columns(), samples.outer()], ids=lambda value: value.function.name
)
def test_matrices(lifted: Lifted) -> None:
    room = 90 if lifted.function.name == "outer" else 8100
    check(lifted, [({"m": m, "n": n}, room) for m, n in ((0, 4), (4, 0), (1, 1), (3, 90), (90, 66))], FLOAT)


@needs_gcc
def test_parts_and_windows() -> None:
    check(samples.joined(), [({"n": n}, 80) for n in (0, 1, 40)])
    check(samples.convolution(), [({"h": h, "w": w}, 6000) for h, w in ((3, 3), (9, 70), (40, 5))], 1e-4)


@needs_gcc
@pytest.mark.parametrize("op", ["mul", "sub", "div", "max"])
@pytest.mark.parametrize("type_", [I8, U8, I16, MachineType("u16"), I32])
def test_narrow_integers_wrap(op: str, type_: MachineType) -> None:
    lifted = samples.narrow(op, type_)
    library = compiled.build(lifted)
    bounds = np.iinfo(compiled.dtype_of(type_))
    a = np.array([bounds.min, bounds.max, bounds.min, bounds.max, 3, 100], compiled.dtype_of(type_))
    b = np.array([bounds.max, bounds.max, 2, bounds.min or 5, 7, 100], compiled.dtype_of(type_))
    given = {"a": a, "b": b, "c": a, "n": 6}
    np.testing.assert_array_equal(
        compiled.call(lifted, library, given)["c"], reference.run(lifted, given)["c"]
    )


@needs_gcc
def test_requirements_are_numbered_sentences() -> None:
    import ctypes

    lifted = samples.stencil()
    library = compiled.build(lifted)
    library.stencil_requirement.restype = ctypes.c_char_p
    a = np.zeros(4, np.float32)
    assert compiled.call(lifted, library, {"a": a, "b": a, "n": 1}) == 1
    assert compiled.call(lifted, library, {"a": a, "b": a, "n": 9}) == 2
    assert compiled.call(lifted, library, {"a": a, "b": a[:2], "n": 4}) == 3
    assert [library.stencil_requirement(k) for k in range(5)] == [
        None, b"n >= 2", b"len(a) >= s + 2", b"len(b) >= s + 1", None,
    ]  # fmt: skip


@needs_gcc
def test_zero_divisors_and_nans_are_refused_where_they_are_read() -> None:
    divide, burn, maximum = samples.divide(), samples.burn(), samples.maximum()
    a = np.array([7, -7, np.iinfo(np.int32).min], np.int32)
    found = compiled.call(divide, compiled.build(divide), {"a": a, "b": np.array([2, 2, -1]), "c": a, "n": 3})
    assert found["c"].tolist() == [3, -3, np.iinfo(np.int32).min]
    zero = {"a": a, "b": np.array([1, 0, 1]), "c": a, "n": 3}
    assert compiled.call(divide, compiled.build(divide), zero) == 4
    pixels = np.zeros(3, np.uint8)
    unread = compiled.call(
        burn, compiled.build(burn), {"base": pixels, "active": pixels, "out": pixels, "n": 3}
    )
    assert unread["out"].tolist() == [255, 255, 255]
    nan = {"a": np.array([1, np.nan], np.float32), "n": 2}
    assert compiled.call(maximum, compiled.build(maximum), nan) == 3


@needs_gcc
def test_a_count_beyond_signed_integers_is_refused() -> None:
    lifted = samples.vadd(count=MachineType("u64"))
    library, one = compiled.build(lifted), np.ones(2, np.int32)
    for n in (0, 1, 2):
        assert isinstance(compiled.call(lifted, library, {"a": one, "b": one, "c": one, "n": n}), dict)
    for n in (3, 2**63 - 1, 2**63, 2**64 - 1):
        found = compiled.call(lifted, library, {"a": one, "b": one, "c": one, "n": n})
        assert found == (4 if n >= 2**63 else 1), n
    for target in ("c", "gemmini", "tpc"):
        header = EMITTERS[target].emit(lifted).files["vadd.h"].decode()
        assert ". n < 2**63\n" in header
    with pytest.raises(ValueError, match="vadd requires n < 2\\*\\*63"):
        load("c", lifted, EMITTERS["c"].emit(lifted).files)(one, one, one, 2**63)


@needs_gcc
def test_a_divisor_beyond_signed_integers_divides() -> None:
    lifted, a = samples.rests(), np.array([2**63 + 5, 7], np.uint64)
    library, given = compiled.build(lifted), {"a": a, "c": a, "n": 2}
    assert compiled.call(lifted, library, given | {"p": 2**63})["c"].tolist() == [5, 7]
    assert compiled.call(lifted, library, given | {"p": 0}) == 3


@needs_gcc
def test_a_whole_output_needs_no_array_and_one_with_room_keeps_its_rest() -> None:
    import ctypes

    lifted = samples.vadd()
    library = compiled.build(lifted)
    a = np.arange(5, dtype=np.int32)
    out = np.zeros(5, np.int32)
    pointer, length = a.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(5)
    result = out.ctypes.data_as(ctypes.c_void_p)
    assert library.vadd(pointer, length, pointer, length, None, length, ctypes.c_int32(5), result) == 0
    assert out.tolist() == [0, 2, 4, 6, 8]


@needs_gcc
@pytest.mark.parametrize(
    "lifted, sizes, room",
    [
        (samples.narrow("mul", I32), {"n": 7}, 7),
        (samples.gemm(), {"m": 9, "n": 66, "k": 5}, 594),
        (samples.softmax(), {"m": 3, "n": 20}, 60),
        (samples.columns(), {"m": 5, "n": 7}, 35),
        (samples.joined(), {"n": 9}, 18),
        (samples.convolution(), {"h": 5, "w": 9}, 45),
        (samples.running(), {"n": 9}, 9),
        (samples.divide(), {"n": 3}, 3),
        (samples.burn(), {"n": 4}, 4),
        (samples.outer(), {"m": 4, "n": 4}, 4),
    ],
    ids=lambda value: value.function.name if isinstance(value, Lifted) else "",
)
def test_sanitizers_find_nothing(lifted: Lifted, sizes: dict[str, int], room: int, tmp_path: Path) -> None:
    """In a program of its own: extreme integers, arrays exactly as long as they must be."""
    for name, content in EMITTERS["c"].emit(lifted).files.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "main.c").write_text(driver(lifted, sizes, room))
    command = [
        "gcc",
        *SANITIZED[:-1],
        "-fno-sanitize-recover=all",
        "main.c",
        f"{lifted.function.name}.c",
        "-o",
        "run",
        "-lm",
    ]
    built = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    ran = subprocess.run([tmp_path / "run"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def driver(lifted: Lifted, sizes: dict[str, int], room: int) -> str:
    """A main that calls the function on heap arrays."""
    from tensmith.ctext.dialect import CTYPES

    written = {o.view.array for o in lifted.outputs if o.view is not None}
    lines, passed, after = [], [], []
    for parameter in lifted.function.parameters:
        name = parameter.name
        if isinstance(parameter.type, MachineType):
            passed.append(str(sizes.get(name, 3)))
            continue
        ctype = CTYPES[parameter.type.element]
        rank = 1 if parameter.type.memory == "flat" else parameter.type.rank
        for each in (name, f"out_{name}") if name in written else (name,):
            lines.append(f"{ctype} *{each} = malloc({room**rank} * sizeof *{each});")
            lines.append(
                f"for (int i = 0; i < {room**rank}; i++) "
                f"{each}[i] = ({ctype})(1234567891u * (unsigned)(i + 1));"
            )
            after.append(f"free({each});")
        passed += [name, *[str(room)] * rank]
    passed += [f"out_{p.name}" for p in lifted.function.parameters if p.name in written]
    call = f"int status = {lifted.function.name}({', '.join(passed)});"
    head = f'#include <stdlib.h>\n#include "{lifted.function.name}.h"\n'
    return head + "int main(void) {\n" + "\n".join([*lines, call, *after, "return status;"]) + "\n}\n"
