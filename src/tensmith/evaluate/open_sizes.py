"""What sizes that a model leaves open are taken for, where nobody gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensmith.engine.base import specs_of
from tensmith.engine.signature import TensorSpec
from tensmith.errors import UsageError
from tensmith.ir import Program

_LENGTH = 128


def open_sizes(specs: Sequence[TensorSpec], batch: int, sizes: Mapping[str, int]) -> dict[str, int]:
    """What each symbolic size is taken for: what `sizes` says, else `batch` along a first axis, else 128."""
    found: dict[str, int] = {}
    for spec in specs:
        for axis, size in enumerate(spec.shape or ()):
            if isinstance(size, str):
                found.setdefault(size, sizes.get(size, _LENGTH if axis else batch))
    return found


def sizes_taken(program: Program, sizes: Mapping[str, int] | None = None) -> dict[str, int]:
    """What each size that a program's inputs leave open is taken for, for one sample; see `open_sizes`.

    UsageError as `check_sizes`.
    """
    known = specs_of({name: type_ for name, type_ in program.inputs.items() if type_.shape is not None})
    check_sizes(known, sizes or {})
    return open_sizes(known, 1, sizes or {})


def check_sizes(specs: Sequence[TensorSpec], sizes: Mapping[str, int]) -> None:
    """UsageError where `sizes` names what `specs` do not leave open, or is below 1."""
    known = open_sizes(specs, 1, {})
    unknown = [name for name in sizes if name not in known]
    if unknown:
        raise UsageError(f"no input leaves a size '{unknown[0]}' open; open are {', '.join(known) or 'none'}")
    if sizes and min(sizes.values()) < 1:
        name = min(sizes, key=lambda each: sizes[each])
        raise UsageError(f"the size {name}={sizes[name]} is no whole number from 1")
