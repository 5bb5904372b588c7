"""The numbers of values that need no input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from tensmith.formula.arith import Array
from tensmith.ir.interpreter import interpret
from tensmith.ir.part import alive
from tensmith.ir.program import Program


class StaticValues(Mapping[str, Array]):
    """Static value -> its numbers, which are computed when they are first asked for."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._known: dict[str, Array] = dict(program.constants)

    def __getitem__(self, value: str) -> Array:
        if value not in self._known:
            if value not in self._program.static_values:
                raise KeyError(value)
            self._known[value] = self._computed(value)
        return self._known[value]

    def __iter__(self) -> Iterator[str]:
        return iter(self._program.static_values)

    def __len__(self) -> int:
        return len(self._program.static_values)

    def __contains__(self, value: object) -> bool:
        return value in self._program.static_values

    def number(self, value: str) -> int | float | None:
        """That of a value of one element, of integers to the last digit; None for any other, and for what is
        computed."""
        array = self.get(value)
        return array.reshape(-1)[0].item() if array is not None and array.size == 1 else None

    def _computed(self, value: str) -> Array:
        program = self._program
        nodes = tuple(alive(program.nodes, (value,)))
        alone = Program("constant", {}, (value,), nodes, program.constants)
        return np.asarray(interpret(alone, {})[value], program.type(value).numpy)
