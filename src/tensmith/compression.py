"""The compress road: a model, its data, a device and a budget go in; a front of files that run comes out.

read -> simplify (exact) -> search (lossy plans, measured) -> settle (held-out, once) -> write
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tensmith.config import Config, make_config
from tensmith.data import Dataset, View
from tensmith.data.fingerprint import fingerprint
from tensmith.deploy.again import judged_as
from tensmith.deploy.folder import WORK, RunFolder
from tensmith.deploy.front import Front
from tensmith.deploy.identity import run_identity
from tensmith.deploy.schedule import Schedule
from tensmith.deploy.settle import LATE, finalists, settle, sizes_of_example, stock_engines
from tensmith.deploy.write import write_run
from tensmith.errors import ModelError
from tensmith.evaluate.calibrator import Calibrator
from tensmith.evaluate.count import node_costs
from tensmith.evaluate.energy import Counter, rapl_counter
from tensmith.evaluate.latency import BUSY
from tensmith.evaluate.task import Task
from tensmith.given import Given, Tell, judged_by, read_given, space_of
from tensmith.hardware import detect_cpu, op_seconds
from tensmith.hardware.target import HOST
from tensmith.interrupt import postponed, unmissed
from tensmith.ir import Program
from tensmith.search.beam import beam_search
from tensmith.search.candidate import Candidate
from tensmith.search.describe import describe
from tensmith.search.objective import Objective
from tensmith.search.pace import ATTEMPT, CHECK, SAMPLE
from tensmith.search.plan import Plan
from tensmith.search.resume import engine_versions, forget_other_engines, known_candidate
from tensmith.search.sensitivity import Sensitivity, layer_sensitivity
from tensmith.search.workshop import BASELINE_ENGINE, Workshop, example_inputs
from tensmith.verify.runs import Checker

# Shares of the time budget: sensitivities, judging one candidate, racing an engine, compiling and timing
# native code, and the field check of an exact run, which always finishes two primes.
_SENSITIVITY_SHARE = 0.05
_JUDGING_SHARE = 0.015
_RACING_SHARE, _RACE_SECONDS = 0.005, 1.5
_COMPILING_SHARE = 0.3
_CHECKING_SHARE, _CHECK_SECONDS = 0.01, 5.0
_PROBE_SAMPLES = 100


@dataclass
class Interrupted(Exception):
    """Ctrl-C: the search stopped early; what it had found was measured for good and written."""

    front: Front


@dataclass
class _Run:
    """What the parts of one compression share."""

    config: Config
    given: Given
    progress: Tell
    started: float
    sensitivity: dict[str, Sensitivity] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    interrupted: bool = False

    @property
    def deadline(self) -> float:
        """When the time budget is used up, by time.monotonic."""
        return self.started + self.config.time_budget

    def tell(self, sentence: str) -> None:
        """Shows a sentence now and in the report."""
        self.notes.append(sentence[0].upper() + sentence[1:] + ".")
        self.progress(sentence)


def compress(
    model: str | os.PathLike[str] | Any,
    data: str | Dataset | Any = "",
    *,
    example_inputs: Any = None,
    output: str | Path = "tensmith-out",
    evaluation: Callable[..., float] | None = None,
    resume: bool = False,
    progress: Tell | None = None,
    **options: Any,
) -> Front:
    """The Pareto front of `model` on `data`, written to the folder `output`.

    model: path of an .onnx file, or a PyTorch `nn.Module` with `example_inputs` (a tensor, or a tuple of
    them), which is exported to work/model.onnx in that folder. data: "KIND:PATH", a Dataset, or (x, y)
    arrays. `evaluation(model, view)` replaces the task's own measure by a number of yours, higher is better.
    options: the fields of `config.Config` (max_drop, prefer, time_budget in seconds, threads, seed, ...).
    Raises TensmithError for bad input, Interrupted (holding the front) after Ctrl-C.
    """
    started = time.monotonic()
    module = None if isinstance(model, (str, os.PathLike)) else model
    path = model if module is None else Path(output) / WORK / "model.onnx"
    config = make_config(model=str(path), data=data if isinstance(data, str) else "", **options)
    given = read_given(config, data, module, example_inputs)
    run = _Run(config, given, progress or (lambda _: None), started)
    seen = fingerprint(given.splits, given.dataset.task == "classification")
    identity = run_identity(config, given.identity, seen, evaluation)
    with RunFolder(Path(output), config, identity, resume) as folder:
        run.given = given = given.on_disk()
        workshop = _open_workshop(run, folder, judged_by(given, config, run.tell, evaluation))
        check_seconds = min(_CHECK_SECONDS, _CHECKING_SHARE * config.time_budget)
        checker = Checker(workshop.program, seed=config.seed, seconds=check_seconds)
        counter = rapl_counter() if given.target.name == HOST else None
        schedule = _schedule(run, workshop, counter)
        tried = _search(run, workshop, checker, schedule)
        until_written: AbstractContextManager[Callable[[], bool]] = (
            nullcontext(lambda: True) if run.interrupted else postponed()
        )
        with unmissed(), until_written as interrupted:
            held_out = _held_out(run, tried, schedule)
            settled = settle(workshop, tried, held_out, given.target, run.progress, schedule, counter)
            if late := sum(candidate.reason == LATE for candidate in settled.lost):
                run.tell(f"{late} more points were not judged on held-out data: {LATE}")
            if settled.busy:
                run.tell(BUSY)
            write_run(
                folder,
                config,
                workshop,
                checker,
                settled,
                tried,
                run.sensitivity,
                given.target,
                run.notes,
                given.title,
                judged_as(config, given.title, seen, workshop.task, len(held_out)),
            )
            run.interrupted = interrupted()
    front = Front.read(output)
    if run.interrupted:
        raise Interrupted(front)
    return front


def _open_workshop(run: _Run, folder: RunFolder, task: Task) -> Workshop:
    """Everything that measures. The original is judged first: what fails there is the input's fault."""
    config, given, cores = run.config, run.given, detect_cpu().cores
    calibration = given.splits.calibration
    workshop = Workshop(
        model=given.model,
        program=given.program,
        task=task,
        search_view=given.splits.search,
        calibration=Calibrator(calibration, len(calibration), task.preprocess, cores),
        objective=Objective(config.max_drop, config.max_size, config.max_latency, config.alpha, config.beta),
        checkpoint=folder.checkpoint,
        folder=folder.work,
        example=example_inputs(given.program, given.splits.search, task),
        engines=given.engines,
        threads=config.threads,
        judging_threads=cores,
        compile_seconds=_COMPILING_SHARE * config.time_budget,
        race_seconds=min(_RACE_SECONDS, _RACING_SHARE * config.time_budget),
        seed=config.seed,
    )
    if changed := forget_other_engines(folder.checkpoint, engine_versions(given.engines)):
        run.tell(changed)
    _fit_to_budget(run, workshop)
    return workshop


def _fit_to_budget(run: _Run, workshop: Workshop) -> None:
    """Judges the original, on as much of the search split as lets some sixty candidates be judged in time."""
    split = run.given.splits.search
    probe = split.take(_PROBE_SAMPLES)
    _judge_original(workshop, probe)
    # A resumed run goes on with as many as before: drops on other samples could not be compared.
    affordable = workshop.checkpoint.fact("search samples")
    if affordable is None:
        affordable = int(run.config.time_budget * _JUDGING_SHARE / workshop.pace.usual(SAMPLE))
        workshop.checkpoint.note("search samples", affordable)
    workshop.search_view = split.take(max(affordable, _PROBE_SAMPLES))
    if len(workshop.search_view) < len(split):
        run.tell(f"candidates were judged on {len(workshop.search_view)} samples, to fit the time budget")
    if len(workshop.search_view) > len(probe):
        _judge_original(workshop, workshop.search_view)


def _judge_original(workshop: Workshop, view: View) -> None:
    workshop.original = workshop.judge(workshop.model, BASELINE_ENGINE, {}, view, None)


def _schedule(run: _Run, workshop: Workshop, counter: Counter | None) -> Schedule:
    """How the end of the run fits its time."""
    peers, budget = len(stock_engines(workshop)), run.config.time_budget
    return Schedule(workshop.pace, budget, run.deadline, peers, counter is not None)


def _search(run: _Run, workshop: Workshop, checker: Checker, schedule: Schedule) -> list[Candidate]:
    """Tries plans until only the time of the final measurement is left, or Ctrl-C.

    What all certificates begin with is checked first: so it is known how long such a check takes.
    """
    known = {candidate.plan.key: candidate for candidate in workshop.checkpoint.candidates()}
    built = workshop.build(Plan())
    simplified = built.program
    tried: list[Candidate] = []

    def attempt(plan: Plan) -> Candidate:
        stored = known.get(plan.key)
        if stored:
            candidate = known_candidate(workshop, stored)
        else:
            with workshop.pace.timed(ATTEMPT):
                candidate = workshop.try_plan(plan)
        tried.append(candidate)
        run.progress(describe(candidate))
        return candidate

    def time_left() -> bool:
        attempting = workshop.pace.longest(ATTEMPT)
        if not run.sensitivity:
            attempting += _SENSITIVITY_SHARE * run.config.time_budget
        reserve = schedule.reserve(finalists(tried), len(run.given.splits.held_out))
        return attempting + reserve < schedule.left

    def sensitivity() -> dict[str, Sensitivity]:
        run.sensitivity = _sensitivity(run, workshop, simplified)
        return run.sensitivity

    seconds = _roofline(run, workshop, simplified) if run.config.hardware else {}
    space = space_of(run.given, simplified, seconds, sensitivity)
    with workshop.pace.timed(CHECK):
        checker.check(built.trail)
    original_bytes = float(workshop.model.stat().st_size)
    try:
        with unmissed():
            beam_search(space, attempt, workshop.objective, original_bytes, time_left)
    except KeyboardInterrupt:
        if not tried:
            raise
        run.interrupted = True
        run.tell("the search was interrupted; more time may find better points (--resume)")
    if tried[0].status == "failed":
        raise ModelError(f"the model as it is cannot be measured: {tried[0].reason}")
    return tried


def _sensitivity(run: _Run, workshop: Workshop, program: Program) -> dict[str, Sensitivity]:
    """How much each layer's precision matters, as first measured: a resumed search walks the same way."""
    known = workshop.checkpoint.fact("sensitivity")
    if known is None:
        run.progress("sensitivity of each layer")
        found = layer_sensitivity(
            program,
            run.given.splits.calibration,
            workshop.task.preprocess,
            workshop.calibration,
            workshop.judging_threads,
            _SENSITIVITY_SHARE * run.config.time_budget,
        )
        known = {site: asdict(each) for site, each in found.items()}
        workshop.checkpoint.note("sensitivity", known)
    return {site: Sensitivity(**each) for site, each in known.items()}


def _roofline(run: _Run, workshop: Workshop, program: Program) -> dict[str, float]:
    """Seconds that each layer takes at best on the target, by site."""
    costs = node_costs(program, sizes_of_example(workshop))
    return {
        node.output: op_seconds(run.given.target, cost, workshop.threads) for node, cost in costs if cost.macs
    }


def _held_out(run: _Run, tried: list[Candidate], schedule: Schedule) -> View:
    """The held-out split, or as much of it as the time that is left can afford."""
    points, whole = finalists(tried), run.given.splits.held_out
    if schedule.least(points) > schedule.left:
        spent = time.monotonic() - run.started
        run.tell(
            f"the time budget of {run.config.time_budget:g} s is less than this run needs: {spent:.0f} s are "
            f"spent, and measuring what was found for good takes about {schedule.least(points):.0f} s more"
        )
    view = whole.take(schedule.samples(points))
    if len(view) < len(whole):
        run.tell(f"{len(view)} of {len(whole)} held-out samples were used, to fit the time budget")
    return view
