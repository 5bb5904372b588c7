"""Products of one value with several constants, made one product."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from tensmith.formula.poly import Poly
from tensmith.ir import Node, Program, make_node
from tensmith.ir.ops.product import Product
from tensmith.ir.ops.shared import normal_axis
from tensmith.rewrite.exact.products import conv
from tensmith.rewrite.given import Instance, matmul_instances
from tensmith.rewrite.law import lemma
from tensmith.rewrite.right_sides import join
from tensmith.rewrite.rule import Edit, NodeRule, Rule, exact
from tensmith.rewrite.term import Term, Use, Var, ops

# Functions of one element that may stand between the products and their concat.
_BETWEEN = ("relu", "sigmoid", "tanh", "leaky_relu")

X = Var("x")


def _filter_axis(node: Node) -> int:
    """The axis of the weights of a convolution, or of a product by a matrix, that filters lie along."""
    return node.surely(Product).filters(node.attrs) % 2


def _channel_axis(program: Program, node: Node) -> int:
    return node.surely(Product).channels(len(program.type(node.output).dims))


def _alike(program: Program, nodes: Sequence[Node]) -> str | None:
    """None if the products read one value with constant weights and equal attributes, else what differs."""
    first = nodes[0]
    for node in nodes:
        if node.inputs[0] != first.inputs[0]:
            return "the products read different values"
        if not node.fixed_by(program.static_values):
            return f"the weights of '{node.output}' are not constant"
        if node.function != first.function or bool(node.operand(2)) != bool(first.operand(2)):
            return "the products differ in attributes or in having a bias"
        shape, other = program.type(node.inputs[1]).dims, program.type(first.inputs[1]).dims
        if len(shape) != len(other):
            return "the weights differ in rank"
        if not node.surely(Product).windowed and len(shape) != 2:
            return "the weights are no matrices"
        axis = _filter_axis(node)
        if (*shape[:axis], *shape[axis + 1 :]) != (*other[:axis], *other[axis + 1 :]):
            return "the weights differ in depth or kernel"
    return "a convolution is grouped" if first.attrs.get("group", 1) != 1 else None


def _joined(nodes: Sequence[Node], output: str, names: Iterator[str]) -> list[Node]:
    """The one product with weights (and biases) put together, giving `output`; it comes last."""
    axis = _filter_axis(nodes[0])
    weights = next(names)
    made = [make_node("concat", [n.inputs[1] for n in nodes], (weights,), {"axis": axis})]
    inputs = [nodes[0].inputs[0], weights]
    if nodes[0].operand(2):
        inputs.append(next(names))
        made.append(make_node("concat", [n.inputs[2] for n in nodes], (inputs[2],), {"axis": 0}))
    return [*made, replace(nodes[0], inputs=tuple(inputs), outputs=(output,))]


@exact("merge_concatenated", order=36)
class MergeConcatenated(NodeRule):
    """concat(conv(x, w), conv(x, v)) = conv(x, concat(w, v)); also of matmuls, and under one activation."""

    roots = frozenset({"concat"})

    def rewrite(self, program: Program, node: Node) -> Edit | str:
        """All parts products of one value, read by nothing else."""
        parts = [program.producers.get(name) for name in node.inputs]
        if len(parts) < 2 or any(part is None for part in parts):
            return ""
        outer = [part for part in parts if part is not None]
        between = [part for part in outer if part.op in _BETWEEN]
        products = [program.producers.get(p.inputs[0]) if p in between else p for p in outer]
        found = [p for p in products if p is not None and p.op in ("conv", "matmul")]
        if (
            len(found) != len(outer)
            or len({n.op for n in found}) > 1
            or len(set(map(id, found))) < len(found)
        ):
            return ""
        if between and (len(between) < len(outer) or len({b.function for b in between}) > 1):
            return "the products go through different functions"
        if any(program.uses(n.output) > 1 for n in (*between, *found)):
            return "a product is also used elsewhere"
        rank = len(program.type(node.output).dims)
        if normal_axis(node.attrs["axis"], rank) != _channel_axis(program, found[0]):
            return "the parts are not joined along their channels"
        reason = _alike(program, found)
        if reason is not None:
            return reason
        names = program.fresh(node.output)
        middle = next(names) if between else node.output
        made = _joined(found, middle, names)
        if between:
            made.append(replace(between[0], inputs=(middle,), outputs=node.outputs))
        return Edit(remove=(node, *between, *found), add=tuple(made))

    def lemmas(self) -> Iterable[Rule]:
        """Convolutions with and without bias, and matmuls; the twins have the weights in the other order."""
        for bias in (True, False):
            parts = [conv(X, W, B if bias else None), conv(X, V, C if bias else None)]
            biases = (join(0, B, C), join(0, C, B)) if bias else (None, None)
            right, wrong = conv(X, join(0, W, V), biases[0]), conv(X, join(0, V, W), biases[1])
            yield lemma(f"bias={bias}", join(1, *parts), right, wrong, given=_WINDOWS)
        left = join(1, X @ W, X @ V)
        right, wrong = X @ join(1, W, V), X @ join(1, V, W)
        yield lemma("matmul", left, right, wrong, given=matmul_instances((0,), w="C K", v="C J"))


W, V, B, C = (Var(name, static=True) for name in "wvbc")
_WINDOWS = [
    Instance(f"{n}d", {"x": "N M *H+2", "w": f"K M{' 3' * n}", "v": f"K M{' 3' * n}", "b": "K", "c": "K"}, n,
             sample={"conv": {"strides": (2,) * n, "pads": (1,) * (2 * n)}})
    for n in (1, 2)
]  # fmt: skip


class _MergeParallel(NodeRule):
    """Products of one value become one product and a split. An offer: fewer, larger products."""

    def rewrite(self, program: Program, node: Node) -> Edit | str:
        """At the first of several alike products of a value."""
        alike = [
            other
            for other in program.consumers.get(node.inputs[0], ())
            if other.op == node.op and _alike(program, (node, other)) is None
        ]
        if len(alike) < 2 or alike[0] is not node:
            return ""
        if any(other.output in program.outputs for other in alike):
            return "a product is an output of the program"
        axis = _channel_axis(program, node)
        sizes = [program.type(other.output).dims[axis] for other in alike]
        names = program.fresh(node.output)
        whole, parts = next(names), next(names)
        made = _joined(alike, whole, names)
        split = make_node("split", (whole, parts), [n.output for n in alike], {"axis": axis})
        return Edit(
            remove=tuple(alike),
            add=(*made, split),
            constants={parts: np.array([int(size) for size in sizes], dtype=np.int64)},  # type: ignore[arg-type]
        )

    def lemmas(self) -> Iterable[Rule]:
        """The second part of the split is the second product; the twin takes the first."""
        k = Poly.symbol("K")
        if self.roots == {"matmul"}:
            left, merged = X @ V, X @ join(1, W, V)
            given = matmul_instances((0,), w="C K", v="C K")
        else:
            left, merged = ops.conv(X, V), ops.conv(X, join(0, W, V))
            given = [Instance("1d", {"x": "N C H+2", "w": "K C 3", "v": "K C 3"})]
        second, first = (_cut(merged, k * part, k * part + k) for part in (1, 0))
        yield lemma("second part", left, second, first, given=given)


def _cut(x: Term, start: Poly, end: Poly) -> Use:
    return ops.slice(x, np.array([start], dtype=object), np.array([end], dtype=object), np.array([1]))


@exact("merge_parallel_matmuls", phase="offer")
class MergeParallelMatmuls(_MergeParallel):
    """(x @ w, x @ v) = split(x @ concat(w, v))."""

    roots = frozenset({"matmul"})


@exact("merge_parallel_convs", phase="offer")
class MergeParallelConvs(_MergeParallel):
    """(conv(x, w), conv(x, v)) = split(conv(x, concat(w, v)))."""

    roots = frozenset({"conv"})
