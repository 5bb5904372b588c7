"""What the three shapes of kernel share: the head, indices from a flat number, members and the store."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tensmith.backend.device.definitions import Axes, flat, ranges_of
from tensmith.backend.device.fusion import Group
from tensmith.backend.device.text import DeviceText, computed_type
from tensmith.ctext.dialect import DEVICE
from tensmith.ctext.loops import beginning, join
from tensmith.formula.expr import Expr
from tensmith.formula.types import F32

# Stands in a kernel's text for its name, so that equal kernels have equal texts.
NAME = "KERNEL_NAME"


@dataclass(frozen=True)
class DeviceKernel:
    """A kernel's text and one launch of it: `groups` of `threads`, reading `reads`, writing `writes`.

    The text calls the functions in `helpers`.
    """

    word: str
    text: str
    helpers: tuple[str, ...]
    reads: tuple[str, ...]
    writes: str
    groups: int
    threads: int


class KernelText:
    """The text of a group's kernel under construction; `stored` has the element type of every value."""

    def __init__(self, group: Group, stored: Mapping[str, str]) -> None:
        axes = group.fold.axes if group.fold else ()
        self.group, self.stored = group, stored
        self.text = DeviceText(stored, ranges_of((*group.axes, *axes)), group.root.label)
        self.text.names |= {name: f"i{number}" for number, (name, _) in enumerate(group.axes)}
        self.text.names |= {name: f"k{number}" for number, (name, _) in enumerate(axes)}
        self._fold_dtype = ""
        if group.fold is not None:
            self._fold_dtype = self.text.term(group.fold.kind, group.fold.body)[1]
            self.text.folded = self.text.variable("folded", self._fold_dtype)

    @property
    def fold_type(self) -> str:
        """The type of the fold's variable."""
        return self.text.unit.type(self._fold_dtype)

    @property
    def fold_start(self) -> str:
        """What the fold begins with."""
        assert self.group.fold is not None
        return beginning(self.group.fold.kind, self._fold_dtype, DEVICE)

    def joined(self, total: str, term: str) -> str:
        """The statement that takes one more term into a total."""
        assert self.group.fold is not None
        return join(self.text.unit, self.group.fold.kind, self._fold_dtype, total, term)

    def folded(self, total: str) -> list[str]:
        """The statements that take the term at the axes' variables into a total."""
        assert self.group.fold is not None
        block = self.text.block()
        term, _ = self.text.term(self.group.fold.kind, self.group.fold.body)
        block.line(self.joined(total, block.keep(term, block.value(term))))
        return block.lines

    def assigned(self, target: str, expr: Expr) -> list[str]:
        """The statements that assign a float."""
        block = self.text.block()
        block.line(f"{target} = {block.value(self.text.typed(expr, F32))};")
        return block.lines

    def indices(self, axes: Axes, source: str) -> list[str]:
        """The variables of axes from their flat number."""
        lines = [f"const int {self.text.names[name]} = 0;" for name, size in axes if size == 1]
        wide = [axis for axis in axes if axis[1] != 1]
        behind = count(tuple(wide))
        for number, (name, size) in enumerate(wide):
            behind //= size
            text = source if behind == 1 else f"{source} / {behind}"
            lines.append(
                f"const int {self.text.names[name]} = {text if number == 0 else f'{text} % {size}'};"
            )
        return lines

    def members(self) -> list[str]:
        """The members from first to last, and the store; needs the axes' variables, and `folded`."""
        block = self.text.block()
        for number, member in enumerate(self.group.members):
            dtype, name = computed_type(member.dtype), f"v{number}"
            value = block.value(self.text.typed(member.body, dtype))
            block.line(f"const {self.text.unit.type(dtype)} {name} = {value};")
            self.text.declare(member.value, name, dtype)
        at, half = block.poly(flat(self.group.axes)), self.stored[self.group.root.value] == "f16"
        block.line(f"store_half(y, {at}, {name});" if half else f"y[{at}] = {name};")
        return block.lines

    def kernel(self, word: str, lines: Iterable[str], groups: int, threads: int) -> DeviceKernel:
        """The finished kernel."""
        pointers = [
            f"GLOBAL const {memory_type(self.stored[name])} *RESTRICT x{number}"
            for number, name in enumerate(self.text.unit.read)
        ]
        target = f"GLOBAL {memory_type(self.stored[self.group.root.value])} *RESTRICT y"
        head = f"KERNEL({threads}) {NAME}({', '.join([*pointers, target])})"
        text = "\n".join([head, "{", *indented(lines), "}"])
        helpers = tuple(self.text.unit.helpers.values())
        return DeviceKernel(
            word, text, helpers, tuple(self.text.unit.read), self.group.root.value, groups, threads
        )


def memory_type(dtype: str) -> str:
    """The dialect's type of elements in memory."""
    return "f16" if dtype == "f16" else DEVICE.types[dtype]


def indented(lines: Iterable[str]) -> list[str]:
    """The lines four spaces to the right."""
    return [f"    {line}" for line in lines]


def block(head: str, lines: Iterable[str]) -> list[str]:
    """A statement with a block."""
    return [f"{head} {{", *indented(lines), "}"]


def count(axes: Axes) -> int:
    """How many positions axes have."""
    return math.prod(size for _, size in axes)
