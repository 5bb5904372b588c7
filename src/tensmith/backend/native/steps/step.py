"""What a native program does, in order: heavy ops with their epilogues, routines, joins and renamings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tensmith.backend.native.images import PositionWindow
from tensmith.formula.arith import Array
from tensmith.kernel.epilogue import Activation
from tensmith.kernel.problem import ConvolutionProblem
from tensmith.kernel.quantized import QuantizationParameters, Requantization
from tensmith.kernel.routine import Routine


@dataclass(frozen=True, eq=False)
class Heavy:
    """y = activation(convolution(source, weights) + bias + residual); of bytes, by a `requantization`.

    A `table` is the value that holds the requantization's numbers, where they are known at run time only.
    """

    problem: ConvolutionProblem
    source: str
    weights: Array
    output: str
    bias: Array | None = None
    residual: str | None = None
    activation: Activation | None = None
    requantization: Requantization | None = None
    table: str | None = None


@dataclass(frozen=True)
class Encode:
    """Planes, as a network's input, as bytes that are written as each kernel wants to read them."""

    source: str
    output: str
    parameters: QuantizationParameters


@dataclass(frozen=True, eq=False)
class RoutineStep:
    """A routine over values, `constants` as it wants them."""

    routine: Routine
    sources: tuple[str, ...]
    output: str
    constants: Array | None = None


class Light(RoutineStep):
    """Over images in blocks of one vector, or planes if it takes them."""


class Dense(RoutineStep):
    """Over tensors that lie dense, row-major."""


@dataclass(frozen=True)
class Join:
    """The concatenation of images along their channels, or as `windows` of one image."""

    sources: tuple[str, ...]
    output: str
    windows: tuple[PositionWindow, ...] = ()


@dataclass(frozen=True)
class Look:
    """Some positions of an image that stays as it is."""

    source: str
    output: str
    window: PositionWindow


@dataclass(frozen=True)
class Rename:
    """The same elements in the same order under another shape."""

    source: str
    output: str


Step: TypeAlias = Heavy | Light | Dense | Join | Look | Rename | Encode


def reads(step: Step) -> tuple[str, ...]:
    """The values a step reads."""
    if isinstance(step, Heavy):
        return tuple(filter(None, (step.source, step.residual, step.table)))
    return (step.source,) if isinstance(step, Look | Rename | Encode) else step.sources
