"""What a lossy rewrite is: a method with parameters, applied at a site in the light of calibration data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, TypeVar

from tensmith.ir import Program
from tensmith.registry import Registry
from tensmith.rewrite.calibration import Calibration
from tensmith.rewrite.rule import EVERYWHERE, Kind, Step

# The order in which methods act on one program, whatever order the search found them in.
STRUCTURE, WEIGHTS, NUMBERS = 1, 2, 3


class Method(ABC):
    """A lossy rewrite. `params` are plain JSON values; a step with equal params, program and data replays."""

    name: ClassVar[str]
    kind: ClassVar[Kind] = "lossy"
    # STRUCTURE changes shapes, WEIGHTS changes constants only, NUMBERS changes element types.
    stage: ClassVar[int]
    # One sentence for the report: what the method gives up and for what.
    promise: ClassVar[str]

    def sites(self, program: Program) -> Iterator[str]:
        """Where the method can act; one EVERYWHERE for methods that treat the program as a whole."""
        yield EVERYWHERE

    @abstractmethod
    def apply(
        self, program: Program, site: str, params: Mapping[str, Any], calibration: Calibration
    ) -> Program:
        """The treated program. ProgramError on params or a site that make no sense."""


LOSSY: Registry[Method] = Registry("lossy method", "tensmith.rewrite.lossy")

Class = TypeVar("Class", bound=type[Method])


def lossy(name: str, *, stage: int, promise: str) -> Callable[[Class], Class]:
    """Registers a lossy method class."""

    def register(cls: Class) -> Class:
        cls.name, cls.stage, cls.promise = name, stage, promise
        LOSSY.add(name, cls())
        return cls

    return register


def apply_lossy(program: Program, step: Step, calibration: Calibration) -> Program:
    """One lossy step."""
    return LOSSY[step.rule].apply(program, step.site, step.params, calibration)
