"""Products of one value with several constants, made one product."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from tensmith.formula.expr import tensor
from tensmith.formula.poly import Poly
from tensmith.ir import Node, Program, make_node
from tensmith.ir.ops.shared import normal_axis
from tensmith.rewrite.pattern import claim
from tensmith.rewrite.rule import Edit, NodeRule, Obligation, exact
from tensmith.rewrite.term import Case, Use, Var, ops
from tensmith.rewrite.values import freeze, operand

# Functions of one element that may stand between the products and their concat.
_BETWEEN = ("relu", "sigmoid", "tanh", "leaky_relu")

X = Var("x")


def _alike(program: Program, nodes: Sequence[Node]) -> str | None:
    """None if the products read one value with constant weights and equal attributes, else what differs."""
    first = nodes[0]
    for node in nodes:
        if node.inputs[0] != first.inputs[0]:
            return "the products read different values"
        if not all(name in program.static_values for name in node.inputs[1:] if name):
            return f"the weights of '{node.output}' are not constant"
        if freeze(node.attrs) != freeze(first.attrs) or bool(operand(node, 2)) != bool(operand(first, 2)):
            return "the products differ in attributes or in having a bias"
        shape, other = program.type(node.inputs[1]).dims, program.type(first.inputs[1]).dims
        if len(shape) != len(other):
            return "the weights differ in rank"
        if shape[1:] != other[1:] if node.op == "conv" else shape[:-1] != other[:-1]:
            return "the weights differ in depth or kernel"
    return "a convolution is grouped" if first.attrs.get("group", 1) != 1 else None


def _joined(nodes: Sequence[Node], output: str, names: Iterator[str]) -> list[Node]:
    """The one product with weights (and biases) put together, giving `output`; it comes last."""
    axis = 0 if nodes[0].op == "conv" else 1
    weights = next(names)
    made = [make_node("concat", [n.inputs[1] for n in nodes], (weights,), {"axis": axis})]
    inputs = [nodes[0].inputs[0], weights]
    if operand(nodes[0], 2):
        inputs.append(next(names))
        made.append(make_node("concat", [n.inputs[2] for n in nodes], (inputs[2],), {"axis": 0}))
    return [*made, replace(nodes[0], inputs=tuple(inputs), outputs=(output,))]


@exact("merge_concatenated")
class MergeConcatenated(NodeRule):
    """concat(conv(x, w), conv(x, v)) = conv(x, concat(w, v)); also of matmuls, and under one activation."""

    order = 36
    roots = frozenset({"concat"})

    def rewrite(self, program: Program, node: Node) -> Edit | str:
        """All parts products of one value, read by nothing else."""
        parts = [program.producers.get(name) for name in node.inputs]
        if len(parts) < 2 or any(part is None for part in parts):
            return ""
        outer = [part for part in parts if part is not None]
        between = [part for part in outer if part.op in _BETWEEN]
        products = [program.producers.get(p.inputs[0]) if p.op in _BETWEEN else p for p in outer]
        found = [p for p in products if p is not None and p.op in ("conv", "matmul")]
        if (
            len(found) != len(outer)
            or len({n.op for n in found}) > 1
            or len(set(map(id, found))) < len(found)
        ):
            return ""
        if between and (len(between) < len(outer) or len({(b.op, freeze(b.attrs)) for b in between}) > 1):
            return "the products go through different functions"
        if any(program.uses(n.output) > 1 for n in (*between, *found)):
            return "a product is also used elsewhere"
        rank = len(program.type(node.output).dims)
        wanted = 1 if found[0].op == "conv" else rank - 1
        if normal_axis(node.attrs["axis"], rank) != wanted:
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

    def obligations(self) -> Iterable[Obligation]:
        """Convolutions of one and two dimensions with bias, matmuls, and an activation between."""
        return _claims(self.name, lambda a, b: (a, b))

    def twins(self) -> Iterable[Obligation]:
        """The weights in the other order."""
        return _claims(self.name, lambda a, b: (b, a))


def _claims(rule: str, order: Callable[[Var, Var], tuple[Var, Var]]) -> Iterator[Obligation]:
    w, v, b, c = (Var(name, static=True) for name in "wvbc")

    def join(axis: int, first: Var, second: Var) -> Use:
        return ops.concat(*order(first, second), attrs={"axis": axis})

    n, m, k, j = map(Poly.symbol, ("N", "M", "K", "J"))
    for dims in (1, 2):
        spatial = [Poly.symbol(f"H{d}") + 2 for d in range(dims)]
        attrs = {"strides": (2,) * dims, "pads": (1,) * (2 * dims)}
        case = Case("", {
            "x": tensor("x", n, m, *spatial),
            "w": tensor("w", k, m, *(3,) * dims), "v": tensor("v", k, m, *(3,) * dims),
            "b": tensor("b", k), "c": tensor("c", k),
        })  # fmt: skip
        parts = [ops.conv(X, w, b, attrs=attrs), ops.conv(X, v, c, attrs=attrs)]
        whole = ops.conv(X, join(0, w, v), join(0, b, c), attrs=attrs)
        yield claim(f"{rule}/{dims}d", ops.concat(*parts, attrs={"axis": 1}), whole, case)
        bare = [ops.conv(X, w, attrs=attrs), ops.conv(X, v, attrs=attrs)]
        merged = ops.conv(X, join(0, w, v), attrs=attrs)
        yield claim(f"{rule}/{dims}d, no bias", ops.concat(*bare, attrs={"axis": 1}), merged, case)
    case = Case("", {"x": tensor("x", n, m), "w": tensor("w", m, k), "v": tensor("v", m, j)})
    products: list[Use] = [ops.matmul(X, w), ops.matmul(X, v)]
    yield claim(
        f"{rule}/matmul", ops.concat(*products, attrs={"axis": 1}), ops.matmul(X, join(1, w, v)), case
    )


class _MergeParallel(NodeRule):
    """Products of one value become one product and a split. An offer: fewer, larger products."""

    phase = "offer"

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
        axis = 1 if node.op == "conv" else len(program.type(node.output).dims) - 1
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

    def obligations(self) -> Iterable[Obligation]:
        """The second part of the split is the second product."""
        return self._claims(1)

    def twins(self) -> Iterable[Obligation]:
        """The first part is not."""
        return self._claims(0)

    def _claims(self, part: int) -> Iterator[Obligation]:
        w, v = Var("w"), Var("v")
        n, c, k = map(Poly.symbol, "NCK")
        first = k * part
        cut = (np.array([first], dtype=object), np.array([first + k], dtype=object))
        if self.roots == {"matmul"}:
            shapes: dict[str, tuple[Poly, ...]] = {"x": (n, c), "w": (c, k), "v": (c, k)}
            left, merged = ops.matmul(X, v), ops.matmul(X, ops.concat(w, v, attrs={"axis": 1}))
        else:
            shapes = {"x": (n, c, Poly.symbol("H") + 2), "w": (k, c, Poly.of(3)), "v": (k, c, Poly.of(3))}
            left, merged = ops.conv(X, v), ops.conv(X, ops.concat(w, v, attrs={"axis": 0}))
        right = ops.slice(merged, *cut, np.array([1]))
        case = Case("", {name: tensor(name, *shape) for name, shape in shapes.items()})
        yield claim(f"{self.name}/second part", left, right, case)


@exact("merge_parallel_matmuls")
class MergeParallelMatmuls(_MergeParallel):
    """(x @ w, x @ v) = split(x @ concat(w, v))."""

    roots = frozenset({"matmul"})


@exact("merge_parallel_convs")
class MergeParallelConvs(_MergeParallel):
    """(conv(x, w), conv(x, v)) = split(conv(x, concat(w, v)))."""

    roots = frozenset({"conv"})
