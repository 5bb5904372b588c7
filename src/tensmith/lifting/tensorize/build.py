"""A TensIR program under construction, whose tensors carry the index variables they vary over.

A tensor's `axes` are names of index variables in the order of the space, outermost first; it does not vary
over the others. Elementwise nodes align their operands by putting in axes of size 1, so that broadcasting
does the rest. Equal nodes and equal inputs are made once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensmith.formula.arith import Array
from tensmith.formula.expr import NOWHERE
from tensmith.formula.poly import Poly
from tensmith.formula.types import MachineType
from tensmith.ir import Node, Program, TensorType
from tensmith.ir.names import take
from tensmith.ir.onnx_schema import ELEMENT_CODES
from tensmith.ir.part import alive
from tensmith.ir.program import make_node
from tensmith.ir.types import DTYPES
from tensmith.lifting.lifted import ArrayView, Input
from tensmith.lifting.loops import dtype_of
from tensmith.lifting.refusal import Refusal


@dataclass(frozen=True)
class Tensor:
    """A value of the program: its name, element type, and the index variables it varies over."""

    name: str
    dtype: str
    axes: tuple[str, ...] = ()


@dataclass
class Build:
    """Nodes, constants and inputs so far. extents: index variable -> its extent, in the order of axes;
    parameters: names that are only given to what they name."""

    parameters: frozenset[str] = frozenset()
    extents: dict[str, Poly] = field(default_factory=dict)
    inputs: dict[str, Input] = field(default_factory=dict)
    types: dict[str, TensorType] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    _known: dict[Any, Tensor] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)

    def program(self, name: str, outputs: Sequence[str]) -> Program:
        """The program without what no output needs; inputs in the order they were first read."""
        nodes = tuple(alive(self.nodes, outputs))
        needed = {*outputs, *(name for node in nodes for name in node.inputs)}
        return Program(
            name,
            {key: self.types[key] for key in self.inputs if key in needed},
            tuple(outputs),
            nodes,
            {key: array for key, array in self.constants.items() if key in needed},
        )

    def name(self, base: str, parameter: bool = False) -> str:
        """A value name not used yet; parameter: it may be that of a parameter."""
        name = take(base.replace(".", "_"), self._names | (frozenset() if parameter else self.parameters))
        self._names.add(name)
        return name

    # Inputs and constants

    def view(self, view: ArrayView, dtype: str, axes: tuple[str, ...]) -> Tensor:
        """An input that reads a view; one input for equal views."""

        def make() -> Tensor:
            given = Input(self.name(view.array, parameter=True), view=view)
            return self._input(given, TensorType(dtype, view.shape), axes)

        found = self._once((view, dtype), make)
        return Tensor(found.name, dtype, axes)

    def scalar(self, parameter: str, type_: MachineType) -> Tensor:
        """An input that is a scalar parameter."""
        dtype = dtype_of(type_)

        def make() -> Tensor:
            given = Input(self.name(parameter, parameter=True), scalar=parameter)
            return self._input(given, TensorType(dtype, ()), ())

        return self._once(("scalar", parameter), make)

    def positions(self, extent: Poly, axes: tuple[str, ...]) -> Tensor:
        """The i64 vector 0, 1, ..., extent-1 along an axis."""

        def make() -> Tensor:
            name = self.name(f"{axes[0].split('%')[0] if axes else 'i'}_at")
            return self._input(Input(name, positions=extent), TensorType("i64", (extent,)), axes)

        found = self._once(("positions", extent), make)
        return Tensor(found.name, "i64", axes)

    def _input(self, given: Input, type_: TensorType, axes: tuple[str, ...]) -> Tensor:
        self.inputs[given.name], self.types[given.name] = given, type_
        return Tensor(given.name, type_.dtype, axes)

    def constant(self, value: Any, dtype: str) -> Tensor:
        """A constant of any shape that varies over no index. Raises Refusal where its type cannot hold it."""
        try:
            array = np.asarray(value, dtype=DTYPES[dtype])
        except OverflowError:
            reason = f"it computes with {value}, which {dtype} cannot hold (an unsigned number that wraps?)"
            raise Refusal(f"{reason}; use a wider or signed type", NOWHERE) from None

        def make() -> Tensor:
            name = self.name("c")
            self.constants[name] = array
            return Tensor(name, dtype)

        return self._once(("constant", dtype, array.shape, array.tobytes()), make)

    # Nodes

    def node(
        self, op: str, inputs: Iterable[Tensor], dtype: str, axes: tuple[str, ...], **attrs: Any
    ) -> Tensor:
        """A node with one output; attributes left out have their defaults."""
        names = tuple(tensor.name for tensor in inputs)

        def make() -> Tensor:
            name = self.name("t")
            self.nodes.append(make_node(op, names, (name,), attrs))
            return Tensor(name, dtype, axes)

        found = self._once((op, names, dtype, tuple(sorted(attrs.items()))), make)
        return Tensor(found.name, dtype, axes)

    def _once(self, key: Any, make: Any) -> Tensor:
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def ordered(self, axes: Iterable[str]) -> tuple[str, ...]:
        """Index variables in the order of the space."""
        wanted = set(axes)
        return tuple(axis for axis in self.extents if axis in wanted)

    def insert(self, variable: str, extent: Poly, before: str) -> None:
        """Adds an index variable to the space, next to another, or at its end."""
        found: dict[str, Poly] = {}
        for name, known in self.extents.items():
            if name == before:
                found[variable] = extent
            found[name] = known
        self.extents = {**found, variable: extent} if variable not in found else found

    def elementwise(self, op: str, *operands: Tensor, dtype: str = "", **attrs: Any) -> Tensor:
        """An elementwise node over the joint axes of its operands; of the first operand's type by default."""
        axes = self.ordered(axis for operand in operands for axis in operand.axes)
        aligned = [self.align(operand, axes) for operand in operands]
        return self.node(op, aligned, dtype or operands[0].dtype, axes, **attrs)

    def align(self, tensor: Tensor, axes: tuple[str, ...]) -> Tensor:
        """The tensor with axes of size 1 put in, so that it broadcasts against `axes`."""
        if not tensor.axes or tensor.axes == axes:
            return tensor
        wanted = axes[axes.index(tensor.axes[0]) :]
        missing = [place for place, axis in enumerate(wanted) if axis not in tensor.axes]
        if not missing:
            return tensor
        return self.node("unsqueeze", (tensor, self.constant(missing, "i64")), tensor.dtype, tensor.axes)

    def cast(self, tensor: Tensor, dtype: str) -> Tensor:
        """The tensor in another element type."""
        if tensor.dtype == dtype:
            return tensor
        return self.node("cast", (tensor,), dtype, tensor.axes, to=ELEMENT_CODES[dtype])

    def arrange(self, tensor: Tensor, axes: tuple[str, ...]) -> Tensor:
        """The tensor with its axes in another order: an input is viewed differently, others transposed."""
        if tensor.axes == axes:
            return tensor
        order = [tensor.axes.index(axis) for axis in axes]
        view = self.inputs[tensor.name].view if tensor.name in self.inputs else None
        if view is not None:
            steps = tuple(tuple(row[place] for place in order) for row in view.steps)
            turned = ArrayView(view.array, view.offset, steps, tuple(view.shape[place] for place in order))
            return self.view(turned, tensor.dtype, axes)
        return self.node("transpose", (tensor,), tensor.dtype, axes, perm=tuple(order))

    def with_spare(self, tensor: Tensor, axis: str) -> Tensor:
        """A tensor with an element 0 behind the last along an axis."""
        pads = [0] * (2 * len(tensor.axes))
        pads[len(tensor.axes) + tensor.axes.index(axis)] = 1
        bounds, zero = self.constant(pads, "i64"), self.constant(0, tensor.dtype)
        return self.node("pad", (tensor, bounds, zero), tensor.dtype, tensor.axes)

    def size(self, extent: Poly, dtype: str) -> Tensor:
        """An extent as a value."""
        if extent.constant is not None:
            return self.constant(extent.constant, dtype)
        return self.cast(self.node("size", (self.positions(extent, ()),), "i64", ()), dtype)

    def expand(self, tensor: Tensor, axes: tuple[str, ...]) -> Tensor:
        """The tensor repeated along the axes it does not vary over."""
        if tensor.axes == axes:
            return tensor
        aligned = self.align(tensor, axes)
        sizes = [self._length(self.extents[axis]) for axis in axes]
        shape = sizes[0] if len(sizes) == 1 else self.node("concat", sizes, "i64", (), axis=0)
        return self.node("expand", (aligned, shape), tensor.dtype, axes)

    def _length(self, extent: Poly) -> Tensor:
        """An extent as a vector of one size, whose value is known before running."""
        if extent.constant is not None:
            return self.constant([extent.constant], "i64")
        return self.node("shape", (self.positions(extent, ()),), "i64", ())
