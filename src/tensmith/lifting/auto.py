"""`--to auto`: every target that runs on this machine, timed on inputs of the user's sizes, taking turns."""

from __future__ import annotations

import functools
import importlib
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from tensmith.engine.stopwatch import time_calls
from tensmith.errors import TensmithError, UsageError, first_line
from tensmith.evaluate.latency import take_turns
from tensmith.formula.poly import Poly
from tensmith.formula.types import MachineType
from tensmith.lifting.lifted import Lifted
from tensmith.lifting.loops import Array
from tensmith.lifting.pipeline import emitter_of
from tensmith.lifting.running import Callee, LiftedLibrary, fields, installed, load
from tensmith.lifting.second.cell import Fields
from tensmith.lifting.second.inputs import DrawPlan, Sampler, evaluated, shape
from tensmith.lifting.second.values import dtype
from tensmith.lifting.summary import length_symbol
from tensmith.progress import Progress, silent

CANDIDATES = ("numpy", "torch", "c", "onnx", "jax", "tensorflow", "mlx")
_DEFAULTS = (1000, 300, 100, 30)
_MOST_ELEMENTS = 30_000_000
_DIGITS = 18  # of the largest size that any array has
_SECONDS = 0.5  # for one target
_HOPELESS = 10  # times slower than the fastest

Sizes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Timing:
    """A target's least time of one call in seconds, or why it was not timed."""

    target: str
    seconds: float | None
    note: str = ""


@dataclass(frozen=True)
class TargetTimings:
    """All timings, fastest first."""

    timings: tuple[Timing, ...]
    shapes: Mapping[str, tuple[int, ...]]

    @property
    def best(self) -> str:
        """The fastest target."""
        return self.timings[0].target

    def to_json(self) -> list[dict[str, Any]]:
        """target, ms, ratio to the fastest, note."""
        first = self.timings[0].seconds or 1.0
        return [
            {
                "target": timing.target,
                "ms": None if timing.seconds is None else timing.seconds * 1e3,
                "ratio": None if timing.seconds is None else timing.seconds / first,
                "note": timing.note,
            }
            for timing in self.timings
        ]


def parse_sizes(text: str) -> dict[str, tuple[int, ...]]:
    """ "n=1000,a=200x300" -> values of integer parameters and shapes of arrays. UsageError if malformed."""
    found = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = part.partition("=")
        extents = value.split("x")
        if not equals or not all(_is_size(extent.strip()) for extent in extents):
            raise UsageError(f"--sizes has {part!r}; write it as n=1000,m=1000, or a=200x300 for an array")
        found[name.strip()] = tuple(map(int, extents))
    return found


def _is_size(text: str) -> bool:
    return text.isdecimal() and len(text) <= _DIGITS


def choose(
    lifted: Lifted, sizes: Sizes, progress: Progress | None = None
) -> tuple[TargetTimings, dict[str, Mapping[str, bytes]]]:
    """The timings of a function's targets, and the files of each that could be emitted.

    Raises UsageError where the sizes do not meet the function's requirements.
    """
    tell = progress or silent
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # TensorFlow greets on stderr
    arguments = sample(lifted, sizes)
    runs: dict[str, Callable[[], Any]] = {}
    files: dict[str, Mapping[str, bytes]] = {}
    notes: list[Timing] = []
    expected: Any = None
    for target in CANDIDATES:
        try:
            if not installed(target):
                notes.append(Timing(target, None, "not installed"))
                continue
            tell(f"{lifted.function.name}: {target}")
            files[target] = emitter_of(target).emit(lifted).files
            run = prepared(target, load(target, lifted, files[target]), arguments)
            result = _plain(run())
        except ValueError as error:
            if target == "numpy":
                raise UsageError(f"these sizes do not fit: {error}; choose others by --sizes") from error
            notes.append(Timing(target, None, f"failed: {error}"))
            continue
        except Exception as error:  # a framework may fail in any way; the others are still to be timed
            notes.append(Timing(target, None, f"failed: {type(error).__name__}: {first_line(error)[:120]}"))
            continue
        if expected is None:
            expected = result
        elif not _agree(expected, result):
            notes.append(Timing(target, None, "failed: its result differs from NumPy's"))
            continue
        runs[target] = run
    if not runs:
        raise TensmithError("no target runs here; name one by --to")
    timed = sorted(_timed(runs), key=lambda timing: timing.seconds or 0.0)
    shapes = {name: np.shape(value) for name, value in fields(lifted.function, arguments).items()}
    return TargetTimings((*timed, *notes), shapes), files


def _timed(runs: Mapping[str, Callable[[], Any]]) -> list[Timing]:
    """Times of calls in turns, each target's best turn: what else the machine does only ever adds.

    A target that is hopelessly slower at first keeps that time and takes no turns.
    """
    timers = {target: functools.partial(time_calls, run) for target, run in runs.items()}
    least = {target: int(timer(2).nanoseconds.min()) for target, timer in timers.items()}
    hopeful = [target for target in runs if least[target] <= _HOPELESS * min(least.values())]
    rounds = take_turns([timers[target] for target in hopeful], _SECONDS * len(hopeful))
    best = least | dict(zip(hopeful, rounds.nanoseconds.min(axis=0)))
    return [Timing(target, float(nanoseconds) / 1e9) for target, nanoseconds in best.items()]


# Inputs.


def sample(lifted: Lifted, sizes: Sizes) -> list[Any]:
    """Random arguments: integers that are sizes as given (1000 where not), arrays as long as required."""
    known = dict(lifted.function.fields).keys()
    for name in sizes:
        if name not in known:
            raise UsageError(
                f"--sizes names {name}, which is no parameter; the parameters: {', '.join(known)}"
            )
    for default in _DEFAULTS:
        sampler = _TimedInputs(lifted, sizes, default)
        plan = sampler.plan()
        shapes = [shape(name, kind, plan.known) for name, kind in lifted.function.arrays.items()]
        if sum(map(math.prod, shapes)) <= _MOST_ELEMENTS:
            (draw,) = sampler.planned(plan, 1)
            return list(draw.arguments.values())
    raise UsageError(f"the inputs have more than {_MOST_ELEMENTS} elements; choose smaller --sizes")


class _TimedInputs(Sampler):
    """Draws of the user's sizes, of `default` where none is given, and of small numbers, none zero."""

    stray, twice, largest = 0.0, 0.0, _MOST_ELEMENTS

    def __init__(self, lifted: Lifted, given: Sizes, default: int) -> None:
        super().__init__(lifted, 0)
        self.given, self.default = given, default

    def plan(self, style: str = "small", fixed: Mapping[str, int] | None = None) -> DrawPlan:
        """Arrays as long as they must be; what nothing bounds is as long as the rest."""
        known = self.symbols(style)
        self.settle(known)
        for room in self._rooms():
            self.move(room, max(0, -evaluated(self.lifted, room, known)), known)
        for name, kind in self.lifted.function.arrays.items():
            for symbol in (length_symbol(name, axis) for axis in range(kind.axes)):
                long = self.default if kind.rank < 3 else max(1, self.default // 10)
                known[symbol] = known[symbol] or long
        self.settle(known)
        return DrawPlan(known, self.scalars(known, style), style, (), (), absent=False)

    def symbols(self, style: str) -> dict[str, int]:
        """Integers that bound something, and lengths, 0 where they are not given."""
        counting = {symbol for size in self.lifted.sizes for symbol in size.poly.symbols()}
        known: dict[str, int] = {}
        for name, kind in self.fields.items():
            if isinstance(kind, Array):
                extents = self.given.get(name, (0,) * kind.axes)
                if len(extents) != kind.axes:
                    raise UsageError(f"--sizes gives {name} {len(extents)} extents, and it has {kind.axes}")
                known |= {length_symbol(name, axis): extent for axis, extent in enumerate(extents)}
            elif kind.kind == "int" and (name in self.counts or name in self.given):
                known[name] = self.given.get(name, (self.default if name in counting else 1,))[0]
        return known

    def _rooms(self) -> Iterator[Poly]:
        """What rows of flat memory have beyond what is read of them. Rows that are only read may overlap, but
        those that are passed seldom do, and would be timed in a cache."""
        views = [each.view for each in self.lifted.inputs if each.view is not None]
        for view, name in product(views, self.fields):
            if len(view.offset) == 1 and Poly.symbol(name) in view.steps[0]:
                inside = [(n - 1) * s for n, s in zip(view.shape, view.steps[0]) if name not in s.symbols()]
                start = view.offset[0].substitute({name: Poly.of(0)})
                yield Poly.symbol(name) - 1 - sum(inside, start)

    def move(self, poly: Poly, by: int, known: dict[str, int]) -> None:
        """Makes strides and the like larger, the last parameter first; what is given stands."""
        free = [name for name in self.fields if name in self.counts and name not in self.given]
        growing = [name for name in free if poly.coefficient(name) == Poly.of(1)]
        if by > 0 and growing:
            known[growing[-1]] += by

    def elements(self, kind: MachineType, shape: tuple[int, ...], style: str) -> np.ndarray[Any, Any]:
        """Small numbers, none zero."""
        if kind.kind == "float":
            return np.asarray(self.rng.uniform(0.5, 1.5, shape), dtype(kind))
        return np.asarray(self.rng.integers(1, 2 if kind.kind == "bool" else 100, shape), dtype(kind))


# What a target's users pass, and waiting for what they get.


def prepared(target: str, function: Callee, arguments: Sequence[Any]) -> Callable[[], Any]:
    """A call on the target's own arrays that waits for the result; in C with memory for it at hand."""
    if isinstance(function, LiftedLibrary):
        return function.prepared(*arguments)
    convert, wait = _FRAMEWORKS.get(target, (lambda array: array, lambda result: result))
    given = [_converted(argument, convert) for argument in arguments]
    return lambda: wait(function(*given))


def _converted(argument: Any, convert: Callable[[Any], Any]) -> Any:
    if isinstance(argument, Fields):
        return Fields((name, _converted(value, convert)) for name, value in argument.items())
    return convert(argument) if isinstance(argument, np.ndarray) else argument


def _to(module: str, function: str) -> Callable[[Any], Any]:
    return lambda array: getattr(importlib.import_module(module), function)(array)


def _mlx_array(array: np.ndarray[Any, Any]) -> Any:
    """MLX makes single precision of doubles unless it is told their type."""
    core = importlib.import_module("mlx.core")
    return core.array(array, core.bool_ if array.dtype == bool else getattr(core, array.dtype.name))


def _each(result: Any, wait: Callable[[Any], Any]) -> Any:
    for part in result if isinstance(result, tuple) else (result,):
        wait(part)
    return result


def _block(part: Any) -> None:
    if hasattr(part, "block_until_ready"):
        part.block_until_ready()


_FRAMEWORKS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "torch": (_to("torch", "from_numpy"), lambda result: result),
    "jax": (_to("jax.numpy", "asarray"), lambda result: _each(result, _block)),
    "tensorflow": (_to("tensorflow", "constant"), lambda result: result),
    "mlx": (_mlx_array, lambda result: _each(result, _to("mlx.core", "eval"))),
}


def _plain(result: Any) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(part) for part in (result if isinstance(result, tuple) else (result,))]


def _agree(expected: Sequence[Any], found: Sequence[Any]) -> bool:
    return len(expected) == len(found) and all(
        np.shape(left) == np.shape(right)
        and np.allclose(left.astype(np.float64), right.astype(np.float64), 1e-2, 1e-3, equal_nan=True)
        for left, right in zip(expected, found)
    )


def applied(files: Mapping[str, Mapping[str, bytes]], choice: TargetTimings, result: Any) -> Any:
    """The result with the files of the fastest target alone."""
    return replace(result, emitted={choice.best: files[choice.best]})
