"""Nodes as the activations that epilogues know."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tensmith.ir import Node, Program
from tensmith.kernel.epilogue import ACTIVATIONS, Activation

# Attributes that parametrize an activation, in the order of its C form.
_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "leaky_relu": ("alpha",),
    "hard_sigmoid": ("alpha", "beta"),
}


def activation_of(program: Program, node: Node) -> Activation | None:
    """The node as an activation of its first input, if it is one."""
    if node.op == "clip":
        bounds = [scalar(program, name) if name else None for name in (*node.inputs[1:], "", "")[:2]]
        if any(name and bound is None for name, bound in zip(node.inputs[1:], bounds)):
            return None
        low, high = bounds
        return Activation("clip", (-np.inf if low is None else low, np.inf if high is None else high))
    if node.op == "gelu" and node.attrs.get("approximate", "none") != "none":
        return None
    if node.op == "swish" and node.attrs.get("alpha", 1.0) != 1.0:
        return None
    if node.op not in ACTIVATIONS:
        return None
    return Activation(node.op, tuple(float(node.attrs[name]) for name in _PARAMETERS.get(node.op, ())))


def scalar(program: Program, name: str) -> float | None:
    """The number that a constant holds; None if it is no constant of one element."""
    constant = program.constants.get(name)
    return float(constant.reshape(-1)[0]) if constant is not None and constant.size == 1 else None
