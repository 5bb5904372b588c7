"""A program as a function that PyTorch differentiates, and as a session that tasks can judge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from tensmith.engine.base import Arrays, Session, specs_of
from tensmith.engine.signature import TensorSpec
from tensmith.errors import EngineError, ProgramError
from tensmith.formula.arith import Array, Floats
from tensmith.ir import Node, Program
from tensmith.ir.interpreter import interpret, run_node
from tensmith.ir.ops.elementwise import Elementwise
from tensmith.ir.ops.product import Product
from tensmith.recovery.learning import LearnedTensor, Learning
from tensmith.recovery.meanings import Tensor, as_array, meaning_of

_FLOATS = Floats()
# How far answers may be: values beside the border of two codes may fall to either.
_NEAR = 0.05


def usual_device() -> str:
    """CUDA's first device where there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


class _Ordered(torch.autograd.Function):  # type: ignore[misc]
    """Values whose gradients lie as they do, rows first or channels last: elementwise ops of two orders take
    many times as long, and layers that move data or sum it answer in the other one."""

    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        orders = torch.contiguous_format, torch.channels_last
        context.orders = [order for order in orders if x.is_contiguous(memory_format=order)]
        return x.view_as(x)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        orders = context.orders
        if not orders or any(gradient.is_contiguous(memory_format=order) for order in orders):
            return gradient
        return gradient.contiguous(memory_format=orders[0])


def _has_orders(value: Any) -> bool:
    """Whether it learns, and its elements can lie in either order."""
    return isinstance(value, torch.Tensor) and value.ndim == 4 and value.requires_grad


class TorchNetwork:
    """A program with some constants that learn; ProgramError where an op has no gradients here.

    What only constants compute is computed once, but for what depends on those that learn.
    """

    def __init__(self, program: Program, learning: Mapping[str, Learning], device: str) -> None:
        self.program, self.learning, self.device = program, learning, device
        self.parameters = dict(_placed(learning, device))
        arrays = {name: array for name, array in program.constants.items() if name not in learning}
        self.nodes: list[Node] = []
        for node in program.nodes:
            if all(name in arrays or not name for name in node.inputs) and node.inputs:
                arrays.update(zip(node.outputs, run_node(program, node, arrays, _FLOATS)))
            else:
                self.nodes.append(node)
        self._known = {name: self._value(array) for name, array in arrays.items()}
        self._last = {name: node for node in self.nodes for name in node.inputs}

    def __call__(self, inputs: Mapping[str, Array]) -> list[Tensor]:
        """The outputs for samples by input."""
        values = {name: self._value(np.asarray(array)) for name, array in inputs.items()}
        values |= self._known | {name: each.value() for name, each in self.learning.items()}
        kept = {*self.program.outputs, *self._known}
        for node in self.nodes:
            values.update(zip(node.outputs, self._run(node, values)))
            for name in set(node.inputs) - kept:
                if self._last[name] is node:
                    values.pop(name, None)
        return [values[name] for name in self.program.outputs]

    def _run(self, node: Node, values: Mapping[str, Any]) -> tuple[Any, ...]:
        inputs = [values[name] if name else None for name in node.inputs]
        if node.kind(Elementwise) is None and node.kind(Product) is None:
            inputs = [_Ordered.apply(x) if _has_orders(x) else x for x in inputs]
        tensors = any(isinstance(value, torch.Tensor) for value in inputs)
        if node.traits.measures or not tensors:
            shapes = {name: _blank(value) for name, value in zip(node.inputs, inputs) if name}
            return run_node(self.program, node, shapes, _FLOATS)
        # What integers become is computed beside the network until it meets what learns.
        inputs = [self._value(x) if isinstance(x, np.ndarray) else x for x in inputs]
        meaning = meaning_of(node)
        if meaning is None:
            if any(isinstance(value, torch.Tensor) and value.requires_grad for value in inputs):
                raise ProgramError(f"{node.label} has no gradients here")
            # Nothing that learns is in it, as in masks, or nobody asks for gradients.
            arrays = {name: as_array(value) for name, value in zip(node.inputs, inputs) if name}
            return tuple(map(self._value, run_node(self.program, node, arrays, _FLOATS)))
        try:
            found = meaning(node, inputs)
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            raise ProgramError(f"{node.label} cannot run in PyTorch: {error}") from error
        return found if isinstance(found, tuple) else (found,)

    def _value(self, array: Array) -> Any:
        """Floats as a tensor where the network is; anything else as it is."""
        if array.dtype.kind != "f":
            return array
        found = torch.tensor(array.astype(np.float32), device=self.device)
        # As convolutions are fastest; what follows keeps the order of its input.
        return found.contiguous(memory_format=torch.channels_last) if found.ndim == 4 else found

    def written(self) -> dict[str, Array]:
        """The constants of the program that say what was learned."""
        return {name: array for each in self.learning.values() for name, array in each.written().items()}


def _blank(value: Any) -> Array:
    """An array of a tensor's shape; an array itself."""
    if isinstance(value, torch.Tensor):
        return np.broadcast_to(np.zeros((), np.float32), tuple(value.shape))
    return np.asarray(value)


def _placed(learning: Mapping[str, Learning], device: str) -> Iterator[tuple[str, LearnedTensor]]:
    """Every parameter under a name of its own, on the device."""
    for name, each in learning.items():
        each.move(device)
        yield from ((f"{name}/{key}", parameter) for key, parameter in each.parameters.items())


def require_agreement(network: TorchNetwork, inputs: Mapping[str, Array]) -> None:
    """ProgramError unless a network answers as its program does, but for rounding."""
    wanted = interpret(network.program, inputs)
    with torch.no_grad():
        found = network(inputs)
    for name, value in zip(network.program.outputs, found):
        distance = np.linalg.norm(as_array(value).astype(np.float64) - wanted[name])
        if not distance <= _NEAR * np.linalg.norm(wanted[name].astype(np.float64)):
            raise ProgramError(f"PyTorch does not compute '{name}' as the program does")


# Samples that a session takes at a time.
_AT_ONCE = 64


class NetworkSession(Session):
    """A network as it answers now, some samples at a time."""

    fewer = True

    def __init__(self, network: TorchNetwork, most: int = _AT_ONCE) -> None:
        self.network, self.samples = network, min(most, _AT_ONCE)
        self.inputs = specs_of(network.program.inputs)
        self.outputs = tuple(TensorSpec(name, "float32", None) for name in network.program.outputs)

    def run(self, inputs: Arrays) -> dict[str, np.ndarray[Any, Any]]:
        """Without gradients."""
        try:
            with torch.no_grad():
                found = self.network(inputs)
        except (ProgramError, torch.OutOfMemoryError) as error:
            raise EngineError(str(error)) from error
        return {name: as_array(value) for name, value in zip(self.network.program.outputs, found)}
