"""Integer arithmetic in the smallest type that cannot be told from the source's.

C computes bytes in 32 bits. Two facts allow fewer: a result that fits a type is the same in it (sums,
differences and products wrap, so their operands need not fit), and bits that a later cast drops are not
computed. base + active - base * active / 255 on bytes takes 16 bits for the product and 8 for the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensmith.formula.arith import Array
from tensmith.ir import Node, Program
from tensmith.ir.onnx_schema import ELEMENT_CODES
from tensmith.ir.part import without_dead
from tensmith.ir.program import make_node
from tensmith.ir.types import DTYPES
from tensmith.lifting.ranges import Interval, of_dtype, ranges

# Ops whose low bits depend on the same low bits of their operands alone.
_RING = ("add", "sub", "mul", "neg", "where", "identity")
_EXACT = ("div", "mod", "min", "max", "abs")
_COMPARE = ("less", "less_or_equal", "greater", "greater_or_equal", "equal")
_PLACE = ("unsqueeze", "transpose")
_ALL = 64


def narrowed(program: Program, allowed: Sequence[str]) -> Program:
    """The same outputs for the same inputs; `allowed`: element types to use, besides those in use."""
    return _Narrowing(program, allowed).result()


class _Narrowing:
    def __init__(self, program: Program, allowed: Sequence[str]) -> None:
        self.program, self.allowed = program, sorted(allowed, key=lambda t: (_bits(t), t[0] == "i"))
        self.ranges = ranges(program)
        self.bits = _demanded(program, self.ranges)
        self.nodes: list[Node] = []
        self.constants: dict[str, Array] = dict(program.constants)
        self.types = {name: type_.dtype for name, type_ in program.inputs.items()}
        self.types |= {name: program.type(name).dtype for name in program.constants}
        self.alias: dict[str, str] = {}
        self.cast: dict[tuple[str, str], str] = {}

    def result(self) -> Program:
        """The rewritten program."""
        for node in self.program.nodes:
            self._rewrite(node)
        for name in self.program.outputs:
            found = self._as(name, self.program.type(name).dtype)
            if found != name:
                self.nodes.append(Node("identity", (found,), (name,)))
        program = self.program
        made = Program(program.name, program.inputs, program.outputs, tuple(self.nodes), self.constants)
        return without_dead(made)

    def _rewrite(self, node: Node) -> None:
        dtype = self.program.type(node.output).dtype
        operands = [name for name in node.inputs if name in self.ranges]
        if node.op == "cast" and dtype[0] in "iu" and operands:
            self._rewrite_cast(node, dtype)
        elif node.op in _RING and dtype[0] in "iu" and operands:
            own = node.output in self.program.outputs
            self._emit(node, dtype if own else self._type(node.output, [self.ranges[node.output]], dtype))
        elif node.op in (*_EXACT, *_COMPARE) and len(operands) == len(node.inputs):
            wide = self.program.type(node.inputs[0]).dtype
            values = [self.ranges[name] for name in operands]
            if node.op in _EXACT:
                values.append(self.ranges[node.output])
            own = node.op in _EXACT and node.output in self.program.outputs
            self._emit(node, wide if own else self._smallest(values, wide))
        elif node.op in _PLACE and dtype[0] in "iu":
            source = self.alias.get(node.inputs[0], node.inputs[0])
            self._add(node, (source, *node.inputs[1:]), self.types[source])
        else:
            types = [self.program.type(name).dtype for name in node.inputs]
            self._add(node, tuple(self._as(n, t) for n, t in zip(node.inputs, types)), dtype)

    def _rewrite_cast(self, node: Node, dtype: str) -> None:
        source = node.inputs[0]
        if self.ranges[source].inside(of_dtype(dtype)):
            self.alias[node.output] = self.alias.get(source, source)
        else:
            self.alias[node.output] = self._as(source, self._type(node.output, [of_dtype(dtype)], dtype))

    def _emit(self, node: Node, dtype: str) -> None:
        """The node with its integer operands in `dtype`."""
        inputs = tuple(
            name if self.program.type(name).dtype == "bool" else self._as(name, dtype) for name in node.inputs
        )
        self._add(node, inputs, "bool" if node.op in _COMPARE else dtype)

    def _add(self, node: Node, inputs: tuple[str, ...], dtype: str) -> None:
        self.nodes.append(Node(node.op, inputs, node.outputs, node.attrs, node.name))
        self.types[node.output] = dtype

    def _type(self, name: str, values: list[Interval], wide: str) -> str:
        """A type for a value that may wrap where its high bits are dropped."""
        exact = self._smallest(values, wide)
        loose = [t for t in self.allowed if _bits(t) >= self.bits[name]]
        return loose[0] if loose and _bits(loose[0]) < _bits(exact) else exact

    def _smallest(self, values: list[Interval], wide: str) -> str:
        """The smallest allowed type that holds all values, else `wide`."""
        for dtype in self.allowed:
            if _bits(dtype) < _bits(wide) and all(value.inside(of_dtype(dtype)) for value in values):
                return dtype
        return wide

    def _as(self, name: str, dtype: str) -> str:
        """The value in another type."""
        name = self.alias.get(name, name)
        if self.types[name] == dtype:
            return name
        key = (name, dtype)
        if key not in self.cast:
            self.cast[key] = f"{name}.{dtype}"
            self.types[self.cast[key]] = dtype
            if name in self.program.constants:
                self.constants[self.cast[key]] = self.program.constants[name].astype(DTYPES[dtype])
            else:
                self.nodes.append(make_node("cast", (name,), (self.cast[key],), {"to": ELEMENT_CODES[dtype]}))
        return self.cast[key]


def _bits(dtype: str) -> int:
    return DTYPES[dtype].itemsize * 8


def _demanded(program: Program, known: dict[str, Interval]) -> dict[str, int]:
    """Value -> how many of its low bits anything depends on."""
    found = dict.fromkeys(known, 0)
    for name in program.outputs:
        found[name] = _ALL
    for node in reversed(program.nodes):
        wanted = found.get(node.output, _ALL)
        if node.op == "cast":
            dtype, source = program.type(node.output).dtype, node.inputs[0]
            if dtype[0] not in "iu" or source not in known:
                wanted = _ALL
            elif not known[source].inside(of_dtype(dtype)):
                wanted = min(wanted, _bits(dtype))
        elif node.op not in (*_RING, *_PLACE):
            wanted = _ALL
        for name in node.inputs:
            if name in found:
                found[name] = max(found[name], wanted)
    return found
