"""What a compression starts from: a model, its data, a device, and how the model is judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

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
    classified,
    open_dataset,
    parse_preprocess,
    reversed_channels,
    split,
)
from tensmith.data.dataset import by_name
from tensmith.data.fingerprint import fingerprint
from tensmith.data.gguf import is_gguf
from tensmith.data.images import are_pixels
from tensmith.data.preprocess import RAW
from tensmith.data.tokenizers import BESIDE_TOKENS
from tensmith.engine.base import ENGINES, available
from tensmith.errors import DataError, UsageError
from tensmith.evaluate.accuracy import no_classes, tells_classes
from tensmith.evaluate.heads import HEADS, Head, head_named
from tensmith.evaluate.likelihood import log_likelihoods, objects_found
from tensmith.evaluate.task import Task, choose_measure, image_form
from tensmith.formula.arith import Array
from tensmith.frontend.checked import working
from tensmith.frontend.model import read_weights_open
from tensmith.frontend.model_copy import gathered
from tensmith.frontend.model_files import file_identity
from tensmith.frontend.onnx import read_onnx
from tensmith.hardware import Target, detect_cpu, load_target
from tensmith.ir import Program
from tensmith.ir.types import Shape
from tensmith.progress import Progress
from tensmith.recovery import demand_torch

# Samples that tell whether images hold pixels.
_LOOKED_AT = 16
_NAMES_SHOWN = 5
_BYTE = 255


@dataclass(frozen=True)
class Request:
    """What the user gave, read. `model` is the file of `program`; that of an exported module is yet to be
    written.

    source: the file as the user knows it. identity: SHA-256 of the file, or the digest of an exported module.
    title: what the data is called.
    """

    model: Path
    source: Path
    program: Program
    identity: str
    exported: bool
    dataset: Dataset
    title: str
    splits: Splits
    target: Target
    engines: tuple[str, ...]

    def fingerprint(self, searching: bool = True) -> str:
        """That of its data and their splits."""
        return fingerprint(self.splits, self.dataset.small_labels, searching)

    def on_disk(self, work: Path) -> Request:
        """With the model as one file, and one of weights at most, in the folder `work` where it is not yet.

        What is read back from there is measured and verified.
        """
        made = work / "model.onnx"
        if self.exported:
            write_onnx(self.program, made)
            return replace(self, model=made, source=made, program=read_onnx(made))
        return replace(self, model=gathered(self.model, work))


def read_request(
    config: Config,
    data: Any,
    module: Any = None,
    example_inputs: Any = None,
    evaluation: Callable[..., float] | None = None,
) -> Request:
    """Model, data, device and engines; raises TensmithError for whichever is wrong, or not installed.

    data: "KIND:PATH", a Dataset, or arrays (x, y). A PyTorch `module` stands in for the file `config.model`.
    """
    from tensmith.search.strategy import STRATEGIES  # a search brings rules and engines with it

    STRATEGIES[config.search].demand()
    if config.recover:
        demand_torch("--recover")
    model = Path(config.model)
    read = read_weights_open(model) if module is None else exported_module(module, example_inputs)
    program = working(read, config.model)
    if isinstance(data, str) and not data:
        raise UsageError("compression needs data: --data KIND:PATH, for example cifar10:DIR")
    dataset = open_dataset(data) if isinstance(data, str) else as_dataset(data)
    if evaluation is None:
        dataset = judged_data(dataset, config.measure, program)
    splits = split(
        dataset, config.calibration_samples, config.search_samples, config.held_out_samples, config.seed
    )
    _check_names(program, splits.search)
    if dataset.modality == "text":
        _check_length(program, splits.search)
    identity = file_identity(model) if module is None else program.digest
    target, engines = load_target(config.target), _engines(config)
    title = dataset.source or dataset.name
    exported = module is not None or is_gguf(model)
    return Request(model, model, program, identity, exported, dataset, title, splits, target, engines)


def judged_data(dataset: Dataset, measure: str, program: Program) -> Dataset:
    """The data as a measure ("auto" or a name) takes it: labels that are floats are class numbers where the
    model tells as many apart, but for fidelity."""
    sizes = _first_sizes(program)
    if measure == "fidelity" or not tells_classes(sizes):
        return dataset
    (classes,) = (size for size in sizes[1:] if size != 1)
    return classified(dataset, classes if isinstance(classes, int) else None)


def _check_names(program: Program, view: Subset) -> None:
    """DataError if the data does not have what the model takes."""
    sample = view.part.inputs(view.indices[:1])
    if not isinstance(sample, Mapping):
        found, told = len(program.inputs) == 1, "one input"
    else:
        found = sample.keys() - (BESIDE_TOKENS - program.inputs.keys()) == program.inputs.keys()
        told = ", ".join(sample)
    if not found:
        wanted = ", ".join(program.inputs)
        raise DataError(f"the model takes {wanted}, but the data has {told}; give an array for each name")


def _check_length(program: Program, view: Subset) -> None:
    """DataError if texts are padded to another length than the model takes."""
    sample = view.part.inputs(view.indices[:1])
    for name, array in sample.items() if isinstance(sample, Mapping) else ():
        length = program.inputs[name].dims[-1] if name in program.inputs else None
        if isinstance(length, int) and array.shape[-1] != length:
            raise DataError(
                f"'{name}' has {array.shape[-1]} tokens a sample, but the model takes {length}; "
                f"add ?max_length={length} to the data"
            )


def exported_module(module: Any, example_inputs: Any) -> Program:
    """The program of a PyTorch module; UsageError without inputs to export it with."""
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
    request: Request, config: Config, tell: Progress, evaluation: Callable[..., float] | None = None
) -> Task:
    """How the model is judged, with the preprocessing its inputs need; `tell` hears how that was chosen."""
    measure = choose_measure(request.dataset, config.measure, evaluation, request.program)
    task = Task(measure, None, evaluation, _head(config, measure), request.dataset.classes or 0)
    if measure in ("accuracy", "average-precision"):
        _demand_labels(request, measure)
    if measure == "accuracy":
        _demand_classes(request)
    if measure == "loss":
        _demand_same_tokens(request)
    if config.measure == "auto" and measure == "fidelity" and request.dataset.task == "regression":
        tell("the labels are not used, as no class numbers of this model: outputs are compared with its own")
    for sentence in request.dataset.remarks():
        tell(sentence)
    if request.dataset.modality != "image":
        if config.preprocess not in ("auto", "raw"):
            raise UsageError(f"--preprocess {config.preprocess} is for images; {request.title} holds none")
        return task
    view = request.splits.training
    form = image_form(request.program, view)
    if config.preprocess != "auto":
        return replace(task, preprocess=ImageInput(parse_preprocess(config.preprocess), form))

    def likelihoods(preprocess: Preprocess, start: int, stop: int) -> Array:
        part = Subset(view.part, view.indices[start:stop])
        images, cores = ImageInput(preprocess, form), detect_cpu().cores
        if task.head is None:
            return log_likelihoods(request.model, part, images, cores)
        return objects_found(request.model, part, task.head, task.classes, images, cores)

    first = _first_images(view)
    tried = candidates(form.channels, form.dtype) if are_pixels(first) else (RAW,)
    if len(tried) == 1:
        return replace(task, preprocess=ImageInput(tried[0], form))
    _demand_bytes(request, first)
    if measure == "fidelity" or (task.head is None and request.dataset.task != "classification"):
        raise UsageError(
            f"{measure} does not tell right images from wrong ones; name what the model was trained on by "
            f"--preprocess: {', '.join(each.name for each in tried)}, or MEAN/STD"
        )
    if task.head is not None:
        tried = (*tried, *map(reversed_channels, tried))
    try:
        found = choose(tried, likelihoods)
    except DataError as error:
        raise DataError(" ".join((f"{error}.", *request.dataset.remarks())).rstrip(".")) from error
    tell(str(found))
    return replace(task, preprocess=ImageInput(found.best, form))


def holds_pixels(view: Subset) -> bool:
    """Whether the first images may be pixels."""
    return are_pixels(_first_images(view))


def _first_images(view: Subset) -> Array:
    return np.concatenate(list(by_name(next(view.batches(_LOOKED_AT)).inputs).values()))


def _demand_bytes(request: Request, images: Array) -> None:
    """DataError where pixels are integers beyond a byte: preprocessing is told of values in 0..255."""
    if images.dtype.kind in "iu" and images.max() > _BYTE:
        raise DataError(
            f"{request.title} has pixels of up to {images.max()}, and preprocessing takes 0 to {_BYTE}; "
            "scale them to that (x // 257 where they are 16 bits), or name how they go in by --preprocess"
        )


def _demand_labels(request: Request, measure: str) -> None:
    """DataError where a part that is searched on or judged by has no labels, though another one has."""
    for view in (request.splits.search, request.splits.held_out):
        if view.take(1).labels() is None:
            names = [name for name, part in request.dataset.parts.items() if part is view.part]
            other = "agreement" if measure == "accuracy" else "fidelity"
            raise DataError(
                f"part '{names[0]}' of {request.title} has no labels to judge {measure} by; give labels, "
                f"leave the part out, or use --measure {other}"
            )


def _demand_classes(request: Request) -> None:
    """DataError where the data has more classes than the model's first output tells apart."""
    known, sizes = request.dataset.classes or 0, _first_sizes(request.program)
    last = sizes[-1] if len(sizes) == 2 else None
    if last == 1:
        raise no_classes()
    if isinstance(last, int) and last < known:
        names = request.dataset.class_names
        shown = [*names[:_NAMES_SHOWN], *(["..."] if len(names) > _NAMES_SHOWN else [])]
        called = f" ({', '.join(shown)})" if shown else ""
        raise DataError(
            f"{request.title} has labels up to {known - 1}{called}, and the model tells {last} classes "
            "apart; check that they belong together"
        )


def _first_sizes(program: Program) -> Shape:
    """The sizes of the first output; () where they are not known."""
    type_ = program.facts[program.outputs[0]].type
    return () if type_ is None or type_.shape is None else type_.shape


def _demand_same_tokens(request: Request) -> None:
    """DataError where a model tells more or fewer tokens apart than data that numbers them itself, or more
    than there are bytes, which were taken for want of a tokenizer."""
    data, sizes = request.dataset, _first_sizes(request.program)
    last = sizes[-1] if sizes else None
    if not isinstance(last, int):
        return
    if data.numbers_itself and last != data.classes:
        raise DataError(
            f"{request.title} has {data.classes} characters, its tokens, and the model tells {last} tokens "
            "apart; give the whole text that it was trained on, in the parts of a folder"
        )
    if data.bytes_assumed and last > (data.classes or 0):
        raise DataError(
            f"{request.title} has no tokenizer beside it, and the model tells {last} tokens apart, more "
            "than there are bytes; add ?tokenizer=FILE, the model's tokenizer.json, tok*.bin or .gguf file, "
            "or ?tokenizer=byte"
        )


def _head(config: Config, measure: str) -> Head | None:
    """How boxes are read off a detector's outputs."""
    if measure != "average-precision":
        if config.decode:
            raise UsageError("--decode is for detectors, whose data has boxes, such as coco:DIR")
        return None
    if not config.decode:
        raise UsageError(
            f"boxes are read off the outputs of a detector in many ways; name one by --decode: "
            f"{', '.join(HEADS)}, or FILE.py:FUNCTION of your own; or judge outputs by --measure fidelity"
        )
    return head_named(config.decode)
