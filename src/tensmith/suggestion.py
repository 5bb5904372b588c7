"""Data that fits a model, found in folders nearby: what `tensmith init` writes into a configuration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tensmith.data import READERS, Dataset, Subset, open_dataset, split
from tensmith.errors import TensmithError
from tensmith.evaluate.task import image_form
from tensmith.ir import Program, TensorType

# How many files and folders of one folder are looked at.
_MOST_ENTRIES = 100


@dataclass(frozen=True)
class FittingData:
    """`spec`, as --data takes it, fits. same_classes: it has as many classes as the model tells apart."""

    spec: str
    task: str
    samples: int
    classes: int | None
    same_classes: bool


def fitting_data(program: Program, folders: Iterable[Path]) -> list[FittingData]:
    """The datasets in some folders, or just below, whose samples the program takes; best first.

    Where some have the model's number of classes, those alone; with labels before others, then the larger.
    Nothing that is found is run.
    """
    places = dict.fromkeys(path for folder in folders for path in _entries(folder))
    found = [fit for path in places for kind in READERS if (fit := _fit(program, kind, path)) is not None]
    found = [fit for fit in found if fit.same_classes] or found
    found.sort(key=lambda fit: (fit.task == "unlabelled", -fit.samples))
    kinds: dict[tuple[str, int], FittingData] = {}  # one kind of several that read the same files alike
    for fit in found:
        kinds.setdefault((fit.spec.partition(":")[2], fit.samples), fit)
    return list(kinds.values())


def _entries(folder: Path) -> Iterator[Path]:
    """The folder and what lies in it; a colon means something else in the name of a dataset."""
    if folder.is_dir():
        inside = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
        yield from (path for path in (folder, *inside[:_MOST_ENTRIES]) if ":" not in str(path))


def _fit(program: Program, kind: str, path: Path) -> FittingData | None:
    try:
        dataset = open_dataset(f"{kind}:{path}")
        drawn = split(dataset, 1, 1, 1, 0)
        if not _takes(program, dataset, drawn.search):
            return None
    except (TensmithError, OSError, ValueError):
        return None
    samples = sum(map(len, dataset.parts.values()))
    same = dataset.classes is not None and dataset.classes in _last_sizes(program)
    return FittingData(f"{kind}:{path}", dataset.task, samples, dataset.classes, same)


def _takes(program: Program, dataset: Dataset, view: Subset) -> bool:
    """Whether a sample goes in; DataError if an image does not."""
    samples = view.part.inputs(view.indices[:1])
    if not isinstance(samples, Mapping):
        if len(program.inputs) != 1:
            return False
        if dataset.modality == "image":
            return bool(image_form(program, view))
        samples = {next(iter(program.inputs)): samples}
    return samples.keys() == program.inputs.keys() and all(
        _alike(type_, samples[name].shape, samples[name].dtype.kind) for name, type_ in program.inputs.items()
    )


def _alike(type_: TensorType, shape: tuple[int, ...], kind: str) -> bool:
    """Whether an array's kind of number and its sizes, but for the first, are those of a type."""
    return (
        type_.shape is not None
        and type_.numpy.kind == kind
        and len(type_.dims) == len(shape)
        and all(not isinstance(d, int) or d == size for d, size in zip(type_.dims[1:], shape[1:]))
    )


def _last_sizes(program: Program) -> set[int]:
    """The sizes of the last axes of the outputs."""
    types = (program.facts[name].type for name in program.outputs)
    return {size for t in types if t is not None and t.shape for size in t.dims[-1:] if isinstance(size, int)}
