"""Nasty functions: each is refused with a word that says why, or means what the compiled source means.

attacks/accepted.txt and attacks/refused.txt hold one case after the other, each behind a line with its name.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lifting.harness_native import CHECKED, Meaningless, Native, build, compilers, dtype
from lifting.loops_interpreter import Endless, Undefined, run
from lifting.source.test_c_meaning import close
from tensmith.formula.expr import Num
from tensmith.formula.types import MachineType
from tensmith.lifting.loops import Allocate, Array, Function, Struct
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.c.read import read_c

pytest.importorskip("clang.cindex", reason="libclang is not installed")
FOLDER = Path(__file__).parent / "attacks"
INPUTS = 24
CASE = re.compile(r"^// ([\w.]+)(?:: (.*))?\n((?:(?!// [\w.]+\.c).*\n)+)", re.MULTILINE)


def cases(file: str) -> list[tuple[str, str, str]]:
    """Name, words of the refusal, source."""
    return [(found[1], found[2] or "", found[3]) for found in CASE.finditer((FOLDER / file).read_text())]


REFUSED, ACCEPTED = cases("refused.txt"), cases("accepted.txt")


def test_there_are_enough() -> None:
    assert len(REFUSED) >= 80 and len(ACCEPTED) >= 120


@pytest.mark.parametrize(("name", "word", "text"), REFUSED, ids=[name for name, _, _ in REFUSED])
def test_what_has_no_meaning_here_is_refused_by_name(name: str, word: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    found = read_c(path)[-1]
    assert isinstance(found, Refusal), "lifted"
    assert word in found.reason and found.position.line > 0, found
    assert "the fault is ours" not in found.reason


# Cases are compiled together: what has one letter, or a name of these, gets the number of its case.
WORD = re.compile(
    r"""(?P<kept>\#\s*(?:include|pragma).*|L?'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\d[\w.]*|\.\d\w*)"""
    r"|\b(?P<name>[A-Za-z]|h2|inc|sw|tt|EL)\b"
)


def joined(suffix: str) -> tuple[str, list[str]]:
    """One file of all accepted cases of a language, and the functions to compare."""
    parts, names = [], []
    for number, (name, _, text) in enumerate(ACCEPTED):
        if name.endswith(suffix):
            parts.append(WORD.sub(lambda m, n=number: m["kept"] or f"{m['name']}_{n}", text))
            names.append(f"f_{number}")
    return "".join(parts), names


EXTREMES = (0, 1, -1, 2, 3, 4, 5, 7, 8, 127, 128, 255, 256, 300, 65535, 2**31 - 1, 2**31, -(2**31), 2**63 - 1)


def allocates(function: Function) -> bool:
    """Whether sizes are known at run time only: the compiled source takes them from the stack."""
    made = [statement for statement in function.body if isinstance(statement, Allocate)]
    return any(not isinstance(extent, Num) for statement in made for extent in statement.extents)


def number(kind: MachineType, draw: random.Random) -> Any:
    """Small, at the end of some type, or not a round number."""
    if kind.kind == "bool":
        return draw.random() < 0.5
    if kind.kind == "float":
        return dtype(kind).type(draw.choice((0.0, -0.0, 1.0, -1.5, 2.5, 0.1, 100.7, draw.gauss(0, 9))))
    low = -(2 ** (kind.bits - 1)) if kind.signed else 0
    high = 2 ** (kind.bits - 1) - 1 if kind.signed else 2**kind.bits - 1
    value = draw.choice(EXTREMES) if draw.random() < 0.4 else draw.randint(-3, 9)
    return min(max(value, low), high)


def argument(kind: MachineType | Array | Struct, draw: random.Random) -> Any:
    if isinstance(kind, MachineType):
        return number(kind, draw)
    if isinstance(kind, Struct):
        return {name: argument(part, draw) for name, part in kind.fields}
    shape = (4,) * kind.rank if kind.memory == "nested" else (64,)
    flat = [number(kind.element, draw) for _ in range(int(np.prod(shape)))]
    return np.array(flat, dtype(kind.element)).reshape(shape)


def agrees(function: Function, native: Native, given: dict[str, Any]) -> bool:
    """Whether an input has a meaning; if so, both must give the same."""
    if allocates(function) and any(np.ndim(part) == 0 and abs(part) > 99 for part in given.values()):
        return False
    try:
        mine = run(function, list(given.values()), limit=2000)
        theirs = native(given)
    except (Undefined, Endless, Meaningless, AssertionError):
        return False
    if function.returns is not None:
        kind = function.returns if isinstance(function.returns, MachineType) else function.returns.element
        assert close(mine.value, theirs.value, kind, False), given
    for parameter in function.parameters:
        if isinstance(parameter.type, Array) and parameter.type.written:
            name, element = parameter.name, parameter.type.element
            assert close(mine.arrays[name], theirs.arrays[name], element, False), (name, given)
    return True


def compared(path: Path, names: list[str], folder: Path) -> Iterator[tuple[str, bool]]:
    """Each function, and whether any input had a meaning."""
    found = {each.name: each for each in read_c(path) if isinstance(each, Function)}
    assert set(names) <= set(found), sorted(set(names) - set(found))
    library = build(path, names, folder, (*CHECKED, "-DNDEBUG"))
    for name in names:
        native, draw = Native(library, found[name]), random.Random(name)
        inputs = ({p.name: argument(p.type, draw) for p in found[name].parameters} for _ in range(INPUTS))
        yield name, sum(agrees(found[name], native, given) for given in inputs) > 0


@pytest.mark.skipif(not compilers(), reason="gcc and g++ are not installed")
@pytest.mark.parametrize("suffix", [".c", ".cpp"])
def test_what_is_accepted_means_what_the_compiled_source_means(suffix: str, tmp_path: Path) -> None:
    text, names = joined(suffix)
    path = tmp_path / f"all{suffix}"
    path.write_text(text)
    silent = [name for name, meaningful in compared(path, names, tmp_path) if not meaningful]
    assert len(silent) <= 2, [ACCEPTED[int(name[2:])][0] for name in silent]


def test_an_assertion_is_stated_or_its_effects_happen(tmp_path: Path) -> None:
    path = tmp_path / "f.c"
    path.write_text("#include <assert.h>\nint f(int n) { assert(n >= 0); return n; }\n")
    (found,) = read_c(path)
    assert isinstance(found, Function) and found.noted == ("at line 2, n >= 0 (an assertion of the source)",)
    path.write_text("#define NDEBUG\n#include <assert.h>\nint f(int n) { assert(++n); return n; }\n")
    (found,) = read_c(path)
    assert isinstance(found, Function) and not found.noted
    assert replace(found, noted=()) == found and run(found, [3]).value == 3
    path.write_text("int f(int n) { __builtin_assume(n > 3); return n; }\n")
    (found,) = read_c(path)
    assert isinstance(found, Function) and "n > 3" in found.noted[0]
