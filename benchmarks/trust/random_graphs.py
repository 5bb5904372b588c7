"""Random valid ONNX graphs over all operators that TensIR knows, each made from a number.

A graph joins uses of operators from the node tests of the ONNX standard. What a use reads is a weight, or a
value of the graph that is brought to the shape, the element type and the range of the test's own data: so
whatever is joined is valid, and its numbers stay within reason. Weights are written in all the ways that
exporters have.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.trust.onnx_conformance import as_array, node_cases
from tensmith.errors import TensmithError
from tensmith.frontend.onnx import read_onnx
from tensmith.ir.onnx_schema import find_schema
from tensmith.ir.op import find_onnx
from tensmith.ir.ops.elementwise import Elementwise

Array = np.ndarray[Any, Any]
Shape = tuple[int | str, ...]

OPSETS = tuple(range(7, 27))
INPUTS = ((1, 3, 8, 8), (2, 12), ("n", 10), ("n", 3, 6, 6), (1, 5, 16))
MOST_ELEMENTS = 1 << 14
# How many elements the outputs have depends on the values read.
DATA_SIZED = ("NonZero", "Compress")
# Numbers that values of the graph are made into, and made of.
NUMBERS = ("float32", "float64", "float16", "bool", "int8", "uint8", "int16", "uint16", "int32", "int64")
_LARGEST = 1e4
_FEW = 8


@dataclass(frozen=True, eq=False)
class Use:
    """One use of one operator at an opset, with data that fit it by the names its node has for them."""

    node: onnx.NodeProto
    opset: int
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]

    @property
    def operator(self) -> str:
        return f"{self.node.domain}.{self.node.op_type}"

    @property
    def elementwise(self) -> bool:
        """Whether it takes values of any shape, if they all have the same."""
        op = find_onnx(self.node.domain, self.node.op_type)
        shapes = {array.shape for array in (*self.inputs.values(), *self.outputs.values())}
        return isinstance(op, Elementwise) and len(shapes) == 1

    def fits(self, opset: int) -> bool:
        """Whether the operator is the same at another opset of the standard."""
        if self.node.domain:
            return True
        here = find_schema("", self.node.op_type, self.opset)
        there = find_schema("", self.node.op_type, opset)
        return here is not None and there is not None and here.since_version == there.since_version


@cache
def uses() -> tuple[Use, ...]:
    """All node tests of one operator that TensIR knows, and what the standard has no test of."""
    return (*filter(None, map(_use, node_cases())), *_untested())


def _use(case: Any) -> Use | None:
    graph = case.model.graph
    if len(graph.node) != 1 or not all(
        value.type.HasField("tensor_type") for value in (*graph.input, *graph.output)
    ):
        return None
    try:
        program = read_onnx(case.model)
    except TensmithError:
        return None
    if any(node.opaque is not None for node in program.nodes):
        return None
    given, wanted = case.data_sets[0]
    inputs = {value.name: as_array(array) for value, array in zip(graph.input, given)}
    outputs = {value.name: as_array(array) for value, array in zip(graph.output, wanted)}
    if any(array.size > MOST_ELEMENTS for array in (*inputs.values(), *outputs.values())):
        return None
    return Use(graph.node[0], case.model.opset_import[0].version, inputs, outputs)


def _untested() -> Iterator[Use]:
    values = np.random.default_rng(0)
    x = values.standard_normal((2, 3, 4, 4)).astype(np.float32)
    pooled = np.sqrt((x**2).sum(axis=(2, 3), keepdims=True))
    yield Use(helper.make_node("GlobalLpPool", ["x"], ["y"], p=2), 22, {"x": x}, {"y": pooled})
    rows = values.standard_normal((3, 32)).astype(np.float32)
    codes = values.integers(0, 256, (8, 1, 16)).astype(np.uint8)
    scales = values.uniform(0.1, 1, (8, 1)).astype(np.float32)
    packed = helper.make_node(
        "MatMulNBits", ["a", "b", "s"], ["y"], domain="com.microsoft", K=32, N=8, bits=4, block_size=32
    )
    weights = (np.stack([codes & 15, codes >> 4], axis=-1).reshape(8, 32).astype(np.float32) - 8) * scales
    yield Use(packed, 22, {"a": rows, "b": codes, "s": scales}, {"y": rows @ weights.T})


@dataclass(frozen=True)
class Value:
    """A value of the graph that others may read."""

    name: str
    dtype: str
    shape: Shape


class Graph:
    """A graph as a number draws it."""

    def __init__(self, number: int) -> None:
        self.name = f"random_{number}"
        self._draw = random.Random(number)
        self.opset = self._draw.choice(OPSETS)
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[TensorProto] = []
        self._inputs: list[Value] = []
        self._values: list[Value] = []
        self._ends: list[Value] = []
        self._made = 0
        self.operators: set[str] = set()
        for shape in self._draw.sample(INPUTS, self._draw.choice((1, 1, 2))):
            self._inputs.append(Value(f"x{len(self._inputs)}", "float32", shape))
        self._values += self._inputs
        by_operator: dict[str, list[Use]] = defaultdict(list)
        for use in uses():
            if use.fits(self.opset):
                by_operator[use.operator].append(use)
        for _ in range(self._draw.randint(2, 9)):
            self._join(self._draw.choice(by_operator[self._draw.choice(sorted(by_operator))]))

    def model(self) -> onnx.ModelProto:
        """The model. It passes ONNX's checker."""
        read = {name for node in self._nodes for name in node.input}
        ends = [value for value in self._ends if value.name not in read] or self._ends[-1:]
        taken = ends[-4:]
        old = self.opset <= 8  # IR version 3: weights are inputs as well
        graph = helper.make_graph(
            self._nodes,
            self.name,
            [
                *(_info(value) for value in self._inputs),
                *(_weight_info(weight) for weight in self._weights if old),
            ],
            [_info(value) for value in taken],
            self._weights,
        )
        domains = {node.domain for node in self._nodes} - {""}
        imports = [helper.make_opsetid("", self.opset), *(helper.make_opsetid(d, 1) for d in domains)]
        ir_version = helper.find_min_ir_version_for(imports, ignore_unknown=True)
        return helper.make_model(graph, opset_imports=imports, ir_version=ir_version, producer_name="random")

    # Uses

    def _join(self, use: Use) -> None:
        """One more node, and those that make what it reads."""
        anyhow = use.elementwise and self._is_fed(use, 0) and self._draw.random() < 0.7
        shape = self._shared_shape() if anyhow else None
        names = {"": ""}
        for position, name in enumerate(use.node.input):
            if name not in names:
                fed = self._is_fed(use, position)
                names[name] = (
                    self._fed(use.inputs[name], shape) if fed else self._weight(use.inputs[name], shape)
                )
        node = onnx.NodeProto()
        node.CopyFrom(use.node)
        node.name = self._new("node")
        node.input[:] = [names[name] for name in use.node.input]
        node.output[:] = [self._new("v") if name else "" for name in use.node.output]
        self._nodes.append(node)
        self.operators.add(use.operator)
        for old, name in zip(use.node.output, node.output):
            if old:
                self._made_by(use, old, name, shape)

    def _made_by(self, use: Use, old: str, name: str, shape: Shape | None) -> None:
        array = use.outputs[old]
        open_sizes = tuple(f"{name}_{axis}" for axis in range(array.ndim))
        counted = use.node.op_type in DATA_SIZED
        value = Value(name, _dtype(array), open_sizes if counted else shape or array.shape)
        self._ends.append(value)
        finite = array.size > 0 and array.dtype.name in NUMBERS and bool(np.isfinite(array).all())
        if finite and not counted:
            self._values.append(value)

    def _shared_shape(self) -> Shape:
        return self._draw.choice(self._values[-4:]).shape

    def _is_fed(self, use: Use, position: int) -> bool:
        """Whether an input is computed: data are, in contrast to sizes, axes, indices, bounds and scales."""
        array = use.inputs[use.node.input[position]]
        if array.dtype.name not in NUMBERS or not array.size or not np.isfinite(array).all():
            return False
        if position and (array.dtype.kind in "iu" or self._draw.random() < 0.3):
            return False
        return use.elementwise or array.ndim > 1 or array.size > _FEW

    # Values

    def _fed(self, like: Array, shape: Shape | None) -> str:
        """A value of the graph with the element type and the range of `like`, and its shape or another.

        Where it is shaped anew, its elements differ, as norms of equal ones are all rounding.
        """
        alike = [value for value in self._values[-6:] if value.shape == (shape or like.shape)]
        many = [value for value in self._values if _count(value) >= min(like.size, _FEW)]
        value = self._draw.choice(alike or many[-4:])
        if value.dtype == like.dtype.name == "bool" and alike:
            return value.name
        name = value.name
        if value.dtype != "float32":
            name = self._node("Cast", name, to=TensorProto.FLOAT)
        name = self._node("Softsign", name)  # so that large values do not end at one bound
        if not alike:
            name = self._node("Reshape", name, self._weight(np.array([-1], np.int64)))
            places = (np.arange(like.size) * self._draw.choice((1, 1, 3)) % _count(value)).reshape(like.shape)
            name = self._node("Gather", name, self._weight(places.astype(np.int64)))
            spread = np.random.default_rng(self._draw.randrange(1 << 30)).uniform(-1, 1, like.shape)
            name = self._node("Add", name, self._weight(np.asarray(spread, np.float32)))
        name = self._node("Sigmoid", name)
        if like.dtype == np.bool_:
            return self._node("Greater", name, self._weight(np.float32(0.5)))
        low, high = (float(np.clip(bound, -_LARGEST, _LARGEST)) for bound in (like.min(), like.max()))
        name = self._node("Mul", name, self._weight(np.float32(high - low)))
        name = self._node("Add", name, self._weight(np.float32(low)))
        if like.dtype == np.float32:
            return name
        return self._node("Cast", name, to=helper.np_dtype_to_tensor_dtype(like.dtype))

    def _weight(self, array: Array, shape: Shape | None = None) -> str:
        """A constant, in one of the ways that files have: an initializer, a node, what a node makes of it."""
        array = np.asarray(array)
        if shape is not None:
            array = array.reshape(-1)[:1].reshape(())  # it broadcasts to all shapes
        way = self._draw.choice(("initializer", "initializer", "Constant", "Identity", "ConstantOfShape"))
        uniform = array.size and array.dtype.kind in "fiub" and bool((array == array.flat[0]).all())
        if way == "ConstantOfShape" and uniform and self.opset >= 9:
            sizes = self._initializer(np.array(array.shape, np.int64))
            return self._node(way, sizes, value=_tensor("", array.reshape(-1)[:1]))
        if way == "Constant" and (self.opset >= 9 or array.dtype.kind == "f"):
            return self._node(way, value=_tensor("", array))
        name = self._initializer(array)
        # ONNX Runtime has no Identity of 4 bits or fewer.
        plain = way == "Identity" and array.dtype.name in NUMBERS
        return self._node(way, name) if plain else name

    def _initializer(self, array: Array) -> str:
        self._weights.append(_tensor(self._new("w"), array))
        return self._weights[-1].name

    def _node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        node = helper.make_node(operator, inputs, [self._new("v")], self._new("node"), **attributes)
        self._nodes.append(node)
        return str(node.output[0])

    def _new(self, kind: str) -> str:
        self._made += 1
        return f"{kind}{self._made}"


def _count(value: Value) -> int:
    """Elements, open sizes being 1."""
    return math.prod(1 if isinstance(size, str) else size for size in value.shape)


def _dtype(array: Array) -> str:
    return "str" if array.dtype.kind in "OUS" else array.dtype.name


def _tensor(name: str, array: Array) -> TensorProto:
    return numpy_helper.from_array(array, name)


def _info(value: Value) -> onnx.ValueInfoProto:
    if value.dtype == "str":
        element = TensorProto.STRING
    else:
        known = getattr(ml_dtypes, value.dtype, value.dtype)
        element = helper.np_dtype_to_tensor_dtype(np.dtype(known))
    return helper.make_tensor_value_info(value.name, element, value.shape)


def _weight_info(weight: TensorProto) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(weight.name, weight.data_type, weight.dims)
