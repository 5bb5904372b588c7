"""Constant folding: what constants compute is computed now, in float64, and rounded once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array, Floats
from tensmith.ir import Node, Program, TensorType
from tensmith.ir.interpreter import run_node
from tensmith.ir.op import Run
from tensmith.ir.ops.cast import Conversion
from tensmith.ir.ops.quantization import decodes
from tensmith.rewrite.rule import ProgramRule, exact

# Bits by which a folded value may be larger than the constants it frees.
_GROWTH = 1 << 17
_FLOATS = Floats()


@exact("fold_constants", phase="fold")
class FoldConstants(ProgramRule):
    """Values computed from constants alone become constants, whole trees at once.

    A value stays computed where its constant would be larger than those it frees: a tensor of one repeated
    number, or a transposed second copy of weights that something else reads too.
    """

    structural = "the ops that define a value are run, in float64, and the result is rounded once"

    def rewrite(self, program: Program) -> Program | None:
        """All values worth it, at once."""
        nodes = _foldable(program)
        while True:
            roots = _roots(program, nodes)
            large = _too_large(program, nodes, roots)
            heavy = {node for node in nodes if large.intersection(node.outputs)}
            if not heavy:
                break
            nodes = _foldable(program, without=heavy | (set(program.nodes) - set(nodes)))
        if not roots:
            return None
        constants = dict(program.constants)
        for name, array in values_of_constants(program, nodes, roots):
            constants[name] = _rounded(array, program.type(name))
        gone = set(nodes)
        return replace(
            program, nodes=tuple(node for node in program.nodes if node not in gone), constants=constants
        )


def _foldable(program: Program, without: Iterable[Node] = ()) -> list[Node]:
    """Nodes that compute from constants alone, in order."""
    excluded, static, found = set(without), set(program.constants), []
    for node in program.nodes:
        # Folding codes would give back the size that compression took away.
        skip = node in excluded or node.opaque is not None or decodes(node) or not node.inputs
        if skip or not all(name in static for name in node.inputs if name):
            continue
        types = [program.facts[name].type for name in node.outputs if name]
        if any(t is None or t.static is None for t in types) or set(node.outputs) & set(program.outputs):
            continue
        found.append(node)
        static.update(node.outputs)
    return found


def _roots(program: Program, nodes: list[Node]) -> list[str]:
    """Values of foldable nodes that other nodes read."""
    inside = set(nodes)
    return [
        name
        for node in nodes
        for name in node.outputs
        if any(reader not in inside for reader in program.consumers.get(name, ()))
    ]


def _too_large(program: Program, nodes: list[Node], roots: list[str]) -> set[str]:
    """Roots whose constants would take more room than they free: of one that several need, each a share."""
    leaves: dict[str, frozenset[str]] = {}
    for node in nodes:
        parts = [leaves.get(name, frozenset({name})) for name in node.inputs if name]
        for name in node.outputs:
            leaves[name] = frozenset().union(*parts)
    inside = set(nodes)
    shared: dict[str, int] = {}
    for root in roots:
        for leaf in leaves[root]:
            shared[leaf] = shared.get(leaf, 0) + _bits(program, root)
    freed = {
        leaf: _bits(program, leaf) / shared[leaf]
        for leaf in shared
        if leaf not in program.outputs and inside.issuperset(program.consumers[leaf]) and shared[leaf]
    }
    grows = {
        root: _bits(program, root) * (1 - sum(freed.get(leaf, 0.0) for leaf in leaves[root]))
        for root in roots
    }
    return {root for root, bits in grows.items() if bits > _GROWTH}


def _bits(program: Program, name: str) -> int:
    type_ = program.type(name)
    return int(np.prod(type_.static or (0,))) * type_.bits


def values_of_constants(
    program: Program, nodes: Sequence[Node], wanted: Collection[str]
) -> Iterator[tuple[str, Array]]:
    """What nodes compute from constants alone, for the values wanted: floats in 64 bits, never rounded.

    But what decides something by a float (a comparison, a floor, the place of the largest) has it as engines
    do, rounded at every step. What no later node needs is let go. ProgramError where a node reads anything
    else, or a value has not the shape of its type.
    """
    last = {name: node for node in nodes for name in node.inputs}
    deciding = {node for node in nodes if _decides(program, node)}
    read = {name for node in deciding for name in node.inputs}
    for node in reversed(nodes):
        if node not in deciding and read.intersection(node.outputs):
            read.update(node.inputs)
    values: dict[str, Array] = {}
    declared: dict[str, Array] = {}
    for node in nodes:
        for name in node.inputs:
            if name and name not in values and name in program.constants:
                declared[name] = program.constants[name]
                values[name] = _widened(declared[name], program.type(name))
        missing = next((name for name in node.inputs if name and name not in values), "")
        if missing or node.opaque is not None:
            raise ProgramError(f"'{node.output}' was folded, but {missing or 'its node'} is no constant")
        if node in deciding or read.intersection(node.outputs):
            declared.update(zip(node.outputs, run_node(program, node, declared, _FLOATS)))
        made = map(declared.get, node.outputs) if node in deciding else _run(program, node, values)
        for name, array in zip(node.outputs, made):
            if name and array is not None:
                values[name] = _widened(array, program.type(name))
            if name in wanted:
                type_ = program.type(name)
                if type_.static not in (None, values[name].shape):
                    raise ProgramError(f"'{name}' folds to the shape {values[name].shape}, and is {type_}")
                yield name, values[name]
        for name in node.inputs:
            if last[name] is node:
                values.pop(name, None)
                declared.pop(name, None)


def _decides(program: Program, node: Node) -> bool:
    """Whether what it gives depends on how the floats that it takes were rounded."""
    if node.traits.measures:
        return False
    floats = [program.type(name).floating for name in node.inputs if name]
    others = any(name and not program.type(name).floating for name in node.outputs)
    traits = node.traits
    jumps = others or traits.jumps or traits.orders or traits.rounds or node.kind(Conversion) is not None
    return any(floats) and jumps


def _run(program: Program, node: Node, values: Mapping[str, Array]) -> tuple[Array, ...]:
    types = tuple(program.type(name) if name else None for name in node.inputs)
    inputs = tuple(values[name] if name else None for name in node.inputs)
    out_types = tuple(program.type(name) if name else None for name in node.outputs)
    try:
        with np.errstate(all="ignore"):
            return node.definition.run(Run(node.attrs, inputs, types, out_types), _FLOATS)
    except (ValueError, IndexError, TypeError) as error:
        raise ProgramError(f"{node.label} cannot be folded: {error}") from error


def _widened(array: Array, type_: TensorType) -> Array:
    return array.astype(np.float64) if type_.floating else array


def _rounded(array: Array, type_: TensorType) -> Array:
    return np.ascontiguousarray(array, dtype=type_.numpy).reshape(array.shape)
