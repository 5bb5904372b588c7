"""Holds emitted code against the source it came from, on random inputs.

`source_of` runs the source itself (compiled, or imported); `judge` compares targets with it.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from harness_compare import closely, exactly, spread
from harness_inputs import Draw, Record, Sampler, fields, flat
from harness_native import Meaningless, Native, Outcome, build, dtype
from harness_targets import Loaded

from tensmith.lifting.lifted import Lifted
from tensmith.lifting.loops import Array, Function, Scalar


class PythonSource:
    """A function of a Python source, called on lists (on arrays where its file uses NumPy)."""

    def __init__(self, path: Path, function: Function) -> None:
        text = path.read_text()
        self.lists = "numpy" not in text
        names: dict[str, Any] = {"__name__": path.stem}
        exec(compile(text, str(path), "exec"), names)
        self.called = names[function.name]
        self.function = function

    def __call__(self, arguments: Mapping[str, Any]) -> Outcome:
        given: dict[str, Any] = {}
        for name, value in arguments.items():
            listed = isinstance(value, np.ndarray) and self.lists
            given[name] = value.tolist() if listed else copy.deepcopy(value)
        try:
            with np.errstate(all="ignore"):
                value = self.called(*given.values())
        except (ArithmeticError, IndexError, ValueError) as error:
            raise Meaningless from error
        value = None if value is None else self.array(value, self.function.returns)
        kinds = dict(fields(self.function))
        arrays = {n: self.array(v, kinds[n]) for n, v in given.items() if isinstance(kinds[n], Array)}
        return Outcome(value, arrays)

    def array(self, value: Any, kind: Any) -> np.ndarray[Any, Any]:
        """A result in its inferred type; integers beyond 64 bits are excluded by what a lift states."""
        scalar = kind.element if isinstance(kind, Array) else kind
        try:
            found = np.asarray(value, dtype(scalar))
        except OverflowError as error:
            raise Meaningless from error
        return found


def source_of(path: Path, function: Function, library: Any = None) -> Callable[[Mapping[str, Any]], Outcome]:
    """The source function; `library`: from `build`, for C and C++."""
    return PythonSource(path, function) if path.suffix == ".py" else Native(library, function)


def written(lifted: Lifted) -> list[str]:
    """The arrays that are outputs, in parameter order."""
    names = {o.view.array for o in lifted.outputs if o.view is not None}
    return [name for name, _ in fields(lifted.function) if name in names]


def outputs(lifted: Lifted, outcome: Outcome) -> list[Any]:
    """What the contract asks for, of an outcome."""
    found = [outcome.arrays[name] for name in written(lifted)]
    return found + ([outcome.value] if lifted.function.returns is not None else [])


def output_types(lifted: Lifted) -> list[Scalar]:
    """Their element types."""
    kinds = dict(fields(lifted.function))
    found = [kinds[name] for name in written(lifted)]
    found += [lifted.function.returns] if lifted.function.returns is not None else []
    return [kind.element if isinstance(kind, Array) else kind for kind in found]


@dataclass
class Verdict:
    """How many inputs were compared, refused as they should be, and without a meaning; what went wrong."""

    compared: int = 0
    refused: int = 0
    meaningless: int = 0
    wrong: list[str] = field(default_factory=list)


def judge(
    lifted: Lifted,
    source: Callable[[Mapping[str, Any]], Outcome],
    targets: Mapping[str, Loaded],
    count: int,
    seed: int = 0,
    stop: int = 3,
    sizes: tuple[int, ...] | None = None,
) -> dict[str, Verdict]:
    """Compare targets with the source on `count` inputs; ends for a target after `stop` mismatches."""
    sampler = Sampler(lifted, seed, sizes)
    verdicts = {name: Verdict() for name in targets}
    types = output_types(lifted)

    def run(arguments: Mapping[str, Any]) -> Sequence[Any]:
        return outputs(lifted, source(arguments))

    for _ in range(count):
        draw = sampler.draw()
        expected: list[Any] | None = None
        if not draw.unmet:
            try:
                outcome = source(draw.arguments)
                expected = outputs(lifted, outcome)
            except Meaningless:
                for verdict in verdicts.values():
                    verdict.meaningless += 1
                continue
            frame(lifted, draw, outcome, verdicts)
        for name, loaded in targets.items():
            if len(verdicts[name].wrong) < stop:
                compare(lifted, loaded, draw, expected, types, run, verdicts[name])
    return verdicts


def frame(lifted: Lifted, draw: Draw, outcome: Outcome, verdicts: Mapping[str, Verdict]) -> None:
    """Arrays that are no outputs are as they were."""
    given = flat(lifted.function, draw.arguments)
    for name, array in outcome.arrays.items():
        if name not in written(lifted) and not exactly(np.asarray(given[name]), array):
            for verdict in verdicts.values():
                verdict.wrong.append(f"the source changes {name}, which is no output")


def compare(
    lifted: Lifted,
    loaded: Loaded,
    draw: Draw,
    expected: list[Any] | None,
    types: Sequence[Scalar],
    run: Callable[[Mapping[str, Any]], Sequence[Any]],
    verdict: Verdict,
) -> None:
    """One input, one target."""
    if expected is None and not loaded.guards:
        return
    before = {n: np.copy(v) for n, v in flat(lifted.function, draw.arguments).items()}
    try:
        found = loaded(draw.arguments)
    except ValueError as error:
        if expected is None or may_refuse(lifted, draw, before):
            verdict.refused += 1
        else:
            verdict.wrong.append(f"refused {shown(draw)}: {error}")
        return
    except Exception as error:
        if not loaded.guards and may_refuse(lifted, draw, before):
            return
        verdict.wrong.append(f"failed on {shown(draw)}: {type(error).__name__}: {error}")
        return
    if expected is None:
        verdict.wrong.append(f"accepted {shown(draw)}, against {draw.unmet[0].text}")
        return
    verdict.compared += 1
    for name, value in flat(lifted.function, draw.arguments).items():
        if not exactly(before[name], value):
            verdict.wrong.append(f"changed its input {name}")
    if len(found) != len(expected):
        verdict.wrong.append(f"{len(found)} outputs instead of {len(expected)}")
        return
    bounds: list[Any] | None = None
    for i, (want, got, kind) in enumerate(zip(expected, found, types)):
        if kind.kind != "float":
            same = exactly(want, got)
        else:
            same = closely(want, got, 0.0, kind)
            if not same:
                bounds = bounds or spread(run, draw.arguments, expected)
                same = closely(want, got, bounds[i], kind)
        if same and kind.bits is not None and np.asarray(got).dtype != dtype(kind):
            verdict.wrong.append(f"output {i} is {np.asarray(got).dtype} instead of {dtype(kind)}")
            return
        if not same:
            text = f"output {i} on {shown(draw)}: {short(want)} expected, {short(got)} found"
            verdict.wrong.append(text)
            return


def may_refuse(lifted: Lifted, draw: Draw, values: Mapping[str, Any]) -> bool:
    """Whether a requirement on values is not met: NaN in an array that must have none, a divisor of 0 that
    may stand where nothing is divided; or one on sizes may be read so."""
    for requirement in lifted.requires:
        if requirement.kind == "ordered" and np.isnan(values[requirement.array]).any():
            return True
        if requirement.kind == "nonzero":
            words = set(re.findall(r"[\w.]+", requirement.text))
            if any(not np.ndim(value) and value == 0 and name in words for name, value in values.items()):
                return True
    return bool(draw.doubtful)


def shown(draw: Draw) -> str:
    """Arguments in a line."""
    parts = []
    for name, value in draw.arguments.items():
        if isinstance(value, Record):
            value = dict(value)
        parts.append(f"{name}={short(value)}")
    return ", ".join(parts)


def short(value: Any) -> str:
    """A value in few characters."""
    if isinstance(value, np.ndarray):
        text = f"{value.dtype}{list(value.shape)}{np.array2string(value.reshape(-1)[:12], separator=',')}"
    else:
        text = repr(value)
    text = " ".join(text.split())
    return text if len(text) < 160 else f"{text[:160]}..."


__all__ = ["Loaded", "Verdict", "build", "judge", "source_of"]
