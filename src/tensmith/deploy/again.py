"""`tensmith verify` for a front point: its figures measured again, from its files and, if given, its data."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tensmith.config import Config
from tensmith.data import Dataset, ImageInput, Splits, Subset, open_dataset, parse_preprocess, split
from tensmith.data.fingerprint import fingerprint
from tensmith.deploy.compared import answers_compared, estimates_compared, measures_compared
from tensmith.engine.base import BASELINE_ENGINE, ENGINES, compiler, sizes_of, specs_of
from tensmith.errors import EngineError, ModelError, VerificationError
from tensmith.evaluate import size
from tensmith.evaluate.calibrator import Calibrator
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.energy import program_energy
from tensmith.evaluate.heads import HEADS
from tensmith.evaluate.judge import Judge
from tensmith.evaluate.latency import compare
from tensmith.evaluate.memory import measure_memory
from tensmith.evaluate.task import Task, image_form
from tensmith.frontend.model_copy import copied_bytes
from tensmith.frontend.onnx import read_onnx
from tensmith.hardware import detect_cpu, load_target
from tensmith.hardware.target import HOST, target_names
from tensmith.ir import Program
from tensmith.report.metric import Metric, exact
from tensmith.request import judged_data
from tensmith.verify.claims import ANSWERS, judged_on
from tensmith.verify.files import MODEL, PACKED
from tensmith.verify.finding import Finding, VerifyResult
from tensmith.verify.folder import verify_folder
from tensmith.verify.machine import other_cpu
from tensmith.verify.schema import NAME, Certificate, Judged

_LATENCY_SECONDS = 3.0


def verify_point(
    folder: Path,
    original: Path | None = None,
    data: str = "",
    *,
    seconds: float = 30.0,
    run_library: bool = False,
    on_finding: Callable[[Finding], None] | None = None,
) -> VerifyResult:
    """Every claim of a front point's certificate, checked again; `data` is "KIND:PATH". Raises as
    `verify_folder` does, and VerificationError for data that is not what the point was judged on."""
    again = MeasuredAgain(Path(folder), data)
    return verify_folder(
        folder, original, seconds=seconds, again=again, run_library=run_library, on_finding=on_finding
    )


def judged_as(config: Config, name: str, seen: str, task: Task, judged: int) -> Judged | None:
    """How a run judged its points, for others to repeat it; None by a function of the user's."""
    if task.own or task.measure == "score":
        return None
    return Judged(
        name=name,
        fingerprint=seen,
        seed=config.seed,
        calibration_samples=config.calibration_samples,
        search_samples=config.search_samples,
        held_out_samples=config.held_out_samples,
        judged=judged,
        measure=task.measure,
        preprocess=getattr(task.preprocess, "name", ""),
        head=task.head.name if task.head else "",
    )


@dataclass(frozen=True)
class MeasuredAgain:
    """Measures what it can of a point; see verify.folder.Again."""

    folder: Path
    data: str

    @cached_property
    def _opened(self) -> Dataset:
        return open_dataset(self.data)

    def _splits(self, judged: Judged, program: Program) -> Splits:
        """The splits of the data as they were; VerificationError if it is other data."""
        dataset = judged_data(self._opened, judged.measure, program)
        drawn = split(
            dataset, judged.calibration_samples, judged.search_samples, judged.held_out_samples, judged.seed
        )
        if fingerprint(drawn, dataset.small_labels) != judged.fingerprint:
            raise VerificationError(f"{self.data} is not the data of {self.folder / NAME}, or it has changed")
        if judged.judged > len(drawn.held_out):
            raise VerificationError(
                f"{self.folder / NAME} says that {judged.judged:,} samples were judged, and the data holds "
                f"{len(drawn.held_out):,} that are held out"
            )
        return drawn

    def calibration(self, certificate: Certificate, original: Path) -> Calibrator | None:
        """Statistics of the calibration split."""
        judged = certificate.judged
        if not self.data or judged is None:
            return None
        program = read_onnx(original)
        view = self._splits(judged, program).calibration
        preprocess = self._task(judged, program, view).preprocess
        return Calibrator(view, preprocess, detect_cpu().cores, self.folder)

    def _task(self, judged: Judged, program: Program, view: Subset) -> Task:
        if judged.head not in ("", *HEADS):
            raise VerificationError(f"{NAME} names the head '{judged.head[:100]}', which does not exist")
        images = None
        if judged.preprocess:
            images = ImageInput(parse_preprocess(judged.preprocess), image_form(program, view))
        return Task(judged.measure, images, head=HEADS.get(judged.head), classes=self._opened.classes or 0)

    def figures(self, certificate: Certificate, original: Path | None) -> Iterator[Finding]:
        """A finding for every metric: sizes from the files, all else from the data."""
        counted = _counted(self.folder, certificate, original)
        measured, why = self._measured(certificate, original)
        for name, figure in certificate.metrics.items():
            claim = f"{name} is {_shown(figure)}"
            if name in ANSWERS:
                claim += f", {judged_on(certificate.judged)}"
            if name in counted:
                same = counted[name] == figure.value == figure.low == figure.high
                detail = "counted again" if same else f"counted again: {counted[name]:.6g}"
                yield Finding(claim, "holds" if same else "does not hold", detail)
                continue
            found = measured.get(name, why)
            if isinstance(found, str):
                yield Finding(claim, "not checked", found)
            else:
                yield _compared(name, claim, figure, found, certificate.judged)

    def _measured(
        self, certificate: Certificate, original: Path | None
    ) -> tuple[Mapping[str, Metric | str], str]:
        """What is measured here, or why it is not; and why all else is not."""
        judged, model = certificate.judged, self.folder / MODEL
        if not self.data or original is None:
            return {}, "give the original with --original and the data with --data"
        if not model.is_file():
            return {}, f"{MODEL} is not in the folder"
        if judged is None:
            return {}, "it was judged by a function of the user's"
        if certificate.deployed.engine not in ENGINES:
            return {}, f"there is no engine '{certificate.deployed.engine[:100]}' here"
        try:
            return dict(self._here(certificate, judged, original, model)), "not measured here"
        except EngineError as error:
            return {}, str(error)[:300]

    def _here(
        self, certificate: Certificate, judged: Judged, original: Path, model: Path
    ) -> Iterator[tuple[str, Metric | str]]:
        """What a file does in its engine on this machine. What compiles compiles it again: no library of the
        folder is run."""
        deployed = certificate.deployed
        program, shipped = read_onnx(original), read_onnx(model)
        splits = self._splits(judged, program)
        task = self._task(judged, program, splits.training)
        example = task.example(program, splits.search)
        ENGINES[deployed.engine].completed(deployed.settings)  # EngineError for what is none of its settings
        settings = tuple(sorted(deployed.settings.items()))
        first, point = Contender(BASELINE_ENGINE, original), Contender(deployed.engine, model, settings)
        if first.engine == point.engine and not settings and shipped.digest == program.digest:
            point = first  # which would be timed against itself
        view = splits.held_out.take(judged.judged)
        judge = Judge(task, example, deployed.threads, detect_cpu().cores)
        before = judge.outcome(first, view)
        outcome = before if point == first else judge.outcome(point, view, before)
        drop = outcome.drop(before)
        yield "accuracy", outcome.metric()
        yield "accuracy_drop", exact(0.0, drop.unit) if point == first else drop
        turns = list(dict.fromkeys((first, point)))
        *_, latency = compare(turns, example, deployed.threads, _LATENCY_SECONDS)
        yield "latency_ms", latency.latency
        yield "speedup", latency.ratio
        yield "peak_bytes", measure_memory(point, example, deployed.threads)
        sizes = sizes_of(specs_of(shipped.inputs), example)
        if deployed.target not in target_names():
            yield "energy_mj", f"there is no target '{deployed.target[:100]}' here"
        elif deployed.target == HOST and (another := other_cpu(certificate.machine)):
            yield "energy_mj", f"it is an estimate for the machine of the run, and {another}"
        else:
            yield "energy_mj", program_energy(shipped, load_target(deployed.target), sizes)


def _counted(folder: Path, certificate: Certificate, original: Path | None) -> dict[str, float]:
    """The sizes that the files at hand have."""
    model, packed = folder / MODEL, folder / PACKED
    found: dict[str, float] = {}
    if model.is_file():
        found["file_bytes"] = size.file_bytes(model).value
        found["weight_bytes"] = size.weight_bytes(model).value
    if PACKED not in certificate.files and "file_bytes" in found:
        found["packed_bytes"] = found["file_bytes"]
    elif packed.is_file():
        found["packed_bytes"] = packed.stat().st_size
    if original is not None and found.get("packed_bytes"):
        found["size_ratio"] = copied_bytes(original) / found["packed_bytes"]
    if compiler(certificate.deployed.engine):
        with contextlib.suppress(ModelError):
            found["native_bytes"] = size.native_bytes(certificate.deployed.engine, folder).value
    return found


def _compared(name: str, claim: str, stated: Metric, found: Metric, judged: Judged | None) -> Finding:
    """A figure against what was found here."""
    if stated.evidence != found.evidence:
        return Finding(claim, "not checked", f"here {found}")
    if name in ANSWERS and judged is not None:
        return answers_compared(name, claim, stated, found, judged)
    if stated.evidence == "estimated" and name == "energy_mj":
        return estimates_compared(claim, stated, found)
    return measures_compared(claim, stated, found)


def _shown(figure: Metric) -> str:
    return f"{figure.value:.6g} [{figure.low:.6g}, {figure.high:.6g}] {figure.unit}".strip()
