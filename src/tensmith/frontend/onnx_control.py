"""Control flow whose course is known when a model is read: the branch of an If, the turns of a Loop or Scan.

What is known is replaced by nodes that compute the same without it, and everything else stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import AttributeProto, TensorProto, helper

from tensmith.formula.arith import Array
from tensmith.ir.onnx_schema import standard_domain
from tensmith.ir.opaque import captures, definitions, renamed, subgraphs

# Of all loops of a file together: what their turns have of nodes, and of bytes.
_MOST_NODES, _MOST_BYTES = 4096, 1 << 26

Nodes = list[onnx.NodeProto]


class ControlFlow:
    """Expands nodes of one file.

    value, size: what the reader knows of a value's elements, and of its size along an axis; None if nothing.
    fresh: a new name of a base.
    """

    def __init__(
        self,
        value: Callable[[str], Array | None],
        size: Callable[[str, int], int | None],
        fresh: Callable[[str], str],
    ) -> None:
        self._value, self._size, self._fresh = value, size, fresh
        self._left, self._left_bytes = _MOST_NODES, _MOST_BYTES

    def expanded(self, proto: onnx.NodeProto) -> Nodes | None:
        """What to read in place of a node; None where it is to stay."""
        way = _WAYS.get(proto.op_type) if standard_domain(proto.domain) == "" else None
        if way is None or not all(map(_sound, subgraphs(proto))):
            return None
        return way(self, proto, {attribute.name: attribute for attribute in proto.attribute})

    def _branch(self, proto: onnx.NodeProto, attributes: Mapping[str, AttributeProto]) -> Nodes | None:
        """The nodes of the branch that an If always takes."""
        condition = self._truth(proto.input[0]) if proto.input else None
        name = "then_branch" if condition else "else_branch"
        if condition is None or name not in attributes:
            return None
        graph = attributes[name].g
        constants, names = self._hoisted(graph)
        return [*constants, *self._body(graph, names, proto.output)]

    def _loop(self, proto: onnx.NodeProto, attributes: Mapping[str, AttributeProto]) -> Nodes | None:
        """The turns of a Loop that always takes as many."""
        if len(proto.input) < 2 or "body" not in attributes:
            return None
        count, body = self._value(proto.input[0]), attributes["body"].g
        goes = self._truth(proto.input[1]) if proto.input[1] else True
        carried = list(proto.input[2:])
        if count is None or count.dtype.kind not in "iu" or count.size != 1:
            return None
        if goes is None or len(body.input) != 2 + len(carried):
            return None
        if goes and not self._goes_on(body):
            return None
        turns = max(0, int(count.reshape(()))) if goes else 0
        read = {name for node in body.node for name in (*node.input, *captures(node))}
        read.update(value.name for value in body.output[1:])

        def given(turn: int) -> tuple[Nodes, dict[str, str]]:
            numbers = {
                body.input[0].name: (TensorProto.INT64, turn),
                body.input[1].name: (TensorProto.BOOL, 1),
            }
            names = {name: self._fresh(f"{name}.{turn}") for name in numbers if name in read}
            return [_scalar(names[name], *numbers[name]) for name in names], names

        return self._unrolled(_Turns(body, turns, 2, 1, given), carried, proto.output, {})

    def _scan(self, proto: onnx.NodeProto, attributes: Mapping[str, AttributeProto]) -> Nodes | None:
        """The turns of a Scan over axes of known size."""
        count = attributes["num_scan_inputs"].i if "num_scan_inputs" in attributes else 0
        if "body" not in attributes or not 0 < count <= len(proto.input):
            return None
        body, first = attributes["body"].g, len(proto.input) - count
        axes = _integers(attributes, "scan_input_axes", count)
        backwards = _integers(attributes, "scan_input_directions", count)
        sizes = {self._size(name, axis) for name, axis in zip(proto.input[first:], axes)}
        turns = sizes.pop()
        if sizes or not turns or len(body.input) != len(proto.input):
            return None
        length = turns

        def given(turn: int) -> tuple[Nodes, dict[str, str]]:
            nodes: Nodes = []
            names: dict[str, str] = {}
            for value, source, axis, back in zip(body.input[first:], proto.input[first:], axes, backwards):
                at, names[value.name] = (self._fresh(f"{value.name}.{turn}") for _ in range(2))
                nodes.append(_scalar(at, TensorProto.INT64, length - 1 - turn if back else turn))
                nodes.append(helper.make_node("Gather", [source, at], [names[value.name]], axis=axis))
            return nodes, names

        outputs = len(body.output) - first
        places = _integers(attributes, "scan_output_axes", outputs)
        turned = _integers(attributes, "scan_output_directions", outputs)
        joined = {number: (axis, bool(back)) for number, (axis, back) in enumerate(zip(places, turned))}
        return self._unrolled(
            _Turns(body, turns, 0, 0, given), list(proto.input[:first]), proto.output, joined
        )

    def _unrolled(
        self,
        turns: _Turns,
        carried: list[str],
        outputs: Sequence[str],
        joined: Mapping[int, tuple[int, bool]],
    ) -> Nodes | None:
        """All turns one after the other, then the joins of what each turn gives.

        joined: of the outputs after those carried, the axis that joins them and whether backwards.
        """
        body, count = turns.body, len(carried)
        parts: list[list[str]] = [[] for _ in body.output[turns.outputs + count :]]
        cost = turns.count * (_node_count(body) + 2 * len(body.input) + len(parts))
        size = turns.count * sum(node.ByteSize() for node in body.node if not _is_constant(node))
        wanted = [*outputs, *[""] * (count + len(parts) - len(outputs))]
        if len(outputs) > len(wanted) or (not turns.count and any(wanted[count:])):
            return None
        if cost > self._left or size > self._left_bytes:
            return None
        self._left, self._left_bytes = self._left - cost, self._left_bytes - size
        nodes, names = self._hoisted(body)
        for turn in range(turns.count):
            before, given = turns.given(turn)
            places = [value.name for value in body.input[turns.inputs : turns.inputs + count]]
            results = [self._fresh(f"{value.name}.{turn}") for value in body.output[turns.outputs :]]
            inner = self._body(
                body, names | given | dict(zip(places, carried)), [*[""] * turns.outputs, *results]
            )
            nodes += [*before, *inner]
            carried = results[:count]
            for part, name in zip(parts, results[count:]):
                part.append(name)
        nodes += [helper.make_node("Identity", [a], [b]) for a, b in zip(carried, wanted) if b]
        for number, (part, output) in enumerate(zip(parts, wanted[count:])):
            axis, backwards = joined.get(number, (0, False))
            nodes += self._joined(part[::-1] if backwards else part, output, axis) if output else []
        return nodes

    def _joined(self, parts: Sequence[str], output: str, axis: int) -> Iterator[onnx.NodeProto]:
        """Values, each one more of an axis that they lack."""
        axes, *rows = (self._fresh(f"{output}.{name}") for name in ("axes", *range(len(parts))))
        yield _constant(axes, helper.make_tensor("", TensorProto.INT64, [1], [axis]))
        for part, row in zip(parts, rows):
            yield helper.make_node("Unsqueeze", [part, axes], [row])
        yield helper.make_node("Concat", rows, [output], axis=axis)

    def _goes_on(self, body: onnx.GraphProto) -> bool:
        """Whether a body of a Loop never ends it: its condition is true, or stays what it was."""
        if not body.output:
            return False
        name = body.output[0].name
        makers = {output: node for node in body.node for output in node.output}
        while name in makers and makers[name].op_type == "Identity" and makers[name].input:
            name = makers.pop(name).input[0]
        if name == body.input[1].name:
            return True
        if name in makers:
            values = [each.t for each in makers[name].attribute if makers[name].op_type == "Constant"]
        else:
            values = [tensor for tensor in body.initializer if tensor.name == name]
        if name in definitions(body):
            return any(
                v.data_type == TensorProto.BOOL and (v.raw_data or v.int32_data[:]) in (b"\1", [1])
                for v in values
            )
        return self._truth(name) is True

    def _truth(self, name: str) -> bool | None:
        """A condition, if it is known."""
        value = self._value(name)
        return bool(value.reshape(())) if value is not None and value.size == 1 else None

    def _hoisted(self, graph: onnx.GraphProto) -> tuple[Nodes, dict[str, str]]:
        """A graph's constants as nodes outside of it, and what they are called there."""
        constants = [_constant(tensor.name, tensor) for tensor in graph.initializer]
        constants += [
            helper.make_node("Constant", [], [sparse.values.name], sparse_value=sparse)
            for sparse in graph.sparse_initializer
        ]
        constants += filter(_is_constant, graph.node)
        names = {name: self._fresh(name) for node in constants for name in node.output}
        return [renamed(node, names) for node in constants], names

    def _body(
        self, graph: onnx.GraphProto, names: Mapping[str, str], outputs: Sequence[str]
    ) -> Iterator[onnx.NodeProto]:
        """A graph's other nodes. names: what they read, as it is called outside; outputs: what they give."""
        nodes = [node for node in graph.node if not _is_constant(node)]
        own = {name for node in nodes for name in node.output if name}
        given = {value.name: output for value, output in reversed([*zip(graph.output, outputs)]) if output}
        inside = {name: given[name] if name in given else self._fresh(name) for name in sorted(own)}
        names = {**names, **inside}
        for node in nodes:
            copy = renamed(node, names)
            copy.ClearField("name")  # which is to be unique
            yield copy
        for value, output in zip(graph.output, outputs):
            found = names.get(value.name, value.name)
            if output and found != output:
                yield helper.make_node("Identity", [found], [output])


@dataclass(frozen=True)
class _Turns:
    """How often a body runs. Its first `inputs` and `outputs` are the loop's own.

    given: of a turn, the names of inputs that are not carried, and the nodes that make them.
    """

    body: onnx.GraphProto
    count: int
    inputs: int
    outputs: int
    given: Callable[[int], tuple[Nodes, dict[str, str]]]


_WAYS: dict[str, Callable[..., Nodes | None]] = {
    "If": ControlFlow._branch, "Loop": ControlFlow._loop, "Scan": ControlFlow._scan,
}  # fmt: skip


def _sound(graph: onnx.GraphProto) -> bool:
    """Whether a graph defines every name once."""
    own = list(definitions(graph))
    return len(own) == len(set(own)) and "" not in own


def _is_constant(node: onnx.NodeProto) -> bool:
    return node.op_type == "Constant" and standard_domain(node.domain) == "" and len(node.output) == 1


def _node_count(graph: onnx.GraphProto) -> int:
    return sum(1 + sum(map(_node_count, subgraphs(node))) for node in graph.node)


def _integers(attributes: Mapping[str, AttributeProto], name: str, count: int) -> list[int]:
    """As many integers as an attribute has to have, or zeros."""
    given = list(attributes[name].ints) if name in attributes else []
    return given if len(given) == count else [0] * count


def _constant(name: str, tensor: TensorProto) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [name], value=tensor)


def _scalar(name: str, element: int, value: Any) -> onnx.NodeProto:
    return _constant(name, helper.make_tensor("", element, [], [value]))
