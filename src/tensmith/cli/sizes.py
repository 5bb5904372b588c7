"""Sizes that a file leaves open: read from words, taken for granted, and a model at them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tensmith.errors import ProgramError, UsageError

if TYPE_CHECKING:
    from tensmith.engine.signature import TensorSpec
    from tensmith.ir import Program

# Of the largest size that any tensor has.
_DIGITS = 18


def parse_sizes(words: str | None) -> dict[str, int]:
    """{name: size} of "NAME=N,NAME=N"; UsageError where it is not that."""
    sizes: dict[str, int] = {}
    for part in filter(None, map(str.strip, (words or "").split(","))):
        name, _, size = part.rpartition("=")
        if not name or not size.isdecimal() or len(size) > _DIGITS:
            raise UsageError(f"'{part}' is no size; write --sizes NAME=N,NAME=N, as height=224,width=224")
        if name in sizes:
            raise UsageError(f"--sizes names '{name}' twice; leave out one of them")
        sizes[name] = int(size)
    return sizes


def assumed(models: Sequence[Path], batch: int, sizes: Mapping[str, int]) -> str | None:
    """What sizes the files leave open and nobody gave, as a sentence; None where there is none."""
    from tensmith.errors import EngineError
    from tensmith.evaluate.open_sizes import open_sizes

    found: dict[str, int] = {}
    for model in models:
        try:
            found |= open_sizes(_inputs(model), batch, sizes)
        except EngineError:
            continue
    guessed = [f"{name}={size}" for name, size in found.items() if name not in sizes]
    return f"Sizes left open were taken as {', '.join(guessed)}; --sizes says otherwise." if guessed else None


@contextmanager
def guesses_named(model: Path, batch: int, sizes: Mapping[str, int]) -> Iterator[None]:
    """A program that is wrong at its sizes is an error that says which of them were guessed."""
    try:
        yield
    except ProgramError as error:
        told = assumed([model], batch, sizes)
        if told is None:
            raise
        raise ProgramError(f"{error}; s{told[1:].removesuffix('.')}") from error


def with_batch(model: Path, batch: int, sizes: Mapping[str, int] | None = None) -> Program:
    """The model for `sizes`; where it leaves others open, as `tensmith bench` has them for `batch`."""
    from tensmith.backend.native.plan import fixed
    from tensmith.engine.base import sizes_of
    from tensmith.evaluate.bench import random_inputs
    from tensmith.evaluate.open_sizes import check_sizes
    from tensmith.frontend.checked import working
    from tensmith.frontend.model import read_model

    if batch < 1:
        raise UsageError("--batch is a whole number from 1")
    specs = _inputs(model)
    check_sizes(specs, sizes or {})
    program = working(read_model(model), str(model))
    return fixed(program, sizes_of(specs, random_inputs(specs, batch, sizes=sizes)))


def _inputs(model: Path) -> tuple[TensorSpec, ...]:
    """What a file takes, without its weights."""
    from tensmith.data.gguf import is_gguf
    from tensmith.engine.base import specs_of
    from tensmith.engine.signature import read_signature
    from tensmith.frontend.gguf_decoder import INPUTS

    return specs_of(INPUTS) if is_gguf(model) else read_signature(model).inputs
