"""Every engine on every file, taking turns: what `tensmith bench` prints."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tensmith.engine.base import ENGINES, Arrays, available, compiler, demand_threads, require
from tensmith.engine.signature import TensorSpec, read_signature
from tensmith.engine.stopwatch import Turn
from tensmith.engine.worker import SessionWorker
from tensmith.errors import EngineError, ModelError, UsageError
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.latency import FEWEST_RUNS, Latency, Rounds, summarize, take_turns, watched
from tensmith.evaluate.open_sizes import check_sizes, open_sizes
from tensmith.frontend.checked import check_model
from tensmith.progress import Progress, silent

_FLOATS = ("float16", "float32", "float64")
_PIXELS = ("uint8", "int8")
_INDICES = ("bool", "int32", "int64", "uint32", "uint64", "int16", "uint16")
_MOST_ELEMENTS = 1 << 28


@dataclass(frozen=True)
class BenchResult:
    """Latencies in the order asked for, the first the baseline; `failures` says why the others have none."""

    contenders: tuple[Contender, ...]
    latencies: Mapping[Contender, Latency]
    failures: Mapping[Contender, str]

    @property
    def baseline(self) -> str | None:
        """The name of what every ratio is against: the first contender that runs."""
        return next((latency.baseline for latency in self.latencies.values()), None)

    @property
    def busy(self) -> bool:
        """Whether the machine was, as in `latency.Rounds`."""
        return any(latency.busy for latency in self.latencies.values())

    def to_json(self) -> dict[str, Any]:
        """{"models": [{"path", "engines": [{"engine", "latency_ms", "ratio", "tail"}]}], "busy"}, null if
        failed."""
        models: dict[Path, list[dict[str, Any]]] = {}
        for contender in self.contenders:
            models.setdefault(contender.path, []).append(self._row(contender))
        rows = [{"path": str(path), "engines": rows} for path, rows in models.items()]
        return {"models": rows, "busy": self.busy}

    def _row(self, contender: Contender) -> dict[str, Any]:
        if contender in self.failures:
            error = self.failures[contender]
            nothing = {"latency_ms": None, "ratio": None, "tail": None}
            return {"engine": contender.engine_name, **nothing, "error": error}
        found = self.latencies[contender]
        latency, ratio = found.latency.to_json(), found.ratio.to_json()
        measured = {"latency_ms": latency, "ratio": ratio, "tail": found.tail.to_json()}
        return {"engine": contender.engine_name, **measured}

    def beyond(self, milliseconds: float) -> list[str]:
        """A sentence for each contender that is not known to answer so fast in 99 % of its runs."""
        said = []
        for contender, found in self.latencies.items():
            p99 = found.tail.percentiles.get(99)
            if p99 is None:
                said.append(
                    f"{contender.name}: {found.tail.runs} runs are too few for a p99; take more --seconds"
                )
            elif p99.high > milliseconds:
                said.append(f"{contender.name}: p99 is {p99}, and {milliseconds:g} ms are allowed")
        return [*said, *(f"{contender.name} failed" for contender in self.failures)]


def bench(
    paths: Sequence[Path],
    engines: Sequence[str] | None = None,
    threads: int = 1,
    batch: int = 1,
    seconds: float = 10.0,
    seed: int = 0,
    progress: Progress = silent,
    sizes: Mapping[str, int] | None = None,
) -> BenchResult:
    """Interleaved latencies of all `engines` (default: all that are installed) on all files.

    An engine may come with settings of its own, as "opencl:precision=f16".
    Inputs are random: normal floats, small integers; a symbolic size becomes what `sizes` says, else the
    first one `batch`, others 128.
    UsageError on an unknown engine or setting, no file or a size that no file leaves open; EngineError if
    nothing at all can run.
    """
    names = list(engines) if engines else list(available())
    demand_threads(threads)
    if not paths or not names or batch < 1:
        raise UsageError("bench needs at least one model, one engine and a batch of one")
    chosen = [_with_settings(name) for name in names]
    for name, settings in chosen:
        require(ENGINES[name])
        if reason := ENGINES[name].unknown(dict(settings)):
            raise UsageError(reason)
    contenders = tuple(
        dict.fromkeys(Contender(name, path, settings) for path in paths for name, settings in chosen)
    )
    failures: dict[Contender, str] = {}
    check_sizes([spec for path in paths for spec in _inputs(path)], sizes or {})
    with ExitStack() as stack:
        workers: dict[Contender, SessionWorker] = {}
        for contender in contenders:
            progress(f"loading {contender.name}")
            try:
                check_model(contender.path)
                inputs = random_inputs(read_signature(contender.path).inputs, batch, seed, sizes)
            except (EngineError, ModelError) as error:
                failures[contender] = str(error)
                continue
            try:
                workers[contender] = stack.enter_context(contender.start(inputs, threads))
            except (EngineError, ModelError) as error:
                failures[contender] = f"{error}{_guessed(contender, batch, sizes or {})}"
        if not workers:
            raise EngineError(next(iter(failures.values())))
        progress(f"timing {len(workers)} in turns for {seconds:g} s")
        timers: dict[Contender, Callable[[int], Turn]] = {each: workers[each].time for each in workers}
        rounds = _rounds(timers, seconds, failures)
    latencies = dict(zip(timers, summarize(tuple(timers), rounds)))
    return BenchResult(contenders, latencies, failures)


def _rounds(
    timers: dict[Contender, Callable[[int], Turn]], seconds: float, failures: dict[Contender, str]
) -> Rounds:
    """Rounds of all `timers`; one that dies in its turn is taken out of them, why goes to `failures`, and the
    others begin anew for the time that is left. EngineError if none is left."""
    died: dict[Contender, str] = {}
    ends = time.monotonic() + seconds
    while True:
        try:
            left = max(0.0, ends - time.monotonic())
            return take_turns(watched(timers, died), left, fewest=FEWEST_RUNS)
        except EngineError:
            for contender in died.keys() & timers.keys():
                failures[contender] = died[contender]
                del timers[contender]
            if not timers:
                raise


def _guessed(contender: Contender, batch: int, sizes: Mapping[str, int]) -> str:
    """What was assumed of sizes when an engine took the file and failed, which may be why; else ""."""
    if compiler(contender.engine):
        return ""
    taken = open_sizes(_inputs(contender.path), batch, sizes)
    guessed = ", ".join(f"{name}={size}" for name, size in taken.items() if name not in sizes)
    return (
        f"; the file leaves sizes open, taken for {guessed}: give the right ones by --sizes"
        if guessed
        else ""
    )


def _with_settings(words: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """(engine, settings) of ENGINE[:NAME=VALUE]...; UsageError where a setting has no value."""
    name, *rest = (part.strip() for part in words.split(":"))
    settings = tuple((key, value) for key, _, value in (part.partition("=") for part in rest))
    if not all(key and value for key, value in settings):
        raise UsageError(f"'{words}' is no engine with settings; write ENGINE:NAME=VALUE")
    return name, settings


def _inputs(path: Path) -> tuple[TensorSpec, ...]:
    """The inputs of a file; none where it cannot be read, which is said where it is loaded."""
    try:
        return read_signature(path).inputs
    except EngineError:
        return ()


def random_inputs(
    specs: tuple[TensorSpec, ...], batch: int = 1, seed: int = 0, sizes: Mapping[str, int] | None = None
) -> Arrays:
    """Arrays that fit `specs`: standard normal floats; 0 or 1 where the dtype is an index."""
    generator = np.random.default_rng(seed)
    taken = open_sizes(specs, batch, sizes or {})
    return {spec.name: _random(spec, taken, generator) for spec in specs}


def _random(
    spec: TensorSpec, sizes: Mapping[str, int], generator: np.random.Generator
) -> np.ndarray[Any, Any]:
    if spec.shape is None:
        raise EngineError(
            f"input '{spec.name}' has no declared shape, so nothing fitting can be made up; "
            "export the model with one"
        )
    shape = [size if isinstance(size, int) else sizes[size] for size in spec.shape]
    if math.prod(max(1, size) for size in shape) > _MOST_ELEMENTS:  # NumPy counts so, a size of 0 or not
        raise EngineError(
            f"input '{spec.name}' has shape {shape}, too large to make up; --sizes gives open ones"
        )
    if spec.dtype in _FLOATS:
        return generator.standard_normal(shape).astype(spec.dtype)
    if spec.dtype in _PIXELS:
        return generator.integers(0, 100, shape).astype(spec.dtype)
    if spec.dtype in _INDICES:  # 0 and 1 are valid tokens, masks and segment numbers alike
        return generator.integers(0, 2, shape).astype(spec.dtype)
    raise EngineError(f"input '{spec.name}' is {spec.dtype}, for which nothing can be made up")
