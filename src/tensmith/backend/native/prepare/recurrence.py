"""A recurrent layer as the product of its input with weights, all steps at once, and the fold of the rest."""

from __future__ import annotations

import numpy as np

from tensmith.ir import Node
from tensmith.ir.builder import ProgramBuilder
from tensmith.ir.op import trimmed
from tensmith.ir.ops.recurrence import Recurrent
from tensmith.kernel.view import Shape


def input_product(builder: ProgramBuilder, node: Node, shape: Shape) -> bool:
    """fold(x W + Wb), steps before batches; lengths that are all that of x are left out."""
    layer = node.kind(Recurrent)
    r = builder.program.type(node.inputs[2]).static
    if layer is None or r is None or not node.inputs[1]:
        return False
    name, (ways, rows, _) = node.output, r
    x, w, states, bias, lengths, *rest = node.operands(8)
    turned = bool(node.attrs["layout"])
    steps, batch = (shape[1], shape[0]) if turned else shape[:2]
    if lengths:
        known = builder.program.facts[lengths].value
        if known is not None and (known == steps).all():
            lengths = ""
    if turned:
        x = builder.add("transpose", (x,), f"{name} steps", perm=(1, 0, 2))
        for place in layer.first:
            if rest[place - 5]:
                start = (rest[place - 5],)
                rest[place - 5] = builder.add("transpose", start, f"{name} start {place}", perm=(1, 0, 2))
    whole = ways * rows
    product = [builder.reshape(x, (steps * batch, shape[2]), f"{name} elements")]
    product.append(_matrix(builder, w, (whole, shape[2]), f"{name} weights"))
    if bias:
        bounds = [builder.constant(f"{name} {word}", np.array([n], np.int64))
                  for word, n in (("from", 0), ("to", rows), ("axis", 1))]  # fmt: skip
        first = builder.add("slice", (bias, *bounds), f"{name} first")
        product.append(builder.reshape(first, (whole,), f"{name} bias"))
    sums = builder.add("gemm", product, f"{name} products", transB=1)
    sums = builder.reshape(sums, (steps, batch, whole), f"{name} sums")
    inputs = trimmed((sums, "", states, bias, lengths, *rest))
    if not turned:
        builder.many(node.op, inputs, node.outputs, **node.attrs)
        return True
    before = [f"{value} turned" if value else "" for value in node.outputs]
    made = builder.many(node.op, inputs, before, **{**node.attrs, "layout": 0})
    for place, (value, output) in enumerate(zip(made, node.outputs)):
        if output:
            perm = (2, 0, 1, 3) if place == 0 else (1, 0, 2)
            builder.add("transpose", (value,), output, perm=perm)
    return True


def _matrix(builder: ProgramBuilder, value: str, shape: Shape, name: str) -> str:
    """`value` as a matrix: what was reshaped into it, where that is one."""
    producer = builder.program.producers.get(value)
    before = producer.inputs[0] if producer is not None and producer.traits.renames else ""
    if before and builder.program.type(before).static == shape:
        return before
    return builder.reshape(value, shape, name)
