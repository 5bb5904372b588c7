"""A program under construction, node by node."""

from __future__ import annotations

from collections.abc import Collection, Container, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensmith.backend.native.steps import Array
from tensmith.ir import Node, Program, make_node


def free(name: str, taken: Container[str]) -> str:
    """A name that a value may have: a model may have named its own as the passes do."""
    while name in taken:
        name += "'"
    return name


@dataclass
class ProgramBuilder:
    """Nodes and constants under construction; their names begin with that of a value they make.

    `making` are those values, which keep their names; everything else gets a free one.
    """

    program: Program
    making: Collection[str] = ()
    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    made: set[str] = field(default_factory=set)

    def _free(self, name: str) -> str:
        if name not in self.making:
            name = free(name, self.program.names | self.made)
        self.made.add(name)
        return name

    def constant(self, name: str, array: Array) -> str:
        """A new constant."""
        name = self._free(name)
        self.constants[name] = array
        return name

    def add(self, op: str, inputs: Sequence[str], output: str, **attrs: Any) -> str:
        """A new node's output."""
        return self.many(op, inputs, [output], **attrs)[0]

    def many(self, op: str, inputs: Sequence[str], outputs: Sequence[str], **attrs: Any) -> list[str]:
        """A new node's outputs; "" is none."""
        named = [self._free(output) if output else "" for output in outputs]
        self.nodes.append(make_node(op, inputs, named, attrs))
        return named

    def reshape(self, value: str, shape: Sequence[int], output: str) -> str:
        """`value` under another shape."""
        sizes = self.constant(f"{output} shape", np.array(shape, np.int64))
        return self.add("reshape", (value, sizes), output)
