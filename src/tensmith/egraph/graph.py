"""An e-graph as extraction sees it: classes of equal nodes; a node costs something and reads classes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from tensmith.errors import UsageError

# Class -> position of the node that is chosen in it.
Choice = Mapping[int, int]


@dataclass(frozen=True)
class ENode:
    """One way to compute a class: what it costs by itself, and the classes that it reads, each once."""

    name: str
    cost: float
    children: tuple[int, ...]


@dataclass(frozen=True)
class EGraph:
    """Nodes by class, classes by number, and the classes that are wanted."""

    classes: tuple[tuple[ENode, ...], ...]
    roots: tuple[int, ...]

    @cached_property
    def nodes(self) -> int:
        """How many nodes there are."""
        return sum(map(len, self.classes))

    def reached(self, choice: Choice) -> list[int]:
        """The classes that the roots read by a choice, children before parents.

        UsageError where it is no extraction: a class without a choice, or a class that reads itself.
        """
        order: list[int] = []
        state: dict[int, bool] = {}  # False while what it reads is being walked
        stack = list(self.roots)
        while stack:
            current = stack[-1]
            if current in state:
                stack.pop()
                if not state[current]:
                    state[current] = True
                    order.append(current)
                continue
            if current not in choice:
                raise UsageError(f"nothing is chosen in class {current}, which is read")
            state[current] = False
            children = self.classes[current][choice[current]].children
            if any(state.get(child) is False for child in children):
                raise UsageError(f"the choice in class {current} reads itself")
            stack += children
        return order

    def cost(self, choice: Choice) -> float:
        """What a choice costs, each class that is read counted once."""
        return math.fsum(self.classes[c][choice[c]].cost for c in self.reached(choice))
