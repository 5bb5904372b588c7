"""What is known of values without running a program: rules ask here."""

from __future__ import annotations

import numpy as np

from tensmith.formula.arith import Array
from tensmith.ir import Node, Program

_FEW = 64
_SMALL = 1024


def known(program: Program, name: str) -> Array | None:
    """A value known before running, as numbers: a constant, or shape arithmetic without symbols."""
    constant = program.constants.get(name)
    if constant is not None:
        return constant
    value = program.facts[name].value if name else None
    return None if value is None or value.dtype == object else value


def uniform(program: Program, name: str) -> float | None:
    """The one number that every element of a static value is; None if there is none, or not known."""
    while name not in program.constants:
        node = program.producers.get(name)
        if node is None or not node.traits.moves:
            return None
        name = node.inputs[0]
    flat = program.constants[name].reshape(-1)
    if flat.size == 0 or flat.dtype.kind in "OSU":
        return None
    # Almost every tensor that is not uniform shows it in its first few elements.
    if np.any(flat[:_FEW] != flat[0]) or np.any(flat != flat[0]):
        return None
    return float(flat[0])


def owned(program: Program, name: str) -> bool:
    """Whether a static value comes from constants that serve nothing else, small ones aside."""
    pending = [name]
    while pending:
        current = pending.pop()
        array = program.constants.get(current)
        if array is not None and array.size <= _SMALL:
            continue
        if program.uses(current) > 1:
            return False
        node = program.producers.get(current)
        pending.extend(source for source in (node.inputs if node else ()) if source)
    return True


def operand(node: Node, position: int) -> str:
    """An input by position, "" where it is omitted."""
    return node.inputs[position] if position < len(node.inputs) else ""
