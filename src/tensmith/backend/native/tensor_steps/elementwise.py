"""Elementwise tensor nodes as C: over vectors where all is float, else number by number, typed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from tensmith.backend.native.activations import activation_of
from tensmith.backend.native.image_steps.elementwise import MOST_PRINTED, PLAIN
from tensmith.backend.native.quantized.grids import grid_of
from tensmith.backend.native.tensor_steps.operands import Free, Reads, Tensors
from tensmith.ir import Node
from tensmith.kernel.buffer import C_TYPES
from tensmith.kernel.epilogue import Curve, literal
from tensmith.kernel.grid_code import codes_of, numbers_of
from tensmith.kernel.quantized import Grid
from tensmith.kernel.routines.strided import Operand

# One step over vectors. What has no form here is computed number by number.
_VECTOR: Mapping[str, str] = {
    **PLAIN,
    "sqrt": "EACH(sqrtf, {0})",
    "log": "EACH(logf, {0})",
    "sin": "EACH(sinf, {0})",
    "cos": "EACH(cosf, {0})",
    "floor": "EACH(floorf, {0})",
    "ceil": "EACH(ceilf, {0})",
}
# x to these powers, over vectors.
_POWERS: Mapping[float, str] = {
    2.0: "({0} * {0})",
    3.0: "({0} * {0} * {0})",
    0.5: "EACH(sqrtf, {0})",
    -0.5: "(1.0f / EACH(sqrtf, {0}))",
    -1.0: "(1.0f / {0})",
}
# Over numbers of any type.
_NUMBERS: Mapping[str, str] = {
    "add": "({0} + {1})", "sub": "({0} - {1})", "mul": "({0} * {1})", "div": "({0} / {1})",
    "max": "({0} >= {1} || {0} != {0} ? {0} : {1})", "min": "({0} <= {1} || {0} != {0} ? {0} : {1})",
    "neg": "(-{0})", "abs": "({0} < 0 ? -{0} : {0})",
    "equal": "({0} == {1})", "less": "({0} < {1})", "greater": "({0} > {1})",
    "less_or_equal": "({0} <= {1})", "greater_or_equal": "({0} >= {1})",
    "and": "({0} && {1})", "or": "({0} || {1})", "xor": "(!{0} != !{1})", "not": "(!{0})",
    "where": "({0} ? {1} : {2})", "identity": "{0}", "isnan": "({0} != {0})",
    "relu": "({0} > 0 || {0} != {0} ? {0} : 0)",
}  # fmt: skip
_MATHS: Mapping[str, str] = {
    "exp": "expf({0})", "log": "logf({0})", "sqrt": "sqrtf({0})", "erf": "erff({0})", "tanh": "tanhf({0})",
    "sin": "sinf({0})", "cos": "cosf({0})", "floor": "floorf({0})", "ceil": "ceilf({0})",
    "pow": "powf({0}, {1})", "reciprocal": "(1 / {0})", "sigmoid": "(1 / (1 + expf(-{0})))",
}  # fmt: skip
_INTEGERS = frozenset({"i64", "i32", "bool", "u8", "i8"})
_PAIR = frozenset({"quantize_linear", "dequantize_linear"})
# Divisors whose reciprocal is a normal number too.
_INVERTIBLE = (1e-30, 1e30)


def is_elementwise(tensors: Tensors, node: Node) -> bool:
    """Whether there is C for one step of a node."""
    if node.opaque is not None or len(node.outputs) > 1:
        return False
    return in_vectors(tensors, node) or _in_numbers(tensors, node)


def _bytes_grid(tensors: Tensors, node: Node) -> Grid | None:
    """The grid between unsigned bytes and floats that a node stands for, if it is one."""
    codes = node.output if node.op == "quantize_linear" else node.inputs[0]
    numbers = node.inputs[0] if node.op == "quantize_linear" else node.output
    if node.op not in _PAIR or (tensors.dtype(codes), tensors.dtype(numbers)) != ("u8", "f32"):
        return None
    return grid_of(tensors.program, node)


def in_vectors(tensors: Tensors, node: Node) -> bool:
    """Whether a node is a function of floats or unsigned bytes that the vector functions know."""
    if node.op in _PAIR:
        return _bytes_grid(tensors, node) is not None
    used = [name for name in node.inputs if name]
    if any(tensors.dtype(name) != "f32" for name in (*used, node.output)):
        return False
    if node.op == "pow":
        return tensors.number(node.inputs[1]) in _POWERS
    if activation_of(tensors.program, node) is not None:
        return True
    return node.op in _VECTOR and len(used) == _VECTOR[node.op].count("{") - _VECTOR[node.op].count("{{")


def _in_numbers(tensors: Tensors, node: Node) -> bool:
    if node.op in _PAIR:
        return grid_of(tensors.program, node) is not None
    types = {tensors.dtype(name) for name in (*node.inputs, node.output) if name}
    if not types <= _INTEGERS | {"f32"} or not all(node.inputs):
        return False
    if node.op == "cast":
        return True
    if node.op in _MATHS:
        return types == {"f32"}
    return node.op in _NUMBERS and len(node.inputs) == len(set("012") & set(_NUMBERS[node.op]))


def vector_step(tensors: Tensors, node: Node, value: Callable[[str], str]) -> str:
    """The C expression of one node over vectors, given those of its inputs."""
    grid = _bytes_grid(tensors, node)
    if grid is not None:
        return (codes_of if node.op == "quantize_linear" else numbers_of)(value(node.inputs[0]), grid)
    activation = activation_of(tensors.program, node)
    if activation is not None:
        return f"({activation.apply(value(node.inputs[0]))})"
    if node.op == "pow":
        power = tensors.number(node.inputs[1])
        assert power is not None
        return _POWERS[power].format(value(node.inputs[0]))
    divisor = tensors.number(node.inputs[1]) if node.op == "div" else None
    if divisor is not None and _INVERTIBLE[0] < abs(divisor) < _INVERTIBLE[1]:
        return f"({value(node.inputs[0])} * splat({literal(float(np.float32(1 / divisor)))}))"
    return _VECTOR[node.op].format(*map(value, node.inputs))


def _number_step(tensors: Tensors, node: Node, value: Callable[[str], str]) -> str:
    """The C expression of one node over numbers."""
    c_type = C_TYPES[tensors.dtype(node.output)]
    if node.op in _PAIR:
        return _pair_step(tensors, node, value(node.inputs[0]))
    if node.op == "cast":
        source = value(node.inputs[0])
        return f"({source} != 0)" if tensors.dtype(node.output) == "bool" else f"(({c_type}){source})"
    form = _NUMBERS.get(node.op) or _MATHS[node.op]
    return f"(({c_type}){form.format(*map(value, node.inputs))})"


def _pair_step(tensors: Tensors, node: Node, x: str) -> str:
    """The C expression of a number on a grid of bytes, or of a byte's number; signed bytes stay signed."""
    grid = grid_of(tensors.program, node)
    assert grid is not None
    codes = tensors.dtype(node.output if node.op == "quantize_linear" else node.inputs[0])
    least = -128 if codes == "i8" else 0
    zero, scale = grid.zero_point + least, literal(grid.scale)
    if node.op == "dequantize_linear":
        return f"(((float){x} - {zero}) * {scale})"
    return f"(({C_TYPES[codes]})fminf({least + 255}, fmaxf({least}, rintf({x} / {scale}) + {zero})))"


@dataclass
class Tree:
    """A tree of elementwise nodes under construction: it takes in what only it reads, of its own shape, up to
    MOST_PRINTED nodes.

    Bytes are worth reading as often as they are needed, so their dequantization is in every tree that reads
    it, and taken by none of them.
    """

    tensors: Tensors
    reads: Reads
    may_inline: Callable[[Node], bool]
    taken: list[Node] = field(default_factory=list)
    operands: list[Operand] = field(default_factory=list)
    _known: dict[str, str] = field(default_factory=dict)

    def build(self, value: str, shape: tuple[int, ...]) -> tuple[str, bool]:
        """(the C expression of a value seen with `shape`, whether it is over vectors)."""
        inside = self._inside(value, shape)
        self.taken += [node for node in inside if not self._repeated(node)]
        own = {node.output: node for node in inside}
        vector = all(in_vectors(self.tensors, node) for node in inside)
        vector = vector and (self.tensors.dtype(value) == "f32" or bool(inside))
        step = vector_step if vector else _number_step

        def expression(name: str) -> str:
            if name in own:
                return step(self.tensors, own[name], expression)
            return self._leaf(name, shape, vector)

        return expression(value), vector

    def _inside(self, value: str, shape: tuple[int, ...]) -> list[Node]:
        """The nodes of the tree that ends in `value`, each before what it reads."""
        found: list[Node] = []
        printed = 0
        waiting = [(value, 1)]
        while waiting:
            name, times = waiting.pop()
            node = self.tensors.program.producers.get(name)
            if node is None or printed + times > MOST_PRINTED:
                continue
            if self.tensors.shape(name) != shape or not self.may_inline(node):
                continue
            found.append(node)
            printed += times
            for read in reversed(list(dict.fromkeys(filter(None, node.inputs)))):
                producer = self.tensors.program.producers.get(read)
                repeated = producer is not None and self._repeated(producer)
                if repeated or self.tensors.program.uses(read) == 1:
                    waiting.append((read, times * self._times(node, read)))
        return found

    def _times(self, node: Node, value: str) -> int:
        """How often the text of a value stands in that of a node that reads it."""
        step = vector_step if in_vectors(self.tensors, node) else _number_step
        return step(self.tensors, node, lambda name: "\0" if name == value else "").count("\0")

    def _repeated(self, node: Node) -> bool:
        return node.op == "dequantize_linear" and self.tensors.program.uses(node.output) > 1

    def _leaf(self, name: str, shape: tuple[int, ...], vector: bool) -> str:
        number = self.tensors.number(name)
        if number is not None and self.tensors.dtype(name) in ("f32", "i64", "i32", "bool"):
            if vector:
                return f"splat({literal(number)})"
            c_type = C_TYPES[self.tensors.dtype(name)]
            return f"(({c_type}){literal(number) if c_type == 'float' else int(number)})"
        if name not in self._known:
            self._known[name] = f"{{{len(self.operands)}}}"
            self.operands.append(self.reads.operand(name, shape))
        return self._known[name]


def curve(tensors: Tensors, value: str, free: Free) -> tuple[Curve, list[Node]] | None:
    """The longest function of `value` alone that begins with its readers, and the nodes it stands for.

    They read `value`, each other and single numbers, and nobody else reads what is inside. None if there is
    no such function.
    """
    inside: list[Node] = []
    lines: list[str] = []
    known = {value: "x_"}
    best: tuple[Curve, list[Node]] | None = None

    def named(name: str) -> str:
        if name in known:
            return known[name]
        number = tensors.number(name)
        assert number is not None
        return f"splat({literal(number)})"

    while len(inside) < MOST_PRINTED and (node := _next(tensors, inside, known, free)) is not None:
        text = vector_step(tensors, node, named)
        known[node.output] = f"t{len(inside)}_"
        lines.append(f"vf {known[node.output]} = {text};")
        inside.append(node)
        if all(_read_inside(tensors, name, inside) for name in known if name != node.output):
            best = (Curve("curve", body=f"{' '.join(lines)} {known[node.output]};"), list(inside))
    return best


def _next(tensors: Tensors, inside: list[Node], known: Mapping[str, str], free: Free) -> Node | None:
    """A reader of known values that needs nothing else but numbers."""
    for name in known:
        for node in tensors.program.consumers.get(name, ()):
            if node in inside or node.op in _PAIR or not free(node) or not in_vectors(tensors, node):
                continue
            shaped = tensors.shape(node.output) == tensors.shape(name)
            if shaped and all(n in known or tensors.number(n) is not None for n in node.inputs if n):
                return node
    return None


def _read_inside(tensors: Tensors, value: str, inside: list[Node]) -> bool:
    readers = tensors.program.consumers.get(value, ())
    return value not in tensors.program.outputs and all(node in inside for node in readers)
