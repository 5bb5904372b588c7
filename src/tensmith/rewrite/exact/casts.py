"""Casts whose element type is known."""

from __future__ import annotations

from tensmith.ir import Node, Program, make_node
from tensmith.ir.types import TensorType
from tensmith.rewrite.rule import Edit, NodeRule, exact


@exact("cast_like_to_cast", order=5)
class CastLikeToCast(NodeRule):
    """cast_like(x, y) = cast(x) to the element type of y, which typing knows."""

    roots = frozenset({"cast_like"})
    structural = "an element type is no formula: both ops convert by the same function"

    def rewrite(self, program: Program, node: Node) -> Edit | str:
        """A cast that does not read y."""
        target = program.facts[node.inputs[1]].type
        if target is None:
            return "the type to cast to is not known"
        attrs = {"to": _onnx_code(target), "saturate": node.attrs["saturate"]}
        return Edit(remove=(node,), add=(make_node("cast", node.inputs[:1], node.outputs, attrs),))


def _onnx_code(type_: TensorType) -> int:
    from tensmith.ir.onnx_schema import ELEMENT_CODES

    return ELEMENT_CODES[type_.dtype]
