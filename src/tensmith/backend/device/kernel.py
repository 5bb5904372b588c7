"""What the three shapes of kernel share: the head, indices from a flat number, members and the store."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tensmith.backend.device.definitions import Axes, flat, ranges_of
from tensmith.backend.device.fusion import Group
from tensmith.backend.device.reductions import Element
from tensmith.backend.device.text import Text, folding, is_float
from tensmith.formula.walk import reads

# Stands in a kernel's text for its name, so that equal kernels have equal texts.
NAME = "KERNEL_NAME"


@dataclass(frozen=True)
class Kernel:
    """A kernel's text and one launch of it: `groups` of `threads`, reading `reads`, writing `writes`."""

    word: str
    text: str
    reads: tuple[str, ...]
    writes: str
    groups: int
    threads: int


class Frame:
    """The text of a group's kernel under construction; `stored` has the element type of every value."""

    def __init__(self, group: Group, stored: Mapping[str, str]) -> None:
        fold = group.fold.axes if group.fold else ()
        self.group, self.stored = group, stored
        self.text = Text(stored, ranges_of((*group.axes, *fold)), group.root.label)
        self.text.names |= {name: f"i{number}" for number, (name, _) in enumerate(group.axes)}
        self.text.names |= {name: f"k{number}" for number, (name, _) in enumerate(fold)}
        self._real: dict[str, bool] = {}
        for member in group.members:
            self._real[member.value] = self._is_real(member)

    def _is_real(self, member: Element) -> bool:
        """Whether a member is computed with floats: see `text`."""
        bodies = [member.body, *([member.fold.body] if member.fold else [])]
        names = [read.tensor for body in bodies for read in reads(body)]
        return is_float(member.dtype) or any(
            self._real.get(name, is_float(self.stored[name])) for name in names
        )

    @property
    def real_fold(self) -> bool:
        """Whether the fold is one of floats."""
        member = self.group.folding
        return member is not None and self._real[member.value]

    @property
    def fold_type(self) -> str:
        """The type of the fold's variable."""
        return "float" if self.real_fold else "i64"

    @property
    def fold_form(self) -> tuple[str, str]:
        """(start, step) of the fold."""
        member = self.group.folding
        assert member is not None and member.fold is not None
        return folding(member.fold.kind, member.dtype, self.real_fold)

    def fold_body(self) -> str:
        """The expression that is folded."""
        assert self.group.fold is not None
        return self.text.value(self.group.fold.body, self.real_fold)

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
        lines = []
        for number, member in enumerate(self.group.members):
            real = self._real[member.value]
            lines.append(
                f"const {'float' if real else 'i64'} v{number} = {self.text.value(member.body, real)};"
            )
            self.text.inside[member.value] = f"v{number}"
        value, at = f"v{len(self.group.members) - 1}", self.text.position(flat(self.group.axes))
        dtype = self.stored[self.group.root.value]
        if dtype == "f16":
            return [*lines, f"store_half(y, {at}, {value});"]
        return [*lines, f"y[{at}] = {f'{value} != 0' if dtype == 'bool' else f'({dtype}){value}'};"]

    def kernel(self, word: str, lines: Iterable[str], groups: int, threads: int) -> Kernel:
        """The finished kernel."""
        pointers = [
            f"GLOBAL const {c_type(self.stored[name])} *RESTRICT x{number}"
            for number, name in enumerate(self.text.arguments)
        ]
        target = f"GLOBAL {c_type(self.stored[self.group.root.value])} *RESTRICT y"
        head = f"KERNEL({threads}) {NAME}({', '.join([*pointers, target])})"
        text = "\n".join([head, "{", *indented(lines), "}"])
        return Kernel(word, text, tuple(self.text.arguments), self.group.root.value, groups, threads)


def c_type(dtype: str) -> str:
    """The dialect's type of elements in memory."""
    return "u8" if dtype == "bool" else dtype


def indented(lines: Iterable[str]) -> list[str]:
    """The lines four spaces to the right."""
    return [f"    {line}" for line in lines]


def block(head: str, lines: Iterable[str]) -> list[str]:
    """A statement with a block."""
    return [f"{head} {{", *indented(lines), "}"]


def count(axes: Axes) -> int:
    """How many positions axes have."""
    return math.prod(size for _, size in axes)
