"""A program under construction, node by node."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensmith.formula.arith import Array
from tensmith.ir.op import Node
from tensmith.ir.program import Program, make_node


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

    def free(self, name: str) -> str:
        """A name that nothing has yet, or one of `making`."""
        while name not in self.making and (name in self.made or self.program.has(name)):
            name += "'"
        self.made.add(name)
        return name

    def constant(self, name: str, array: Array) -> str:
        """A new constant."""
        name = self.free(name)
        self.constants[name] = array
        return name

    def add(self, op: str, inputs: Sequence[str], output: str, **attrs: Any) -> str:
        """A new node's output."""
        return self.many(op, inputs, [output], **attrs)[0]

    def many(self, op: str, inputs: Sequence[str], outputs: Sequence[str], **attrs: Any) -> list[str]:
        """A new node's outputs; "" is none."""
        named = [self.free(output) if output else "" for output in outputs]
        self.nodes.append(make_node(op, inputs, named, attrs))
        return named

    def reshape(self, value: str, shape: Sequence[int], output: str) -> str:
        """`value` under another shape."""
        sizes = self.constant(f"{output} shape", np.array(shape, np.int64))
        return self.add("reshape", (value, sizes), output)
