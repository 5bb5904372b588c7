"""Which ops act on each element alone, and clean-ups of such ops."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from tensmith.ir import Node, Program
from tensmith.ir.ops.elementwise import Elementwise
from tensmith.ir.ops.shared import broadcast_shapes, surely_broadcast
from tensmith.rewrite.given import Instance
from tensmith.rewrite.law import ELEMENTWISE, law, lemma
from tensmith.rewrite.match import Match
from tensmith.rewrite.rule import Edit, NodeRule, Rule, exact
from tensmith.rewrite.term import AnyElementwise, Var, ops

X, Y = Var("x"), Var("y")
C, D = Var("c", static=True), Var("d", static=True)


def pointwise_source(program: Program, node: Node) -> str | None:
    """The one input that a node maps element by element, its other inputs being scalars; else None."""
    if node.kind(Elementwise) is None or len(node.outputs) != 1:
        return None
    wide = [name for name in node.inputs if name and program.facts[name].type != _scalar(program, name)]
    if len(wide) != 1 or node.inputs.count(wide[0]) != 1:
        return None
    return wide[0] if program.facts[wide[0]].type == program.facts[node.output].type else None


def _scalar(program: Program, name: str) -> object:
    type_ = program.facts[name].type
    return None if type_ is None else type_.with_shape(())


law("product_with_reciprocal", X * ops.reciprocal(Y), X / Y, Y / X, order=40)


def _no_larger(m: Match) -> str | None:
    """x varies, neither constant broadcasts it, and together they are no larger than one of them."""
    if m.values["x"] in m.program.static_values:
        return ""
    shape, sizes = m.type(X).shape, (m.shape(C), m.shape(D))
    if shape is None or m.program.type(m.nodes[0].output).shape != shape:
        return "a constant broadcasts the value"
    return None if broadcast_shapes(*sizes) in sizes else "the constants together are larger than each"


law("add_constants", (X + C) + D, X + (C + D), X + (C - D), when=_no_larger, order=43)
law("multiply_constants", (X * C) * D, X * (C * D), X * (C / D), when=_no_larger, order=43)


@exact("expand_before_elementwise", order=44)
class ExpandBeforeElementwise(NodeRule):
    """f(expand(x), y) = f(x, y), where y gives f its shape anyway."""

    roots = ELEMENTWISE

    def rewrite(self, program: Program, node: Node) -> Edit | str:
        """Every operand that need not be expanded."""
        out = program.facts[node.output].type
        inputs = list(node.inputs)
        if "" in inputs:
            return ""
        shapes = {name: type_.shape for name in inputs if (type_ := program.facts[name].type) is not None}
        if out is None or out.shape is None or len(shapes) < len(set(inputs)) or None in shapes.values():
            return ""
        op = node.kind(Elementwise)
        for position, name in enumerate(node.inputs):
            if op is not None and op.one_way and position == 0:
                continue
            made = program.producers.get(name)
            if made is None or made.op != "expand":
                continue
            source = program.facts[made.inputs[0]].type
            if source is None or source.shape is None:
                continue
            others = [shapes[other] or () for p, other in enumerate(inputs) if p != position]
            met = (source.shape, *others)
            if broadcast_shapes(*met) == out.shape and surely_broadcast(*met):
                inputs[position] = made.inputs[0]
                shapes[made.inputs[0]] = source.shape
        if tuple(inputs) == node.inputs:
            return ""
        return Edit(remove=(node,), add=(replace(node, inputs=tuple(inputs)),))

    def lemmas(self) -> Iterable[Rule]:
        """For every function of two elements; the twin expands where y does not make up for it."""
        sides = (
            AnyElementwise("f", (x, Y))
            for x in (ops.expand(X, np.array([1, 1])), X, ops.expand(X, np.array([4, 1, 1])))
        )
        yield lemma("any function", *sides, given=[Instance("column", {"x": "N 1", "y": "N C"})])
