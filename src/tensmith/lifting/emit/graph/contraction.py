"""Einstein sums as matrix products, two operands at a time.

A value and its letters: the letters name its axes in order. With b the letters that both operands have and
that are still needed, s those that are summed over, r and c those of one operand alone:

    sum_s left[b, r, s] right[b, s, c] = matmul(left as [b, R, S], right as [b, S, C]) as [b, r, c]

where R, S and C are products of extents, any of which may be 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensmith.formula.poly import Dim, product
from tensmith.lifting.emit.graph.build import Graph

Labelled = tuple[str, str]  # a value and its letters


def contract(graph: Graph, operands: Sequence[Labelled], extents: Mapping[str, Dim], result: str) -> Labelled:
    """The product of the operands, summed over all letters that are not in the result."""
    (value, letters), *others = operands
    while others:
        right, *others = others
        needed = set(result).union(*(later for _, later in others))
        value, letters = _pair(graph, (value, letters), right, extents, needed)
    return _summed(graph, value, letters, set(result))


def arranged(graph: Graph, value: str, letters: str, order: str) -> str:
    """A value with its axes in another order."""
    if letters == order:
        return value
    return graph.op("transpose", [value], {"perm": tuple(map(letters.index, order))})


def _pair(
    graph: Graph, left: Labelled, right: Labelled, extents: Mapping[str, Dim], needed: set[str]
) -> Labelled:
    a, in_a = _summed(graph, *left, needed | set(right[1]))
    b, in_b = _summed(graph, *right, needed | set(in_a))
    both = [letter for letter in in_a if letter in in_b]
    batch = "".join(letter for letter in both if letter in needed)
    inner = "".join(letter for letter in both if letter not in needed)
    rows = "".join(letter for letter in in_a if letter not in both)
    columns = "".join(letter for letter in in_b if letter not in both)
    a = _grouped(graph, arranged(graph, a, in_a, batch + rows + inner), batch, rows, inner, extents)
    b = _grouped(graph, arranged(graph, b, in_b, batch + inner + columns), batch, inner, columns, extents)
    found = graph.op("matmul", [a, b])
    letters = batch + rows + columns
    if len(rows) != 1 or len(columns) != 1:
        found = graph.reshape(found, [extents[letter] for letter in letters])
    return found, letters


def _grouped(
    graph: Graph, value: str, batch: str, first: str, second: str, extents: Mapping[str, Dim]
) -> str:
    """The value as matrices: one axis for all the letters of a group.

    Batches are reshaped even where that changes nothing: ONNX Runtime would fuse a transposition before the
    product into it, and then divides by the extent of the first axis.
    """
    if not batch and len(first) == len(second) == 1:
        return value
    sides = [product([extents[letter] for letter in group]) for group in (first, second)]
    return graph.reshape(value, [*(extents[letter] for letter in batch), *sides])


def _summed(graph: Graph, value: str, letters: str, needed: set[str]) -> Labelled:
    """The value summed over the axes that nothing needs."""
    over = [axis for axis, letter in enumerate(letters) if letter not in needed]
    if not over:
        return value, letters
    found = graph.op("reduce_sum", [value, graph.const(over)], {"keepdims": 0})
    return found, "".join(letter for letter in letters if letter in needed)
