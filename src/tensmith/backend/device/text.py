"""The numbers of one kernel as text of the kernel dialect, and what they are read from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tensmith.backend.device.definitions import ranges_of
from tensmith.backend.device.reductions import FOLDED, Element
from tensmith.ctext.dialect import DEVICE
from tensmith.ctext.names import Names
from tensmith.ctext.scalar import CBlock, CUnit
from tensmith.ctext.typed import KnownRanges, Typing
from tensmith.errors import EngineError
from tensmith.formula.bounds import Ranges
from tensmith.formula.expr import Expr, Read
from tensmith.formula.poly import Poly
from tensmith.formula.types import F32, UNTYPED, MachineType

# What the three shapes of kernel call their variables; and i0, i1..., k0, v0, x0 up to this many.
_MOST = 64
_WORDS = (
    "c c0 column column0 d depth depth0 down e folded i k left n over own part r r0 right row row0 sums x y"
)


@dataclass
class _Arguments(CUnit):
    """The values that a kernel reads, in the order of first use; `stored` has element types in memory."""

    stored: Mapping[str, str] = field(default_factory=dict)
    read: list[str] = field(default_factory=list)

    def element(self, buffer: str, index: str) -> str:
        """An element of an argument."""
        if buffer not in self.read:
            self.read.append(buffer)
        pointer = f"x{self.read.index(buffer)}"
        return f"load_half({pointer}, {index})" if self.stored[buffer] == "f16" else f"{pointer}[{index}]"


class DeviceText(Typing):
    """What one kernel says of numbers; `names` are the variables of indices."""

    def __init__(self, stored: Mapping[str, str], ranges: Ranges, label: str) -> None:
        def refuse(reason: str) -> EngineError:
            return EngineError(f"{label} has no device kernel: {reason}")

        super().__init__(self._element, refuse, KnownRanges(ranges), wide=UNTYPED)
        self.names: dict[str, str] = {}
        self.variables: dict[str, Read] = {}
        self.folded: Read | None = None  # what FOLDED stands for
        self._scalars: dict[str, str] = {}
        taken = [*_WORDS.split(), *(f"{letter}{n}" for letter in "ikvx" for n in range(_MOST))]
        self.unit = _Arguments(
            Names(taken), self.names.__getitem__, {}, self._scalars, dialect=DEVICE, checked=False,
            extents=dict(ranges.extents), stored=stored,
        )  # fmt: skip

    def declare(self, value: str, name: str, dtype: str) -> None:
        """Says that a variable of the kernel holds a value."""
        self.variables[value] = self.variable(name, dtype)

    def variable(self, name: str, dtype: str) -> Read:
        """A variable of the kernel."""
        self._scalars[name] = name
        return Read(name, (), MachineType(dtype))

    def block(self) -> CBlock:
        """A block of statements."""
        return CBlock(self.unit, depth=0)

    def _element(self, name: str, indices: tuple[Poly, ...]) -> Expr:
        return self.variables.get(name) or Read(name, indices, computed_type(self.unit.stored[name]))

    def _number(self, expr: Expr) -> Expr:
        if expr == FOLDED:
            assert self.folded is not None
            return self.folded
        return super()._number(expr)


def computed_type(dtype: str) -> MachineType:
    """The type in which elements are computed with: halves are only loaded and stored."""
    return F32 if dtype == "f16" else MachineType(dtype)


def fold_type(element: Element, stored: Mapping[str, str]) -> str:
    """The type of an element's reduction."""
    assert element.fold is not None
    ranges = ranges_of((*element.axes, *element.fold.axes))
    return DeviceText(stored, ranges, element.label).term(element.fold.kind, element.fold.body)[1]
