"""Values of two programs by number, and what lies between numbered values.

Values are numbered as in common subexpression elimination (Cocke 1970), both programs in one table: the same
op with the same attributes on values of equal numbers gives values of equal numbers. A value that is found
out to be equal takes the number of the other; what reads it is numbered after that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import replace

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array
from tensmith.ir import Node, Program
from tensmith.ir.types import TensorType

# What the output of a region is called.
VALUE = "value"


class Numbering:
    """`left` and `right` number the values of two programs: at first of the whole left one, and of the inputs
    and constants of the right one. Inputs of one name are equal, and constants of one `constant` key."""

    def __init__(self, left: Program, right: Program, constant: Callable[[Array], Hashable]) -> None:
        self._table: dict[Hashable, int] = {}
        self._constant = constant
        self.left, self.right = self._ends(left), self._ends(right)
        for node in left.nodes:
            self._add(node, self.left)
        self._known = set(self.left.values())

    def known(self, node: Node) -> bool:
        """Numbers the outputs of a node of the right program. Whether the left one has all these values."""
        self._add(node, self.right)
        return all(self.right[name] in self._known for name in node.outputs)

    def unify(self, left: str, right: str) -> None:
        """A value of the right program is equal to one of the left program."""
        self.right[right] = self.left[left]

    def _ends(self, program: Program) -> dict[str, int]:
        numbers = {name: self._number(("input", name)) for name in program.inputs}
        constants = program.constants.items()
        numbers |= {name: self._number(("constant", self._constant(array))) for name, array in constants}
        return {**numbers, "": -1}

    def _number(self, key: Hashable) -> int:
        return self._table.setdefault(key, len(self._table))

    def _add(self, node: Node, numbers: dict[str, int]) -> None:
        key = node.function, node.unordered(numbers[name] for name in node.inputs), len(node.outputs)
        numbers.update((n, self._number((key, place)) if n else -1) for place, n in enumerate(node.outputs))


def numbered(number: int) -> str:
    """What a value of that number is called in a region."""
    return f"v{number}"


def region(
    program: Program, numbers: Mapping[str, int], border: Collection[str], name: str, most: float
) -> Program:
    """What computes a value from those of the border, every value named by its number, the last VALUE.

    ProgramError where that takes more than `most` nodes, or is no program.
    """
    names = {**{value: numbered(number) for value, number in numbers.items()}, name: VALUE, "": ""}
    kept: set[int] = set()
    inputs: dict[str, TensorType] = {}
    constants: dict[str, Array] = {}
    waiting, seen = [name], set[str]()
    while waiting:
        current = waiting.pop()
        if not current or current in seen:
            continue
        seen.add(current)
        array = program.constants.get(current)
        if array is not None:
            constants[names[current]] = array
        elif current in program.inputs or (current in border and current != name):
            inputs[names[current]] = program.type(current)
        else:
            node = program.producers[current]
            seen.update(node.outputs)
            kept.add(id(node))
            waiting += node.inputs
        if len(kept) > most:
            raise ProgramError(f"more than {most} nodes compute '{name}'")
    nodes: dict[tuple[str, ...], Node] = {}  # what is computed twice has one number, and is computed once
    for node in (node for node in program.nodes if id(node) in kept):
        outputs = tuple(names[value] for value in node.outputs)
        nodes.setdefault(outputs, replace(node, inputs=tuple(names[i] for i in node.inputs), outputs=outputs))
    hints = {names[value]: type_ for value, type_ in program.hints.items() if value in seen}
    return Program("region", dict(sorted(inputs.items())), (VALUE,), tuple(nodes.values()), constants, hints)
