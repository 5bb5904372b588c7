"""Turns plans into measured candidates: build the program, write the file, judge it, time it.

Everything is measured through the engine that would ship and the very file that would be deployed. What is
costly and depends on less than the plan is kept: programs by the steps that made them, latencies by the
structure of the graph (the values of weights do not change how long a kernel takes, but for their zeros).
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from tensmith.backend.onnx import write_onnx
from tensmith.backend.packed import pack
from tensmith.data import View
from tensmith.engine.base import Arrays, available, sizes_in
from tensmith.engine.compiled import COMPILING, MIXED, NATIVE, Manner, compiled_folder
from tensmith.engine.worker import Worker
from tensmith.errors import EngineError, OutputError, TensmithError
from tensmith.evaluate import size
from tensmith.evaluate.calibrator import Calibrator
from tensmith.evaluate.latency import Contender, Latency, compare
from tensmith.evaluate.metric import Metric, exact
from tensmith.evaluate.outcome import Outcome
from tensmith.evaluate.task import Task
from tensmith.files import write_bytes
from tensmith.formula.arith import Array
from tensmith.frontend.model_files import model_files
from tensmith.interrupt import unmissed
from tensmith.ir import Program
from tensmith.ir.text import print_program
from tensmith.kernel.sparse_stream import density
from tensmith.rewrite.calibration import Calibration, Listening, Question
from tensmith.rewrite.method import apply_lossy
from tensmith.rewrite.rule import EVERYWHERE, EXACT, Step
from tensmith.rewrite.trail import Traced, exhaust, simplified, simplify
from tensmith.search.candidate import Candidate
from tensmith.search.checkpoint import Checkpoint
from tensmith.search.objective import Objective
from tensmith.search.pace import BUILD, SAMPLE, START, Pace
from tensmith.search.plan import Plan

# The best stock runtime at fp32, on the model as it came: what every speed-up is against.
BASELINE_ENGINE = "onnxruntime"
# The plan of that: no rewrites at all, not even exact ones.
UNTOUCHED = Plan(settings={"untouched": "yes", "engine": BASELINE_ENGINE})

# What compiling and timing a small model natively takes, as long as nothing is known about the one at hand.
_COMPILE_SECONDS = 6.0
_KEPT_PROGRAMS = 24
# Integer constants up to this many elements are shapes and axes, not weights.
_SHAPING = 16


@dataclass
class Workshop:
    """One model, its data and its device. `model` is the original file; `folder` takes what is built.

    original: what the untouched model answers on the search split; what a candidate loses is against that.
    compile_seconds: how long the native engine may race in all, since it compiles what it runs.
    race_seconds: how long an engine is timed against the baseline.
    """

    model: Path
    program: Program
    task: Task
    search_view: View
    calibration: Calibrator
    objective: Objective
    checkpoint: Checkpoint
    folder: Path
    example: Arrays
    engines: tuple[str, ...] = field(default_factory=available)
    threads: int = 1
    judging_threads: int = 2
    seed: int = 0
    original: Outcome | None = None
    compile_seconds: float = math.inf
    race_seconds: float = 1.5
    pace: Pace = field(default_factory=Pace)
    _native_races: list[float] = field(default_factory=list)
    _built: dict[str, tuple[Traced, tuple[Question, ...]]] = field(default_factory=dict)

    # Building

    def build(self, plan: Plan) -> Traced:
        """The program of a plan with its whole trail. TensmithError if a step does not fit."""
        if plan == UNTOUCHED:
            return Traced(self.program)
        return simplified(self._after(plan.steps)[0])

    def asked(self, plan: Plan) -> tuple[Question, ...]:
        """What its lossy steps asked of the calibration."""
        return () if plan == UNTOUCHED else self._after(plan.steps)[1]

    def _after(self, steps: Sequence[Step]) -> tuple[Traced, tuple[Question, ...]]:
        """The simplified program after some steps, and what they asked; prefixes are shared between plans."""
        key = Plan(tuple(steps)).key
        if key not in self._built:
            listening = Listening(self.calibration)
            if steps:
                before, asked = self._after(steps[:-1])
                made = self._stepped(before, steps[-1], listening), (*asked, *listening.asked)
            else:
                made = simplify(self.program), ()
            while len(self._built) >= _KEPT_PROGRAMS:
                self._built.pop(next(k for k in self._built if k != Plan().key))
            self._built[key] = made
        return self._built[key]

    def _stepped(self, before: Traced, step: Step, calibration: Calibration) -> Traced:
        """One step later; an exact step at EVERYWHERE stands for every site of its rule."""
        if step.kind == "lossy":
            return before.then(apply_lossy(before.program, step, calibration), step)
        rule = EXACT[step.rule]
        if step.site == EVERYWHERE:
            return simplified(exhaust(before, [rule]))
        return simplified(before.then(rule.apply(before.program, step.site), step))

    # Measuring

    def try_plan(self, plan: Plan) -> Candidate:
        """The measured candidate of a plan: from the checkpoint if it was tried before, else built now.

        Never raises for what a candidate does wrong: that makes it a failed one, with the reason. OutputError
        when the disk is full.
        """
        identifier = f"c{plan.key[:10]}"
        path = self.file(plan)
        try:
            with unmissed():  # an interrupt must not pass for the candidate's failure
                with self.pace.timed(BUILD):
                    traced = self.build(plan)
                if plan != UNTOUCHED:
                    write_onnx(traced.program, path)
                candidate = self._measured(Candidate(identifier, plan, "accepted"), traced.program)
        except TensmithError as error:
            if isinstance(error, OutputError) and isinstance(error.__cause__, OSError):
                raise  # the disk's fault and not the candidate's
            candidate = Candidate(identifier, plan, "failed", str(error))
        self.checkpoint.add(candidate)
        return candidate

    def rebuild(self, candidate: Candidate) -> Path:
        """The file of a candidate, written again if it is gone."""
        path = self.file(candidate.plan)
        if not path.exists():
            write_onnx(self.build(candidate.plan).program, path)
        return path

    def packed(self, candidate: Candidate) -> Path | None:
        """The packed file of a candidate, made again if it is gone; None where packing saves nothing.

        A model in several files is shipped as it is.
        """
        path = self.rebuild(candidate)
        packed = self.folder / f"c{candidate.plan.key[:10]}.packed"
        if not packed.exists():
            if len(model_files(path)) > 1:
                return None
            write_bytes(packed, pack(path.read_bytes()))
        return packed if packed.stat().st_size < path.stat().st_size else None

    def file(self, plan: Plan) -> Path:
        """Where the file of a plan is, or will be: the model itself for the untouched one."""
        return self.model if plan == UNTOUCHED else self.folder / f"c{plan.key[:10]}.onnx"

    def _measured(self, candidate: Candidate, program: Program) -> Candidate:
        path = self.file(candidate.plan)
        stored, packed = size.file_bytes(path), self.packed(candidate)
        metrics = {
            "file_bytes": stored,
            "packed_bytes": exact(packed.stat().st_size, "bytes") if packed else stored,
            "weight_bytes": size.weight_bytes(path),
        }
        reason = self.objective.over_budget(metrics, None)
        if reason and candidate.plan != UNTOUCHED:  # the original is measured whatever is asked for
            return replace(candidate, metrics=metrics, status="rejected", reason=reason)
        engine, latency, speedup, outcome = self._timed_and_judged(candidate.plan, program, path)
        metrics |= {"latency_ms": latency, "speedup": speedup, "accuracy": outcome.metric()}
        drop = outcome.drop(self.original) if self.original is not None else None
        reason = self.objective.over_budget(metrics, drop)
        return replace(
            candidate,
            engine=engine,
            metrics=metrics,
            drop=drop,
            status="rejected" if reason else "accepted",
            reason=reason or "",
        )

    def _timed_and_judged(
        self, plan: Plan, program: Program, path: Path
    ) -> tuple[str, Metric, Metric, Outcome]:
        """(engine, latency, speed-up, answers) of a file on its fastest engine.

        Native code may refuse these very weights, though it took others of the same structure: the next best
        engine is then taken.
        """
        engine, latency, speedup = self.timing(plan, program, path)
        try:
            outcome = self.judge(path, engine, plan.settings, self.search_view, self.original)
        except EngineError:
            others = tuple(name for name in self.engines if name not in COMPILING)
            if engine not in COMPILING or not others:
                raise
            engine, latency, speedup = self.timing(plan, program, path, others)
            outcome = self.judge(path, engine, plan.settings, self.search_view, self.original)
        return engine, latency, speedup, outcome

    def judge(
        self, path: Path, engine: str, settings: Mapping[str, str], view: View, original: Outcome | None
    ) -> Outcome:
        """What a file answers on a view, in a process of its own; accuracy needs no quiet machine."""
        threads, sizes, wanted = self.judging_threads, None, engine_settings(settings)
        if engine in COMPILING:
            # Native code is cut for its threads: what ships is what is judged, and is compiled once. That is
            # no part of a start, which later ones will take as well.
            threads, sizes = self.threads, sizes_in(path, self.example)
            self.compiled(Contender(engine, path, tuple(sorted(wanted.items()))))
        with self.pace.timed(START):
            worker = Worker(engine, path, threads, sizes=sizes, timeout=600.0, **wanted)
        with worker, self.pace.timed(SAMPLE, len(view)):
            return self.task.outcome(worker, view, original)

    def compiled(self, contender: Contender) -> Path:
        """The folder of a file compiled as the contender's settings say, for the sample that is timed."""
        path, settings = contender.path, dict(contender.settings)
        manner = Manner.of(contender.engine, path, settings, self.threads)
        return compiled_folder(path, sizes_in(path, self.example), manner)

    def timing(
        self, plan: Plan, program: Program, path: Path, engines: Sequence[str] | None = None
    ) -> tuple[str, Metric, Metric]:
        """(engine, latency, speed-up over the baseline) of the fastest engine allowed for this structure."""
        allowed = tuple(engines or self.engines)
        without = "" if allowed == self.engines else f"/{','.join(allowed)}"
        key = f"latency/{self.threads}/{structure(program)}/{sorted(plan.settings.items())}{without}"
        known = self.checkpoint.fact(key)
        if known is None:
            fastest = min(self._race(plan, path, allowed), key=lambda found: found.latency.value)
            known = {
                "engine": fastest.contender.engine,
                "latency": fastest.latency.to_json(),
                "ratio": fastest.ratio.to_json(),
            }
            self.checkpoint.note(key, known)
        return known["engine"], Metric.from_json(known["latency"]), Metric.from_json(known["ratio"])

    def _race(self, plan: Plan, path: Path, engines: Sequence[str]) -> list[Latency]:
        wanted = plan.settings.get("engine")
        # The original is the baseline, whatever engines there are to choose from.
        engines = (BASELINE_ENGINE,) if plan == UNTOUCHED else engines
        names = [name for name in engines if wanted in (None, name)]
        if not names:
            raise EngineError(f"engine '{wanted}' is not available here; see tensmith doctor")
        baseline = Contender(BASELINE_ENGINE, self.model)
        settings = tuple(sorted(engine_settings(plan.settings).items()))
        found, errors = [], []
        for name in names:
            if name == NATIVE and len(names) > 1 and not self._affords_native():
                continue
            began = time.monotonic()
            # Where native code refuses a model, it may still compute regions of it.
            for entrant in (NATIVE, MIXED) if name == NATIVE else (name,):
                try:
                    contenders = list(dict.fromkeys((baseline, Contender(entrant, path, settings))))
                    found.append(compare(contenders, self.example, self.threads, self.race_seconds)[-1])
                    break
                except EngineError as error:
                    errors.append(str(error))
            if name == NATIVE:
                self._native_races.append(time.monotonic() - began)
        if not found:
            raise EngineError("; ".join(errors))
        return found

    def _affords_native(self) -> bool:
        """Whether one more race of the native engine, as long as the longest, fits the time for such."""
        longest = max(self._native_races, default=_COMPILE_SECONDS)
        return sum(self._native_races) + longest <= self.compile_seconds


def engine_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """The part of a plan's settings that the engine itself takes."""
    return {name: value for name, value in settings.items() if name not in ("engine", "untouched")}


def engine_text(candidate: Candidate) -> str:
    """The engine of a candidate as it is printed and stored: "openvino", "openvino precision=bf16"."""
    settings = engine_settings(candidate.plan.settings)
    return " ".join([candidate.engine, *(f"{name}={value}" for name, value in sorted(settings.items()))])


def structure(program: Program) -> str:
    """A digest of the graph, all types and the integers that shape it, but not of the values of weights.

    Of float weights that are mostly zeros it knows how many are not: native kernels skip zeros.
    """
    blank = {
        name: array
        if array.dtype.kind in "iub" and array.dtype.itemsize > 1 and array.size <= _SHAPING
        else (np.broadcast_to(np.zeros((), array.dtype), array.shape))
        for name, array in program.constants.items()
    }
    text = print_program(replace(program, constants=blank), weights="elide")
    shares = {
        name: density(array)
        for name, array in program.constants.items()
        if array.dtype == np.float32 and array.ndim > 1
    }
    sparse = {name: math.ceil(10 * share) for name, share in shares.items() if share < 1}
    return hashlib.sha256(f"{text}{sparse or ''}".encode()).hexdigest()


def example_inputs(program: Program, view: View, task: Task) -> dict[str, Array]:
    """One sample of the data as the model's input: what latency is measured on."""
    samples = next(iter(view.batches(1))).inputs
    if not isinstance(samples, Mapping):
        (name,) = program.inputs
        samples = {name: task.preprocess(samples) if task.preprocess else samples}
    return {
        name: np.ascontiguousarray(samples[name], dtype=type_.numpy) for name, type_ in program.inputs.items()
    }
