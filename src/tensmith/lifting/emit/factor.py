"""Integer division by a constant as one multiplication in float32, where that gives every quotient.

For libraries whose integer divisions are not vectorised: x / 255 on products of bytes is the integer part of
x * 0.003921569, which is tried here on every dividend that can occur. Sums and products before it move into
float32 as well, as far as they are exact there.
"""

from __future__ import annotations

import numpy as np

from tensmith.ir import Node, Program
from tensmith.ir.onnx_schema import ELEMENT_CODES
from tensmith.ir.program import make_node
from tensmith.lifting.ranges import Interval, of_dtype, ranges

_MOST_DIVIDENDS = 1 << 18
_EXACT = Interval(-(2**24), 2**24)  # integers that float32 holds


def factors(program: Program) -> Program:
    """The same program without the divisions that a factor can do."""
    return _Factors(program).result()


def factor(dividends: Interval, divisor: int) -> np.float32 | None:
    """c with trunc(x * c) = trunc(x / divisor) for each dividend x, in float32; None if none is found."""
    if divisor <= 0 or dividends.high - dividends.low >= _MOST_DIVIDENDS or not dividends.inside(_EXACT):
        return None
    every = np.arange(dividends.low, dividends.high + 1)
    quotients = np.sign(every) * (np.abs(every) // divisor)
    nearest = np.float32(1 / divisor)
    for candidate in (nearest, np.nextafter(nearest, np.float32(1))):
        if np.array_equal(np.trunc(every.astype(np.float32) * candidate), quotients):
            return candidate
    return None


class _Factors:
    def __init__(self, program: Program) -> None:
        self.program, self.ranges = program, ranges(program)
        self.nodes: list[Node] = []
        self.constants = dict(program.constants)
        self.single: dict[str, str] = {}

    def result(self) -> Program:
        """The rewritten program."""
        for node in self.program.nodes:
            if not self._multiplied(node):
                self.nodes.append(node)
        p = self.program
        return Program(p.name, dict(p.inputs), p.outputs, tuple(self.nodes), self.constants)

    def _multiplied(self, node: Node) -> bool:
        """Appends a division as a multiplication; whether it can be one."""
        if node.op != "div" or self.program.type(node.output).dtype[0] not in "iu":
            return False
        dividend, divisor = node.inputs
        number = self.program.constants.get(divisor)
        if number is None or number.ndim or not self.program.type(dividend).dims:
            return False
        found = factor(self.ranges[dividend], int(number))
        if found is None:
            return False
        constant = f"{node.output}.factor"
        self.constants[constant] = np.asarray(found)
        product = self._add("mul", (self._float(dividend), constant), f"{node.output}.product")
        if self.ranges[node.output].inside(of_dtype("i16")):  # vectorised more widely than 32 bits
            product = self._cast(product, f"{node.output}.i16", "i16")
        self._cast(product, node.output, self.program.type(node.output).dtype)
        return True

    def _float(self, name: str) -> str:
        """An integer value in float32."""
        if name not in self.single:
            self.single[name] = self._floating(name)
        return self.single[name]

    def _floating(self, name: str) -> str:
        made, array, single = self.program.producers.get(name), self.constants.get(name), f"{name}.f32"
        if array is not None and array.ndim == 0:
            self.constants[single] = array.astype(np.float32)
            return single
        exact = made is not None and all(
            n in self.ranges and self.ranges[n].inside(_EXACT) for n in made.inputs
        )
        if made is not None and exact and self.ranges[name].inside(_EXACT):
            if made.op == "cast" and self.ranges[made.inputs[0]].inside(
                of_dtype(self.program.type(name).dtype)
            ):
                return self._float(made.inputs[0])
            if made.op in ("add", "sub", "mul") and self._cheap(made):
                return self._add(made.op, tuple(map(self._float, made.inputs)), single)
        return self._cast(name, single, "f32")

    def _cheap(self, made: Node) -> bool:
        """Whether nothing else reads a result, or computing it again is one pass."""
        reads = sum(node.inputs.count(made.output) for node in self.program.nodes)
        alone = reads == 1 and made.output not in self.program.outputs
        return alone or any(name in self.program.constants for name in made.inputs)

    def _cast(self, name: str, output: str, dtype: str) -> str:
        return self._add("cast", (name,), output, to=ELEMENT_CODES[dtype])

    def _add(self, op: str, inputs: tuple[str, ...], output: str, **attrs: int) -> str:
        self.nodes.append(make_node(op, inputs, (output,), attrs))
        return output
