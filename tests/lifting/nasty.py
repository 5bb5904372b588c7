"""Python functions that lifters get wrong, each held against CPython at boundary inputs.

An outcome is what a call does: its value and the arrays it leaves, or that it raises. A lifted function may
refuse an input; it may answer only as Python does, or where an assumption that it states is not met.
"""

from __future__ import annotations

import copy
import math
import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_origin

import numpy as np

from tensmith.formula.types import MachineType
from tensmith.lifting.loops import Array
from tensmith.lifting.pipeline import lift_function
from tensmith.lifting.result import LiftResult
from tensmith.lifting.source.python.read import read_python_source

FLOATS = (0.0, 1.0, -1.0, 0.5, -2.5, 3.0, -0.0, math.nan, math.inf, -math.inf, 1e3)
INTEGERS = (0, 1, -1, 2, 3, -3, 5, 7)
SIZES = (0, 1, 2, 3)
MOST = 1 << 63


def lifted(text: str) -> LiftResult:
    """The last function of a source, lifted to NumPy."""
    return lift_function(read_python_source(text, "nasty.py")[-1])


def wrong(text: str, result: LiftResult, excuses: Sequence[str], count: int = 32) -> tuple[int, str]:
    """How many inputs both answered, and the first where the lift is wrong ("" if none).

    excuses: words of assumptions; inputs on which Python raises or has no number are outside of those.
    """
    assert result.work.function is not None
    parameters = result.work.function.parameters
    original, made = run(text, result.name), run(result.emitted["numpy"][f"{result.name}.py"], result.name)
    written = [o.view.array for o in result.work.lifted.outputs if o.view is not None]
    order = [p.name for p in parameters if p.name in written]
    declared = types_of(original)
    compared = 0
    for given in draws([p.type for p in parameters], "numpy" in text, count):
        given = [
            value.astype(declared[p.name]) if p.name in declared else value
            for p, value in zip(parameters, given)
        ]
        theirs = copy.deepcopy(given)
        expected = outcome(original, theirs, [theirs[[p.name for p in parameters].index(n)] for n in order])
        found = outcome(made, copy.deepcopy(given), None)
        if found is None or not allowed(result, dict(zip((p.name for p in parameters), given))):
            continue
        if expected is None:
            if not excuses:
                return compared, f"{given}: Python raises, the lift returns {found}"
            continue
        compared += 1
        if not alike(expected, found) and (not excuses or all(map(math.isfinite, flat([*given, expected])))):
            return compared, f"{given}: {expected} in Python, the lift returns {found}"
    return compared, ""


def allowed(result: LiftResult, given: Mapping[str, Any]) -> bool:
    """Whether an input meets what is stated as required; NaN where numbers are to be compared does not."""
    known: dict[str, int] = {}
    for name, value in given.items():
        if isinstance(value, int):
            known[name] = value
        rows, axis = value, 0
        while isinstance(rows, list | np.ndarray):
            known[f"len({name}, {axis})"] = len(rows)
            rows, axis = (rows[0] if len(rows) else None), axis + 1
    for requirement in result.work.lifted.requires:
        if requirement.kind == "ordered" and any(map(math.isnan, flat(given[requirement.array]))):
            return False
        if (
            requirement.kind == "nonzero"
            and requirement.poly is None
            and 0 in list(flat(given[requirement.array]))
        ):
            return False
        if requirement.poly is None or not requirement.poly.symbols() <= known.keys():
            continue
        value = requirement.poly.evaluate(known)
        length = known.get(f"len({requirement.array}, {requirement.axis})", value)
        if {"at_least": value < 0, "equal": value != 0, "nonzero": value == 0, "length": length < value}.get(
            requirement.kind
        ):
            return False
    return True


def run(text: str | bytes, name: str) -> Callable[..., Any]:
    """A function of a module."""
    space: dict[str, Any] = {"__name__": "nasty"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(text, "nasty.py", "exec", dont_inherit=True), space)
    function: Callable[..., Any] = space[name]
    return getattr(function, "__wrapped__", function)


def types_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The element types of parameters annotated NDArray[...], as Python reads them."""
    found: dict[str, Any] = {}
    for name, note in getattr(function, "__annotations__", {}).items():
        inner = [part for part in get_args(note) if get_origin(part) is np.dtype]
        if inner:
            found[name] = get_args(inner[0])[0]
    return found


def outcome(function: Callable[..., Any], given: Sequence[Any], written: Sequence[Any] | None) -> Any:
    """Written arrays and the value as a list; None where it raises or is no number of 64 bits."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            value = function(*given)
    except Exception:
        return None
    if written is None:
        found = list(value) if isinstance(value, tuple) else [value]
    else:
        found = [*written, *([] if value is None else [value])]
    numbers = list(flat(found))
    if any(isinstance(n, complex) or (isinstance(n, int) and not -MOST <= n < MOST) for n in numbers):
        return None
    return [part.tolist() if isinstance(part, np.ndarray | np.generic) else part for part in found]


def flat(value: Any) -> Iterator[Any]:
    """The numbers of a nested list."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        for part in value:
            yield from flat(part)
    else:
        yield value


def alike(expected: Any, found: Any) -> bool:
    """Whether two outcomes have one shape and numbers as near as rounding in another order leaves them."""
    if isinstance(expected, list) or isinstance(found, list):
        if not (isinstance(expected, list) and isinstance(found, list)):
            return False
        if not list(flat(expected)) and not list(flat(found)):
            return True
        return len(expected) == len(found) and all(map(alike, expected, found))
    try:
        expected, found = float(expected), float(found)
    except TypeError:
        return False
    if math.isnan(expected) or math.isnan(found):
        return math.isnan(expected) and math.isnan(found)
    return expected == found or math.isclose(expected, found, rel_tol=1e-5, abs_tol=1e-6)


def draws(kinds: Sequence[Any], numpy: bool, count: int) -> Iterator[list[Any]]:
    """Arguments of these types: alike sizes for arrays and, at times, integers."""
    rng = random.Random(len(kinds))
    for n in range(count):
        size = SIZES[n % len(SIZES)]
        tame = n % 3 == 0
        yield [argument(kind, numpy, size if n % 5 else rng.choice(SIZES), rng, tame) for kind in kinds]


def argument(kind: MachineType | Array, numpy: bool, size: int, rng: random.Random, tame: bool) -> Any:
    if isinstance(kind, Array):
        made = [argument(kind.element, False, size, rng, tame) for _ in range(size**kind.rank)]
        if numpy:
            name = "int64" if kind.element == "int" else kind.element
            named = {"f": "float", "i": "int", "u": "uint"}.get(name[0], "") + name[1:]
            named = name if name in ("int64", "bool") else named
            return np.array(made, named).reshape((size,) * kind.rank)
        for _ in range(kind.rank - 1):
            made = [made[k * size : (k + 1) * size] for k in range(len(made) // size)] if size else []
        return made
    if kind.kind == "bool":
        return rng.random() < 0.5
    if kind.kind == "float":
        return float(rng.choice(FLOATS[:6] if tame else FLOATS))
    number = rng.choice((size, rng.choice(INTEGERS)))
    if kind.bits is not None and kind.bits < 64:
        low, high = (
            (-(1 << kind.bits - 1), (1 << kind.bits - 1) - 1) if kind.signed else (0, (1 << kind.bits) - 1)
        )
        number = rng.choice((number, low, high, high - 1))
    return number if kind.signed else abs(number)


@dataclass(frozen=True)
class Case:
    """A source and what becomes of its last function; see samples/nasty.txt."""

    text: str
    expected: str

    def __str__(self) -> str:
        return " ".join(self.text.split())[:60]

    def judge(self) -> str:
        """What is wrong with it, "" if nothing."""
        result = lifted(self.text)
        sign, _, words = self.expected.partition(" ")
        if sign == "!":
            place, _, sentence = words.partition(" ")
            if result.status == "proved":
                return f"lifted, requires {result.requires}, assumes {result.assumes}"
            found = (f"{result.line}:{result.column}", sentence in result.reason)
            return "" if found == (place, True) else f"{result.line}:{result.column} {result.reason}"
        if result.status != "proved":
            return f"refused: {result.reason}"
        excuses = [word for word in words.split("|") if word]
        stated = " ".join((*result.assumes, *result.requires))
        for word in excuses:
            if word not in stated:
                return f"nothing says {word!r}: {stated}"
        compared, first = wrong(self.text, result, excuses)
        return first or ("" if compared else "no input was compared")


def cases(path: Path) -> list[Case]:
    """The cases of a file."""
    found: list[Case] = []
    for paragraph in path.read_text().strip("\n").split("\n\n"):
        expected, _, source = paragraph.partition("\n")
        if not expected.startswith("#"):
            found.append(Case(source + "\n", expected))
    return found
