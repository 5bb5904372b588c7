"""A TensIR program: typed, pure, in static single assignment form. Immutable; rewriting makes a new one."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from tensmith.errors import ProgramError
from tensmith.files import sha256_bytes
from tensmith.formula.arith import Array
from tensmith.ir.edits import Edit, edited
from tensmith.ir.infer import Facts, constant_facts, infer_node, typed_call
from tensmith.ir.op import Attrs, Node, Typed
from tensmith.ir.types import TensorType, UnknownType

# What written files name as their producer, and the metadata key under which they keep the producer of the
# file they came from.
PRODUCER = "tensmith"
PRODUCER_KEY = "tensmith.source_producer"


@dataclass(frozen=True)
class Origin:
    """What the file a program came from says beside the graph: kept so that export gives it back."""

    opsets: Mapping[str, int] = field(default_factory=lambda: {"": 20})
    ir_version: int = 10
    producer: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    doc: str = ""


@dataclass(frozen=True, eq=False)
class Program:
    """Inputs, constants and nodes in an order in which every value is defined before its use.

    `hints` are types that a file states of outputs which cannot be inferred, those of opaque nodes above all.
    They may be wrong, so no code that touches memory is planned by them.
    """

    name: str
    inputs: Mapping[str, TensorType]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    constants: Mapping[str, Array]
    hints: Mapping[str, TensorType] = field(default_factory=dict)
    origin: Origin = field(default_factory=Origin)
    # Inferred facts by node, shared with the programs made from this one (nodes are immutable).
    _known: dict[Node, tuple[tuple[Any, ...], tuple[Facts, ...]]] = field(default_factory=dict, repr=False)

    # Reading

    @cached_property
    def facts(self) -> Mapping[str, Facts]:
        """Type and known value of every value. Raises ProgramError naming the node that is wrong."""
        table: dict[str, Facts] = {name: Facts(type_, None) for name, type_ in self.inputs.items()}
        table.update((name, constant_facts(array)) for name, array in self.constants.items())
        for node in self.nodes:
            missing = [name for name in node.inputs if name and name not in table]
            if missing:
                raise ProgramError(f"{node.label} reads '{missing[0]}', which nothing before it defines")
            for name, fact in zip(node.outputs, self.node_facts(node, table)):
                if name in table:
                    raise ProgramError(f"{node.label} defines '{name}' a second time")
                if name:
                    table[name] = fact
        for name in self.outputs:
            if name not in table:
                raise ProgramError(f"output '{name}' is not defined by any node")
        return table

    def node_facts(self, node: Node, table: Mapping[str, Facts]) -> tuple[Facts, ...]:
        """Of the outputs of a node, by those of its inputs. Raises ProgramError naming the node."""
        given = tuple(table[name] if name else None for name in node.inputs)
        rests_on = given, tuple(map(self.hints.get, node.outputs))
        cached = self._known.get(node)
        if cached is None or cached[0] != rests_on:
            cached = (rests_on, infer_node(node, given, self.hints))
            self._known[node] = cached
        return cached[1]

    def call(self, node: Node) -> Typed:
        """A node as a use of its op, by what is known of its inputs."""
        return typed_call(node, [self.facts[name] if name else None for name in node.inputs])

    def presumes(self, node: Node) -> bool:
        """Whether the types of a node's outputs rest on more than those of its inputs."""
        return node.opaque is not None or node.definition.presumes(self.call(node))

    def macs(self, node: Node) -> int:
        """Multiply-adds of a node of fixed sizes."""
        made = tuple(self.facts[name].type if name else None for name in node.outputs)
        return node.definition.cost(self.call(node), made)

    def type(self, value: str) -> TensorType:
        """The type of a value."""
        found = self.facts[value].type
        if found is None:
            raise UnknownType(f"the type of '{value}' is not known")
        return found

    @cached_property
    def producers(self) -> Mapping[str, Node]:
        """Value -> the node that defines it."""
        return {name: node for node in self.nodes for name in node.outputs if name}

    @cached_property
    def consumers(self) -> Mapping[str, tuple[Node, ...]]:
        """Value -> the nodes that read it, each once."""
        table: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                if name:
                    table.setdefault(name, []).append(node)
        return {name: tuple(nodes) for name, nodes in table.items()}

    @cached_property
    def static_values(self) -> Collection[str]:
        """Values computed from constants alone."""
        found = dict.fromkeys(self.constants)
        for node in self.nodes:
            if node.opaque is None and node.inputs and all(n in found or not n for n in node.inputs):
                found.update((name, None) for name in node.outputs if name)
        return found

    def uses(self, value: str) -> int:
        """How many nodes read a value, plus one if it is an output of the program."""
        return len(self.consumers.get(value, ())) + (value in self.outputs)

    def fresh(self, base: str) -> Iterator[str]:
        """Names not used in this program, made from `base`."""
        names = (f"{base}.{counter}" for counter in itertools.count(1))
        return (name for name in names if not self.has(name))

    def unused(self, name: str) -> str:
        """`name`, or one made from it where that is in use."""
        return next(self.fresh(name)) if self.has(name) else name

    def has(self, name: str) -> bool:
        """Whether a value name is in use."""
        tables = (self.inputs, self.constants, self.producers, self.consumers)
        return any(name in table for table in tables)

    @property
    def names(self) -> frozenset[str]:
        """Every value name in use."""
        return frozenset().union(self.inputs, self.constants, self.producers, self.consumers)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the program's text, constants by their own hashes: equal programs, equal digests."""
        from tensmith.ir.text import print_program

        return sha256_bytes(print_program(self, weights="hash").encode())

    def __str__(self) -> str:
        from tensmith.ir.text import print_program

        return print_program(self, weights="elide")

    # Rewriting

    def edit(
        self,
        *,
        remove: Iterable[Node] = (),
        add: Iterable[Node] = (),
        constants: Mapping[str, Array] | None = None,
        alias: Mapping[str, str] | None = None,
    ) -> Program:
        """A program without `remove`, with `add` and new `constants`, every use of alias keys renamed.

        An aliased program output keeps its name through an identity node. Nodes are put back in an order of
        definition; values nobody reads stay (dead code is a rule of its own).
        """
        return edited(self, Edit(tuple(remove), tuple(add), constants or {}, alias or {}))

    def with_constants(self, constants: Mapping[str, Array]) -> Program:
        """The same graph with some constants replaced."""
        return replace(self, constants={**self.constants, **constants})


def make_node(op: str, inputs: Iterable[str], outputs: Iterable[str], attrs: Attrs | None = None) -> Node:
    """A node with its op's default attributes filled in."""
    from tensmith.ir.op import OPS

    return Node(op, tuple(inputs), tuple(outputs), {**OPS[op].attributes, **(attrs or {})})


def array_bytes(array: Array) -> int:
    """Bytes an array takes in memory with sub-byte types packed, as ONNX stores them."""
    if array.dtype == np.dtype(object):
        return sum(len(str(item)) for item in array.reshape(-1))
    return (array.size * TensorType.of(array).bits + 7) // 8
