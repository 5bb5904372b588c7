"""The run of a study: cells as tasks, one after the other, so that each has the machine to itself.

A cell that fails keeps its reason and stops nobody else. What is known is on disk before the next cell
begins: whoever is stopped, however hard, loses one cell.
"""

from __future__ import annotations

import contextlib
import functools
import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tensmith import __version__
from tensmith.backend.native.choose.choosers import ANY, in_family, restricted_to
from tensmith.backend.native.choose.tuning import METASCHEDULE, TUNED
from tensmith.backend.native.emit import loader
from tensmith.backend.native.plan import fixed
from tensmith.engine.base import BASELINE_ENGINE, ENGINES
from tensmith.engine.compiled import NATIVE
from tensmith.engine.device import DeviceEngine
from tensmith.engine.worker import SessionWorker
from tensmith.equality.apart import distance
from tensmith.errors import EngineError, ModelError, OutputError, TensmithError, is_of_disk, of_disk
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.count import node_costs, uncounted
from tensmith.evaluate.energy import contender_energy, energy_counter, program_energy
from tensmith.evaluate.latency import summarize, take_turns
from tensmith.evaluate.memory import measure_memory
from tensmith.evaluate.statistics import median_interval
from tensmith.files import locked
from tensmith.frontend.onnx import read_onnx
from tensmith.hardware import load_target, op_seconds
from tensmith.interrupt import unmissed
from tensmith.progress import Progress, silent
from tensmith.report.metric import Metric, exact, spread
from tensmith.rewrite.trail import simplify
from tensmith.search.resume import engine_versions
from tensmith.study.materials import Material, Materials
from tensmith.study.plan import DEVICES, OUR_SYSTEMS, SEARCHED, StudyCell, StudyPlan, cells, expected_seconds
from tensmith.study.results import DEVICE, CellResult, Results
from tensmith.tune.network import tasks_of, this_machine
from tensmith.tune.search import Budget, TuningSearch
from tensmith.tune.tvm.metaschedule import MetaSchedule

DATABASE = "study.sqlite"
MODELS = "models"
# How far answers may be from those of ONNX Runtime on the same file, over the largest of them.
_NEAR = 0.05
_ENERGY_SECONDS = 2.0
BUSY = "the machine was busy: runs contain waiting"


@dataclass(frozen=True)
class StudyRun:
    """The cells of a plan, and what came of those that were run; `interrupted` by Ctrl-C.

    Models of random weights have no accuracy there: observations, tables and figures see none.
    """

    cells: list[StudyCell]
    results: list[CellResult]
    interrupted: bool = False


def run_study(
    plan: StudyPlan, beside: Path, output: Path, tell: Progress = silent, retry: bool = False
) -> StudyRun:
    """Runs the cells that the folder `output` knows nothing of; with `retry` those that failed, too.

    Files of the plan lie `beside` it. A model, data, an engine, a tensmith or a processor that is another
    than when its cell was run makes it run again.
    """
    every = cells(plan)
    with _opened(output) as results:
        materials = Materials(plan, beside, output / MODELS, results)
        now = _now(materials, every)
        known = {cell: result for cell in every if (result := results.find(cell)) is not None}
        left = [
            cell
            for cell in every
            if cell not in known or _other(known[cell], now[cell]) or (retry and known[cell].failed)
        ]
        interrupted = False
        try:
            for number, cell in enumerate(left):
                seconds = expected_seconds(plan, left[number:], seconds_by_system(known.values()))
                tell(f"{number + 1} of {len(left)}, about {_duration(seconds)} left: {cell.words}")
                with unmissed():
                    outcome = _result(plan, cell, materials, now[cell])
                known[cell] = outcome  # of what was interrupted nothing is known
                results.add(outcome)
        except KeyboardInterrupt:
            interrupted = True
        found = [result for result in results.of(every) if not _other(result, now[result.cell])]
        told = [r.without_accuracy() if r.cell.model in plan.random else r for r in found]
        return StudyRun(every, told, interrupted)


@dataclass(frozen=True)
class _Place:
    """What a cell would be run with now, as its result keeps it; empty where that is not there."""

    model: str
    setting: Mapping[str, str]


def _now(materials: Materials, every: Iterable[StudyCell]) -> dict[StudyCell, _Place]:
    settings = functools.cache(_setting)
    return {
        cell: _Place(materials.digest(cell), settings(_engine(cell) or BASELINE_ENGINE)) for cell in every
    }


def _setting(engine: str) -> dict[str, str]:
    """Versions, processor and device that times and answers depend on; nothing where the engine is not there.
    What is estimated is judged in the baseline all the same."""
    try:
        found = {"tensmith": __version__, **engine_versions([engine])}
        used = ENGINES[engine]
        return found | ({DEVICE: used.device()[0]} if isinstance(used, DeviceEngine) else {})
    except EngineError:
        return {}


def _engine(cell: StudyCell) -> str | None:
    """What a cell is timed in; None where nothing is."""
    if cell.hardware.startswith("estimated:"):
        return None
    if cell.hardware in DEVICES:
        return cell.hardware
    return NATIVE if cell.system in OUR_SYSTEMS else cell.system


def _other(result: CellResult, now: _Place) -> bool:
    """Whether a result is of another model or setting than there is now; of what is gone it stays."""
    moved = now.model and now.setting and result.setting != now.setting
    return bool(moved) or (result.model != now.model and (now.model != "" or result.failed))


def prepare_study(plan: StudyPlan, beside: Path, output: Path, tell: Progress = silent) -> dict[str, str]:
    """Makes the optimized models of a plan in the folder `output` and judges them; no time is measured.

    Why those failed that did, by model and optimization. Another machine may do this, one with a GPU for
    models that are trained, say: what is in its folder's `models` is found by a run with the same code. Whole
    compressions are left to that run, since they measure.
    """
    every = {(c.model, c.optimization): c for c in cells(plan) if c.optimization not in SEARCHED}
    failed: dict[str, str] = {}
    with _opened(output) as results:
        materials = Materials(plan, beside, output / MODELS, results)
        for number, cell in enumerate(every.values()):
            name = f"{cell.model} / {cell.optimization}"
            tell(f"{number + 1} of {len(every)}: {name}")
            try:
                with unmissed():
                    materials.figures(cell, materials.optimized(cell))
            except Exception as error:
                _demand_disk(error)
                failed[name] = _reason(error)
    return failed


def _demand_disk(error: Exception) -> None:
    """Raises an error of a disk that takes nothing more: the cells to come could not be written either."""
    full = of_disk(error) if isinstance(error, OSError) else error
    if isinstance(full, TensmithError) and is_of_disk(full):
        raise full


def _reason(error: Exception) -> str:
    """An engine or a library may fail in any way, and the other cells are none of its business."""
    return str(error) if isinstance(error, TensmithError) else f"{type(error).__name__}: {error}"


def known_results(plan: StudyPlan, beside: Path, output: Path) -> list[CellResult]:
    """What a folder knows of a plan's cells that a run would not run again; nothing is written."""
    if not (output / DATABASE).exists():
        return []
    with _opened(output, looked_at=True) as results:
        known = results.of(cells(plan))
        materials = Materials(plan, beside, output / MODELS, results)
        now = _now(materials, (result.cell for result in known))
        return [result for result in known if not _other(result, now[result.cell])]


def seconds_by_system(results: Iterable[CellResult]) -> dict[str, list[float]]:
    """Seconds of finished cells."""
    found: dict[str, list[float]] = defaultdict(list)
    for result in results:
        if not result.failed:
            found[result.cell.system].append(result.seconds)
    return found


@contextlib.contextmanager
def _opened(output: Path, looked_at: bool = False) -> Iterator[Results]:
    if not looked_at:
        _prepare(output)
    with contextlib.nullcontext() if looked_at else locked(output):
        results = Results(output / DATABASE, looked_at)
        try:
            yield results
        finally:
            results.close()


def _prepare(output: Path) -> None:
    """Makes the folder of a study; OutputError where it is somebody else's. Models may be there before."""
    if output.exists() and not output.is_dir():
        raise OutputError(f"{output} is a file; choose another --output")
    try:
        output.mkdir(parents=True, exist_ok=True)
        held = {item.name for item in output.iterdir()}
    except OSError as error:
        raise OutputError(f"cannot make {output}: {error.strerror}; choose another --output") from error
    if DATABASE not in held and held - {MODELS, ".lock"}:
        raise OutputError(f"{output} is not empty and holds no study; choose another --output")


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _result(plan: StudyPlan, cell: StudyCell, materials: Materials, now: _Place) -> CellResult:
    """Runs a cell; whatever goes wrong in it is its reason."""
    began = time.monotonic()
    try:
        figures, notes = _measured(plan, cell, materials)
    except Exception as error:
        _demand_disk(error)
        return CellResult(cell, now.model, time.monotonic() - began, _reason(error), setting=now.setting)
    return CellResult(cell, now.model, time.monotonic() - began, "", figures, notes, now.setting)


def _measured(
    plan: StudyPlan, cell: StudyCell, materials: Materials
) -> tuple[dict[str, Metric], tuple[str, ...]]:
    """The figures of a cell, and what a reader of them must know."""
    material = materials.of(cell.model)
    path = materials.optimized(cell)
    figures = materials.figures(cell, path)
    figures["batch"] = exact(material.batch, "samples")
    kind, _, device = cell.hardware.partition(":")
    if kind == "estimated":
        program, target = simplify(read_onnx(path)).program, load_target(device)
        if unknown := uncounted(program, material.sizes):
            raise ModelError(
                f"the work of {len(unknown)} of {len(program.nodes)} nodes is not known, the first "
                f"'{unknown[0].output}': nothing is estimated without them"
            )
        seconds = sum(op_seconds(target, cost) for _, cost in node_costs(program, material.sizes))
        if "energy" in plan.measure:
            figures["energy_mj"] = program_energy(program, target, material.sizes)
        return figures | {"latency_ms": exact(1e3 * seconds, "ms", "estimated")}, ()
    notes = []
    if cell.system in (TUNED, METASCHEDULE):
        notes += _tune(plan, cell, path, material)
    contender = _contender(cell, path)
    if cell.algorithm != ANY:
        notes.append(_share_of_algorithm(contender, cell, material))
    with ExitStack() as stack:
        baseline = stack.enter_context(material.original.start(material.example, cell.threads))
        worker = stack.enter_context(contender.start(material.example, cell.threads))
        turn = worker.time(plan.method.runs + 1)
        busy = turn.disturbed
        spent = turn.later / 1e6
        low, high = median_interval(spent)
        figures["latency_ms"] = spread(float(np.median(spent)), low, high, "ms")
        if plan.method.seconds:
            rounds = take_turns([baseline.time, worker.time], plan.method.seconds)
            figures["ratio"] = summarize((material.original, contender), rounds)[1].ratio
            busy |= rounds.busy
        if busy:
            notes.append(BUSY)
        notes += _answers(worker, path, cell, material)
    if "memory" in plan.measure:
        figures["peak_bytes"] = measure_memory(contender, material.example, cell.threads)
    if "energy" in plan.measure and (energy := _energy(contender, cell, material)) is not None:
        figures["energy_mj"] = energy
    return figures, tuple(notes)


def _energy(contender: Contender, cell: StudyCell, material: Material) -> Metric | None:
    """By the counter of what computes, where it has one that moves; else by the table of its kind, of a CPU
    and a model all of whose work is known."""
    kind = cell.hardware.partition(":")[0]
    spent = None
    if counter := energy_counter(kind):
        spent = contender_energy(counter, contender, material.example, cell.threads, _ENERGY_SECONDS)
    if spent or kind != "cpu":
        return spent
    program = simplify(read_onnx(contender.path)).program
    if uncounted(program, material.sizes):
        return None
    return program_energy(program, material.request.target, material.sizes)


def _contender(cell: StudyCell, path: Path) -> Contender:
    engine = _engine(cell)
    assert engine is not None  # nothing is timed that is estimated
    own = engine == NATIVE
    return Contender(engine, path, (("algorithm", cell.algorithm), ("tuning", cell.system)) if own else ())


def _share_of_algorithm(contender: Contender, cell: StudyCell, material: Material) -> str:
    """How many layers the algorithm of a cell computes; EngineError if it is none."""
    folder = contender.compiled(material.example, cell.threads)
    assert folder is not None
    kernels = json.loads((folder / loader.MANIFEST).read_text(encoding="utf-8"))["kernels"]
    names = [str(kernel).partition(" ")[0] for kernel in kernels.values()]
    own = sum(in_family(name, cell.algorithm) for name in names)
    if not own:
        raise EngineError(f"no layer of {cell.model} with {cell.optimization} has a {cell.algorithm} kernel")
    return f"{cell.algorithm} computes {own} of {len(names)} layers"


def _answers(worker: SessionWorker, path: Path, cell: StudyCell, material: Material) -> list[str]:
    """A warning where answers are not near those of ONNX Runtime on the same file."""
    with Contender(material.original.engine, path).start(material.example, cell.threads) as other:
        wanted, found = other.run(material.example), worker.run(material.example)
    for name, array in wanted.items():
        apart = distance(array, found[name])
        if apart.most > _NEAR * max(apart.largest, 1e-6):
            return [f"'{name}' differs from ONNX Runtime's by {100 * apart.share:.0f}% of its largest value"]
    return []


def _tune(plan: StudyPlan, cell: StudyCell, path: Path, material: Material) -> list[str]:
    """Times kernels for the layers of a cell's model; what is found is kept for this machine."""
    with this_machine() as place:
        program = fixed(read_onnx(path), dict(material.sizes))
        tasks, memory = tasks_of(program, place.isa, restricted_to(cell.algorithm))
        search = TuningSearch(tasks, memory, place.timings, place.measure, table=place.table)
        budget = Budget(plan.tuning.seconds, plan.tuning.trials)
        if cell.system == METASCHEDULE:
            search.run(budget.at_most(len(tasks)))
            with MetaSchedule() as other:
                other.run(search, budget, lambda: False)
                return [f"{other.trials} trials of MetaSchedule"]
        search.run(budget)
        settled = sum(task.settled for task in tasks)
        return [f"{search.trials} trials, {settled} of {len(tasks)} problems settled"]
