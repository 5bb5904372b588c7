"""Kernels that measured best for common problems on another machine of the same instruction set.

One file of `tables` an instruction set, by benchmarks/native/kernel_table.py. Seconds of one machine mean
nothing on another one, so an entry holds ratios: how long kernels took, over what the first guess took there.
It is a prior: it says what to try first, and never stands for a measurement of this machine. A kernel whose C
function is no longer the one that was timed is passed over; other edits of the code leave entries alone.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from importlib import resources
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from tensmith.errors import EngineError
from tensmith.kernel.algorithm import Kernel, candidates
from tensmith.kernel.alone import function_version
from tensmith.kernel.isa import BFLOAT_TILES, TILES, Isa
from tensmith.kernel.problem import ConvolutionProblem, distance

_MOST_BYTES = 1 << 18
# How far apart shapes are (kernel.problem.distance) whose weights come from neighbouring memories.
_OTHER_MEMORY = 1.0


class Ranked(NamedTuple):
    """A kernel as its text, its time over the first guess's, and its alone.function_version."""

    kernel: Annotated[str, Field(min_length=1, max_length=120)]
    ratio: Annotated[float, Field(gt=0, le=100)]
    version: Annotated[str, Field(pattern="^[0-9a-f]{12}$")]


def _known_fields(given: Any) -> Any:
    unknown = (
        given.keys() - {one.name for one in fields(ConvolutionProblem)} if isinstance(given, Mapping) else ()
    )
    if unknown:
        raise ValueError(f"a problem has no {', '.join(sorted(unknown))}")
    return given


class ShippedEntry(BaseModel):
    """The kernels of one problem, the fastest first; one of them is the first guess, whose ratio is 1.

    `memory` is where the weights came from (backend.native.choose.choosers.memory_of).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    problem: Annotated[ConvolutionProblem, BeforeValidator(_known_fields)]
    memory: Annotated[int, Field(ge=0, le=2)]
    kernels: Annotated[tuple[Ranked, ...], Field(min_length=1, max_length=4)]

    @model_validator(mode="after")
    def _in_order(self) -> ShippedEntry:
        ratios = [one.ratio for one in self.kernels]
        if ratios != sorted(ratios) or 1.0 not in ratios:
            raise ValueError("kernels stand the fastest first, and the first guess has ratio 1")
        return self


class Document(BaseModel):
    """A file of `tables`: what was timed on which machine."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1]
    isa: str
    needs: tuple[str, ...]
    cpu: str
    cache_bytes: tuple[int, ...]
    compiler: str
    entries: tuple[ShippedEntry, ...]

    def text(self) -> str:
        """The file: an entry a line, problems without what is usual."""
        head = self.model_dump(exclude={"entries"})
        usual = {one.name: one.default for one in fields(ConvolutionProblem)}
        lines = []
        for entry in self.entries:
            problem = {name: value for name, value in asdict(entry.problem).items() if value != usual[name]}
            lines.append(json.dumps({"problem": problem, "memory": entry.memory, "kernels": entry.kernels}))
        start = "".join(f'"{name}": {json.dumps(value)},\n' for name, value in head.items())
        return f'{{{start}"entries": [\n' + ",\n".join(lines) + "\n]}\n"


def read_table(text: str, name: str) -> Document:
    """The table in `text`; EngineError if it is none, or too large."""
    try:
        if len(text) > _MOST_BYTES:
            raise ValueError(f"it is larger than {_MOST_BYTES} bytes")
        return Document.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        reason = f"{where}: {first['msg']}"
    except ValueError as error:
        reason = str(error)
    raise EngineError(f"the table of kernels '{name}' is damaged ({reason}); install tensmith anew")


@dataclass(frozen=True, eq=False)
class ShippedTable:
    """The entries that hold for an instruction set."""

    isa: Isa
    entries: tuple[ShippedEntry, ...] = ()
    _live: dict[int, dict[Kernel, float]] = field(default_factory=dict)

    def ratios(self, problem: ConvolutionProblem, memory: int) -> dict[Kernel, float]:
        """What the table says of a problem, the fastest kernel first; {} if it says nothing."""
        place = self._places.get((problem, memory))
        return {} if place is None else self._ratios(place)

    def near(self, problem: ConvolutionProblem, memory: int, most: int = 3) -> list[tuple[float, str]]:
        """(distance, name) of the kernels that were best at the nearest shapes, this one first."""
        found = (
            (distance(problem, entry.problem) + _OTHER_MEMORY * abs(memory - entry.memory), place)
            for place, entry in enumerate(self.entries)
        )
        nearest = sorted(near for near in found if near[0] < math.inf)[:most]
        return [(far, str(next(iter(live)))) for far, place in nearest if (live := self._ratios(place))]

    @property
    def stale(self) -> int:
        """Entries that no longer say anything."""
        return sum(not self._ratios(place) for place in range(len(self.entries)))

    @functools.cached_property
    def _places(self) -> dict[tuple[ConvolutionProblem, int], int]:
        return {(entry.problem, entry.memory): place for place, entry in enumerate(self.entries)}

    def _ratios(self, place: int) -> dict[Kernel, float]:
        """The kernels of an entry that are as they were timed; none unless the fastest one is."""
        if place not in self._live:
            entry = self.entries[place]
            kernels = {str(kernel): kernel for kernel in candidates(entry.problem, self.isa)}
            live = {
                kernels[name]: ratio
                for name, ratio, version in entry.kernels
                if name in kernels and function_version(kernels[name]) == version
            }
            fastest = str(next(iter(live), None)) == entry.kernels[0].kernel
            self._live[place] = live if fastest else {}
        return self._live[place]


@functools.cache
def shipped(isa: Isa) -> ShippedTable:
    """The table for an instruction set: what of it was made with the instructions that this one has."""
    file = resources.files("tensmith.kernel") / "tables" / f"{isa.name}.json"
    if not file.is_file():
        return ShippedTable(isa)
    document = read_table(file.read_text(encoding="utf-8"), file.name)
    others = isa.needs.symmetric_difference(document.needs)
    # What was timed without tiles is still the fastest for what these do not multiply.
    multiplied = {TILES: "u8", BFLOAT_TILES: "bf16"}
    if not others <= multiplied.keys():
        return ShippedTable(isa)
    without = {multiplied[feature] for feature in others}
    return ShippedTable(isa, tuple(e for e in document.entries if e.problem.dtype not in without))
