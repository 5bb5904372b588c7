"""What a compression starts from: a model, its data, a device, and how the model is judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tensmith.backend.onnx import write_onnx
from tensmith.config import Config
from tensmith.data import (
    Dataset,
    ImageInput,
    Preprocess,
    Splits,
    Subset,
    as_dataset,
    candidates,
    choose,
    open_dataset,
    parse_preprocess,
    split,
)
from tensmith.engine.base import ENGINES, available
from tensmith.errors import DataError, UsageError
from tensmith.evaluate.likelihood import log_likelihoods
from tensmith.evaluate.task import Task, choose_measure, image_form
from tensmith.formula.arith import Array
from tensmith.frontend.checked import working
from tensmith.frontend.model_files import file_identity
from tensmith.frontend.onnx import read_onnx
from tensmith.hardware import Target, detect_cpu, load_target
from tensmith.ir import Program

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Request:
    """What the user gave, read. `model` is the file of `program`; that of a module is yet to be written.

    identity: SHA-256 of the file, or the digest of an exported module. title: what the data is called.
    """

    model: Path
    program: Program
    identity: str
    exported: bool
    dataset: Dataset
    title: str
    splits: Splits
    target: Target
    engines: tuple[str, ...]

    def on_disk(self) -> Request:
        """Writes an exported module to its place; what is read back is what is measured and verified."""
        if not self.exported:
            return self
        write_onnx(self.program, self.model)
        return replace(self, program=read_onnx(self.model))


def read_request(config: Config, data: Any, module: Any = None, example_inputs: Any = None) -> Request:
    """Model, data, device and engines; raises TensmithError for whichever is wrong.

    data: "KIND:PATH", a Dataset, or arrays (x, y). A PyTorch `module` stands in for the file `config.model`.
    """
    model = Path(config.model)
    program = working(read_onnx(model) if module is None else _exported(module, example_inputs), config.model)
    if isinstance(data, str) and not data:
        raise UsageError("compression needs data: --data KIND:PATH, for example cifar10:DIR")
    dataset = open_dataset(data) if isinstance(data, str) else as_dataset(data)
    splits = split(
        dataset, config.calibration_samples, config.search_samples, config.held_out_samples, config.seed
    )
    _check_names(program, splits.search)
    identity = file_identity(model) if module is None else program.digest
    target, engines = load_target(config.target), _engines(config)
    title = dataset.source or dataset.name
    return Request(model, program, identity, module is not None, dataset, title, splits, target, engines)


def _check_names(program: Program, view: Subset) -> None:
    """DataError if the data does not have what the model takes."""
    sample = view.part.inputs(view.indices[:1])
    if not isinstance(sample, Mapping):
        found, told = len(program.inputs) == 1, "one input"
    else:
        found, told = sample.keys() == program.inputs.keys(), ", ".join(sample)
    if not found:
        wanted = ", ".join(program.inputs)
        raise DataError(f"the model takes {wanted}, but the data has {told}; give an array for each name")


def _exported(module: Any, example_inputs: Any) -> Program:
    from tensmith.frontend.torch import read_torch

    if example_inputs is None:
        raise UsageError(
            f"compressing a {type(module).__name__} needs example_inputs=: a tensor, or a tuple of them, as "
            "the module takes them; or give the path of an .onnx file"
        )
    return read_torch(module, example_inputs)


def _engines(config: Config) -> tuple[str, ...]:
    for name in config.engines:
        if reason := ENGINES[name].missing():
            raise UsageError(f"engine '{name}' cannot run here: {reason}")
    return config.engines or available()


def judged_by(
    request: Request, config: Config, tell: Tell, evaluation: Callable[..., float] | None = None
) -> Task:
    """How the model is judged, with the preprocessing its inputs need; `tell` hears how that was chosen."""
    measure = choose_measure(request.dataset, config.measure, evaluation)
    if request.dataset.modality != "image":
        if config.preprocess not in ("auto", "raw"):
            raise UsageError(f"--preprocess {config.preprocess} is for images; {request.title} holds none")
        return Task(measure, None, evaluation)
    view = request.splits.training
    form = image_form(request.program, view)
    if config.preprocess != "auto":
        return Task(measure, ImageInput(parse_preprocess(config.preprocess), form), evaluation)

    def likelihoods(preprocess: Preprocess, start: int, stop: int) -> Array:
        part = Subset(view.part, view.indices[start:stop])
        return log_likelihoods(request.model, part, ImageInput(preprocess, form), detect_cpu().cores)

    tried = candidates(form.channels, form.dtype)
    if len(tried) == 1:
        return Task(measure, ImageInput(tried[0], form), evaluation)
    found = choose(tried, likelihoods)
    tell(str(found))
    return Task(measure, ImageInput(found.best, form), evaluation)
