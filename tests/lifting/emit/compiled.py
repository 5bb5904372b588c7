"""Emitted C compiled, called and compared: the loader reads the same contract as a C caller does."""

from __future__ import annotations

import atexit
import ctypes
import functools
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference

from tensmith.formula.types import MachineType
from tensmith.ir.types import DTYPES
from tensmith.lifting.emit import EMITTERS
from tensmith.lifting.lifted import Lifted
from tensmith.lifting.loops import Array

FLAGS = ("-std=c11", "-O3", "-Wall", "-Wextra", "-Werror")

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


@functools.cache
def folder() -> Path:
    """A folder for libraries, kept while the tests run."""
    place = Path(tempfile.mkdtemp(prefix="tensmith-c-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place


def build(lifted: Lifted, flags: tuple[str, ...] = FLAGS) -> ctypes.CDLL:
    """The function's library."""
    place = Path(tempfile.mkdtemp(dir=folder()))
    for name, content in EMITTERS["c"].emit(lifted).files.items():
        (place / name).write_bytes(content)
    source, library = place / f"{lifted.function.name}.c", place / "library.so"
    command = ["gcc", *flags, "-shared", "-fPIC", str(source), "-o", str(library), "-lm"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, f"{found.stderr}\n{source.read_text()}"
    return ctypes.CDLL(str(library))


def dtype_of(type_: MachineType) -> np.dtype[Any]:
    return DTYPES["i64" if type_ == "int" else type_]


def call(lifted: Lifted, library: ctypes.CDLL, arguments: Mapping[str, Any], room: int = 0) -> Any:
    """The outputs by name; a number where a requirement does not hold."""
    passed: list[Any] = []
    alive: list[Any] = []
    fields = lifted.function.fields
    for name, type_ in fields:
        value = arguments[name]
        if isinstance(type_, MachineType):
            passed.append(np.ctypeslib.as_ctypes_type(dtype_of(type_))(value))
            continue
        array = np.ascontiguousarray(value, dtype_of(type_.element))
        alive.append(array)
        passed += [array.ctypes.data_as(ctypes.c_void_p), *map(ctypes.c_size_t, array.shape)]
    found: dict[str, Any] = {}
    written = {o.view.array for o in lifted.outputs if o.view is not None}
    for name, type_ in fields:
        if name in written:
            found[name] = np.full_like(np.asarray(arguments[name], dtype_of(type_.element)), 99)
            passed.append(found[name].ctypes.data_as(ctypes.c_void_p))
    for output in lifted.outputs:
        if output.view is None:
            scalar = not lifted.program.type(output.name).dims
            found["return"] = np.zeros(() if scalar else room, dtype_of(output.type))
            passed.append(found["return"].ctypes.data_as(ctypes.c_void_p))
            passed += [] if scalar else [ctypes.c_size_t(room)]
    status = getattr(library, lifted.function.name)(*passed)
    return status or found


def values(rng: np.random.Generator, type_: MachineType, shape: Any) -> Any:
    """Numbers over the whole range of small integer types, small ones of large types."""
    dtype = dtype_of(type_)
    if type_.kind == "float":
        return rng.standard_normal(shape).astype(dtype)
    low, high = (-50, 50) if type_.bits in (32, 64, None) else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return rng.integers(low, high, shape, endpoint=True).astype(dtype)


def arguments(rng: np.random.Generator, lifted: Lifted, sizes: dict[str, int], room: int) -> dict[str, Any]:
    """An argument for every parameter: sizes as given, arrays of `room` elements an axis."""
    found: dict[str, Any] = {}
    for parameter in lifted.function.parameters:
        if isinstance(parameter.type, Array):
            shape = (room,) if parameter.type.memory == "flat" else (room,) * parameter.type.rank
            found[parameter.name] = values(rng, parameter.type.element, shape)
        elif parameter.name in sizes:
            found[parameter.name] = sizes[parameter.name]
        else:
            found[parameter.name] = values(rng, parameter.type, ()).item()
    return found


def agrees(
    lifted: Lifted,
    library: ctypes.CDLL,
    cases: Iterable[tuple[dict[str, int], int]],
    tolerance: float,
) -> None:
    """The compiled function against the interpreter, on arrays with room to spare, which stay as they are."""
    rng = np.random.default_rng(5)
    for sizes, room in cases:
        given = arguments(rng, lifted, sizes, room)
        before = {name: np.array(value) for name, value in given.items()}
        expected = reference.run(lifted, given)
        found = call(lifted, library, given, np.size(expected.get("return", 0)))
        assert isinstance(found, dict), f"{lifted.function.name}{sizes}: status {found}"
        for name, value in expected.items():
            actual = np.reshape(found[name], np.shape(value))
            np.testing.assert_allclose(actual, value, tolerance, tolerance, err_msg=f"{name} {sizes}")
        for name, value in before.items():
            np.testing.assert_array_equal(given[name], value)
