"""Operators as bodies of others: what a definition reads of a use, and the nodes that it puts in its place.

What a definition does not cover (other attributes, outputs, element types) is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tensmith.formula.arith import Array
from tensmith.ir.names import take
from tensmith.ir.onnx_schema import standard_domain
from tensmith.ir.op import trimmed
from tensmith.ir.opaque import renamed
from tensmith.ir.types import DTYPES, TensorType

# The opset at which bodies are said where the file's is older: the first with LayerNormalization.
_OPSET = 17


class Uncovered(Exception):
    """A use that a definition does not cover."""


class OperatorBody:
    """The body of one use: reads inputs and attributes of a node, and adds nodes of the default domain."""

    def __init__(
        self,
        proto: onnx.NodeProto,
        types: Sequence[TensorType | None],
        values: Sequence[Array | None],
        version: int,
        fresh: Callable[[str], str],
    ) -> None:
        self.name, self.version, self.nodes = proto.op_type, version, list[onnx.NodeProto]()
        self._proto, self._types, self._values, self._fresh = proto, types, values, fresh
        self._attributes = {attribute.name: attribute for attribute in proto.attribute}
        self._read = set[str]()
        self._base = next(filter(None, proto.output))

    def has(self, index: int) -> bool:
        """Whether an input is there."""
        return index < len(self._proto.input) and bool(self._proto.input[index])

    def input(self, index: int) -> str:
        """The name of an input, which has to be there."""
        self.need(self.has(index))
        return str(self._proto.input[index])

    def optional(self, index: int) -> str:
        """The name of an input; "" where it is left out."""
        return str(self._proto.input[index]) if self.has(index) else ""

    def inputs(self, count: int) -> list[str]:
        """The first inputs, the only ones that may be there; "" for those left out."""
        self.need(not any(self._proto.input[count:]))
        return list(map(self.optional, range(count)))

    def wants(self, index: int) -> bool:
        """Whether an output is asked for."""
        return index < len(self._proto.output) and bool(self._proto.output[index])

    def type(self, index: int) -> TensorType:
        """The type of an input, whose rank is known."""
        self.input(index)
        type_ = self._types[index]
        if type_ is None or type_.shape is None:
            raise Uncovered
        return type_

    def value(self, index: int) -> Array:
        """The value of an input that is a constant of the file."""
        value = self._values[index] if self.has(index) else None
        if value is None:
            raise Uncovered
        return value

    def integer(self, index: int) -> int:
        """The one number of an input that is a constant of the file."""
        value = self.value(index)
        self.need(value.size == 1 and value.dtype.kind in "iu")
        return int(value.reshape(()))

    def size(self, index: int, axis: int) -> int:
        """The size of an axis of an input, which has to be known."""
        self.need(-self.rank(index) <= axis < self.rank(index))
        size = self.type(index).dims[axis]
        if not isinstance(size, int):
            raise Uncovered
        return size

    def known(self, index: int) -> bool:
        """Whether an input is a constant of the file."""
        return self.has(index) and self._values[index] is not None

    def count(self) -> int:
        """How many inputs there are, those left out among them."""
        return len(self._proto.input)

    def rank(self, index: int) -> int:
        """The rank of an input."""
        return len(self.type(index).shape or ())

    def attribute(self, name: str, default: Any) -> Any:
        """An attribute of the kind that its default has."""
        self._read.add(name)
        if name not in self._attributes:
            return default
        value = helper.get_attribute_value(self._attributes[name])
        value = value.decode() if isinstance(value, bytes) else value
        self.need(isinstance(value, type(default)) and not self._attributes[name].ref_attr_name)
        return value

    def given(self, *among: str) -> dict[str, Any]:
        """Those of some attributes that are given."""
        names = [name for name in among if name in self._attributes]
        self._read.update(names)
        self.need(not any(self._attributes[name].ref_attr_name for name in names))
        return {name: helper.get_attribute_value(self._attributes[name]) for name in names}

    def all_read(self) -> bool:
        """Whether the body knows of all attributes that are given."""
        return self._attributes.keys() <= self._read

    @staticmethod
    def need(covered: bool) -> None:
        """Leaves the node as it is unless a condition holds."""
        if not covered:
            raise Uncovered

    def add(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """A new node of one output, which it gives; inputs that are "" are left out."""
        output = self._fresh(f"{self._base}.{op_type.lower()}")
        self.nodes.append(helper.make_node(op_type, trimmed(inputs), [output], **attributes))
        return output

    def many(self, op_type: str, count: int, *inputs: str) -> list[str]:
        """A new node of several outputs, which it gives."""
        outputs = [self._fresh(f"{self._base}.{op_type.lower()}.{number}") for number in range(count)]
        self.nodes.append(helper.make_node(op_type, list(inputs), outputs))
        return outputs

    def constant(self, value: Any, dtype: str) -> str:
        """A new constant."""
        return self.add("Constant", value=numpy_helper.from_array(np.array(value, DTYPES[dtype])))


Definition = Callable[[OperatorBody], Sequence[str]]
Definitions = Mapping[tuple[str, str], Definition]


class Bodies(dict[tuple[str, str], Definition]):
    """Domain and name of operators -> their definitions."""

    def operator(self, *names: str, domain: str = "") -> Callable[[Definition], Definition]:
        """Registers a definition."""

        def register(definition: Definition) -> Definition:
            self.update({(domain, name): definition for name in names})
            return definition

        return register


def expanded(
    definitions: Definitions,
    proto: onnx.NodeProto,
    types: Sequence[TensorType | None],
    values: Sequence[Array | None],
    version: int,
    fresh: Callable[[str], str],
) -> tuple[list[onnx.NodeProto], int] | None:
    """What to read in place of a node, and at which opset; None where it is to stay.

    types, values: of the inputs, None where unknown; version: the file's opset; fresh: a new name of a base.
    """
    definition = definitions.get((standard_domain(proto.domain), proto.op_type))
    if definition is None or (proto.op_type == "LayerNormalization" and version >= _OPSET):
        return None
    taken = {*proto.input, *proto.output}
    body = OperatorBody(proto, types, values, max(version, _OPSET), lambda base: take(base, taken, 1))
    try:
        for index in filter(body.has, range(len(proto.input))):
            body.type(index)
        results = definition(body)
    except Uncovered:
        return None
    wanted = [*proto.output]
    if not body.all_read() or any(wanted[len(results) :]) or not all(
        result for result, name in zip(results, wanted) if name
    ):  # fmt: skip
        return None
    names = {name: fresh(name) for node in body.nodes for name in node.output}
    names |= {result: name for result, name in zip(results, wanted) if name}
    nodes = [renamed(node, names) for node in body.nodes]
    nodes[-1].name = proto.name
    return nodes, body.version
