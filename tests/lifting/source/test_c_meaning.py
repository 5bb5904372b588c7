"""What the C and C++ front end makes of a function computes what the compiled function computes."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lifting.harness_native import Native, build, compilers
from lifting.loops_interpreter import Undefined, run
from tensmith.formula.types import MachineType
from tensmith.lifting.loops import Array, Function, Struct
from tensmith.lifting.second.values import Meaningless, dtype
from tensmith.lifting.source.c.read import read_c

pytest.importorskip("clang.cindex", reason="libclang is not installed")
SAMPLES = Path(__file__).parent / "samples"
ELEMENTS, TRIALS = 120, 30


def scalar(generator: np.random.Generator, kind: MachineType) -> Any:
    """Often a size, sometimes anything."""
    if kind.kind == "bool":
        return bool(generator.integers(2))
    if kind.kind == "float":
        return dtype(kind).type(generator.normal() * generator.choice([0, 1, 3]))
    low = -4 if kind.signed and generator.random() < 0.4 else 0
    return int(generator.integers(low, 5 if generator.random() < 0.7 else 100))


def elements(generator: np.random.Generator, kind: MachineType, shape: Any) -> np.ndarray:
    if kind.kind == "float":
        return generator.normal(size=shape).astype(dtype(kind))
    low = -20 if kind.signed else 0
    return generator.integers(low, 100, size=shape).astype(dtype(kind))


def argument(generator: np.random.Generator, kind: MachineType | Array | Struct) -> Any:
    if isinstance(kind, MachineType):
        return scalar(generator, kind)
    if isinstance(kind, Struct):
        return {name: argument(generator, part) for name, part in kind.fields}
    if kind.memory == "nested":
        return elements(generator, kind.element, (4,) * kind.rank)
    return elements(generator, kind.element, ELEMENTS)


def close(mine: Any, theirs: Any, kind: MachineType, exact: bool) -> bool:
    """Equal to the bit; functions like exp may differ in the last places of their type."""
    a, b = np.asarray(mine, dtype(kind)).reshape(-1), np.asarray(theirs, dtype(kind)).reshape(-1)
    if exact or kind.kind != "float":
        return a.shape == b.shape and np.array_equal(a, b, equal_nan=kind.kind == "float")
    return a.shape == b.shape and np.allclose(a, b, rtol=64 * np.finfo(a.dtype).eps, atol=0, equal_nan=True)


def compare(function: Function, native: Native, seed: int, exact: bool) -> bool:
    """Whether a random input has a meaning; if so, both must agree on it."""
    generator = np.random.default_rng(seed)
    given = {p.name: argument(generator, p.type) for p in function.parameters}
    try:
        mine = run(function, list(given.values()))
    except Undefined:
        return False
    try:
        theirs = native(given)
    except Meaningless:
        return False
    if isinstance(function.returns, MachineType):
        assert close(mine.value, theirs.value, function.returns, exact), (given, mine.value, theirs.value)
    elif isinstance(function.returns, Array) and function.returns.memory == "nested":
        assert close(mine.value, theirs.value, function.returns.element, exact), (given, mine.value)
    for name, array in mine.arrays.items():
        kind = dict(arrays(function))[name]
        if kind.written:
            assert close(array, theirs.arrays[name], kind.element, exact), (name, given, array)
    return True


def arrays(function: Function) -> list[tuple[str, Array]]:
    found = [(p.name, p.type) for p in function.parameters if isinstance(p.type, Array)]
    for parameter in function.parameters:
        if isinstance(parameter.type, Struct):
            found += [(f"{parameter.name}.{n}", k) for n, k in parameter.type.fields if isinstance(k, Array)]
    return found


def statics(path: Path) -> set[str]:
    return set(re.findall(r"^static [^=;]*?(\w+)\(", path.read_text(), re.MULTILINE))


# What the harness cannot call through a prototype without expressions, called through void pointers.
FLATTENED = {
    "memory.c": """
void flat_product(int n, int m, int k, void *c, void *a, void *b) { product(n, m, k, c, a, b); }
void flat_pointer_rows(int n, int m, void *a) { pointer_rows(n, m, a); }
void flat_fixed(void *a, void *b) { fixed(a, b); }
void flat_cleared_matrix(void *a) { cleared_matrix(a); }
"""
}
TEMPLATES = {"vectors.cpp": ["squared"], "structs.c": ["same"]}
INEXACT = ("smooth", "soft")  # they call exp and the like


@pytest.mark.skipif(not compilers(), reason="gcc and g++ are not installed")
@pytest.mark.parametrize("name", ["scalars.c", "loops.c", "memory.c", "structs.c", "vectors.cpp"])
def test_a_lowered_function_computes_what_the_compiled_one_computes(name: str, tmp_path: Path) -> None:
    path = SAMPLES / name
    found = read_c(path)
    assert [each.function for each in found if not isinstance(each, Function)] == TEMPLATES.get(name, [])
    functions = [each for each in found if isinstance(each, Function)]
    copy = tmp_path / name
    copy.write_text(path.read_text() + FLATTENED.get(name, ""))
    library = build(copy, [f.name for f in functions], tmp_path)
    for function in functions:
        if function.name in statics(path):
            continue  # a helper, reached through its callers
        flattened = f"void flat_{function.name}(" in FLATTENED.get(name, "")
        native = Native(library, replace(function, name=f"flat_{function.name}") if flattened else function)
        meaningful = sum(
            compare(function, native, seed, function.name not in INEXACT) for seed in range(TRIALS)
        )
        assert meaningful >= 5, f"{function.name} was meaningful {meaningful} times"
