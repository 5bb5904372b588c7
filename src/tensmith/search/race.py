"""Which engine runs a file fastest, and what it takes there: time, memory and energy.

A race is run once a structure: the values of weights do not change how long a kernel takes, but for zeros.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tensmith.engine.base import BASELINE_ENGINE, compiler, compilers, stock
from tensmith.errors import EngineError
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.latency import Latency, compare
from tensmith.ir import Program
from tensmith.ir.text import print_program
from tensmith.kernel.sparse_stream import MOST_DENSE, density
from tensmith.report.metric import Metric
from tensmith.search.checkpoint import Checkpoint
from tensmith.search.plan import UNTOUCHED, Plan
from tensmith.search.run import RunDescription

# What the checkpoint's facts about races are called, and the metrics that come of one.
RACES = "race/"
RACED = frozenset({"latency_ms", "speedup", "peak_bytes", "energy_mj"})
# Shares of the time: of the budget for timing an engine against the baseline; of it, or of a run that takes
# longer than that, for compiling.
_RACING_SHARE, _MOST_SECONDS = 0.0025, 1.5
_COMPILING_SHARE = 0.4
# A race tells engines apart that differ by much: shorter turns than those of figures that are printed.
_TURN_SECONDS = 0.01
# What compiling a small model takes, as long as nothing is known about the one at hand.
_COMPILE_SECONDS = 6.0
# What the facts are called of races in which nobody had time to compile.
_STOCK_ALONE = "/stock"


@dataclass(frozen=True)
class Winner:
    """The fastest engine for a structure, and what it takes there: the metrics RACED."""

    engine: str
    metrics: Mapping[str, Metric]

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Winner:
        """The winner of a JSON object."""
        metrics = {name: Metric.from_json(metric) for name, metric in document["metrics"].items()}
        return Winner(document["engine"], metrics)


@dataclass
class Race:
    """Races engines for one run; what came of it is kept in the checkpoint."""

    run: RunDescription
    checkpoint: Checkpoint
    _compiling_seconds: list[float] = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)

    def winner(
        self, plan: Plan, program: Program, path: Path, engines: Sequence[str] | None = None
    ) -> Winner:
        """The fastest of some engines (default: all) on the file of a plan. EngineError if none runs it."""
        allowed = tuple(engines or self.run.engines)
        without = "" if allowed == self.run.engines else f"/{','.join(allowed)}"
        settings = sorted(plan.settings.items())
        key = f"{RACES}{self.run.threads}/{structure(program)}/{settings}{without}"
        known, compiles = self.checkpoint.fact(key), self._affords_compiling()
        if known is None and not compiles:
            known = self.checkpoint.fact(key + _STOCK_ALONE)
        if known is not None:
            return Winner.from_json(known)
        names = self._entering(plan, allowed)
        compiling = [name for name in names if compiler(name)]
        stock_alone = bool(compiling) and bool(stock(names)) and not compiles
        found = self._raced(plan, path, stock(names), [] if stock_alone else compiling)
        # They need not have taken turns with one another, but each did with the baseline.
        fastest = max(found, key=lambda each: each.ratio.value)
        taken = {
            "latency_ms": fastest.latency,
            "speedup": fastest.ratio,
            **self.run.taken(fastest.contender, program, 1, self._seconds),
        }
        winner = Winner(fastest.contender.engine, taken)
        self.checkpoint.note(key + _STOCK_ALONE * stock_alone, asdict(winner))
        return winner

    def _entering(self, plan: Plan, engines: Sequence[str]) -> list[str]:
        """The engines that run a plan."""
        wanted = plan.settings.get("engine")
        # The original is the baseline, whatever engines there are to choose from.
        engines = (BASELINE_ENGINE,) if plan == UNTOUCHED else engines
        names = [name for name in engines if wanted in (None, name)]
        if not names:
            raise EngineError(f"engine '{wanted}' is none of the run's: {', '.join(engines)}")
        return names

    def _raced(self, plan: Plan, path: Path, ready: Sequence[str], compiling: Sequence[str]) -> list[Latency]:
        errors: list[str] = []
        began = time.monotonic()
        entrants = [Contender(name, path, plan.engine_settings) for name in (*ready, *compiling)]
        found = self._timed(entrants, errors)
        # Where an engine refuses a model, another may stand in for it and compile regions.
        refused = set(compiling) - {latency.contender.engine for latency in found}
        for name, by in compilers().items():
            if by.stands_in_for in refused:
                found += self._timed([Contender(name, path, plan.engine_settings)], errors)
        if compiling:
            timing = self._seconds * (len(entrants) + 1) / 2
            self._compiling_seconds.append(max(0.0, time.monotonic() - began - timing))
        if not found:
            raise EngineError("; ".join(errors))
        return found

    def _timed(self, entrants: Sequence[Contender], errors: list[str]) -> list[Latency]:
        """Latencies of those entrants that can be loaded and run, all against one baseline."""
        if not entrants:
            return []
        run, contenders = self.run, list(dict.fromkeys((self.run.baseline, *entrants)))
        refusals: dict[Contender, str] = {}
        seconds = self._seconds * len(contenders) / 2
        try:
            found = compare(
                contenders, run.example, run.threads, seconds, turn_seconds=_TURN_SECONDS, refusals=refusals
            )
        except EngineError as error:
            errors.append(str(error))
            return []
        errors += refusals.values()
        return [latency for latency in found if latency.contender in entrants]

    @property
    def _seconds(self) -> float:
        """For timing an engine and the baseline."""
        return min(_MOST_SECONDS, _RACING_SHARE * self.run.time_budget)

    def _affords_compiling(self) -> bool:
        """Whether compiling once more, as long as the longest so far, fits the time for that."""
        longest = max(self._compiling_seconds, default=_COMPILE_SECONDS)
        whole = max(self.run.time_budget, time.monotonic() - self._began)
        return sum(self._compiling_seconds) + longest <= _COMPILING_SHARE * whole


def structure(program: Program) -> str:
    """A digest of the graph, all types and the integers that shape it, but not of the values of weights.

    Of weights that are mostly zeros it knows how many are not, of each in floats and of all codes together:
    native kernels skip zeros.
    """
    text = print_program(program, weights="structure")
    shares = {
        name: density(array)
        for name, array in program.constants.items()
        if array.dtype == np.float32 and array.ndim > 1
    }
    codes = [array for array in program.constants.values() if array.dtype == np.int8 and array.ndim > 1]
    if codes:
        filled = sum(map(np.count_nonzero, codes)) / max(1, sum(array.size for array in codes))
        shares["codes"] = filled if filled <= MOST_DENSE else 1.0
    sparse = {name: math.ceil(10 * share) for name, share in shares.items() if share < 1}
    return hashlib.sha256(f"{text}{sparse or ''}".encode()).hexdigest()
