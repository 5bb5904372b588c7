"""Weights of recurrent layers on a grid: a row is what one gate of one state multiplies, with its own scale.

Nobody gathers moments of what they multiply, so they are rounded plainly.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tensmith.formula.arith import Array
from tensmith.ir import Node, Program, make_node
from tensmith.ir.ops.recurrence import Recurrent
from tensmith.rewrite.lossy.grid import largest_code

# Which inputs are weights of the element and of the state.
_PLACES = (1, 2)
_TINY = 1e-12


def recurrent_weights(program: Program) -> dict[str, Node]:
    """The floating constants that weights of recurrent layers are, and their nodes."""
    return {
        name: node
        for node in program.nodes
        if node.kind(Recurrent) is not None
        for name in (node.inputs[place] for place in _PLACES)
        if name in program.constants and program.type(name).floating and program.constants[name].size
    }


def rounded(program: Program, name: str, bits: int, stored: str) -> Program:
    """The program with the weights of that name as floats on the grid, or as codes that are dequantized."""
    weights = program.constants[name]
    rows = weights.reshape(-1, weights.shape[2]).astype(np.float64)
    top = largest_code(bits)
    scales = (np.maximum(np.abs(rows).max(axis=1), _TINY) / top).astype(np.float32)
    codes = np.clip(np.rint(rows / scales[:, None]), -top, top).astype(np.int8)
    if stored == "floats":
        values: Array = codes.astype(np.float32) * scales[:, None]
        return program.with_constants({name: values.reshape(weights.shape).astype(weights.dtype)})
    made = ("codes", "scale", "shape", "dequantized")
    codes_name, scale_name, shape_name, matrix = (program.unused(f"{name}.{part}") for part in made)
    parts = {
        codes_name: codes,
        scale_name: scales.astype(weights.dtype),
        shape_name: np.array(weights.shape, np.int64),
    }
    opened = (
        make_node("dequantize_linear", (codes_name, scale_name), (matrix,), {"axis": 0}),
        make_node("reshape", (matrix, shape_name), (name,)),
    )
    kept = {other: array for other, array in program.constants.items() if other != name}
    return replace(program, nodes=(*opened, *program.nodes), constants={**kept, **parts})
