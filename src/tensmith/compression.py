"""The compress road: a model, its data, a device and a budget go in; a front of files that run comes out.

read -> simplify (exact) -> search (lossy plans, measured) -> settle (held-out, once) -> write
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tensmith.config import Config, make_config
from tensmith.data import (
    Dataset,
    Preprocess,
    Splits,
    View,
    as_dataset,
    candidates,
    choose,
    open_dataset,
    parse_preprocess,
    split,
)
from tensmith.data.fingerprint import fingerprint
from tensmith.deploy.folder import RunFolder
from tensmith.deploy.front import Front
from tensmith.deploy.identity import file_identity, run_identity
from tensmith.deploy.settle import MOST_POINTS, SECONDS_A_CONTENDER, settle, sizes_of_example
from tensmith.deploy.write import write_run
from tensmith.engine.base import ENGINES, available
from tensmith.errors import ModelError, UsageError
from tensmith.evaluate.calibrator import Calibrator
from tensmith.evaluate.count import node_costs
from tensmith.evaluate.likelihood import log_likelihoods
from tensmith.evaluate.task import Task, choose_measure
from tensmith.formula.arith import Array
from tensmith.frontend.onnx import read_onnx
from tensmith.hardware import INT8_DOT, Target, load_target, op_seconds
from tensmith.interrupt import postponed
from tensmith.ir import Program
from tensmith.rewrite.lossy.weights import weighted_layers
from tensmith.rewrite.trail import simplify
from tensmith.search.beam import beam_search
from tensmith.search.candidate import Candidate
from tensmith.search.objective import Objective
from tensmith.search.plan import Plan
from tensmith.search.resume import engine_versions, forget_other_engines, known_candidate
from tensmith.search.sensitivity import Sensitivity, layer_sensitivity
from tensmith.search.space import Space
from tensmith.search.workshop import BASELINE_ENGINE, UNTOUCHED, Workshop, example_inputs

Progress = Callable[[str], None]

_SENSITIVITY_SHARE = 0.05
_TIMING_SECONDS = 60.0
_TIMING_SHARE = 0.02
_PROBE_SAMPLES = 100
_JUDGING_SHARE = 0.015
_MOST_FINAL_SHARE = 0.5


@dataclass
class Interrupted(Exception):
    """Ctrl-C: the search stopped early; what it had found was measured for good and written."""

    front: Front


@dataclass
class _Run:
    """What the parts of one compression share."""

    config: Config
    progress: Progress
    started: float = field(default_factory=time.monotonic)
    sensitivity: dict[str, Sensitivity] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    seconds_a_sample: float = 0.0
    interrupted: bool = False

    def tell(self, sentence: str) -> None:
        """Shows a sentence now and in the report."""
        self.notes.append(sentence[0].upper() + sentence[1:] + ".")
        self.progress(sentence)


def compress(
    model: str | Path | Any,
    data: str | Dataset | Any = "",
    *,
    output: str | Path = "tensmith-out",
    evaluation: Callable[..., float] | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> Front:
    """The Pareto front of `model` on `data`, written to the folder `output`.

    model: path of an .onnx file. data: "KIND:PATH", a Dataset, or (x, y) arrays; `evaluation(model, view)`
    replaces the task's own measure by a number of yours, higher is better. options: the fields of
    `config.Config` (max_drop, prefer, time_budget in seconds, threads, seed, ...).
    Raises TensmithError for bad input, Interrupted (holding the front) after Ctrl-C.
    """
    config = make_config(model=str(model), data=data if isinstance(data, str) else "", **options)
    run = _Run(config, progress or (lambda _: None))
    given = _given(config, data)
    seen = fingerprint(given.splits, given.dataset.task == "classification")
    identity = run_identity(config, file_identity(Path(config.model)), seen, evaluation)
    with RunFolder(Path(output), config, identity, resume) as folder:
        task = _task(run, given.dataset, given.splits, evaluation)
        workshop = _open_workshop(run, folder, given.program, given.splits, task)
        tried = _search(run, workshop, given.splits, given.target)
        until_written: AbstractContextManager[Callable[[], bool]] = (
            nullcontext(lambda: True) if run.interrupted else postponed()
        )
        with until_written as interrupted:
            held_out = _held_out(run, given.splits)
            timing = min(SECONDS_A_CONTENDER, _TIMING_SHARE * config.time_budget)
            settled = settle(workshop, tried, held_out, given.target, run.progress, timing)
            title = _title(given.dataset)
            write_run(
                folder, config, workshop, settled, tried, run.sensitivity, given.target, run.notes, title
            )
            run.interrupted = interrupted()
    front = Front.read(output)
    if run.interrupted:
        raise Interrupted(front)
    return front


def preview(
    model: str | Path, data: Any = "", *, progress: Progress | None = None, **options: Any
) -> dict[str, Any]:
    """What `compress` would do, as plain JSON values; reads the model and the data and writes nothing."""
    config = make_config(model=str(model), data=data if isinstance(data, str) else "", **options)
    run = _Run(config, progress or (lambda _: None))
    given = _given(config, data)
    engines = _engines(config)
    simplified = simplify(given.program).program
    task = _task(run, given.dataset, given.splits, None)
    space = _space(simplified, engines, given.target, {})
    return {
        "model": config.model,
        "nodes": {"read": len(given.program.nodes), "simplified": len(simplified.nodes)},
        "layers": [
            {"name": layer.site, "op": layer.op, "shape": list(layer.shape)}
            for layer in weighted_layers(simplified)
        ],
        "opaque": sorted({node.op for node in simplified.nodes if node.opaque is not None}),
        "data": _title(given.dataset),
        "samples": {name: len(getattr(given.splits, name)) for name in ("calibration", "search", "held_out")},
        "measure": task.measure,
        "preprocess": getattr(task.preprocess, "name", None),
        "target": given.target.name,
        "threads": config.threads,
        "time_budget": config.time_budget,
        "engines": list(engines),
        "seeds": [describe_plan(idea.plan) for idea in space.seeds()],
        "config": config.model_dump(mode="json"),
    }


@dataclass(frozen=True)
class _Given:
    """What a compression starts from."""

    program: Program
    dataset: Dataset
    splits: Splits
    target: Target


def _given(config: Config, data: Any) -> _Given:
    """Model, data and device, read; raises TensmithError for whichever is wrong."""
    program = _read(Path(config.model))
    if isinstance(data, str) and not data:
        raise UsageError("compression needs data: --data KIND:PATH, for example cifar10:DIR")
    dataset = open_dataset(data) if isinstance(data, str) else as_dataset(data)
    splits = split(
        dataset, config.calibration_samples, config.search_samples, config.held_out_samples, config.seed
    )
    return _Given(program, dataset, splits, load_target(config.target))


def _read(path: Path) -> Program:
    program = read_onnx(path)
    for name, array in program.constants.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all() and array.size > 1:
            raise ModelError(f"{path}: weight '{name}' holds NaN or infinity; export a model that works")
    return program


def _title(dataset: Dataset) -> str:
    return dataset.source or dataset.name


def _task(run: _Run, dataset: Dataset, splits: Splits, evaluation: Callable[..., float] | None) -> Task:
    """How the model is judged, with the preprocessing its inputs need."""
    measure = choose_measure(dataset, run.config.measure, evaluation)
    wanted = run.config.preprocess
    if dataset.modality != "image":
        return Task(measure, None, evaluation)
    if wanted != "auto":
        return Task(measure, parse_preprocess(wanted), evaluation)
    view, model = splits.training, Path(run.config.model)

    def likelihoods(preprocess: Preprocess, start: int, stop: int) -> Array:
        return log_likelihoods(model, View(view.part, view.indices[start:stop]), preprocess, _cores())

    channels = next(iter(view.batches(1))).inputs.shape[1]
    found = choose(candidates(channels), likelihoods)
    run.tell(str(found))
    return Task(measure, found.best, evaluation)


def _engines(config: Config) -> tuple[str, ...]:
    for name in config.engines:
        if reason := ENGINES[name].missing():
            raise UsageError(f"engine '{name}' cannot run here: {reason}")
    return config.engines or available()


def _open_workshop(run: _Run, folder: RunFolder, program: Program, splits: Splits, task: Task) -> Workshop:
    """Everything that measures. The original is judged first: what fails there is the input's fault."""
    config = run.config
    workshop = Workshop(
        model=Path(config.model),
        program=program,
        task=task,
        search_view=splits.search,
        calibration=Calibrator(splits.calibration, len(splits.calibration), task.preprocess, _cores()),
        objective=Objective(config.max_drop, config.max_size, config.max_latency, config.alpha, config.beta),
        checkpoint=folder.checkpoint,
        folder=folder.work,
        example=example_inputs(program, splits.search, task),
        engines=_engines(config),
        threads=config.threads,
        judging_threads=_cores(),
        seed=config.seed,
    )
    _fit_to_budget(run, workshop, splits)
    return workshop


def _fit_to_budget(run: _Run, workshop: Workshop, splits: Splits) -> None:
    """Judges the original, on as much of the search split as lets some sixty candidates be judged in time."""
    probe = splits.search.take(_PROBE_SAMPLES)
    began = time.monotonic()
    workshop.original = workshop.judge(workshop.model, BASELINE_ENGINE, {}, probe, None)
    run.seconds_a_sample = (time.monotonic() - began) / len(probe)
    affordable = int(run.config.time_budget * _JUDGING_SHARE / run.seconds_a_sample)
    # A resumed run goes on with as many as before: drops on other samples could not be compared.
    affordable = workshop.checkpoint.fact("search samples") or affordable
    workshop.checkpoint.note("search samples", affordable)
    workshop.search_view = splits.search.take(max(affordable, _PROBE_SAMPLES))
    if len(workshop.search_view) < len(splits.search):
        run.tell(f"candidates were judged on {len(workshop.search_view)} samples, to fit the time budget")
    if len(workshop.search_view) > len(probe):
        began = time.monotonic()
        workshop.original = workshop.judge(workshop.model, BASELINE_ENGINE, {}, workshop.search_view, None)
        run.seconds_a_sample = (time.monotonic() - began) / len(workshop.search_view)


def _search(run: _Run, workshop: Workshop, splits: Splits, target: Target) -> list[Candidate]:
    """Tries plans until only the time of the final measurement is left, or Ctrl-C."""
    if changed := forget_other_engines(workshop.checkpoint, engine_versions(workshop.engines)):
        run.tell(changed)
    known = {candidate.plan.key: candidate for candidate in workshop.checkpoint.candidates()}
    tried: list[Candidate] = []

    def attempt(plan: Plan) -> Candidate:
        stored = known.get(plan.key)
        candidate = known_candidate(workshop, stored) if stored else workshop.try_plan(plan)
        tried.append(candidate)
        run.progress(describe(candidate))
        return candidate

    def sensitivity() -> dict[str, Sensitivity]:
        run.progress("sensitivity of each layer")
        run.sensitivity = layer_sensitivity(
            workshop.build(Plan()).program,
            splits.calibration,
            workshop.task.preprocess,
            workshop.calibration,
            _cores(),
            _SENSITIVITY_SHARE * run.config.time_budget,
        )
        return run.sensitivity

    simplified = workshop.build(Plan()).program
    seconds = _roofline(workshop, simplified, target) if run.config.hardware else {}
    space = _space(simplified, workshop.engines, target, seconds, sensitivity)
    deadline = run.started + run.config.time_budget - _final_seconds(run, splits)
    original_bytes = float(workshop.model.stat().st_size)
    try:
        beam_search(space, attempt, workshop.objective, original_bytes, deadline)
    except KeyboardInterrupt:
        if not tried:
            raise
        run.interrupted = True
        run.tell("the search was interrupted; more time may find better points (--resume)")
    if tried[0].status == "failed":
        raise ModelError(f"the model as it is cannot be measured: {tried[0].reason}")
    return tried


def _space(
    program: Program,
    engines: tuple[str, ...],
    target: Target,
    layer_seconds: dict[str, float],
    sensitivity: Callable[[], dict[str, Sensitivity]] = dict,
) -> Space:
    return Space(
        program,
        engines,
        layer_seconds,
        narrow=target.kind == "cpu" and target.isa.isdisjoint(INT8_DOT),
        half_precision=not target.isa.isdisjoint({"avx512_bf16", "amx_bf16"}),
        sensitivity=sensitivity,
    )


def _held_out(run: _Run, splits: Splits) -> View:
    """The held-out split, or as much of it as the final measurement can afford."""
    seconds = run.seconds_a_sample * (MOST_POINTS / 2 + 1)  # points answer faster than the original
    affordable = int(_MOST_FINAL_SHARE * run.config.time_budget / max(seconds, 1e-9))
    view = splits.held_out.take(max(affordable, _PROBE_SAMPLES))
    if len(view) < len(splits.held_out):
        run.tell(f"{len(view)} of {len(splits.held_out)} held-out samples were used, to fit the time budget")
    return view


def _roofline(workshop: Workshop, program: Program, target: Target) -> dict[str, float]:
    """Seconds that each layer takes at best on the target, by site."""
    costs = node_costs(program, sizes_of_example(workshop))
    return {node.output: op_seconds(target, cost, workshop.threads) for node, cost in costs if cost.macs}


def _final_seconds(run: _Run, splits: Splits) -> float:
    """Time to keep for the final measurement: held-out accuracy of each point, then timing."""
    judging = run.seconds_a_sample * len(splits.held_out) * (MOST_POINTS / 2 + 1)
    return min(judging + _TIMING_SECONDS, _MOST_FINAL_SHARE * run.config.time_budget)


def describe(candidate: Candidate) -> str:
    """One line about a candidate: what it is, what it reached, what stands against it."""
    words = [f"{candidate.id} {candidate.status}"]
    if "speedup" in candidate.metrics:
        words.append(f"{candidate.metrics['speedup'].value:.2f}x faster on {candidate.engine}")
    if "packed_bytes" in candidate.metrics:
        words.append(f"{candidate.metrics['packed_bytes'].value:.0f} bytes")
    if candidate.drop is not None:
        words.append(f"drop {candidate.drop.value:.2f} {candidate.drop.unit}")
    return f"{'; '.join(words)} [{describe_plan(candidate.plan)}]" + (
        f": {candidate.reason}" if candidate.reason else ""
    )


def describe_plan(plan: Plan) -> str:
    """The methods of a plan, and the settings it is meant for."""
    if plan == UNTOUCHED:
        return "the model as it came"
    methods = [
        " ".join([step.rule, *(f"{v}" for v in step.params.values() if isinstance(v, str))])
        for step in plan.steps
    ]
    return ", ".join([*methods, *plan.settings.values()]) or "exact rewrites alone"


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
