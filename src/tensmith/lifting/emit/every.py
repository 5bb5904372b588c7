"""Gathers whose places are as far apart as one another: slices with a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tensmith.formula.poly import Poly
from tensmith.ir import Node, Program
from tensmith.lifting.lifted import Input


class EverySoMany(NamedTuple):
    """The places start, start + step, ..., `size` of them."""

    start: int
    step: int
    size: Poly


def every_so_many(program: Program, inputs: Mapping[str, Input], node: Node) -> EverySoMany | None:
    """The places of a gather, from 0 or more on and upwards; None of other places, and other nodes."""
    if node.op != "gather":
        return None
    start, step, place = 0, 1, node.inputs[1]
    while (made := program.producers.get(place)) is not None:
        numbers = [name for name in made.inputs if name in program.constants]
        others = [name for name in made.inputs if name not in program.constants]
        if made.op not in ("add", "mul") or len(numbers) != 1 or program.constants[numbers[0]].ndim:
            return None
        number = int(program.constants[numbers[0]])
        start, step = (start + step * number, step) if made.op == "add" else (start, step * number)
        (place,) = others
    size = inputs[place].positions if place in inputs else None
    return EverySoMany(start, step, size) if size is not None and start >= 0 and step > 0 else None
