"""Elementwise tensor nodes as C: over vectors where all is float, else number by number, typed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tensmith.backend.native.activations import activation_of
from tensmith.backend.native.image_steps.elementwise import MOST_PRINTED
from tensmith.backend.native.meanings import composed
from tensmith.backend.native.quantized.grids import codes_of, grid_of
from tensmith.backend.native.tensor_steps.operands import Free, Reads, TensorOperands
from tensmith.errors import EngineError
from tensmith.formula.expr import Call, Expr, Num, Read
from tensmith.formula.types import BOOL, F32, MachineType
from tensmith.ir import Node
from tensmith.ir.ops.quantization import OnGrid, decodes, encodes
from tensmith.kernel import grid_code
from tensmith.kernel.epilogue import Curve, literal
from tensmith.kernel.quantized import QuantizationParameters
from tensmith.kernel.routines.strided import StridedOperand
from tensmith.kernel.vectors import vector_text

_NUMBERS = frozenset({"f32", "i64", "i32", "bool", "u8", "i8"})


def is_elementwise(tensors: TensorOperands, node: Node) -> bool:
    """Whether there is C for one step of a node."""
    if node.opaque is not None or len(node.outputs) > 1:
        return False
    return in_vectors(tensors, node) or _in_numbers(tensors, node)


def _bytes_grid(tensors: TensorOperands, node: Node) -> QuantizationParameters | None:
    """The grid between unsigned bytes and floats that a node stands for, if it is one."""
    if node.kind(OnGrid) is None or tensors.dtype(codes_of(node)) != "u8":
        return None
    numbers = node.inputs[0] if encodes(node) else node.output
    return grid_of(tensors.program, node) if tensors.dtype(numbers) == "f32" else None


def in_vectors(tensors: TensorOperands, node: Node) -> bool:
    """Whether a node is a function of floats or unsigned bytes that there is C over vectors for."""
    if node.kind(OnGrid) is not None:
        return _bytes_grid(tensors, node) is not None
    if any(tensors.dtype(name) != "f32" for name in (*node.inputs, node.output) if name):
        return False
    try:
        vector_step(tensors, node, lambda name: "")
    except EngineError:
        return False
    return True


def _in_numbers(tensors: TensorOperands, node: Node) -> bool:
    types = {tensors.dtype(name) for name in (*node.inputs, node.output) if name}
    return types <= _NUMBERS and _number_step(tensors, node) is not None


def vector_step(tensors: TensorOperands, node: Node, value: Callable[[str], str]) -> str:
    """The C expression of one node over vectors, given those of its inputs; EngineError if there is none."""
    grid = _bytes_grid(tensors, node)
    if grid is not None:
        return (grid_code.codes_of if encodes(node) else grid_code.numbers_of)(value(node.inputs[0]), grid)
    activation = activation_of(tensors.program, node)
    if activation is not None:
        return f"({activation.apply(value(node.inputs[0]))})"
    found = tensors.meaning(node)
    if found is None:
        raise EngineError(f"{node.label} is no function of elements")
    return vector_text(
        found,
        lambda place: value(node.inputs[int(place)]),
        lambda place: tensors.number(node.inputs[int(place)]),
    )


def _number_step(tensors: TensorOperands, node: Node) -> Expr | None:
    """One node over numbers, of parameters "0", "1"... that stand for its inputs; None if it has no C."""
    return _on_grid(tensors, node) if node.kind(OnGrid) is not None else tensors.meaning(node)


def _on_grid(tensors: TensorOperands, node: Node) -> Expr | None:
    """A number's code, what is no number as the least one, or a code's number; signed bytes stay signed."""
    grid = grid_of(tensors.program, node)
    if grid is None:
        return None
    codes = MachineType(tensors.dtype(codes_of(node)))
    least = -128 if codes == "i8" else 0
    x: Expr = Read("0", (), MachineType(tensors.dtype(node.inputs[0])))
    zero, scale, low, high = (
        Num(float(number), F32) for number in (grid.zero_point + least, grid.scale, least, least + 255)
    )
    if decodes(node):
        return Call("mul", (Call("sub", (Call("cast", (x,), F32), zero), F32), scale), F32)
    units = Call("round", (Call("div", (x, scale), F32),), F32)
    code = Call("add", (units, zero), F32)
    for relation, bound in (("greater", low), ("less", high)):
        code = Call("where", (Call(relation, (code, bound), BOOL), code, bound), F32)
    return Call("cast", (code,), codes)


@dataclass
class ElementwiseTree:
    """A tree of elementwise nodes under construction: it takes in what only it reads, of its own shape, up to
    MOST_PRINTED nodes.

    Bytes are worth reading as often as they are needed, so their dequantization is in every tree that reads
    it, and taken by none of them.
    """

    tensors: TensorOperands
    reads: Reads
    may_inline: Callable[[Node], bool]
    taken: list[Node] = field(default_factory=list)
    operands: list[StridedOperand] = field(default_factory=list)
    _known: dict[str, int] = field(default_factory=dict)

    def build(self, value: str, shape: tuple[int, ...]) -> str | Expr:
        """A value seen with `shape` as the expression of a `Part`."""
        inside = self._inside(value, shape)
        self.taken += [node for node in inside if not self._repeated(node)]
        own = {node.output: node for node in inside}
        vector = all(in_vectors(self.tensors, node) for node in inside)
        vector = vector and (self.tensors.dtype(value) == "f32" or bool(inside))
        return self._vectors(value, shape, own) if vector else self._numbers(value, shape, own)

    def _vectors(self, value: str, shape: tuple[int, ...], own: Mapping[str, Node]) -> str:
        def text(name: str) -> str:
            if name in own:
                return vector_step(self.tensors, own[name], text)
            number = self.tensors.number(name) if self.tensors.dtype(name) == "f32" else None
            return f"{{{self._place(name, shape)}}}" if number is None else f"splat({literal(number)})"

        return text(value)

    def _numbers(self, value: str, shape: tuple[int, ...], own: Mapping[str, Node]) -> Expr:
        done: dict[str, Expr] = {"": Num(0, BOOL)}  # what is left out is not read

        def number(name: str) -> Expr:
            if name not in done:
                done[name] = made(name)
            return done[name]

        def made(name: str) -> Expr:
            step = _number_step(self.tensors, own[name]) if name in own else None
            if step is not None:
                return composed(step, list(map(number, own[name].inputs)))
            dtype, constant = MachineType(self.tensors.dtype(name)), self.tensors.number(name)
            if constant is not None:
                return Num(constant if dtype[0] == "f" else int(constant), dtype)
            return Read(str(self._place(name, shape)), (), dtype)

        return number(value)

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
        if not in_vectors(self.tensors, node):
            return 1
        return vector_step(self.tensors, node, lambda name: "\0" if name == value else "").count("\0")

    def _repeated(self, node: Node) -> bool:
        return decodes(node) and self.tensors.program.uses(node.output) > 1

    def _place(self, name: str, shape: tuple[int, ...]) -> int:
        """Which operand a value is."""
        if name not in self._known:
            self._known[name] = len(self.operands)
            self.operands.append(self.reads.operand(name, shape))
        return self._known[name]


def curve(tensors: TensorOperands, value: str, free: Free) -> tuple[Curve, list[Node]] | None:
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


def _next(tensors: TensorOperands, inside: list[Node], known: Mapping[str, str], free: Free) -> Node | None:
    """A reader of known values that needs nothing else but numbers."""
    for name in known:
        for node in tensors.program.consumers.get(name, ()):
            if (
                node in inside
                or node.kind(OnGrid) is not None
                or not free(node)
                or not in_vectors(tensors, node)
            ):
                continue
            shaped = tensors.shape(node.output) == tensors.shape(name)
            if shaped and all(n in known or tensors.number(n) is not None for n in node.inputs if n):
                return node
    return None


def _read_inside(tensors: TensorOperands, value: str, inside: list[Node]) -> bool:
    readers = tensors.program.consumers.get(value, ())
    return value not in tensors.program.outputs and all(node in inside for node in readers)
