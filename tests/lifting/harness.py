"""Holds emitted code against the source it came from, on random inputs.

`source_of` runs the source itself (compiled, or imported); `judge` compares targets with it.
"""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from harness_native import Native, build, compilers
from harness_targets import Loaded

from tensmith.lifting.lifted import Lifted
from tensmith.lifting.loops import Array, Function
from tensmith.lifting.second.compare import closely, cropped, exactly, identical, spread
from tensmith.lifting.second.inputs import SLACK, Draw, Sampler
from tensmith.lifting.second.values import CallResult, Meaningless, dtype, folded, short, shown

PLAIN = 2  # inputs of a plan that go through plain calls; those after them, through `Loaded.again`


class PythonSource:
    """A function of a Python source, called on lists (on arrays where its file uses NumPy)."""

    def __init__(self, path: Path, function: Function) -> None:
        text = path.read_text()
        self.lists = "numpy" not in text
        names: dict[str, Any] = {"__name__": path.stem}
        exec(compile(text, str(path), "exec"), names)
        self.called = names[function.name]
        self.function = function

    def __call__(self, arguments: Mapping[str, Any]) -> CallResult:
        given: dict[str, Any] = {}
        for name, value in arguments.items():
            listed = isinstance(value, np.ndarray) and self.lists
            given[name] = value.tolist() if listed else copy.deepcopy(value)
        try:
            with np.errstate(all="ignore"):
                value = self.called(*given.values())
        except (ArithmeticError, IndexError, ValueError) as error:
            raise Meaningless from error
        returned = self.function.returned.values()
        if len(returned) > 1:
            value = [self.array(part, kind) for part, kind in zip(value, returned, strict=True)]
        elif value is not None:
            value = self.array(value, self.function.returns)
        kinds = dict(self.function.fields)
        arrays = {n: self.array(v, kinds[n]) for n, v in given.items() if isinstance(kinds[n], Array)}
        return CallResult(value, arrays)

    def array(self, value: Any, kind: Any) -> np.ndarray[Any, Any]:
        """A result in its inferred type; integers beyond 64 bits are excluded by what a lift states."""
        scalar = kind.element if isinstance(kind, Array) else kind
        try:
            found = np.asarray(value, dtype(scalar))
        except OverflowError as error:
            raise Meaningless from error
        return found


Source: TypeAlias = Callable[[Mapping[str, Any]], CallResult]


def source_of(path: Path, function: Function, library: Any = None) -> Source:
    """The source function; `library`: from `build`, for C and C++."""
    return PythonSource(path, function) if path.suffix == ".py" else Native(library, function)


@dataclass
class Verdict:
    """How many inputs were compared, refused as they should be, and without a meaning; what went wrong."""

    compared: int = 0
    refused: int = 0
    meaningless: int = 0
    wrong: list[str] = field(default_factory=list)


def judge(
    lifted: Lifted,
    source: Source,
    targets: Mapping[str, Loaded],
    count: int,
    seed: int = 0,
    sizes: Sequence[int] = (),
    slack: Sequence[int] = SLACK,
    repeat: int = 1,
) -> dict[str, Verdict]:
    """Compare targets with the source on `count` inputs; ends for a target after three mismatches.

    sizes, slack: what extents are drawn from, and how much longer than needed flat arrays are; repeat: inputs
    that have their sizes and scalars in common.
    """
    trial, sampler = Trial(lifted, source), Sampler(lifted, seed)
    sampler.sizes, sampler.slack = sizes or sampler.sizes, slack
    sampler.stray = 0.0  # the source is not guarded
    sampler.farthest = 0.0  # nor does it overflow
    verdicts = {name: Verdict() for name in targets}
    for draw in sampler.draws(count, repeat):
        open_ = {name: loaded for name, loaded in targets.items() if len(verdicts[name].wrong) < 3}
        trial.run(draw, open_, verdicts)
    return verdicts


@dataclass
class Expected:
    """What the source gives on an input; how far results may be from it is measured where they are."""

    outputs: list[Any]
    measure: Callable[[Sequence[Any]], list[Any]]

    @functools.cached_property
    def bounds(self) -> list[Any]:
        """For each output; see `spread`."""
        return self.measure(self.outputs)


class Trial:
    """A lifted function beside its source."""

    def __init__(self, lifted: Lifted, source: Source) -> None:
        self.lifted, self.source = lifted, source
        self.kinds = dict(lifted.function.fields)
        names = {o.view.array for o in lifted.outputs if o.view is not None}
        self.written = [name for name in self.kinds if name in names]
        self.whole = {o.view.array for o in lifted.outputs if o.view is not None and o.whole}
        returned = list(lifted.function.returned.values())
        types = [self.kinds[name] for name in self.written] + returned
        self.types = [kind.element if isinstance(kind, Array) else kind for kind in types]
        self.returns = len(returned)
        read = {requirement.array for requirement in lifted.requires if requirement.kind == "there"}
        arrays = [self.kinds[name] for name in read]
        self.in_rows = any(isinstance(kind, Array) and kind.axes < kind.rank for kind in arrays)

    def outputs(self, outcome: CallResult) -> list[Any]:
        """What the contract asks for, of an outcome: written arrays, then what is returned."""
        found = [outcome.arrays[name] for name in self.written]
        return found + (list(outcome.value) if self.returns > 1 else [outcome.value][: self.returns])

    def run(self, draw: Draw, targets: Mapping[str, Loaded], verdicts: Mapping[str, Verdict]) -> None:
        """One input."""
        given = {n: (v, v.tobytes()) for n, v in draw.values.items() if isinstance(v, np.ndarray)}
        expected: Expected | None = None
        below = any(requirement.kind == "at_least" for requirement in draw.plan.doubtful)
        if below or (self.in_rows and self.outside(draw, targets)):
            for verdict in verdicts.values():
                verdict.refused += 1
            return
        if not draw.plan.unmet:
            try:
                outcome = self.source(draw.arguments)
            except Meaningless:
                for verdict in verdicts.values():
                    verdict.meaningless += 1
                return
            expected = Expected(self.outputs(outcome), functools.partial(self.measured, draw))
            for name, array in outcome.arrays.items():
                if name not in self.written and array.tobytes() != given[name][1]:
                    for verdict in verdicts.values():
                        verdict.wrong.append(f"the source changes {name}, which is no output")
        for name, loaded in targets.items():
            wrong = self.compare(loaded, draw, expected, verdicts[name])
            if wrong:
                verdicts[name].wrong.append(wrong)
            for parameter, (value, before) in given.items():
                if value.tobytes() != before:
                    verdicts[name].wrong.append(f"changed its input {parameter}")

    def outside(self, draw: Draw, targets: Mapping[str, Loaded]) -> bool:
        """Whether a place in C's rows, which draws know nothing of, is outside, as the targets say."""
        for loaded in targets.values():
            try:
                loaded(folded(draw.values))
            except ValueError:
                return not draw.plan.unmet
        return False

    def compare(self, loaded: Loaded, draw: Draw, expected: Expected | None, verdict: Verdict) -> str:
        """What is wrong with one target on one input, "" if nothing."""
        if not loaded.guards and (expected is None or self.may_refuse(draw)):
            return ""
        absent = self.whole if draw.plan.absent and loaded.python else frozenset()
        values = {n: None if n in absent else v for n, v in draw.values.items()}
        try:
            if draw.place < PLAIN or expected is None or self.may_refuse(draw):
                found = loaded(folded(values))
            else:
                found = loaded.again(values)
        except ValueError as error:
            if expected is None or self.may_refuse(draw):
                verdict.refused += 1
                return ""
            return f"refused {shown(draw.arguments)}: {error}"
        except Exception as error:
            return f"failed on {shown(draw.arguments)}: {type(error).__name__}: {error}"
        if expected is None:
            unmet = draw.plan.unmet
            only = {r.array for r in unmet} <= absent and all(r.kind == "length" for r in unmet)
            return "" if only else f"accepted {shown(draw.arguments)}, against {unmet[0].text}"
        verdict.compared += 1
        if len(found) != len(self.types):
            return f"{len(found)} outputs instead of {len(self.types)}"
        if absent:
            names = [*self.written, ""]
            parts = zip(names, expected.outputs, found)
            fronts = [cropped(want, got) if name in absent else want for name, want, got in parts]
            expected = Expected(fronts, expected.measure)
        return self.different(draw, expected, found)

    def different(self, draw: Draw, expected: Expected, found: Sequence[Any]) -> str:
        """The first output that is not what the source gives."""
        for i, (want, got, kind) in enumerate(zip(expected.outputs, found, self.types)):
            if identical(want, got):
                continue
            if kind.kind != "float":
                same = exactly(want, got)
            else:
                same = closely(want, got, 0.0, kind) or closely(want, got, expected.bounds[i], kind)
            if not same:
                return f"output {i} on {shown(draw.arguments)}: {short(want)} expected, {short(got)} found"
            if kind.bits is not None and np.asarray(got).dtype != dtype(kind):
                return f"output {i} is {np.asarray(got).dtype} instead of {dtype(kind)}"
        return ""

    def measured(self, draw: Draw, results: Sequence[Any]) -> list[Any]:
        """How far results may be from the source's: as its inputs move, or as what is too small for a normal
        float is 0."""
        source = getattr(self.source, "flushed", self.source)
        flushed = functools.cache(lambda: self.again(source, draw.arguments, results))
        runs = functools.partial(self.again, self.source), lambda moved, like: flushed()
        spreads = [spread(run, self.lifted.function, draw.arguments, results) for run in runs]
        return [np.maximum(*both) for both in zip(*spreads)]

    def again(self, source: Source, arguments: Mapping[str, Any], like: Sequence[Any]) -> list[Any]:
        """The outputs of a source on other arguments, of the extents that others have."""
        found = self.outputs(source(arguments))
        return [cropped(one, other) for one, other in zip(found, like)]

    def may_refuse(self, draw: Draw) -> bool:
        """Whether a requirement on values is not met: NaN in an array that must have none, a divisor of 0
        that may stand where nothing is divided, a place outside; or one on sizes may be read so."""
        values = draw.values
        for requirement in self.lifted.requires:
            if requirement.kind == "ordered" and np.isnan(values[requirement.array]).any():
                return True
            if requirement.kind == "there":
                return True
            if requirement.kind == "nonzero":
                words = set(re.findall(r"[\w.]+", requirement.text))
                if any(not np.ndim(value) and value == 0 and name in words for name, value in values.items()):
                    return True
        return bool(draw.plan.doubtful)


__all__ = ["Loaded", "Native", "Verdict", "build", "compilers", "judge", "source_of"]
