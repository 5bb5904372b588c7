"""What cells share: models read, data split, optimized models made once and kept by content, accuracies."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tensmith import __version__, cache
from tensmith.backend.onnx import write_onnx
from tensmith.backend.packed import TooSmallError, pack_file
from tensmith.config import make_config
from tensmith.data import classified, open_dataset, split
from tensmith.data.dataset import Subset, by_name
from tensmith.data.fingerprint import fingerprint
from tensmith.data.images import ImageInput
from tensmith.data.parts import ArrayPart
from tensmith.engine.base import BASELINE_ENGINE, Arrays, available, fixed_batch, sizes_of, specs_of
from tensmith.engine.compiled import code_revision
from tensmith.errors import DataError, ProgramError, TensmithError
from tensmith.evaluate.calibrator import Calibrator
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.count import node_costs, uncounted
from tensmith.evaluate.judge import Judge
from tensmith.evaluate.outcome import Outcome
from tensmith.evaluate.size import file_bytes
from tensmith.files import TemporaryFolder, sha256_bytes, sha256_file
from tensmith.frontend.model_files import file_identity, model_files
from tensmith.frontend.onnx import read_onnx
from tensmith.hardware import detect_cpu
from tensmith.ir import Program
from tensmith.progress import silent
from tensmith.report.metric import Metric, exact
from tensmith.request import Request, holds_pixels, judged_by, read_request
from tensmith.rewrite.lossy.dependency import groups
from tensmith.rewrite.lossy.weights import weighted_layers
from tensmith.rewrite.method import apply_lossy
from tensmith.rewrite.rule import Step
from tensmith.rewrite.trail import simplify
from tensmith.search.resume import engine_versions
from tensmith.study.making import searched, trained
from tensmith.study.plan import (
    SEARCHED,
    StudyCell,
    StudyPlan,
    data_expanded,
    expanded,
    is_trained,
    rung,
    untrained,
)
from tensmith.study.results import Results

ORIGINAL = "none"
# Samples that tell how images go in, where a plan leaves that to be found out; that choose what is made.
_PROBING, _CHOOSING = 256, 1000
# How many numbers are multiplied at once for each float: what a narrower format could gain.
_LANES = {"float16": 2.0, "int8_uncalibrated": 4.0, "int8": 4.0, "ours": 4.0}
# What rounds weights to as many bits as the processor multiplies without saturating.
_EIGHT_BITS = ("int8_uncalibrated", "int8", "ours")
# The bits of what stands for a shared weight.
_SHARED_BITS = 5
# What decides, beside what compiles, what a training or a search makes.
_MAKING = ("compression", "search", "engine", "evaluate", "deploy", "recovery", "tune")
# Random calibration data stands for none at all.
_NOISE_SAMPLES = 32


@dataclass(frozen=True)
class Material:
    """One model of a plan, read, with its data split and the sample that latency is measured on."""

    request: Request
    judge: Judge
    calibration: Calibrator
    seed: int

    @property
    def example(self) -> Arrays:
        """The sample."""
        return self.judge.example

    @property
    def batch(self) -> int:
        """How many samples it holds: more than one where the model fixes that."""
        return fixed_batch(specs_of(self.request.program.inputs)) or 1

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """Of the model's symbols, for the sample."""
        return sizes_of(specs_of(self.request.program.inputs), self.example)

    @cached_property
    def original(self) -> Contender:
        """The untouched model where every comparison begins."""
        return Contender(BASELINE_ENGINE, self.request.model)

    @cached_property
    def noise(self) -> Calibrator:
        """Statistics of random pixels: what is known of a model's input without data."""
        (image,) = by_name(next(self.request.splits.calibration.batches(1)).inputs).values()
        random = np.random.default_rng(self.seed)
        pixels = random.uniform(0, 255, (_NOISE_SAMPLES, *image.shape[1:])).astype(np.float32)
        view = Subset(ArrayPart(pixels, None), np.arange(_NOISE_SAMPLES))
        return Calibrator(view, self.judge.task.preprocess, self.judge.judging_threads)

    def data(self, searching: bool) -> str:
        """A fingerprint of the data and its split, and of how samples go in: what figures depend on; those of
        models that no search and no training made (not `searching`) on no sample to search on."""
        return f"{self.request.fingerprint(searching)}/{self.judge.task.preprocess}"

    @cached_property
    def answers(self) -> Outcome:
        """What the original answers on the samples to judge by."""
        return self.judge.outcome(self.original, self.request.splits.held_out)


class Materials:
    """Makes and keeps what cells share: optimized models in `folder`, accuracies in `results`."""

    def __init__(self, plan: StudyPlan, beside: Path, folder: Path, results: Results) -> None:
        self._plan, self._beside, self._folder, self._results = plan, beside, folder, results
        self._known: dict[str, Material] = {}
        self._identities: dict[str, str] = {}
        self._seen: dict[tuple[str, bool], str] = {}

    def file(self, name: str) -> Path:
        """The file of a model of the plan."""
        entry = next(entry for entry in self._plan.models if entry.name == name)
        return Path(expanded(entry.path, self._beside))

    def digest(self, cell: StudyCell) -> str:
        """Of the file of a cell's model and its data, as far as the cell depends on that; empty where one is
        not there. What is wrong with them the cell says."""
        key = cell.dataset, self._searching(cell.optimization)
        if cell.model not in self._identities:
            self._identities[cell.model] = _identity(self.file(cell.model))
        identity = self._identities[cell.model]
        if identity and key not in self._seen:
            try:
                self._seen[key] = self._fingerprint(self._options(cell.model), key[1])
            except TensmithError:
                return ""
        return sha256_bytes(f"{identity}/{self._seen[key]}".encode()) if identity else ""

    def _searching(self, optimization: str) -> bool:
        """Whether samples to search on say what an optimization makes."""
        return bool(self._plan.budget(optimization))

    def _fingerprint(self, options: Mapping[str, Any], searching: bool) -> str:
        dataset = classified(open_dataset(options["data"]))
        calibration, search, held_out = (
            options[f"{use}_samples"] for use in ("calibration", "search", "held_out")
        )
        splits = split(dataset, calibration, search, held_out, options["seed"])
        return fingerprint(splits, dataset.small_labels, searching)

    def of(self, name: str) -> Material:
        """A model of the plan; the last one stays in memory. TensmithError where it or its data is wrong."""
        if name not in self._known:
            self._known = {name: self._read(name)}
        return self._known[name]

    def _read(self, name: str) -> Material:
        plan, config = self._plan, make_config(**self._options(name))
        request = read_request(config, config.data)
        # As many whatever else is in the plan, so that images go in alike.
        splits = replace(request.splits, search=request.splits.search.take(_PROBING))
        task = judged_by(replace(request, splits=splits), config, silent)
        view, cores = request.splits.calibration, detect_cpu().cores
        example = task.example(request.program, view)
        calibration = Calibrator(view, task.preprocess, cores, self._folder)
        return Material(request, Judge(task, example, 1, cores), calibration, plan.seed)

    def _options(self, name: str) -> dict[str, Any]:
        """A model of the plan and how its data is split, as options of a compression."""
        entry = next(entry for entry in self._plan.models if entry.name == name)
        data = next(dataset for dataset in self._plan.datasets if dataset.name == entry.dataset)
        return {
            "model": str(self.file(name)), "data": data_expanded(data.data, self._beside),
            "preprocess": entry.preprocess, "calibration_samples": data.calibration,
            "search_samples": self._choosing(), "held_out_samples": data.samples, "seed": self._plan.seed,
        }  # fmt: skip

    def _choosing(self) -> int:
        """Samples to choose weights and plans by that training and searches find, or preprocessing alone."""
        budgets = map(self._plan.budget, self._plan.optimizations)
        return _CHOOSING if any(budgets) else _PROBING

    def optimized(self, cell: StudyCell) -> Path:
        """The model of a cell with its optimization, from the folder or made now."""
        material, searching = self.of(cell.model), self._searching(cell.optimization)
        if cell.optimization == ORIGINAL:
            return material.request.model
        of = {
            "model": material.request.identity, "optimization": cell.optimization,
            "code": code_revision(*_MAKING if searching else ()),
            "data": material.data(searching), "seed": str(self._plan.seed),
            "budget": json.dumps(self._plan.budget(cell.optimization)),
        }  # fmt: skip
        if untrained(cell.optimization) in _EIGHT_BITS:
            of["bits"] = str(material.request.target.weight_bits)
        if cell.optimization in SEARCHED:
            engines = SEARCHED[cell.optimization].get("engines", available())
            of["engines"] = json.dumps(engine_versions(engines), sort_keys=True)

        def make(folder: Path) -> None:
            folder.mkdir()
            path = folder / "model.onnx"
            if cell.optimization in SEARCHED:
                options = self._options(cell.model)
                if isinstance(images := material.judge.task.preprocess, ImageInput):
                    options["preprocess"] = images.name
                searched(cell.optimization, options, self._plan.search, path)
                return
            program, steps = optimize(material, cell.optimization)
            if is_trained(cell.optimization):
                seconds = self._plan.training.seconds
                state = f"training-{sha256_bytes(json.dumps(of).encode())[:16]}"
                program = trained(program, steps, material, seconds, self._folder, state)
            write_onnx(simplify(program).program, path)

        return cache.fetch(self._folder, of, make) / "model.onnx"

    def figures(self, cell: StudyCell, path: Path) -> dict[str, Metric]:
        """What is the same for all cells of an optimized model: accuracy, size and work."""
        material = self.of(cell.model)
        data = material.data(self._searching(cell.optimization))
        of = cell.model, cell.optimization, data, file_identity(path), str(self._plan.seed), _judged_with()
        packed = ("packed",) if "packed" in self._plan.measure and cell.optimization != ORIGINAL else ()
        name = "/".join(("figures", *of, *packed))
        known = self._results.fact(name)
        if known is None:
            outcome = material.judge.outcome(
                Contender(BASELINE_ENGINE, path), material.request.splits.held_out, material.answers
            )
            found = {"accuracy": outcome.metric(), "drop": outcome.drop(material.answers)}
            found |= {"file_bytes": file_bytes(path), **_work(material, path, cell.optimization)}
            if packed:
                found["packed_bytes"] = _packed_bytes(path)
            known = {key: metric.to_json() for key, metric in found.items()}
            self._results.note(name, known)
        return {key: Metric.from_json(metric) for key, metric in known.items()}


def _judged_with() -> str:
    """A fingerprint of what answers and counts here: tensmith, the engine, the processor."""
    versions = {"tensmith": __version__, **engine_versions([BASELINE_ENGINE])}
    return sha256_bytes(json.dumps(versions, sort_keys=True).encode())[:16]


def _identity(path: Path) -> str:
    """Of a model's file, sound or not; empty where there is none that can be read."""
    for identity in (file_identity, sha256_file):
        with contextlib.suppress(TensmithError, OSError):
            return identity(path) if path.exists() else ""
    return ""


def optimize(material: Material, name: str) -> tuple[Program, list[Step]]:
    """The program after an optimization of a plan, untrained, and its steps; ProgramError if none fits."""
    program, name = simplify(material.request.program).program, untrained(name)
    uncalibrated = name == "int8_uncalibrated"
    if uncalibrated and not _reads_pixels(material.request):
        raise DataError("int8 without calibration takes random pixels for data; the model reads none")
    steps = list(_steps(program, name, material.request.target.weight_bits))
    if not steps:
        raise ProgramError(f"nothing in the model takes {name}")
    for step in steps:
        program = apply_lossy(program, step, material.noise if uncalibrated else material.calibration)
    return program, steps


def _reads_pixels(request: Request) -> bool:
    """Whether samples are images as they were taken, and not what preprocessing made of them."""
    return request.dataset.modality == "image" and holds_pixels(request.splits.training)


def _steps(program: Program, name: str, bits: int) -> Iterator[Step]:
    """An optimization as lossy steps. What stays makes up for what is pruned: nothing is trained here."""
    kind, amount = rung(name)
    if kind == "weight_pruning":
        params = {"sparsity": (amount or 0) / 100, "scope": "global", "criterion": "obs"}
        yield Step("magnitude_pruning", params=params, kind="lossy")
    elif kind == "channel_pruning":
        share = (amount or 0) / 100
        for group in groups(program):
            if group.size - int(share * group.size + 0.5) < group.size:
                params = {"ratio": share, "criterion": "activation"}
                yield Step("channel_pruning", group.id, params, "lossy")
    elif kind == "float16":
        yield Step("half", params={"type": "float16"}, kind="lossy")
    elif kind == "weight_sharing":
        yield Step("weight_clustering", params={"bits": _SHARED_BITS}, kind="lossy")
    elif kind == "ours":
        params = {"calibration": "mse", "default_bits": bits, "scales": "mse", "rounding": "compensated"}
        yield Step("int8", params=params, kind="lossy")
    else:
        yield Step("int8", params={"calibration": "minmax", "default_bits": bits}, kind="lossy")


def _packed_bytes(path: Path) -> Metric:
    """Bytes of the model's packed file; of the model where that is no larger, in several files, or will not
    be packed."""
    whole = file_bytes(path)
    if len(model_files(path)) > 1:
        return whole
    with TemporaryFolder() as folder:
        packed = Path(folder) / "model.packed"
        try:
            pack_file(path, packed)
        except TooSmallError:
            return whole
        return min(whole, exact(packed.stat().st_size, "bytes"), key=lambda size: size.value)


def _work(material: Material, path: Path, name: str) -> dict[str, Metric]:
    """Weights that are not zero, multiply-adds with them, and the speed-up that this would be.

    What a search made is of several formats at once, of which nothing is expected; nor of a model some of
    whose work is not known.
    """
    weights, macs = _counted(read_onnx(path), material.sizes)
    work = {"weights": exact(weights, "numbers"), "macs": exact(macs, "operations")}
    original = material.request.program
    if name in SEARCHED or uncounted(original, material.sizes):
        return work
    before = _counted(original, material.sizes)[1]
    if not before:  # nothing multiplies
        return work
    expected = before / max(1.0, macs) * _LANES.get(untrained(name), 1.0)
    return work | {"expected": exact(expected, "x", "estimated")}


def _counted(program: Program, sizes: Mapping[str, int]) -> tuple[float, float]:
    """Weights that are not zero, and multiply-adds with them."""
    weights = sum(np.count_nonzero(array) for array in program.constants.values() if array.ndim > 1)
    simple = simplify(program).program
    layers = {layer.site: simple.constants.get(layer.weight) for layer in weighted_layers(simple)}
    shares = {
        site: np.count_nonzero(array) / max(1, array.size)
        for site, array in layers.items()
        if array is not None
    }
    macs = sum(cost.macs * shares.get(node.output, 1.0) for node, cost in node_costs(simple, sizes))
    return float(weights), macs
