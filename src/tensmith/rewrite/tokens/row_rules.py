"""How rows pass through ops: which rows of its inputs an op reads for chosen rows of its output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from tensmith.errors import ModelError
from tensmith.ir import Node
from tensmith.ir.op import Op
from tensmith.ir.ops.cast import Cast
from tensmith.ir.ops.elementwise import Elementwise
from tensmith.ir.ops.gather import Gather
from tensmith.ir.ops.matmul import Gemm, MatMul
from tensmith.ir.ops.normalization import LpNormalization, RowNormalization
from tensmith.ir.ops.quantization import OnGrid
from tensmith.ir.ops.reduction import Reduction
from tensmith.ir.ops.shape import Expand, Renaming, Reshape, Transpose
from tensmith.ir.ops.shared import normal_axis
from tensmith.ir.ops.slicing import Concat, Slice, Split
from tensmith.ir.ops.softmax import AlongAxis
from tensmith.rewrite.tokens.rows import TokenRows

# Of each axis of rows: the new ones, or all up to now.
NEW, ALL = "new", "all"
Rows = tuple[str, ...]


class RowValues(Protocol):
    """Who makes values of chosen rows."""

    rows: TokenRows

    def value(self, name: str, rows: Rows) -> str:
        """A value with those rows."""

    def shape(self, name: str, rows: Rows) -> str:
        """The shape of a value with those rows, as a tensor."""


def inputs_for(c: RowValues, node: Node, rows: dict[int, str]) -> list[str]:
    """The inputs of a node whose output has such rows, by their axes. ModelError where no rule knows them."""
    for kind, rule in _RULES:
        if is_of(node, kind):
            return rule(c, node, rows)
    raise ModelError(f"{node.label}: it is not known how the rows of tokens pass through it")


def aligned(c: RowValues, name: str, rows: dict[int, str], shift: int) -> str:
    """An input whose axis a lies at axis a + shift of the output."""
    if not name or name in c.rows.program.constants:
        return name
    return c.value(name, tuple(rows.get(axis + shift, NEW) for axis in c.rows.axes(name)))


def broadcast(c: RowValues, node: Node, rows: dict[int, str]) -> list[str]:
    """Inputs that are aligned at their last axes."""
    rank = len(c.rows.program.type(node.output).dims)
    return [
        aligned(c, name, rows, rank - len(c.rows.program.type(name).dims)) if name else ""
        for name in node.inputs
    ]


def first_alone(c: RowValues, node: Node, rows: dict[int, str]) -> list[str]:
    """The first input with its rows in the output's order, the others as they are."""
    return [in_order(c, node, rows), *(plain(c, node, name) for name in node.inputs[1:])]


def in_order(c: RowValues, node: Node, rows: dict[int, str]) -> str:
    """The first input, whose axes of rows come in the output's order."""
    if len(c.rows.axes(node.inputs[0])) != len(rows):
        raise ModelError(f"{node.label}: its rows are not those of its input")
    return c.value(node.inputs[0], listed(rows))


def plain(c: RowValues, node: Node, name: str) -> str:
    """An input without rows."""
    if not name or name in c.rows.program.constants:
        return name
    if c.rows.axes(name) or name in c.rows.told:
        raise ModelError(f"{node.label}: it is not known how the rows of '{name}' pass through it")
    return c.value(name, ())


def same_axes(c: RowValues, node: Node, rows: dict[int, str]) -> list[str]:
    """All inputs with axes like the output's; those that are shorter have no rows."""
    rank = len(c.rows.program.type(node.output).dims)
    return [
        aligned(c, name, rows, 0)
        if name and len(c.rows.program.type(name).dims) == rank
        else plain(c, node, name)
        for name in node.inputs
    ]


def along(c: RowValues, node: Node, rows: dict[int, str]) -> list[str]:
    """What looks along one axis needs all of it."""
    axis = normal_axis(node.attrs["axis"], len(c.rows.program.type(node.output).dims))
    if rows.get(axis) == NEW:
        raise ModelError(f"{node.label}: new rows alone are asked of an axis along which it looks")
    return same_axes(c, node, rows)


def transposed(c: RowValues, node: Node, rows: dict[int, str]) -> list[str]:
    rank = len(c.rows.program.type(node.output).dims)
    perm = node.attrs["perm"] or tuple(reversed(range(rank)))
    back = {perm[axis]: which for axis, which in rows.items()}
    return [aligned(c, node.inputs[0], back, 0)]


def renamed(c: RowValues, node: Node, rows: dict[int, str]) -> list[str]:
    """A view under another shape: rows stay in their order."""
    others = node.inputs[1:]
    if is_of(node, Reshape) and others[0] not in c.rows.program.constants:
        return [in_order(c, node, rows), c.shape(node.output, listed(rows))]
    return [in_order(c, node, rows), *others]


def expanded(c: RowValues, node: Node, rows: dict[int, str]) -> list[str]:
    rank, first = len(c.rows.program.type(node.output).dims), node.inputs[0]
    data = aligned(c, first, rows, rank - len(c.rows.program.type(first).dims))
    if node.inputs[1] in c.rows.program.constants:
        return [data, node.inputs[1]]
    return [data, c.shape(node.output, listed(rows))]


def multiplied(c: RowValues, node: Node, rows: dict[int, str]) -> list[str]:
    """Rows of the left, columns of the right; where they are summed over, all."""
    left, right = node.inputs
    sizes = [len(c.rows.program.type(name).dims) for name in node.inputs]
    rank = len(c.rows.program.type(node.output).dims)
    if min(sizes) < 2:
        raise ModelError(f"{node.label}: a product with a vector")
    found = []
    for name, size, summed in ((left, sizes[0], sizes[0] - 1), (right, sizes[1], sizes[1] - 2)):
        shifted = {axis - (rank - size): which for axis, which in rows.items()}
        # Of the left the last axis is summed over, of the right the last but one.
        kept = {axis: w for axis, w in shifted.items() if axis != summed and axis >= 0}
        free = size - 2 if name == left and summed == size - 1 else size - 1
        outer = {axis: w for axis, w in kept.items() if axis < size - 2}
        place = rank - 2 if free == size - 2 else rank - 1
        outer |= {free: rows[place]} if place in rows else {}
        outer[summed] = ALL
        found.append(aligned(c, name, outer, 0))
    return found


def affine(c: RowValues, node: Node, rows: dict[int, str]) -> list[str]:
    """Gemm with weights that have no rows."""
    if node.attrs["transA"]:
        raise ModelError(f"{node.label}: its left side is turned")
    first, *others = node.inputs
    return [aligned(c, first, rows, 0), *(plain(c, node, name) for name in others)]


def cut_along(c: RowValues, node: Node, rows: dict[int, str]) -> list[str]:
    """Slice, split and gather along axes that are not rows."""
    axes = c.rows.program.facts[node.inputs[3]].value if len(node.inputs) > 3 and node.inputs[3] else None
    data = len(c.rows.program.type(node.inputs[0]).dims)
    if is_of(node, Slice):
        touched = range(data) if axes is None else [normal_axis(int(a), data) for a in axes.ravel()]
    else:
        touched = [normal_axis(node.attrs["axis"], data)]
    if set(touched) & rows.keys():
        raise ModelError(f"{node.label}: it cuts the rows of tokens")
    return first_alone(c, node, rows)


def gathered(c: RowValues, node: Node, rows: dict[int, str]) -> list[str]:
    """Rows of a table, chosen by what has rows; or parts of what has rows."""
    table, chosen = node.inputs
    if c.rows.axes(chosen) and not c.rows.axes(table):
        axis = normal_axis(node.attrs["axis"], len(c.rows.program.type(table).dims))
        return [plain(c, node, table), aligned(c, chosen, rows, axis)]
    if c.rows.axes(chosen):
        raise ModelError(f"{node.label}: it chooses among rows by what has rows")
    return cut_along(c, node, rows)


def on_grid(c: RowValues, node: Node, rows: dict[int, str]) -> list[str]:
    """Numbers to codes and back, by scales that have no rows and are not one a row."""
    scales, rank = c.rows.program.type(node.inputs[1]).dims, len(c.rows.program.type(node.output).dims)
    along_rows = scales not in ((), (1,)) and normal_axis(node.attrs["axis"], rank) in rows
    if len(scales) > 1 or along_rows:
        raise ModelError(f"{node.label}: each row of tokens has a scale of its own")
    return first_alone(c, node, rows)


Rule = Callable[[RowValues, Node, dict[int, str]], list[str]]
# How the rows of an output are those of the inputs, by kind of op.
_RULES: tuple[tuple[Any, Rule], ...] = (
    (Elementwise, broadcast),
    (Cast, broadcast),
    (OnGrid, on_grid),
    (MatMul, multiplied),
    (Gemm, affine),
    (AlongAxis, along),
    (RowNormalization, first_alone),
    (LpNormalization, along),
    (Transpose, transposed),
    (Expand, expanded),
    (Renaming, renamed),
    (Reduction, first_alone),
    (Concat, along),
    (Split, cut_along),
    (Slice, cut_along),
    (Gather, gathered),
)


def is_of(node: Node, *kinds: type[Op]) -> bool:
    """Whether a node's op is of one of some kinds."""
    return node.opaque is None and isinstance(node.definition, kinds)


def listed(rows: dict[int, str]) -> Rows:
    """Which rows, axis by axis."""
    return tuple(which for _, which in sorted(rows.items()))
