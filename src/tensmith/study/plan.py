"""The plan of a study: six layers of the stack in a YAML file, and the cells that they span.

The layers are those of "DLAS: An Exploration and Assessment of the Deep Learning Acceleration Stack" (Gibson
et al., 2023): datasets, models, model optimizations, algorithms and data formats, systems software, hardware.
A cell takes one of each.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    ValidationInfo,
    field_validator,
)

from tensmith import gate
from tensmith.backend.native.choose.choosers import ANY, FAMILIES
from tensmith.backend.native.choose.tuning import METASCHEDULE, TUNED, UNTUNED
from tensmith.data.opening import demand_there
from tensmith.engine.base import MOST_THREADS
from tensmith.errors import TensmithError, UsageError, nearest
from tensmith.files import sha256_bytes
from tensmith.hardware import target_names
from tensmith.yaml_text import YamlPart, YamlText, read_yaml

LAYERS = ("dataset", "model", "optimization", "algorithm", "system", "hardware")

# Per cent that are taken away; the paper prunes weights further than channels.
LADDERS: Mapping[str, tuple[int, ...]] = {
    "weight_pruning": (50, 55, 60, 65, 70, 75, 80, 85, 90, 95, 99),
    "channel_pruning": (5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95),
}
# Whole compressions, by what is left out of them: nothing, loss, what the device's costs are, our engine.
SEARCHED: Mapping[str, Mapping[str, Any]] = {
    "tensmith": {},
    "tensmith_lossless": {"max_drop": 0.0},
    "tensmith_blind": {"hardware": False},
    "tensmith_stock": {"engines": ("onnxruntime",)},
}
PLAIN = ("none", "float16", "int8_uncalibrated", "int8", "ours", "weight_sharing", *SEARCHED)
# Before the name of another optimization: what it left is trained to answer as the original does.
TRAINED = "trained"
ALGORITHMS = (ANY, *FAMILIES)
PAPER_COLUMNS = (
    "accuracy", "drop", "latency", "throughput", "memory", "speedup", "size", "energy", "energy_saving",
)  # fmt: skip
# Our engine's three ways to choose kernels, and the runtimes of others.
OUR_SYSTEMS = (UNTUNED, TUNED, METASCHEDULE)
SYSTEMS = (*OUR_SYSTEMS, "onnxruntime", "openvino")
DEVICES = ("opencl", "cuda")
# What may be measured beside accuracy, size and latency.
MORE_FIGURES = ("packed", "memory", "energy")


class DatasetEntry(YamlPart):
    """Data by the words of `--data`; samples to judge by and to calibrate on. `$NAME`: the environment's."""

    name: str
    data: str
    samples: int = Field(1000, ge=1)
    calibration: int = Field(128, ge=1)


class ModelEntry(YamlPart):
    """An .onnx file, the data that it is for, and how images go in.

    Of `random` weights nothing says how accurate they are: they count where time and size do.
    """

    name: str
    path: str
    dataset: str
    preprocess: str = "auto"
    weights: Literal["trained", "random"] = "trained"


class TuningBudget(YamlPart):
    """What tuning one model may take; it ends before that when a row of trials gains nothing."""

    trials: int | None = Field(None, ge=0)
    seconds: float = Field(60.0, gt=0)


class TrainingBudget(YamlPart):
    """What training one optimized model may take."""

    seconds: float = Field(600.0, gt=0)


class SearchBudget(YamlPart):
    """What a whole compression, `tensmith` and what its name begins, may take, and lose."""

    seconds: float = Field(300.0, gt=0)
    max_drop: float = Field(0.5, ge=0)


class LatencyMethod(YamlPart):
    """How latency is measured.

    The paper's method: so many `runs` of one sample, nothing else running, the first dropped, the median.
    Ours: turns interleaved with the original in ONNX Runtime for `seconds`, ratios with intervals; 0: not.
    """

    runs: int = Field(150, ge=2)
    seconds: float = Field(2.0, ge=0)


def _spread(value: Any) -> Any:
    """Names and {name: value or values} as names of one value each: `weight_pruning: [50, 95]`.

    A value may be such an entry: `trained: [int8, weight_pruning: [80, 95]]`.
    """
    if not isinstance(value, list):
        return value
    found: list[Any] = []
    for entry in value:
        if isinstance(entry, dict):
            for name, amounts in entry.items():
                many = amounts if isinstance(amounts, list) else [amounts]
                found += [f"{name}:{amount}" for amount in _spread(many)]
        elif isinstance(entry, list):
            raise ValueError(f"{entry} is a list inside a list; write names, or {{name: value}}")
        elif isinstance(entry, str) and entry in LADDERS:
            found += [f"{entry}:{amount}" for amount in LADDERS[entry]]
        else:
            found.append(entry)
    return found


_Names = Annotated[tuple[str, ...], BeforeValidator(_spread), Field(min_length=1)]
_Layer = Literal["dataset", "model", "optimization", "algorithm", "system", "hardware"]
# Patterns of names by layer: all of them must fit.
_Pattern = dict[_Layer, str]


class PaperRow(YamlPart):
    """A line of a paper's table: the cell that fits the first pattern that any fits.

    published: figures of the paper, by patterns of our models' names. absent: why no cell may fit.
    """

    name: str
    cells: tuple[_Pattern, ...] = ()
    published: dict[str, dict[str, float]] = Field({})
    absent: str = "no engine of this line runs there"

    @field_validator("published")
    @classmethod
    def _known(cls, published: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
        for name in (name for figures in published.values() for name in figures):
            _one_of(PAPER_COLUMNS, "column", name)
        return published


class PaperTable(YamlPart):
    """A table in a paper's columns, for each model and hardware; the others are held against the first row.

    source: where the paper's figures are from, and which of them were not to be had.
    """

    title: str
    source: str
    columns: tuple[str, ...] = Field(min_length=1)
    rows: tuple[PaperRow, ...] = Field(min_length=1)

    @field_validator("columns")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_one_of(PAPER_COLUMNS, "column", name) for name in names)


class StudyPlan(YamlPart):
    """What a study file says. `only` and `exclude` choose among cells by patterns of names.

    With `tables`, cells that are in none of them are left out.
    """

    name: str
    datasets: tuple[DatasetEntry, ...] = Field(min_length=1)
    models: tuple[ModelEntry, ...] = Field(min_length=1)
    optimizations: _Names = ("none",)
    algorithms: _Names = (ANY,)
    systems: _Names = (UNTUNED,)
    hardware: _Names = ("cpu:1",)
    tuning: TuningBudget = Field(default_factory=lambda: TuningBudget.model_validate({}))
    training: TrainingBudget = Field(default_factory=lambda: TrainingBudget.model_validate({}))
    search: SearchBudget = Field(default_factory=lambda: SearchBudget.model_validate({}))
    method: LatencyMethod = Field(default_factory=lambda: LatencyMethod.model_validate({}))
    measure: tuple[str, ...] = ()
    tables: tuple[PaperTable, ...] = ()
    only: tuple[_Pattern, ...] = ()
    exclude: tuple[_Pattern, ...] = ()
    seed: int = Field(0, ge=0, lt=2**32)

    @field_validator("optimizations", "algorithms", "systems", "hardware", "measure")
    @classmethod
    def _known(cls, names: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        return tuple(dict.fromkeys(_CHECKS[info.field_name or ""](name) for name in names))

    @property
    def random(self) -> frozenset[str]:
        """The names of models whose weights are."""
        return frozenset(model.name for model in self.models if model.weights == "random")

    def budget(self, optimization: str) -> dict[str, Any]:
        """What an optimization may take that learns or searches; empty for others."""
        if optimization in SEARCHED:
            return self.search.model_dump()
        return self.training.model_dump() if is_trained(optimization) else {}


def _one_of(known: Sequence[str], what: str, name: str) -> str:
    if name not in known:
        raise ValueError(f"no {what} '{name}'{nearest(name, known)}")
    return name


def _optimization(name: str) -> str:
    kind, colon, amount = name.partition(":")
    if is_trained(name):
        if is_trained(amount) or _optimization(amount) in ("none", *SEARCHED):
            raise ValueError(f"'{name}' leaves nothing to train")
        return name
    _one_of((*PLAIN, *LADDERS), "optimization", kind)
    if (kind in LADDERS) != bool(colon):
        raise ValueError(f"'{name}' wants {'per cent' if kind in LADDERS else 'no number'}")
    if colon and not (amount.isdecimal() and 0 < int(amount) < 100):
        raise ValueError(f"'{amount}' is no whole per cent between 0 and 100")
    return name


def untrained(name: str) -> str:
    """The optimization itself, whether or not what it left is trained."""
    return name.removeprefix(f"{TRAINED}:")


def is_trained(name: str) -> bool:
    """Whether what an optimization left is trained."""
    return untrained(name) != name


def rung(name: str) -> tuple[str, int | None]:
    """The kind of an optimization, and its per cent where it is a rung of a ladder."""
    kind, _, amount = name.rpartition(":")
    return (kind, int(amount)) if amount.isdecimal() else (name, None)


def _hardware(name: str) -> str:
    kind, _, what = name.partition(":")
    _one_of(("cpu", "estimated", *DEVICES), "hardware", kind)
    if kind == "cpu" and not (what == "" or (what.isdecimal() and 1 <= int(what) <= MOST_THREADS)):
        raise ValueError(f"'{what}' is no number of threads")
    if kind == "estimated":
        _one_of(target_names(), "target", what)
    if kind in DEVICES and name != kind:
        raise ValueError(f"'{name}' is no device: it is called {kind}, and its first one is used")
    return "cpu:1" if kind == "cpu" and not what else name


_CHECKS: Mapping[str, Callable[[str], str]] = {
    "optimizations": _optimization,
    "algorithms": lambda name: _one_of(ALGORITHMS, "algorithm", name),
    "systems": lambda name: _one_of(SYSTEMS, "system", name),
    "hardware": _hardware,
    "measure": lambda name: _one_of(MORE_FIGURES, "figure", name),
}


@dataclass(frozen=True)
class StudyCell:
    """One choice of each layer, by names. `basis`: a digest of all else that its figures depend on."""

    dataset: str
    model: str
    optimization: str
    algorithm: str
    system: str
    hardware: str
    basis: str

    @property
    def id(self) -> str:
        """A name that stays, whatever other cells a plan has."""
        return sha256_bytes(json.dumps(asdict(self), sort_keys=True).encode())[:16]

    @property
    def words(self) -> str:
        """How people call it."""
        return " / ".join(getattr(self, layer) for layer in LAYERS[1:])

    @property
    def threads(self) -> int:
        """How many threads run it."""
        kind, _, count = self.hardware.partition(":")
        return int(count) if kind == "cpu" else 1


def read_plan(path: Path) -> StudyPlan:
    """The plan in a file; UsageError naming line and nearest word where it is wrong."""
    parts: dict[str, type[YamlPart]] = {
        "datasets": DatasetEntry, "models": ModelEntry, "tuning": TuningBudget, "training": TrainingBudget,
        "search": SearchBudget, "method": LatencyMethod, "tables": PaperTable, "rows": PaperRow,
    }  # fmt: skip
    text = read_yaml(path, StudyPlan, parts, "a study; examples/study has some")
    _check_names(text)
    if not cells(text.content):
        raise text.wrong(("systems",), "nothing goes together: this study has no cell")
    return text.content


def _check_names(text: YamlText[StudyPlan]) -> None:
    """UsageError where names mean two things, or nothing."""
    plan = text.content
    if plan.name in ("", ".", "..") or {"/", "\\", "\0"} & set(plan.name):
        raise text.wrong(("name",), f"{plan.name!r} is no name of a folder")
    for layer in ("datasets", "models"):
        names = [entry.name for entry in getattr(plan, layer)]
        for number, name in enumerate(names):
            if name in names[:number]:
                raise text.wrong((layer, number), f"two {layer} are called '{name}'")
    known = [entry.name for entry in plan.datasets]
    for number, model in enumerate(plan.models):
        if model.dataset not in known:
            what = f"no dataset '{model.dataset}'{nearest(model.dataset, known)}"
            raise text.wrong(("models", number, "dataset"), what)
    every = list(_all_cells(plan))
    for place, pattern in _patterns(plan):
        for layer, wanted in pattern.items():
            names = list(dict.fromkeys(getattr(cell, layer) for cell in every))
            if not any(fnmatchcase(name, wanted) for name in names):
                what = f"'{wanted}' fits no {layer} of this study{nearest(wanted, names)}"
                raise text.wrong((*place, layer), what)


def _patterns(plan: StudyPlan) -> Iterator[tuple[tuple[Any, ...], _Pattern]]:
    """All patterns of cells in a plan, each with its place."""
    for field in ("only", "exclude"):
        yield from (((field, number), pattern) for number, pattern in enumerate(getattr(plan, field)))
    for number, table in enumerate(plan.tables):
        for line, row in enumerate(table.rows):
            for index, pattern in enumerate(row.cells):
                yield ("tables", number, "rows", line, "cells", index), pattern


def cells(plan: StudyPlan) -> list[StudyCell]:
    """The cells of a plan, those that share what is made for them together."""
    in_tables = [pattern for table in plan.tables for row in table.rows for pattern in row.cells]
    return [
        cell
        for cell in _all_cells(plan)
        if (not plan.only or any(fits(cell, pattern) for pattern in plan.only))
        and not any(fits(cell, pattern) for pattern in plan.exclude)
        and (not plan.tables or any(fits(cell, pattern) for pattern in in_tables))
    ]


def _all_cells(plan: StudyPlan) -> Iterator[StudyCell]:
    datasets = {entry.name: entry for entry in plan.datasets}
    rest = plan.optimizations, plan.systems, plan.algorithms, plan.hardware
    for model in plan.models:
        dataset = datasets[model.dataset]
        for optimization, system, algorithm, hardware in itertools.product(*rest):
            if not _sensible(optimization, algorithm, system, hardware):
                continue
            basis = {
                "data": dataset.model_dump(), "model": model.model_dump(exclude={"weights"}),
                "method": plan.method.model_dump(),
                "tuning": plan.tuning.model_dump() if system in (TUNED, METASCHEDULE) else {},
                "budget": plan.budget(optimization),
                "seed": plan.seed,
            }  # fmt: skip
            if plan.measure:
                basis["measure"] = plan.measure
            digest = sha256_bytes(json.dumps(basis, sort_keys=True).encode())[:16]
            yield StudyCell(dataset.name, model.name, optimization, algorithm, system, hardware, digest)


def _sensible(optimization: str, algorithm: str, system: str, hardware: str) -> bool:
    """Whether layers go together: algorithms are our engine's, devices choose their own."""
    here = hardware.startswith("cpu:")
    if algorithm != ANY and (system not in (UNTUNED, TUNED) or not here):
        return False
    if algorithm == "sparse" and not untrained(optimization).startswith("weight_pruning:"):
        return False
    return here or system == UNTUNED


def fits(cell: StudyCell, pattern: Mapping[_Layer, str]) -> bool:
    """Whether the names of a cell match all patterns."""
    return all(fnmatchcase(getattr(cell, layer), wanted) for layer, wanted in pattern.items())


def expanded(text: str, beside: Path) -> str:
    """A path of a plan: `$NAME` from the environment, relative ones beside the plan; UsageError if unset."""
    full = os.path.expandvars(text)
    if "$" in full:
        raise UsageError(f"'{text}' names an environment variable that is not set")
    return str(beside / full)


def data_expanded(text: str, beside: Path) -> str:
    """KIND:PATH of a plan, the path as `expanded`; of `python:` a module, wherever that is found."""
    kind, _, path = text.partition(":")
    return text if kind == "python" else f"{kind}:{expanded(path, beside)}"


def not_there(plan: StudyPlan, beside: Path, left: Iterable[StudyCell]) -> list[str]:
    """What cells need of files that are not there, a sentence each: these cells would fail."""
    found: list[str] = []
    named = {(layer, name) for cell in left for layer, name in asdict(cell).items()}
    for model in plan.models:
        if ("model", model.name) in named:
            with _told(found, f"the model {model.name}"):
                gate.check(Path(expanded(model.path, beside)), gate.MODEL)
    for dataset in plan.datasets:
        if ("dataset", dataset.name) in named:
            with _told(found, f"the data {dataset.name}"):
                demand_there(data_expanded(dataset.data, beside))
    return found


@contextlib.contextmanager
def _told(found: list[str], what: str) -> Iterator[None]:
    """Adds to `found` what is wrong with something."""
    try:
        yield
    except TensmithError as error:
        found.append(f"{what}: {error}")


# Seconds of a cell beside measuring, where nothing is known of this machine yet: compiling or loading.
_COMPILING_SECONDS, _LOADING_SECONDS = 10.0, 3.0
# What the paper's runs take of a typical latency, and judging a model's accuracy.
_RUNS_SECONDS, _JUDGING_SECONDS = 1.5, 10.0


def expected_seconds(
    plan: StudyPlan, left: Sequence[StudyCell], known: Mapping[str, Sequence[float]]
) -> float:
    """About how long cells take: as those of their system took, else by what such work usually takes.

    `known`: seconds of finished cells by system.
    """
    made = {(cell.model, cell.optimization) for cell in left}
    total: float = _JUDGING_SECONDS * len(made)
    total += sum(plan.budget(optimization).get("seconds", 0.0) for _, optimization in made)
    for cell in left:
        if spent := known.get(cell.system):
            total += sum(spent) / len(spent)
        elif cell.hardware.startswith("cpu:"):
            own = cell.system in OUR_SYSTEMS
            total += _COMPILING_SECONDS if own else _LOADING_SECONDS
            total += plan.method.seconds + _RUNS_SECONDS
            total += plan.tuning.seconds if cell.system in (TUNED, METASCHEDULE) else 0.0
    return total
