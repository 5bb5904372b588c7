"""ONNX models as TensIR programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto

from tensmith.errors import ModelError, ProgramError
from tensmith.formula.arith import Array
from tensmith.frontend import onnx_body, onnx_contrib, onnx_standard
from tensmith.frontend.model_files import node_tensors
from tensmith.frontend.onnx_control import ControlFlow
from tensmith.frontend.onnx_file import OnnxFile, open_onnx
from tensmith.frontend.onnx_order import in_order
from tensmith.frontend.onnx_tensor import ExternalFiles, read_attribute, read_sparse, read_tensor
from tensmith.frontend.onnx_types import Stated, Symbols, tensor_type
from tensmith.ir.infer import Facts, constant_facts, infer_node, typed_call
from tensmith.ir.onnx_schema import (
    ELEMENT_TYPES,
    NEWEST_OPSET,
    UNKNOWN,
    misfit,
    operator_name,
    schema_default,
    standard_domain,
)
from tensmith.ir.op import REQUIRED, Node, Op, Typed, find_onnx, trimmed
from tensmith.ir.opaque import captures
from tensmith.ir.program import PRODUCER, PRODUCER_KEY, Origin, Program
from tensmith.ir.types import TensorType


def read_onnx(source: str | Path | bytes | onnx.ModelProto) -> Program:
    """The program of an ONNX model: a path, a file's bytes, or a ModelProto.

    Operators TensIR does not claim become opaque nodes. Raises ModelError for whatever is wrong with it.
    """
    file = open_onnx(source)
    try:
        return _Reader(file).program()
    except ProgramError as error:
        raise ModelError(f"{file.label}: {error}; export the model again") from error


_BODIES = {**onnx_contrib.BODIES, **onnx_standard.BODIES}
# Bytes of bodies from which on operators stay as they are: a small file may ask for many large transforms.
_MOST_WRITTEN = 1 << 28


class _Opaque(Exception):
    """Why a node stays opaque."""


class _Reader:
    """One pass over the graph: values get their facts in the order of definition."""

    def __init__(self, file: OnnxFile) -> None:
        self.label = file.label
        self.model, self.graph, self.opsets = file.model, file.model.graph, file.opsets
        self.external = ExternalFiles(file.path)
        self.symbols = Symbols()
        self.facts: dict[str, Facts] = {}
        self.constants: dict[str, Array] = {}
        self.hints: dict[str, TensorType] = {}
        self.nodes: list[Node] = []
        self.known: dict[Node, tuple[tuple[Any, ...], tuple[Facts, ...]]] = {}
        self.taken: set[str] = set()
        self.inside = False  # a definition, whose nodes are all to be claimed
        self.written = 0  # bytes of definitions
        self.control = ControlFlow(self._value, self._size, self._free_name)

    def program(self) -> Program:
        """The whole program."""
        for tensor in self.graph.initializer:
            where = f"{self.label}: initializer '{tensor.name}'"
            self._define_constant(tensor.name, read_tensor(tensor, where, self.external))
        for sparse in self.graph.sparse_initializer:
            where = f"{self.label}: initializer '{sparse.values.name}'"
            self._define_constant(sparse.values.name, read_sparse(sparse, where, self.external))
        inputs = self._inputs()
        self.stated = Stated(self.model, self.symbols)
        self.taken = set(self.facts) | {name for node in self.graph.node for name in node.output}
        self._read_nodes(self.graph.node)
        outputs = self._outputs()
        return Program(
            name=self.graph.name or "program", inputs=inputs, outputs=outputs, nodes=tuple(self.nodes),
            constants=self.constants, hints=self.hints, origin=self._origin(), _known=self.known,
        )  # fmt: skip

    # Values

    def _define(self, name: str, facts: Facts) -> None:
        if not name:
            raise ModelError(f"{self.label} has an initializer or input without a name; export it again")
        if name in self.facts:
            raise ModelError(f"{self.label} defines the value '{name}' twice; export it again")
        self.facts[name] = facts

    def _value(self, name: str) -> Array | None:
        value = self.facts[name].value if name in self.facts else None
        return value if value is None or value.dtype != object else None

    def _size(self, name: str, axis: int) -> int | None:
        type_ = self.facts[name].type if name in self.facts else None
        shape = () if type_ is None or type_.shape is None else type_.shape
        size = shape[axis] if -len(shape) <= axis < len(shape) else None
        return size if isinstance(size, int) else None

    def _define_constant(self, name: str, array: Array) -> None:
        self._define(name, constant_facts(array))
        self.constants[name] = array

    def _inputs(self) -> dict[str, TensorType]:
        """Graph inputs; those with an initializer are constants (IR versions before 4 list them all)."""
        found: dict[str, TensorType] = {}
        for value in self.graph.input:
            if value.name in self.constants:
                continue
            type_ = tensor_type(value.type, self.symbols, value.name)
            if type_ is None:
                raise ModelError(
                    f"{self.label}: input '{value.name}' is not a tensor of a known type; "
                    "export the model with tensor inputs"
                )
            self._define(value.name, Facts(type_, None))
            found[value.name] = type_
        return found

    def _outputs(self) -> tuple[str, ...]:
        names = tuple(value.name for value in self.graph.output)
        for position, name in enumerate(names):
            if name in names[:position]:
                raise ModelError(f"{self.label} lists the output '{name}' twice; export it again")
            if name not in self.facts:
                raise ModelError(f"{self.label}: no node computes the output '{name}'; export it again")
            stated = ELEMENT_TYPES.get(self.graph.output[position].type.tensor_type.elem_type)
            found = self.facts[name].type
            if stated is not None and found is not None and found.dtype != stated:
                raise ModelError(
                    f"{self.label}: output '{name}' is stated as {stated}, but is {found.dtype}; "
                    "export it again"
                )
            if self.facts[name].type is None:
                raise ModelError(
                    f"{self.label}: output '{name}' is not a tensor of a known type; "
                    "export the model with tensor outputs"
                )
        return names

    def _origin(self) -> Origin:
        metadata = {entry.key: entry.value for entry in self.model.metadata_props}
        own = self.model.producer_name == PRODUCER
        producer = "" if own else f"{self.model.producer_name} {self.model.producer_version}".strip()
        needed = onnx.helper.find_min_ir_version_for(list(self.model.opset_import), ignore_unknown=True)
        return Origin(
            opsets=self.opsets,
            ir_version=max(self.model.ir_version, needed),
            producer=metadata.pop(PRODUCER_KEY, producer),
            metadata=metadata,
            doc=self.model.doc_string,
        )

    # Nodes

    def _read_nodes(self, protos: Sequence[onnx.NodeProto]) -> None:
        for proto in in_order(protos, set(self.facts), self.label):
            self._read_node(proto)

    def _read_node(self, proto: onnx.NodeProto) -> None:
        if not any(proto.output):
            return  # a pure node that defines nothing
        expanded = self.control.expanded(proto)
        if expanded is not None:
            self._read_nodes(expanded)
            return
        if self._read_defined(proto):
            return
        if proto.op_type == "Constant" and standard_domain(proto.domain) == "":
            self._define_constant(proto.output[0], self._constant(proto))
            return
        try:
            node = self._claimed(proto)
        except _Opaque:
            if self.inside:
                raise
            node = self._opaque(proto)
        given = tuple(self.facts[name] if name else None for name in node.inputs)
        found = self._infer(node, given)
        if len(found) < len(node.outputs):
            raise ModelError(
                f"{self._where(proto)} has {len(node.outputs)} outputs, and {node.op} gives {len(found)}; "
                "export the model again"
            )
        for name, facts in zip(node.outputs, found):
            if name:
                self._define(name, facts)
        self.nodes.append(node)
        self.known[node] = (given, found)

    def _read_defined(self, proto: onnx.NodeProto) -> bool:
        """Reads an operator by its body (see onnx_contrib, onnx_standard); False where it is to stay."""
        if standard_domain(proto.domain) and find_onnx(proto.domain, proto.op_type) is not None:
            return False  # a package's own op
        types = [self.facts[name].type if name else None for name in proto.input]
        values = [self.constants.get(name) for name in proto.input]
        version = self.opsets.get("", NEWEST_OPSET)
        full = self.written > _MOST_WRITTEN
        defined = (
            None if full else onnx_body.expanded(_BODIES, proto, types, values, version, self._free_name)
        )
        if defined is None:
            return False
        self.written += sum(node.ByteSize() for node in defined[0])
        grown: tuple[dict[Any, Any], ...] = (self.facts, self.constants, self.hints, self.known)
        sizes, count, own = [len(each) for each in grown], len(self.nodes), self.opsets
        body, version = defined
        self.opsets, self.inside = {**own, "": version}, True
        try:
            self._read_nodes(body)
        except _Opaque:
            del self.nodes[count:]
            for each, size in zip(grown, sizes):
                while len(each) > size:
                    each.popitem()
            return False
        finally:
            self.opsets, self.inside = own, False
        return True

    def _where(self, proto: onnx.NodeProto) -> str:
        name = proto.name or next((name for name in proto.output if name), "")
        return f"{self.label}: node '{name}' ({proto.op_type})"

    def _constant(self, proto: onnx.NodeProto) -> Array:
        where = self._where(proto)
        if len(proto.attribute) != 1 or len(proto.output) != 1 or proto.input:
            raise ModelError(f"{where} does not hold exactly one value; export the model again")
        attribute = proto.attribute[0]
        if attribute.name == "sparse_value":
            return read_sparse(attribute.sparse_tensor, where, self.external)
        value = read_attribute(attribute, where, self.external)
        kind, dtype = _CONSTANT_TYPES.get(attribute.name, (None, None))
        if kind != attribute.type or attribute.ref_attr_name:
            raise ModelError(
                f"{where} has the attribute '{attribute.name}', which is no constant; export the model again"
            )
        if kind in (AttributeProto.STRING, AttributeProto.STRINGS):
            texts = [text.decode("utf-8", "surrogateescape") for text in (*attribute.strings, attribute.s)]
            value = texts[-1] if kind == AttributeProto.STRING else texts[:-1]
        return value if isinstance(value, np.ndarray) else np.array(value, dtype)

    def _infer(self, node: Node, given: tuple[Facts | None, ...]) -> tuple[Facts, ...]:
        """Facts of the outputs; types that cannot be inferred are looked up in the file and kept as hints."""
        found = infer_node(node, given, {})
        unknown = [
            name for name, facts in zip(node.outputs, found)
            if name and (facts.type is None or facts.type.shape is None)
        ]  # fmt: skip
        for name in unknown:
            hint = self.stated.find(name)
            if hint is not None:
                self.hints[name] = hint
        return infer_node(node, given, self.hints) if unknown else found

    def _opaque(self, proto: onnx.NodeProto) -> Node:
        kept = onnx.NodeProto()
        kept.CopyFrom(proto)
        for field in ("name", "doc_string", "metadata_props"):
            kept.ClearField(field)
        for tensor in node_tensors(kept):
            self.external.take_in(tensor, self._where(proto))
        name = operator_name(proto.domain, proto.op_type)
        inputs = (*proto.input, *captures(proto))
        return Node(
            name, inputs, tuple(proto.output), {}, proto.name, kept.SerializeToString(deterministic=True)
        )

    def _claimed(self, proto: onnx.NodeProto) -> Node:
        """The TensIR node of an operator; raises _Opaque with a reason if TensIR does not claim this use."""
        domain = standard_domain(proto.domain)
        op = find_onnx(domain, proto.op_type)
        version = self.opsets.get(domain, 1)
        if op is None or version < op.since:
            raise _Opaque(f"{proto.op_type} at opset {version} is not claimed")
        given = [self.facts[name] if name else None for name in proto.input]
        if any(facts is not None and facts.type is None for facts in given):
            raise _Opaque("the type of an input is not known")
        self._check(proto, domain, version, given)
        attrs = self._attributes(proto, op, version)
        inputs, constants = self._moved(proto, op, version, attrs)
        moved = {name: constant_facts(array) for name, array in constants.items()}
        given = [moved.get(name) or self.facts[name] if name else None for name in inputs]
        outputs = tuple(proto.output) if op.divides else trimmed(proto.output)
        node = Node(op.name, trimmed(inputs), outputs, attrs, proto.name)
        try:
            reason = _unclaimed(op, typed_call(node, given))
        except (ArithmeticError, LookupError, ProgramError, TypeError, ValueError) as error:
            raise ModelError(
                f"{self._where(proto)}: its attributes do not fit its inputs ({error}); export it again"
            ) from error
        if reason is not None:
            raise _Opaque(reason)
        for name, array in constants.items():
            self._define_constant(name, array)
        return node

    def _check(self, proto: onnx.NodeProto, domain: str, version: int, given: Sequence[Facts | None]) -> None:
        dtypes = ["" if f is None else UNKNOWN if f.type is None else f.type.dtype for f in given]
        kinds = {attribute.name: attribute.type for attribute in proto.attribute}
        reason = misfit(domain, proto.op_type, version, kinds, dtypes, len(proto.output))
        if len(kinds) != len(proto.attribute):
            reason = "an attribute is given twice"
        if reason is not None:
            raise ModelError(f"{self._where(proto)} is wrong: {reason}; export the model again")

    def _attributes(self, proto: onnx.NodeProto, op: Op, version: int) -> dict[str, Any]:
        """All attributes of the op: those given, else the default of this opset, else the op's own."""
        given = {attribute.name: attribute for attribute in proto.attribute}
        unknown = [
            name for name in given if name not in op.attributes and not _was_attribute(op, name, version)
        ]
        if unknown:
            raise _Opaque(f"attribute '{unknown[0]}' is not claimed")
        values: dict[str, Any] = {}
        for name, default in op.attributes.items():
            if name in given:
                values[name] = read_attribute(given[name], self._where(proto), self.external)
                if values[name] is NotImplemented or given[name].ref_attr_name:
                    raise _Opaque(f"attribute '{name}' is of a kind that is not claimed")
            elif default is REQUIRED:
                raise ModelError(f"{self._where(proto)} lacks the attribute '{name}'; export the model again")
            else:
                values[name] = schema_default(op.domain, op.onnx, version, name, default)
        for name, attribute in given.items():
            if name not in op.attributes:
                values[name] = read_attribute(attribute, self._where(proto), self.external)
        return values

    def _moved(
        self, proto: onnx.NodeProto, op: Op, version: int, attrs: dict[str, Any]
    ) -> tuple[list[str], dict[str, Array]]:
        """Inputs, and the constants among them that old attributes become: those are taken out of `attrs`."""
        inputs, constants = list(proto.input), {}
        for name, (position, _) in op.moved.items():
            if not _was_attribute(op, name, version) or (value := attrs.pop(name, None)) is None:
                continue
            inputs += [""] * (position + 1 - len(inputs))
            inputs[position] = self._free_name(f"{next(filter(None, proto.output))}.{name}")
            dtype = np.float32 if isinstance(value, float) else np.int64
            constants[inputs[position]] = np.array(value, dtype)
        return inputs, constants

    def _free_name(self, base: str) -> str:
        name = base
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name


# The attribute that holds a Constant's value -> its type, and the element type it gives.
_CONSTANT_TYPES: dict[str, tuple[int, Any]] = {
    "value": (AttributeProto.TENSOR, None),
    "value_int": (AttributeProto.INT, np.int64),
    "value_ints": (AttributeProto.INTS, np.int64),
    "value_float": (AttributeProto.FLOAT, np.float32),
    "value_floats": (AttributeProto.FLOATS, np.float32),
    "value_string": (AttributeProto.STRING, object),
    "value_strings": (AttributeProto.STRINGS, object),
}


def _unclaimed(op: Op, call: Typed) -> str | None:
    """Why a use of an op stays opaque; None where it does not."""
    reason = op.accepts(call)
    if reason is None and any(type_ is not None and type_.shape is None for type_ in call.types):
        try:
            op.infer(call)
        except ProgramError as error:
            return str(error)
    return reason


def _was_attribute(op: Op, name: str, version: int) -> bool:
    return name in op.moved and version < op.moved[name][1]
