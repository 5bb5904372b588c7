"""Nodes as the activations that epilogues know."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tensmith.ir import Node
from tensmith.ir.handlers import Handlers
from tensmith.ir.static import StaticValues
from tensmith.kernel.epilogue import Activation

_activations = Handlers[Callable[[StaticValues, Node], "Activation | None"]]()


def activation_of(constants: StaticValues, node: Node) -> Activation | None:
    """The node as an activation of its first input, if it is one."""
    find = _activations.find(node)
    return find(constants, node) if find else None


@_activations("relu", "sigmoid", "tanh", "hard_swish")
def _plain(constants: StaticValues, node: Node) -> Activation:
    return Activation(node.op)


@_activations("leaky_relu", "hard_sigmoid")
def _parametrized(constants: StaticValues, node: Node) -> Activation:
    """The attributes are the parameters, in the order in which they are declared."""
    return Activation(node.op, tuple(float(node.attrs[name]) for name in node.definition.attributes))


@_activations("gelu")
def _gelu(constants: StaticValues, node: Node) -> Activation | None:
    return Activation("gelu") if node.attrs["approximate"] == "none" else None


@_activations("swish")
def _swish(constants: StaticValues, node: Node) -> Activation | None:
    return Activation("swish") if node.attrs["alpha"] == 1.0 else None


@_activations("clip")
def _clip(constants: StaticValues, node: Node) -> Activation | None:
    """Between constant bounds."""
    bounds = [constants.number(name) if name else None for name in (*node.inputs[1:], "", "")[:2]]
    if any(name and bound is None for name, bound in zip(node.inputs[1:], bounds)):
        return None
    low, high = bounds
    return Activation("clip", (-np.inf if low is None else low, np.inf if high is None else high))
