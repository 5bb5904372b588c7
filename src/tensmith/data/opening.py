"""From the words a user writes, "KIND:PATH?option=value", to a dataset."""

from __future__ import annotations

import dataclasses
import fnmatch
import inspect
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tensmith.data.dataset import Dataset
from tensmith.data.tokenizers import NAMED
from tensmith.errors import DataError, UsageError
from tensmith.files import at_home
from tensmith.registry import Registry


class _Open(Protocol):
    def __call__(self, path: str, /, **options: Any) -> Dataset: ...


@dataclass(frozen=True)
class DatasetReader:
    """A kind of dataset: `doc` for the documentation, `example` of how to name one."""

    kind: str
    example: str
    doc: str
    open: _Open


READERS: Registry[DatasetReader] = Registry("dataset", "tensmith.data.readers")

# The kind whose words name code instead of a path.
_CODE = "python"
# What names look like, the surest first; of a folder so many are looked at.
_LOOKS = (
    ("*.npz", "npz"),
    ("*data_batch_*", "cifar10"),
    ("*-idx?-ubyte*", "mnist"),
    ("annotations", "coco"),
    ("*instances_*.json", "coco"),
    ("*.tsv", "glue"),
    ("*.wav", "wav"),
    ("*.txt", "text"),
)
_LOOKED_AT = 1000


def reader(*kinds: str, example: str) -> Callable[[Callable[..., Dataset]], Callable[..., Dataset]]:
    """Registers `open(path, *, option=default, ...)` under each of `kinds`; its docstring documents them."""

    def register(function: Callable[..., Dataset]) -> Callable[..., Dataset]:
        for kind in kinds:
            READERS.add(
                kind, DatasetReader(kind, f"{kind}:{example}", inspect.getdoc(function) or "", function)
            )
        return function

    return register


def open_dataset(spec: str, **options: Any) -> Dataset:
    """Opens "KIND:PATH", with options of the reader as arguments or as "KIND:PATH?option=value&option=value".

    Reads as little as the format allows. Raises UsageError for an unknown kind or option, DataError when the
    files are missing or damaged.
    """
    kind, _, rest = spec.partition(":")
    if not rest:
        raise UsageError(_unnamed(spec, kind))
    chosen = READERS[kind]
    path, given = _parted(rest)
    given = _converted(chosen, given | options)
    try:
        dataset = chosen.open(path, **given)
    except OSError as error:
        raise DataError(
            f"cannot read {error.filename or path}: {error.strerror}; check its permissions"
        ) from error
    return dataclasses.replace(dataset, name=dataset.name or kind, source=spec)


def _parted(rest: str) -> tuple[str, dict[str, Any]]:
    """The path, and the options as they are written."""
    if at_home(rest).exists():
        return rest, {}
    path, _, query = rest.partition("?")
    words = (word.partition("=") for word in query.split("&"))
    return path, {name: value for name, _, value in words if name}


def demand_there(spec: str) -> None:
    """Raises what `open_dataset` raises where nothing is at the path: sooner than all else is made ready."""
    kind, _, rest = spec.partition(":")
    if not rest or (kind in READERS and kind != _CODE and not at_home(rest.partition("?")[0]).exists()):
        open_dataset(spec)


def _unnamed(spec: str, kind: str) -> str:
    """What is wrong with words that name no kind, or no path."""
    if kind in READERS:
        return f"'{spec}' lacks a path; name the data as {READERS[kind].example}"
    path = at_home(spec)
    likely = _likely_kind(path) if spec and path.exists() else None
    meant = f"; did you mean {likely}:{spec}?" if likely else f"; kinds: {', '.join(READERS)}"
    return f"name a dataset as KIND:PATH, not '{spec}'{meant}"


def _likely_kind(path: Path) -> str | None:
    """What a file, or a folder that holds such files, looks like by its names."""
    names = [path.name]
    if path.is_dir():
        inside = list(itertools.islice(path.iterdir(), _LOOKED_AT))
        names = [child.name for child in inside]
    for pattern, kind in _LOOKS:
        if fnmatch.filter(names, pattern) and not (path.is_dir() and kind == "npz"):
            return kind
    return "imagefolder" if path.is_dir() and any(child.is_dir() for child in inside) else None


def absolute(spec: str) -> str:
    """The same dataset, named as from any folder of this machine."""
    kind, _, rest = spec.partition(":")
    path, options = _parted(rest)
    if not (place := at_home(path)).exists():
        return spec
    wanted = options.get("tokenizer", "auto")
    if wanted not in NAMED and (file := at_home(wanted)).exists():
        options["tokenizer"] = file.absolute()
    query = "&".join(f"{name}={value}" for name, value in options.items())
    return f"{kind}:{place.absolute()}{query and f'?{query}'}"


def _converted(chosen: DatasetReader, options: dict[str, Any]) -> dict[str, Any]:
    """Checks option names against the reader's signature; text becomes int where that is annotated."""
    parameters = list(inspect.signature(chosen.open).parameters.values())[1:]
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return options
    known = {parameter.name: parameter for parameter in parameters}
    for name, value in options.items():
        if name not in known:
            takes = f"it takes {', '.join(known)}" if known else "it takes none"
            raise UsageError(f"dataset '{chosen.kind}' has no option '{name}'; {takes}")
        if isinstance(value, str) and str(known[name].annotation).startswith("int"):
            if not value.isdecimal():
                raise UsageError(
                    f"option '{name}' of dataset '{chosen.kind}' is a whole number, not '{value}'"
                )
            options[name] = int(value)
    return options
