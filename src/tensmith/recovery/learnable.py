"""Which constants of a program learn, and in which of their forms."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np

from tensmith.formula.arith import Array
from tensmith.ir import Node, Program
from tensmith.ir.ops.elementwise import Elementwise
from tensmith.ir.ops.normalization import Normalization
from tensmith.ir.ops.product import Product
from tensmith.ir.ops.quantization import decodes, over_axis
from tensmith.ir.ops.recurrence import Recurrent
from tensmith.recovery.learning import (
    BiasScale,
    Learning,
    LearningBias,
    LearningCodebook,
    LearningFloats,
    LearningGrid,
    LearningZeros,
)
from tensmith.rewrite.lossy.int8 import is_at
from tensmith.rewrite.lossy.weights import behind, stored_weights

# Floats are codes in disguise where every row is whole multiples, up to this many times, of one number.
_MOST_CODE, _NEAR = 127, 1e-3
_LOOKED_AT = 64
# Larger numbers are no weights: they rule something out, as masks do.
_LARGEST = 1e4
# Floats are of a codebook where they have so few values, each shared by so many.
_MOST_VALUES, _FEWEST_SHARING = 256, 8


def learning_constants(
    program: Program, zeros: bool, dense: Program | None = None, floats: Program | None = None
) -> dict[str, Learning]:
    """By the constant whose numbers they are. zeros: whether those among the weights stay.

    dense: the program without these zeros, from which they may grow. floats: that before its weights were
    rounded to codes.
    """
    found = _learning(program, zeros)
    if floats is not None:
        _lean(program, found, floats)
    for name, before in (_learning(dense, False) if dense is not None else {}).items():
        if isinstance(after := found.get(name), LearningZeros):
            after.grown_from(before)
    return found


def _learning(program: Program, zeros: bool) -> dict[str, Learning]:
    found: dict[str, Learning] = {}
    biases = []
    for node in program.nodes:
        codes = program.constants.get(node.inputs[0]) if decodes(node) else None
        if codes is None or node.inputs[1] not in program.constants or not _symmetric(program, node):
            continue
        # Whoever looks codes up as they are would take what they stand for.
        if not all(decodes(reader) for name in node.inputs[:2] for reader in program.consumers[name]):
            continue
        if codes.dtype == np.int32:
            biases.append(node)
        else:
            names = (node.inputs[0], node.inputs[1])
            scales = program.constants[names[1]]
            found[names[0]] = LearningGrid(names, codes, scales, node.attrs, zeros)
    for node in biases:
        names = (node.inputs[0], node.inputs[1])
        arrays = (program.constants[names[0]], program.constants[names[1]])
        found[names[0]] = LearningBias(names, *arrays, _bias_scale(program, node, found))
    rows = {own.weight: own for own in stored_weights(program)}
    for name in _floats(program):
        array = program.constants[name]
        own = rows.get(name)
        stored = array if own is None else own.stored(program)
        if own is not None and (grid := _as_grid(own.rows(stored))) is not None:
            attrs = {"axis": stored.ndim - 1 if own.transposed else 0}
            codes = np.rint(stored / over_axis(grid, stored, attrs))
            found[name] = LearningGrid((name, ""), codes, grid, attrs, zeros, array.shape)
        elif own is not None and _has_few_values(array):
            found[name] = LearningCodebook(name, array)
        else:
            found[name] = LearningFloats(name, array, zeros and own is not None, own is not None)
    return found


def _symmetric(program: Program, node: Node) -> bool:
    zero = node.operand(2)
    return not zero or (zero in program.constants and not program.constants[zero].any())


def _bias_scale(program: Program, node: Node, found: Mapping[str, Learning]) -> BiasScale | None:
    """The two scales whose product a bias's is; None where it is one of its own."""
    (reader, *others) = program.consumers.get(node.output, ()) or (None,)
    if reader is None or others or (grid := _grid_of(program, found, reader, 1)) is None:
        return None
    values = _decoded(program, reader.inputs[0])
    scale = None if values is None else program.constants.get(values.inputs[1])
    if scale is None:
        return None
    product = scale * program.constants[grid.scale_name].reshape(-1)
    stated = program.constants[node.inputs[1]].reshape(-1)
    return BiasScale(scale, grid) if np.allclose(product, stated, rtol=1e-5, atol=0) else None


def _lean(program: Program, found: Mapping[str, Learning], floats: Program) -> None:
    """Codes of weights begin at the numbers that the same nodes read in `floats`, or near them."""
    for before in floats.nodes:
        for place in _weight_places(before):
            numbers = floats.constants.get(behind(floats, before.inputs[place])[0])
            if numbers is None:
                continue
            after = (node for node in program.nodes if is_at(node, before.output))
            for grid in filter(None, (_grid_of(program, found, node, place) for node in after)):
                matrix = numbers.reshape(-1, numbers.shape[-1])
                if grid.shape in (numbers.shape, matrix.shape):
                    grid.lean(numbers.reshape(grid.shape))


def _weight_places(node: Node) -> Collection[int]:
    """The inputs of a node that are weights of products, or a table."""
    if node.kind(Recurrent) is not None:
        return (1, 2)
    if node.kind(Product) is not None:
        return (1,)
    return (0,) if node.traits.subscripts else ()


def _grid_of(program: Program, found: Mapping[str, Learning], node: Node, place: int) -> LearningGrid | None:
    """The codes that are weights of a node, where it has such."""
    if place not in _weight_places(node):
        return None
    decoded = _decoded(program, node.inputs[place])
    grid = found.get(node.inputs[place] if decoded is None else decoded.inputs[0])
    return grid if isinstance(grid, LearningGrid) else None


def _decoded(program: Program, name: str) -> Node | None:
    """The dequantization that a value is, turned or not."""
    node = program.producers.get(name)
    while node is not None and not decodes(node) and node.picked:
        node = program.producers.get(node.inputs[0])
    return node if node is not None and decodes(node) else None


def _floats(program: Program) -> Iterator[str]:
    """Constants of more than one float32 that are weights, biases, factors or a table's rows, and no more."""
    places = {node: _learned_places(node) for node in program.nodes}
    for name, array in program.constants.items():
        readers = program.consumers.get(name, ())
        if array.dtype == np.float32 and array.size > 1 and readers and name not in program.outputs:
            read = ((node, at) for node in readers for at, each in enumerate(node.inputs) if each == name)
            if all(at in places[node] for node, at in read) and np.abs(array).max() <= _LARGEST:
                yield name


def _learned_places(node: Node) -> Collection[int]:
    """The inputs of a node at which constants learn."""
    if node.kind(Product) is not None or node.kind(Normalization) is not None:
        return (1, 2)
    if node.kind(Recurrent) is not None:
        return (1, 2, 3)
    elementwise = node.kind(Elementwise)
    if elementwise is not None and elementwise.function in ("add", "mul"):
        return (0, 1)
    # Turned weights, and tables whose rows are looked up.
    return (0,) if node.traits.moves or node.traits.subscripts else ()


def _has_few_values(array: Array) -> bool:
    values = len(np.unique(array))
    return values <= min(_MOST_VALUES, array.size // _FEWEST_SHARING)


def _as_grid(rows: Array) -> Array | None:
    """The scales [rows] of rows [groups, rows, d] that are whole multiples of one number each, or None.

    Rows of zeros have the others' mean scale: on a finer grid the first step would make weights of them.
    """
    flat = rows.reshape(-1, rows.shape[-1])
    largest = np.abs(flat).max(1)
    if flat.shape[1] < 2 or not largest.any():
        return None
    some = flat[:, np.argsort(-np.abs(flat).sum(0))[:_LOOKED_AT]]
    used = largest > 0
    scales = np.zeros(largest.shape)
    for code in range(1, _MOST_CODE + 1):
        missing = used & (scales == 0)
        if not missing.any():
            break
        rows = np.flatnonzero(missing)
        rows = rows[(abs(_rest(some[rows], largest[rows] / code)) < _NEAR).all(1)]
        rows = rows[(abs(_rest(flat[rows], largest[rows] / code)) < _NEAR).all(1)]
        scales[rows] = largest[rows] / code
    scales[~used] = scales[used].mean()
    return scales.astype(np.float32) if scales.all() else None


def _rest(rows: Array, scales: Array) -> Array:
    codes = rows / scales[:, None]
    return np.asarray(codes - np.rint(codes))
