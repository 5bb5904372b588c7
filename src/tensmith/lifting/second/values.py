"""Arguments and results of a lifted function as NumPy has them, and what a call of the source leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tensmith.formula.types import MachineType
from tensmith.ir.types import DTYPES
from tensmith.lifting.loops import Array, Function, dtype_of
from tensmith.lifting.second.cell import Fields


class Meaningless(Exception):
    """The source language gives this call no meaning, or it is one that a lift assumes away."""


class Divided(Meaningless):
    """The source divides an integer by zero, which no assumption excuses."""


class Faulty(Exception):
    """The source does what its language forbids and no lift assumes away: it reads outside of its memory."""


@dataclass(frozen=True)
class CallResult:
    """What a call left: its return value (or None; a list of several), and every array afterwards, by name
    ("s.x")."""

    value: Any
    arrays: Mapping[str, np.ndarray[Any, Any]]


class SourceFunction(Protocol):
    """A function of a source that can be called."""

    def __call__(self, arguments: Mapping[str, Any], like: Any = None, rounding: int = 0) -> CallResult:
        """A call on copies of the arguments; two that are one object lie in one place. like: an array of the
        extents that a returned one has, where the source's language does not say them. rounding: of floats,
        to the nearest, upwards (1) or downwards (-1).

        Raises Meaningless, Faulty, and ProcessGone where the process of the source is gone.
        """

    def ambiguous(self, arguments: Mapping[str, Any], like: Any, outcome: CallResult) -> bool:
        """Whether the outcome of a call is one of several that the language allows."""


def dtype(scalar: MachineType) -> np.dtype[Any]:
    """NumPy's type of a machine type; Python's integers are taken to have 64 bits."""
    return DTYPES[dtype_of(scalar)]


def is_flat(type_: MachineType | Array) -> bool:
    """Whether a value is memory without a shape."""
    return isinstance(type_, Array) and type_.memory == "flat"


def folded(values: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by parameter, of values by field; see `loops.Function.fields`."""
    arguments: dict[str, Any] = {}
    for name, value in values.items():
        parameter, _, field = name.partition(".")
        if field:
            arguments.setdefault(parameter, Fields())[field] = value
        else:
            arguments[parameter] = value
    return arguments


def flat(function: Function, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with structs taken apart, be they mappings or objects with attributes."""
    found = {}
    for name, _ in function.fields:
        parameter, _, field = name.partition(".")
        value = arguments[parameter]
        if field:
            value = value[field] if isinstance(value, Mapping) else getattr(value, field)
        found[name] = value
    return found


def shown(arguments: Mapping[str, Any]) -> str:
    """Arguments in a line."""
    return ", ".join(f"{name} = {short(value)}" for name, value in arguments.items())


def short(value: Any) -> str:
    """A value in few characters."""
    if isinstance(value, np.ndarray):
        front = value.reshape(-1)[:12].tolist() if value.size > 12 else value.tolist()
        text = f"{front}{' and so on' if value.size > 12 else ''} ({value.dtype})"
    elif isinstance(value, dict):
        text = "{" + ", ".join(f"{name}: {short(part)}" for name, part in value.items()) + "}"
    else:
        text = repr(value.item() if isinstance(value, np.generic) else value)
    text = " ".join(text.split())
    return text if len(text) < 160 else f"{text[:160]}..."
