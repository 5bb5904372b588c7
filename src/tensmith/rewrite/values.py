"""What is known of values without running a program: rules ask here."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping

import numpy as np

from tensmith.formula.arith import Array
from tensmith.ir import Node, Program
from tensmith.ir.edits import Edit
from tensmith.ir.infer import Facts
from tensmith.ir.interpreter import interpret_in_float64
from tensmith.ir.part import alive
from tensmith.ir.types import TensorType

_FEW = 64
_SMALL = 1024
# Of so many nodes before them constants are not computed for each law anew.
_MOST_BEFORE = 32


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


def outgrown(program: Program, edit: Edit, facts: Mapping[str, Facts]) -> bool:
    """Whether constants that an edit computes do not fit their type, though what they are made of does.

    They are computed in 64 bits, and rounded where what varies reads them: to infinity, or all of them to 0.
    facts: of what is there after the edit, whose nodes are in order. Of long chains that are not folded yet
    it is not asked.
    """
    constants = ChainMap[str, Array](edit.constants, program.constants)  # type: ignore[arg-type]
    made: dict[str, Node] = {}
    for node in edit.add:
        if any(node.inputs) and all(
            not name or name in made or name in constants or name in program.static_values
            for name in node.inputs
        ):
            made.update((name, node) for name in node.outputs if name)
    wanted = {name for node in edit.add if node.output not in made for name in node.inputs if name in made}
    if not wanted or all(n.traits.moves or not _floating(facts[name].type) for name, n in made.items()):
        return False
    read = {name for node in made.values() for name in node.inputs if name and name not in made}
    before = [] if all(name in constants for name in read) else alive(program.nodes, read)
    if len(before) > _MOST_BEFORE:
        return False
    read.update(name for node in before for name in node.inputs)
    parts = {name: constants[name] for name in read if name in constants}
    nodes = (*before, *dict.fromkeys(made.values()))
    for name, wide in interpret_in_float64(Program("constants", {}, tuple(wanted), nodes, parts), {}).items():
        type_ = facts[name].type
        if type_ is not None and type_.floating and _lost(wide, type_):
            return all(map(_finite, parts.values()))
    return False


def _floating(type_: TensorType | None) -> bool:
    return type_ is not None and type_.floating


def _finite(array: Array) -> bool:
    return not _floating(TensorType.of(array)) or bool(np.isfinite(array.astype(np.float64)).all())


def _lost(wide: Array, type_: TensorType) -> bool:
    """Whether numbers are not finite as a type rounds them, or all 0 and were not."""
    with np.errstate(all="ignore"):
        held = wide.astype(type_.numpy)
    return not _finite(held) or bool(wide.any() and not held.any())
