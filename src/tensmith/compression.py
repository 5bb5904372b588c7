"""The compress road: a model, its data, a device and a budget go in; a front of files that run comes out.

read -> describe (one `Run`) -> judge the original -> simplify (exact) -> search (lossy plans, measured)
-> finalize (held-out, once) -> write
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from tensmith import gate
from tensmith.config import Config, make_config
from tensmith.data import Dataset
from tensmith.data.split import Splits, most_frequent_share
from tensmith.deploy.again import judged_as
from tensmith.deploy.finalize import LATE, Finalized, finalists, finalize
from tensmith.deploy.folder import RunFolder
from tensmith.deploy.front import Front
from tensmith.deploy.identity import run_identity
from tensmith.deploy.publish import TRAINED, WORK
from tensmith.deploy.schedule import Schedule
from tensmith.deploy.write import Story, write_run
from tensmith.engine.base import BASELINE_ENGINE, sizes_of, specs_of, stock
from tensmith.errors import DataError, ModelError, UsageError
from tensmith.evaluate.calibrator import Calibrator
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.count import node_seconds
from tensmith.evaluate.energy import Counter, energy_counter
from tensmith.evaluate.judge import Judge
from tensmith.evaluate.latency import BUSY
from tensmith.evaluate.pace import ATTEMPT, CHECK, SAMPLE, Pace
from tensmith.evaluate.sequential import FEWEST, Standard
from tensmith.evaluate.sharing import shared
from tensmith.files import at_home, write_bytes
from tensmith.frontend.model_files import model_bytes
from tensmith.hardware import detect_cpu
from tensmith.hardware.target import HOST
from tensmith.interrupt import postponed, unmissed
from tensmith.progress import Progress, silent
from tensmith.request import Request, judged_by, read_request
from tensmith.rewrite.rule import Step
from tensmith.search.allowed import Allowed
from tensmith.search.between import search_between
from tensmith.search.beyond import search_beyond
from tensmith.search.builder import Builder
from tensmith.search.building import Building, Delivered
from tensmith.search.candidate import Candidate
from tensmith.search.checkpoint import SIZES, Checkpoint
from tensmith.search.demands import SearchDemands
from tensmith.search.objective import Objective
from tensmith.search.plan import Plan
from tensmith.search.plan_file import demand_fitting
from tensmith.search.race import Race
from tensmith.search.recovering import Recovering, has_recovered
from tensmith.search.resume import as_first_measured, engine_versions, forget_other_engines, with_earlier
from tensmith.search.run import PROCESSOR, RunDescription, meter
from tensmith.search.sensitivity import BUDGET_SHARE, Sensitivities
from tensmith.search.space import Space
from tensmith.search.strategy import STRATEGIES, Quest, Strategy
from tensmith.search.trial import Trials
from tensmith.verify.runs import Checker
from tensmith.workers.processes import choose_workers

# Shares of the time budget: judging one candidate, what is likely to be left for a point on held-out data,
# and the field check of an exact run, which always finishes two primes.
_JUDGING_SHARE, _HELD_OUT_SHARE = 0.01, 0.015
_CHECKING_SHARE, _CHECK_SECONDS = 0.01, 5.0
# Of the time budget: for what a search does by estimates alone, and what it leaves for what lies around its
# best: half of it between that and the original, half for a beam beyond the drop budget.
_EXPLORING_SHARE, _AROUND_SHARE = 0.1, 0.1


@dataclass
class Interrupted(Exception):
    """Ctrl-C: the search stopped early. What it had found was measured for good and written: its `front`."""

    front: Front


@dataclass
class _Spent:
    """What the time of a run went into: a sentence in parts."""

    since: float
    parts: list[str] = field(default_factory=list)

    def on(self, what: str) -> None:
        """All since the last part went into `what`."""
        now = time.monotonic()
        self.parts.append(f"{what} ({now - self.since:.0f} s)")
        self.since = now

    def __str__(self) -> str:
        return f"time went into {', '.join(self.parts)}"


@dataclass
class _Voice:
    """Shows what happens; `notes` are the sentences that the report repeats."""

    progress: Progress
    notes: list[str] = field(default_factory=list)

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
    progress: Progress | None = None,
    **options: Any,
) -> Front:
    """The Pareto front of `model` on `data`, written to the folder `output`.

    model: path of an .onnx or a .gguf file, or a PyTorch `nn.Module` with `example_inputs` (a tensor, or a
    tuple of them); what is no ONNX file is written as one, to work/model.onnx in that folder.
    data: "KIND:PATH", a Dataset, or (x, y) arrays. `evaluation(model, view)` replaces the task's own measure
    by a number of yours, higher is better.
    options: the fields of `config.Config` (max_drop, prefer, time_budget in seconds, threads, seed, ...).
    Raises TensmithError for bad input, Interrupted (holding the front) after Ctrl-C.
    """
    started = time.monotonic()
    spent = _Spent(started)
    if model is None:
        raise UsageError("there is no model; give the path of an .onnx or .gguf file, or an nn.Module")
    module = None if isinstance(model, (str, os.PathLike)) else model
    if not isinstance(output, (str, os.PathLike)):
        raise UsageError(f"output= is {type(output).__name__}; give the path of a folder to write to")
    place = at_home(output)
    work = place / WORK
    path = model if module is None else work / "model.onnx"
    config = make_config(model=str(path), data=data if isinstance(data, str) else "", **options)
    voice = _Voice(progress or silent)
    request = read_request(config, data, module, example_inputs, evaluation)
    demands = SearchDemands.of(config.keep, config.only, config.plan)
    seen = request.fingerprint()
    identity = run_identity(config, request.identity, seen, evaluation)
    with (
        choose_workers(config.workers, config.ray) as workers,
        RunFolder(place, config, identity, resume) as folder,
    ):
        request = request.on_disk(work)
        task = judged_by(request, config, voice.tell, evaluation)
        example = task.example(request.program, request.splits.search)
        sharing = shared(workers, request.dataset, request.splits, task, voice.tell)
        judge = Judge(task, example, config.threads, detect_cpu().cores, sharing)
        counters = _counters(request.engines) if request.target.name == HOST else {}
        measures = {"energy counter": ", ".join(counter.name for counter in counters.values()) or "none"}
        if changed := forget_other_engines(folder.checkpoint, engine_versions(request.engines) | measures):
            voice.tell(changed)
        run = _described(request, config, judge, folder, seen, counters)
        _judge_original(request, judge, voice)
        standard = _standard(request, config, judge, folder.checkpoint)
        kept = folder.path / TRAINED
        view, threads = run.splits.calibration, run.judging_threads
        calibrator = Calibrator(view, run.task.preprocess, threads, kept)
        builder = Builder(run.model, run.program, run.folder, calibrator, judge.pace)
        trials = Trials(builder, Race(run, folder.checkpoint), standard, folder.checkpoint, voice.progress)
        start = builder.program(Plan())
        if config.recover:
            _tell_of_training(request.splits, voice)
        recovers = bool(config.recover) or has_recovered(folder.checkpoint)
        builder.allowed = demands.allowed(run.program, start.program, recovers)
        begun = _begun(demands, builder, kept, run)
        for sentence in demands.told(builder.allowed):
            voice.tell(sentence)
        checker = _checker(run, start.trail, judge.pace)
        sensitivities = Sensitivities(
            run, start.program, builder.calibration, folder.checkpoint, voice.progress
        )
        spent.on("the model as it came")
        deadline, peers = started + run.time_budget, len(stock(run.engines))
        schedule = Schedule(judge.pace, run.time_budget, deadline, peers, bool(run.counters))
        if sharing is not None:
            building = Building(sharing, run.model, view, threads)
            builder.deliver = partial(_delivered, building, schedule)
        space = _space(run, sensitivities, config.hardware, builder.allowed, begun)
        stopped = _search(STRATEGIES[config.search], space, trials, sensitivities.found, schedule, voice)
        spent.on(f"{len(trials.tried)} candidates")
        if config.recover and not stopped:
            began = time.monotonic()
            stopped = _recovered(Recovering(trials, kept, voice.tell), space, config.recover, voice)
            schedule = replace(schedule, deadline=schedule.deadline + time.monotonic() - began)
            spent.on("training")
        tried = with_earlier(trials.tried, folder.checkpoint)
        _tell_of_samples(tried, voice)
        with unmissed(), _until_written(stopped) as interrupted:
            samples = _held_out(run, tried, schedule, voice)
            finalized = finalize(run, builder, judge, tried, samples, voice.progress, schedule)
            spent.on(f"measuring {len(finalized.points)} points for good")
            voice.tell(f"{spent}{_over(schedule.deadline)}")
            _tell_of(finalized, run, voice)
            judged = judged_as(config, request.title, seen, task, finalized.held_out)
            story = Story(
                run, config, request.title, tried, start.program, sensitivities.found, voice.notes,
                builder.allowed, finalized, checker, builder.calibration, judged,
            )  # fmt: skip
            write_run(folder, story)
            stopped = interrupted()
    front = Front.read(output)
    if stopped:
        raise Interrupted(front)
    return front


def _judge_original(request: Request, judge: Judge, voice: _Voice) -> None:
    """The original is judged first of all: what fails there is the input's fault."""
    original, search = Contender(BASELINE_ENGINE, request.model), request.splits.search
    few = search.take(FEWEST)
    if judge.task.measure in ("loss", "fidelity") and len(request.splits.held_out) < 2:
        raise DataError(f"one held-out sample does not say what a model loses; {request.title} needs more")
    first = judge.outcome(original, few).metric()
    if judge.task.measure == "accuracy" and most_frequent_share(few) >= first.low / 100:
        found, share = judge.outcome(original, search).metric(), most_frequent_share(search)
        if share >= found.low / 100:
            voice.tell(
                f"the model as it came finds {found.value:.0f} % of the labels of {len(search)} samples, and "
                f"always the same answer would find {100 * share:.0f} %; check that labels and preprocessing "
                "fit"
            )
    if judge.task.head is not None and not first.value and not judge.outcome(original, search).metric().value:
        raise DataError(
            f"the model finds no object in {len(search)} images; check --decode and --preprocess, "
            "and that the annotations hold objects"
        )


def _standard(request: Request, config: Config, judge: Judge, checkpoint: Checkpoint) -> Standard:
    """What candidates are held against."""
    splits = request.splits
    affordable = int(config.time_budget * _HELD_OUT_SHARE / judge.pace.usual(SAMPLE))
    # A resumed run goes on with as many as before: scores on other samples could not be compared.
    affordable = max(checkpoint.settled("search samples", affordable), FEWEST)
    return Standard(
        judge,
        Contender(BASELINE_ENGINE, request.model),
        splits.search if judge.task.staged else splits.search.take(affordable),
        min(affordable, len(splits.held_out)),
        _JUDGING_SHARE * config.time_budget,
    )


def _described(
    request: Request,
    config: Config,
    judge: Judge,
    folder: RunFolder,
    seen: str,
    counters: Mapping[str, Counter],
) -> RunDescription:
    """The run that is asked for. seen: the fingerprint of its data."""
    sizes = sizes_of(specs_of(request.program.inputs), judge.example)
    folder.checkpoint.note(SIZES, sizes)
    return RunDescription(
        model=request.model,
        source=request.source,
        program=request.program,
        baseline=Contender(BASELINE_ENGINE, request.model),
        task=judge.task,
        splits=request.splits,
        example=judge.example,
        sizes=sizes,
        target=as_first_measured(request.target, folder.checkpoint),
        engines=request.engines,
        objective=Objective(
            config.max_drop,
            config.max_size,
            config.max_latency,
            config.alpha,
            config.beta,
            config.max_memory,
            config.max_energy,
        ),
        threads=judge.threads,
        judging_threads=judge.judging_threads,
        time_budget=config.time_budget,
        seed=config.seed,
        folder=folder.work,
        fingerprint=seen,
        counters=counters,
    )


def _counters(engines: Collection[str]) -> dict[str, Counter]:
    """This machine's energy counters, by `meter`: of the processor, and of a board that computes."""
    found = {device: energy_counter(device) for device in sorted({PROCESSOR, *map(meter, engines)})}
    return {of: counter for of, counter in found.items() if counter is not None}


def _checker(run: RunDescription, beginning: Sequence[Step], pace: Pace) -> Checker:
    """What checks exact steps; those that all trails begin with at once, to know how long it takes."""
    seconds = min(_CHECK_SECONDS, _CHECKING_SHARE * run.time_budget)
    checker = Checker(run.program, seed=run.seed, seconds=seconds)
    with pace.timed(CHECK):
        checker.check(beginning)
    return checker


def _delivered(building: Building, schedule: Schedule, plans: Sequence[Plan]) -> dict[str, Delivered]:
    """Plans built by workers, as many as can be tried in the time that is left."""
    attempt = schedule.pace.usual(ATTEMPT)
    return building.deliver(plans[: int(schedule.left / attempt)] if attempt else plans)


def _begun(demands: SearchDemands, builder: Builder, kept: Path, run: RunDescription) -> tuple[Plan, ...]:
    """The plan that the search starts from, if there is one; UsageError if it does not fit the run."""
    if demands.text is None:
        return ()
    demands.require_data(run.fingerprint)
    for source, place in demands.trained(kept):
        if source.is_file():
            write_bytes(place, gate.read_bytes(source, gate.KEPT))
    return (demand_fitting(demands.text, builder, run.engines),)


def _space(
    run: RunDescription,
    sensitivities: Sensitivities,
    hardware: bool,
    allowed: Allowed,
    begun: tuple[Plan, ...],
) -> Space:
    """The plans that a run may try."""
    simplified = sensitivities.program
    costs = node_seconds(run.target, run.sizes, run.threads)
    layers = node_seconds(run.target, run.sizes, run.threads, multiplying=True)
    return Space(
        simplified,
        run.engines,
        layers(simplified) if hardware else {},
        run.target,
        sensitivities.of_all_layers,
        sensitivities.of_step,
        cost=costs,
        allowed=allowed,
        begun=begun,
    )


def _search(
    strategy: Strategy,
    space: Space,
    trials: Trials,
    probed: Collection[str],
    schedule: Schedule,
    voice: _Voice,
) -> bool:
    """Tries plans until only the time of the final measurement is left; whether Ctrl-C ended it before.

    probed: the layers whose sensitivity is known, which takes time when it is first asked for.
    """
    run, tried = trials.race.run, trials.tried
    probing, samples = BUDGET_SHARE * run.time_budget, len(run.splits.held_out)

    def time_left(kept: float = 0.0) -> bool:
        attempting = schedule.pace.longest(ATTEMPT) + (0.0 if probed else probing)
        return attempting + schedule.reserve(finalists(tried), samples) + kept < schedule.left

    quest = Quest(
        space,
        trials.attempt,
        run.objective,
        float(model_bytes(run.model)),
        partial(time_left, _AROUND_SHARE * run.time_budget),
        f"roofline of {run.target.name}, threads: {run.threads}",
        _EXPLORING_SHARE * run.time_budget,
        voice.tell,
        run.seed,
        settled=trials.checkpoint.settled,
    )
    if trials.builder.deliver is not None:
        quest = replace(quest, prepare=trials.prepare)
    stopped = False
    try:
        with unmissed():
            strategy.run(quest)
            half = partial(time_left, _AROUND_SHARE / 2 * run.time_budget)
            search_between(replace(quest, time_left=half), tried)
            search_beyond(replace(quest, time_left=time_left), tried)
    except KeyboardInterrupt:
        if not tried:
            raise
        stopped = True
        voice.tell("the search was interrupted; more time may find better points (--resume)")
    if tried[0].status == "failed":
        raise ModelError(f"the model as it is cannot be measured: {tried[0].reason}")
    return stopped


def _recovered(recovering: Recovering, space: Space, seconds: float, voice: _Voice) -> bool:
    """Trains what promises most; whether Ctrl-C ended it before its time."""
    try:
        with unmissed():
            stopped = recovering.recover(space, seconds)
    except KeyboardInterrupt:
        stopped = True
    if stopped:
        voice.tell("the training was interrupted; more of it may find better points (--resume)")
    return stopped


def _until_written(stopped: bool) -> AbstractContextManager[Callable[[], bool]]:
    """Tells whether Ctrl-C was pressed, once before or from now on; the second one stops at once."""
    return nullcontext(lambda: True) if stopped else postponed()


def _tell_of(finalized: Finalized, run: RunDescription, voice: _Voice) -> None:
    whole = len(run.splits.held_out)
    if finalized.held_out < whole:
        voice.tell(f"{finalized.held_out} of {whole} held-out samples were used, to fit the time budget")
    broken = run.objective.over_budget(finalized.original)
    if broken and not any(point.candidate.status == "accepted" for point in finalized.points):
        voice.tell(f"no point holds every budget, and the original stays: it {broken}")
    if late := sum(candidate.reason == LATE for candidate in finalized.lost):
        more = "1 more point was" if late == 1 else f"{late} more points were"
        voice.tell(f"{more} not judged on held-out data: {LATE}")
    if finalized.busy:
        voice.tell(BUSY)


def _tell_of_training(splits: Splits, voice: _Voice) -> None:
    """Where all samples come from one part, and few are left to train on."""
    if splits.fitting.part is splits.held_out.part and len(splits.fitting) < len(splits.search):
        voice.tell(
            f"only {len(splits.fitting):,} samples are there to train on, as the data has one part: smaller "
            "numbers to search on and to judge by (--search-samples, --held-out-samples) leave more"
        )


def _over(deadline: float) -> str:
    """What is said of a run that took longer than it was given, by a second and more."""
    over = time.monotonic() - deadline
    return f": {over:.0f} s over the time budget" if over >= 1 else ""


def _tell_of_samples(tried: Sequence[Candidate], voice: _Voice) -> None:
    """On how many samples candidates were judged."""
    counts = sorted(candidate.samples for candidate in tried if candidate.samples)
    if counts and counts[0] < counts[-1]:
        voice.tell(
            f"candidates were judged on {counts[0]:,} to {counts[-1]:,} samples, half of them on at most "
            f"{counts[(len(counts) - 1) // 2]:,}: more where it was close what they lose"
        )


def _held_out(run: RunDescription, tried: list[Candidate], schedule: Schedule, voice: _Voice) -> int:
    """How many samples of the held-out split the time that is left can afford."""
    points, whole = finalists(tried), run.splits.held_out
    if schedule.least(points) > schedule.left:
        spent = run.time_budget - (schedule.deadline - time.monotonic())
        voice.tell(
            f"the time budget of {run.time_budget:g} s is less than this run needs: {spent:.0f} s are "
            f"spent, and measuring what was found for good takes about {schedule.least(points):.0f} s more"
        )
    return min(len(whole), schedule.samples(points))
